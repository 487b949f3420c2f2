//! Long sums over rows, cut by the data alone: tiles for the cache, leaves of tiles for the threads, a fixed tree over the leaves.

use std::iter::Peekable;
use std::ops::Range;

use ndarray::{Array1, Array2};
use rayon::prelude::*;

use super::span::Span;
use crate::gp::GpError;
use crate::gp::team::{self, Slices, Team, exchanged};

/// Rows of a tile in passes over training rows. A constant, so that sums do not depend on the machine.
pub const TILE: usize = 512;

/// Up to so many tiles (2²⁰ rows) leaves are added one after the other; beyond, pairwise.
const IN_ORDER: usize = 2048;
/// The least number of tiles in a leaf that is added in order: partial sums cost something too.
const LEAST: usize = 2;
/// The largest number of leaves that are added in order.
const LEAVES: usize = 32;
/// How many numbers the partial sums of all leaves that wait for their turn may hold together (128 MiB).
const PARTIAL_SUMS: usize = 1 << 24;
/// The largest number of tiles in a leaf of the tree.
const MOST: usize = 128;
/// Numbers that one thread adds up at a time: with many inducing points sums are more memory than the caches hold.
const PIECE: usize = 1 << 13;

/// Sums over some rows, as numbers that are added one by one.
pub(crate) trait RowSum: Send {
    /// All of its numbers, in a fixed order.
    fn numbers(&mut self) -> Vec<&mut [f64]>;
}

impl RowSum for f64 {
    fn numbers(&mut self) -> Vec<&mut [f64]> {
        vec![std::slice::from_mut(self)]
    }
}

impl RowSum for Vec<f64> {
    fn numbers(&mut self) -> Vec<&mut [f64]> {
        vec![self]
    }
}

impl RowSum for Array1<f64> {
    fn numbers(&mut self) -> Vec<&mut [f64]> {
        debug_assert!(self.is_standard_layout());
        self.as_slice_mut().into_iter().collect()
    }
}

impl RowSum for Array2<f64> {
    fn numbers(&mut self) -> Vec<&mut [f64]> {
        debug_assert!(self.is_standard_layout());
        self.as_slice_mut().into_iter().collect()
    }
}

impl<A: RowSum, B: RowSum> RowSum for (A, B) {
    fn numbers(&mut self) -> Vec<&mut [f64]> {
        let mut all = self.0.numbers();
        all.extend(self.1.numbers());
        all
    }
}

/// How the rows `0..n` are cut, and in which order the sums of the leaves are added: known before any of them is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaves {
    n: usize,
    tiles: usize,
    count: usize,
    // Pairwise, in a binary tree over a power of two of leaves; else one after the other.
    pairwise: bool,
}

impl Leaves {
    /// For sums of `size` numbers. More rows than [`IN_ORDER`] tiles have a tree, whose depth alone decides how many sums wait at a
    /// time. For fewer rows the size limits the leaves.
    pub fn new(n: usize, size: usize) -> Self {
        let tiles = n.div_ceil(TILE);
        let pairwise = tiles > IN_ORDER;
        let count = if pairwise {
            tiles.div_ceil(MOST).next_power_of_two()
        } else {
            tiles.div_ceil(LEAST).min(LEAVES).min((PARTIAL_SUMS / size.max(1)).max(1))
        };
        Self { n, tiles, count, pairwise }
    }

    /// Whether there is nothing to share.
    pub fn is_one(&self) -> bool {
        self.count <= 1
    }

    /// Whether they are added pairwise.
    pub fn is_tree(&self) -> bool {
        self.pairwise
    }

    /// The first row of one of several processes; of a process after the last, the end.
    pub fn begin(&self, rank: usize, ranks: usize) -> usize {
        let leaf = rank * self.count / ranks;
        if leaf == self.count { self.n } else { self.rows(leaf).start }
    }

    // The leaves of one of several processes.
    fn of_rank(&self, rank: usize, ranks: usize) -> Range<usize> {
        rank * self.count / ranks..(rank + 1) * self.count / ranks
    }

    // The same as the fewest nodes that are added by themselves: whole subtrees, or single leaves.
    fn nodes_of(&self, rank: usize, ranks: usize) -> Vec<Range<usize>> {
        let Range { mut start, end } = self.of_rank(rank, ranks);
        let mut nodes = Vec::new();
        while start < end {
            let mut size = 1;
            while self.pairwise && start.is_multiple_of(2 * size) && start + 2 * size <= end {
                size *= 2;
            }
            nodes.push(start..start + size);
            start += size;
        }
        nodes
    }

    fn rows(&self, leaf: usize) -> Range<usize> {
        let first = |leaf: usize| leaf * self.tiles / self.count;
        first(leaf) * TILE..(first(leaf + 1) * TILE).min(self.n)
    }
}

/// The sum of `work` over all rows of a span, in parallel; `work` adds up a range of the rows that are held, which begins with a
/// tile.
///
/// `size` is about how many numbers a sum holds. How rows are divided, and the order in which sums are added, depend on the number
/// of all rows and `size` only: the total is the same bits for any number of threads and processes.
pub(crate) fn sum_rows<A: RowSum>(
    span: &Span,
    size: usize,
    zero: impl FnOnce() -> A,
    work: impl Fn(Range<usize>) -> Result<A, GpError> + Sync,
) -> Result<A, GpError> {
    let leaves = Leaves::new(span.all(), size);
    let work = |rows| work(span.local(rows)?);
    if let Some(team) = team::current().filter(|_| leaves.count > 1) {
        return sum_together(&team, &leaves, zero, &work);
    }
    if leaves.pairwise {
        return subtree(&leaves, 0..leaves.count, &work);
    }
    let mut parts = in_order(&leaves, 0..leaves.count, &work)?;
    let mut total = zero();
    add_in_order(total.numbers(), parts.iter_mut().map(RowSum::numbers).collect());
    Ok(total)
}

// Sums of leaves that are added in order.
fn in_order<A: RowSum>(
    leaves: &Leaves,
    range: Range<usize>,
    work: &(impl Fn(Range<usize>) -> Result<A, GpError> + Sync),
) -> Result<Vec<A>, GpError> {
    range
        .into_par_iter()
        // One by one: a thread that is done early can take what another has not begun.
        .with_max_len(1)
        .map(|leaf| work(leaves.rows(leaf)))
        .collect()
}

// The same sum in a team: every process has some leaves, which it adds as far as they are whole subtrees.
fn sum_together<A: RowSum>(
    team: &Team,
    leaves: &Leaves,
    zero: impl FnOnce() -> A,
    work: &(impl Fn(Range<usize>) -> Result<A, GpError> + Sync),
) -> Result<A, GpError> {
    let (rank, ranks) = (team.comm.rank(), team.comm.size());
    let nodes: Vec<Vec<Range<usize>>> = (0..ranks).map(|rank| leaves.nodes_of(rank, ranks)).collect();
    let own = if leaves.pairwise {
        nodes[rank].par_iter().map(|node| subtree(leaves, node.clone(), work)).collect()
    } else {
        in_order(leaves, leaves.of_rank(rank, ranks), work)
    };
    let agreed = team.before_exchange(own.is_ok());
    let own: Vec<Vec<f64>> = own?.into_iter().map(|mut part| part.numbers().concat()).collect();
    agreed?;
    let mut total = zero();
    let mut numbers = total.numbers();
    let slices = Slices::new(numbers.iter().map(|part| part.len()).sum(), ranks);
    let counts: Vec<usize> = nodes.iter().map(Vec::len).collect();
    let all = exchanged(team, slices, &own, &counts, |parts| {
        if leaves.pairwise {
            let nodes: Vec<Range<usize>> = nodes.concat();
            return finished(0..leaves.count, &mut nodes.iter().zip(parts).peekable());
        }
        let mut total = vec![0.0; parts.first().map_or(0, |part| part.len())];
        for part in parts {
            add_all(&mut total, part);
        }
        total
    })?;
    let mut rest = &all[..];
    for part in &mut numbers {
        let (own, others) = rest.split_at(part.len());
        part.copy_from_slice(own);
        rest = others;
    }
    Ok(total)
}

// The sum of a subtree from those of nodes in it, which come in their order.
fn finished<'a>(
    range: Range<usize>,
    nodes: &mut Peekable<impl Iterator<Item = (&'a Range<usize>, &'a [f64])>>,
) -> Vec<f64> {
    if let Some((_, part)) = nodes.next_if(|(node, _)| **node == range) {
        return part.to_vec();
    }
    let middle = range.start + range.len() / 2;
    let mut left = finished(range.start..middle, nodes);
    add_all(&mut left, &finished(middle..range.end, nodes));
    left
}

// The sum of a power of two of leaves: that of the left half plus that of the right one.
fn subtree<A: RowSum>(
    leaves: &Leaves,
    range: Range<usize>,
    work: &(impl Fn(Range<usize>) -> Result<A, GpError> + Sync),
) -> Result<A, GpError> {
    if range.len() == 1 {
        return work(leaves.rows(range.start));
    }
    let middle = range.start + range.len() / 2;
    let (left, right) =
        rayon::join(|| subtree(leaves, range.start..middle, work), || subtree(leaves, middle..range.end, work));
    let (mut left, mut right) = (left?, right?);
    add_in_order(left.numbers(), vec![right.numbers()]);
    Ok(left)
}

// Adds parts one after the other, on all threads where there is much of it.
fn add_in_order(total: Vec<&mut [f64]>, parts: Vec<Vec<&mut [f64]>>) {
    let mut parts: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
    for total in total {
        let parts: Vec<&[f64]> = parts.iter_mut().filter_map(Iterator::next).map(|part| &*part).collect();
        debug_assert!(parts.iter().all(|part| part.len() == total.len()), "sums of different sizes");
        let add = |(piece, total): (usize, &mut [f64])| {
            let count = total.len();
            for part in &parts {
                add_all(&mut *total, &part[piece * PIECE..][..count]);
            }
        };
        if total.len() <= PIECE {
            add((0, total));
        } else {
            total.par_chunks_mut(PIECE).enumerate().for_each(add);
        }
    }
}

/// The tiles of a range of rows.
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

#[cfg(test)]
mod tests {
    use super::*;

    // Numbers whose sum depends on the order in which they are added.
    fn value(row: usize) -> f64 {
        (row as f64 * 0.37).sin() * 10_f64.powi((row % 13) as i32 - 6)
    }

    fn part(rows: Range<usize>) -> Vec<f64> {
        rows.fold(vec![0.0; 3], |mut sums, row| {
            sums.iter_mut().enumerate().for_each(|(i, sum)| *sum += value(3 * row + i));
            sums
        })
    }

    fn sum(n: usize, size: usize) -> Result<Vec<f64>, GpError> {
        sum_rows(&Span::whole(n), size, || vec![0.0; 3], |rows| Ok(part(rows)))
    }

    fn bits(values: &[f64]) -> Vec<u64> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    // As it was written before there was a tree.
    fn in_order(n: usize, size: usize) -> Vec<f64> {
        let tiles = n.div_ceil(512);
        let chunks = tiles.div_ceil(2).min(32).min(((1 << 24) / size).max(1));
        let mut total = vec![0.0; 3];
        for chunk in 0..chunks {
            let (first, last) = (chunk * tiles / chunks, (chunk + 1) * tiles / chunks);
            add_all(&mut total, &part(first * 512..(last * 512).min(n)));
        }
        total
    }

    #[test]
    fn few_rows_are_added_in_order() -> Result<(), GpError> {
        for n in [0, 1, 511, 512, 513, 1025, 40_000, 700_001, 1 << 20] {
            for size in [3, 1_000_000, 4_000_000, 1 << 25] {
                assert_eq!(bits(&sum(n, size)?), bits(&in_order(n, size)), "{n} rows, {size} numbers");
            }
        }
        Ok(())
    }

    // Halves of halves, by hand.
    fn pairwise(n: usize, leaves: usize, range: Range<usize>) -> Vec<f64> {
        if range.len() == 1 {
            let tiles = n.div_ceil(512);
            let first = |leaf: usize| leaf * tiles / leaves * 512;
            return part(first(range.start)..first(range.end).min(n));
        }
        let middle = usize::midpoint(range.start, range.end);
        let mut left = pairwise(n, leaves, range.start..middle);
        add_all(&mut left, &pairwise(n, leaves, middle..range.end));
        left
    }

    #[test]
    fn many_rows_are_added_pairwise_whatever_the_size() -> Result<(), GpError> {
        for (n, leaves) in [((1 << 20) + 1, 32), ((1 << 21) + 1, 64), (2_500_000, 64)] {
            for size in [3, 1 << 25] {
                assert_eq!(bits(&sum(n, size)?), bits(&pairwise(n, leaves, 0..leaves)), "{n} rows, {size} numbers");
            }
        }
        Ok(())
    }

    #[test]
    fn threads_do_not_matter() -> Result<(), Box<dyn std::error::Error>> {
        for n in [40_000, 1_100_000] {
            let on = |threads| -> Result<Vec<u64>, Box<dyn std::error::Error>> {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
                Ok(bits(&pool.install(|| sum(n, 3))?))
            };
            assert_eq!(on(1)?, on(2)?);
            assert_eq!(on(1)?, on(5)?);
        }
        Ok(())
    }

    // Large sums are added on several threads, piece by piece.
    #[test]
    fn sums_of_many_numbers_are_whole() -> Result<(), GpError> {
        let (n, width) = (5000, 2 * PIECE + 7);
        let work = |rows: Range<usize>| Ok((rows.len() as f64, vec![rows.len() as f64; width]));
        let (count, all) = sum_rows(&Span::whole(n), width, || (0.0, vec![0.0; width]), work)?;
        assert_eq!(bits(&[count]), bits(&[n as f64]));
        assert_eq!(bits(&all), vec![(n as f64).to_bits(); width]);
        Ok(())
    }

    #[test]
    fn the_first_error_is_the_answer() {
        for n in [5000, 1_100_000] {
            let work = |rows: Range<usize>| if rows.start == 0 { Err(GpError::shape("no")) } else { Ok(1.0) };
            assert!(sum_rows(&Span::whole(n), 1, || 0.0, work).is_err());
        }
    }
}
