//! Long sums over rows, cut by the data alone: tiles for the cache, chunks of tiles for the threads.

use std::ops::Range;

use rayon::prelude::*;

use crate::gp::GpError;

/// Rows of a tile in passes over training rows. A constant, so that sums do not depend on the machine.
pub const TILE: usize = 512;

/// The least number of tiles in a chunk: partial sums cost something too.
const CHUNK: usize = 2;
/// The largest number of chunks, and with it of threads that a pass can use.
const CHUNKS: usize = 32;
/// How many numbers the partial sums of all chunks of one pass may hold together (128 MiB).
const PARTIAL_SUMS: usize = 1 << 24;

/// Runs `work` on every chunk of the rows `0..n`, in parallel; the results are in the order of the rows.
///
/// `size` is how many numbers one result holds. A chunk is a whole number of tiles, and their division
/// depends on `n` and `size` only: adding up the results in order gives the same bits for any number of threads.
pub(crate) fn over_chunks<A: Send>(
    n: usize,
    size: usize,
    work: impl Fn(Range<usize>) -> Result<A, GpError> + Sync,
) -> Result<Vec<A>, GpError> {
    let tiles = n.div_ceil(TILE);
    let chunks = tiles.div_ceil(CHUNK).min(CHUNKS).min((PARTIAL_SUMS / size.max(1)).max(1));
    (0..chunks)
        .into_par_iter()
        // One by one: a thread that is done early can take what another has not begun.
        .with_max_len(1)
        .map(|chunk| {
            let (first, last) = (chunk * tiles / chunks, (chunk + 1) * tiles / chunks);
            work(first * TILE..(last * TILE).min(n))
        })
        .collect()
}

/// The tiles of a chunk of rows.
pub(crate) fn tiles(rows: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = rows.end;
    rows.step_by(TILE).map(move |first| first..(first + TILE).min(end))
}

/// total ← total + part, entry by entry.
pub(crate) fn add_all<'a>(total: impl IntoIterator<Item = &'a mut f64>, part: impl IntoIterator<Item = &'a f64>) {
    for (total, part) in total.into_iter().zip(part) {
        *total += part;
    }
}
