//! Products of many rows with a matrix that stays in the cache, without copying the rows.
//!
//! BLAS copies both factors into its own order first, which is most of the work when the shared matrix is small.

use ndarray::{ArrayView2, ArrayViewMut2};

use super::panels::LANES;
use super::processor::{for_this_processor, multiply_add};
use crate::gp::GpError;

/// Rows that one pass of the inner loop takes: with eight columns, as many sums as registers hold.
const ROWS: usize = 6;
/// How many numbers the shared matrix may have: they should stay in the second cache.
const SHARED: usize = 1 << 15;

/// Whether this is the better way for `rows` rows and a shared matrix of this size.
pub(super) fn pays(rows: usize, (k, n): (usize, usize)) -> bool {
    rows >= 4 * ROWS && n >= LANES && k >= LANES && k * n <= SHARED
}

/// c ← `alpha` a b + `beta` c, with a: `[m, k]`, b: `[k, n]`, c: `[m, n]`, all in one piece; `turned` says that b is given
/// as `[n, k]`.
pub(super) fn multiply(
    alpha: f64,
    a: ArrayView2<'_, f64>,
    (b, turned): (ArrayView2<'_, f64>, bool),
    beta: f64,
    mut c: ArrayViewMut2<'_, f64>,
) -> Result<(), GpError> {
    let (inner, n) = (a.ncols(), c.ncols());
    let packed = pack(alpha, if turned { b.reversed_axes() } else { b });
    let (Some(a), Some(c)) = (a.as_slice(), c.as_slice_mut()) else {
        return Err(GpError::shape("a matrix is not stored by rows"));
    };
    for (a, c) in a.chunks(ROWS * inner).zip(c.chunks_mut(ROWS * n)) {
        let last = c.len() / n - 1;
        // Missing rows repeat the last one; their results are dropped.
        let rows: [&[f64]; ROWS] = std::array::from_fn(|i| &a[i.min(last) * inner..][..inner]);
        for (number, panel) in packed.chunks_exact(inner).enumerate() {
            let sums = sums_of(&rows, panel);
            let columns = number * LANES..(number * LANES + LANES).min(n);
            for (sums, row) in sums.iter().zip(c.chunks_mut(n)) {
                let out = &mut row[columns.clone()];
                if beta == 0.0 {
                    out.copy_from_slice(&sums[..out.len()]);
                } else {
                    out.iter_mut().zip(sums).for_each(|(out, sum)| *out = beta * *out + sum);
                }
            }
        }
    }
    Ok(())
}

// alpha b: [k, n] by panels of eight columns, filled up with zeros.
fn pack(alpha: f64, b: ArrayView2<'_, f64>) -> Vec<[f64; LANES]> {
    let (inner, n) = b.dim();
    let mut packed = vec![[0.0; LANES]; n.div_ceil(LANES) * inner];
    for (k, row) in b.outer_iter().enumerate() {
        for (j, value) in row.iter().enumerate() {
            packed[j / LANES * inner + k][j % LANES] = alpha * value;
        }
    }
    packed
}

for_this_processor! {
    fn sums_of(rows: &[&[f64]; ROWS], panel: &[[f64; LANES]]) -> [[f64; LANES]; ROWS] {
        let inner = panel.len();
        let rows = rows.map(|row| &row[..inner]);
        let mut sums = [[0.0; LANES]; ROWS];
        for (k, columns) in panel.iter().enumerate() {
            for (sums, row) in sums.iter_mut().zip(&rows) {
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum = multiply_add::<FUSED>(row[k], *column, *sum);
                }
            }
        }
        sums
    }
}
