//! Dense linear algebra in fixed blocks: the only place that knows BLAS.
//!
//! Parallelism is ours (rayon over blocks) and BLAS itself runs on one thread, because results must be
//! the same bits for any number of threads. All matrices are row-major.

mod blas;
mod candidates;
mod cholesky;
#[cfg(target_arch = "x86_64")]
pub(crate) mod eights;
mod exp;
mod gram;
pub(crate) mod grids;
mod kernels;
pub(crate) mod looks;
pub(crate) mod panels;
mod processor;
mod rows;
mod span;
mod tiles;

use ndarray::Array2;

pub use blas::{Side, add_gram, gemm_nn, gemm_nt, gemm_tn, keep_single_threaded, solve_triangular};
pub(crate) use blas::{eigen, eigenvectors};
pub(crate) use candidates::NearCandidates;
pub use cholesky::{Cholesky, Interrupt, JITTER_FIRST, JITTER_LAST, NEVER, go_on, raised};
pub(crate) use cholesky::{for_row_blocks, mirror_lower};
pub(crate) use exp::decay_with_distance;
pub use exp::{exp_in_place, scaled_exp_in_place};
pub(crate) use gram::{Cross, Gram, clear_missing};
pub use kernels::{KERNELS_VARIABLE, better_kernels, blas_version, kernels};
pub use panels::Triangle;
pub(crate) use processor::{for_this_processor, multiply_add, prefetch};
pub use span::Span;
pub(crate) use span::means_over;
pub use tiles::TILE;
pub(crate) use tiles::{RowSum, add_all, sum_rows, tiles};

/// Inner product in an order that depends on the length only.
///
/// BLAS may choose another order by alignment or position; a prediction must not depend on these.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    const LANES: usize = 8;
    let (a_body, b_body) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let tail: f64 = a_body.remainder().iter().zip(b_body.remainder()).map(|(x, y)| x * y).sum();
    let mut lanes = [0.0; LANES];
    for (x, y) in a_body.zip(b_body) {
        for (lane, (x, y)) in lanes.iter_mut().zip(x.iter().zip(y)) {
            *lane += x * y;
        }
    }
    lanes.iter().sum::<f64>() + tail
}

/// The rows of a freshly allocated matrix, which is contiguous; none for one without columns.
pub(crate) fn row_slices(a: &Array2<f64>) -> impl Iterator<Item = &[f64]> {
    a.as_slice().unwrap_or_default().chunks_exact(a.ncols().max(1))
}
