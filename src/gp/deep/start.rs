//! What a deep fit begins with: the rows that pivots come from, bounds of the hyper-parameters.

use ndarray::ArrayView2;

use crate::gp::exact;
use crate::gp::hyper::SoftBounds;
use crate::gp::random::{StreamKey, sample_without_replacement};
use crate::gp::sparse;

/// Pivots are chosen on at most so many rows.
const PIVOT_ROWS: usize = 10_000;

/// The rows among which pivots are sought.
pub(super) fn pivot_rows(key: &StreamKey, n: usize) -> Vec<usize> {
    sample_without_replacement(&mut key.with("deep").with("pivot rows").generator(), n, PIVOT_ROWS)
}

/// Bounds of the hyper-parameters in the M step.
pub(super) fn soft_bounds(x: ArrayView2<'_, f64>, key: &StreamKey) -> SoftBounds {
    let subset = sample_without_replacement(&mut key.with("deep").with("walls").generator(), x.nrows(), 500);
    let distance = exact::median_distance(x.select(ndarray::Axis(0), &subset).view());
    let mut bounds = exact::soft_bounds(1, distance, x.nrows());
    bounds.upper[0] = sparse::LARGEST_VARIANCE.ln();
    bounds
}
