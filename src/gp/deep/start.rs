//! What a deep fit begins with: the rows that pivots come from, bounds of the hyper-parameters.

use crate::gp::GpError;
use crate::gp::exact;
use crate::gp::fit_rows::FitRows;
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
pub(super) fn soft_bounds(rows: &FitRows<'_>, key: &StreamKey) -> Result<SoftBounds, GpError> {
    let subset = sample_without_replacement(&mut key.with("deep").with("walls").generator(), rows.all(), 500);
    let distance = exact::median_distance(rows.pick(&subset)?.x.view());
    let mut bounds = exact::soft_bounds(1, distance, rows.all());
    bounds.upper[0] = sparse::LARGEST_VARIANCE.ln();
    Ok(bounds)
}
