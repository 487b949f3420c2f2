//! What a deep fit begins with: the stationary fit, the rows that pivots come from, bounds of the hyper-parameters.

use ndarray::{ArrayView1, ArrayView2};

use super::options::{DeepOptions, Start};
use crate::gp::GpError;
use crate::gp::exact;
use crate::gp::hyper::SoftBounds;
use crate::gp::kernel::Hyper;
use crate::gp::observer::Observer;
use crate::gp::random::{StreamKey, sample_without_replacement};
use crate::gp::sparse::{self, JITTER};

/// Pivots are chosen on at most so many rows.
const PIVOT_ROWS: usize = 10_000;

/// Hyper-parameters, inducing points and relative jitter of the stationary model that all chains start from.
pub(super) fn stationary_fit(
    x: ArrayView2<'_, f64>,
    y: ArrayView1<'_, f64>,
    options: &DeepOptions,
    key: &StreamKey,
    observer: &mut dyn Observer,
) -> Result<(Hyper, Vec<usize>, f64), GpError> {
    match &options.start {
        Start::Sparse(start) => {
            let gp = sparse::fit(x, y, start, key, observer)?;
            Ok((gp.hyper().clone(), gp.rows().to_vec(), gp.jitter() / gp.hyper().variance))
        }
        Start::Exact(start) => Ok((exact::fit(x, y, start, key, observer)?.hyper().clone(), Vec::new(), JITTER)),
    }
}

/// The rows among which pivots are sought.
pub(super) fn pivot_rows(key: &StreamKey, n: usize) -> Vec<usize> {
    sample_without_replacement(&mut key.with("deep").with("pivot rows").generator(), n, PIVOT_ROWS)
}

/// Bounds of the hyper-parameters in the M step.
pub(super) fn walls(x: ArrayView2<'_, f64>, key: &StreamKey) -> SoftBounds {
    let subset = sample_without_replacement(&mut key.with("deep").with("walls").generator(), x.nrows(), 500);
    let distance = exact::median_distance(x.select(ndarray::Axis(0), &subset).view());
    let mut walls = exact::soft_bounds(1, distance, x.nrows());
    walls.upper[0] = sparse::LARGEST_VARIANCE.ln();
    walls
}
