//! How much each feature matters to a stationary model, for deep models, whose layers share one length: features are multiplied
//! by it before everything else.

use super::GpError;
use super::exact::{self, ExactOptions};
use super::fit_rows::{FitRows, PickedRows};
use super::kernel::{StationaryOptions, column_means};
use super::observer::{Observer, Phase, Recorder};
use super::random::{StreamKey, sample_without_replacement};
use super::scaling::Scaling;

/// Rows that lengths are fitted to, at most: an exact model of them takes seconds.
const ROWS: usize = 1000;
/// The least relevance, as a share of the largest: features are left out by nearness, not by division.
const LEAST: f64 = 1e-3;

/// Relevance of the features of rows in their own units, from an exact model with a length for each, on this scale.
///
/// It is the inverse of the length, times what leaves the mean square of all scaled features as it was: a common length
/// starts where it would without.
pub(crate) fn fit(
    rows: &FitRows<'_>,
    scaling: &Scaling,
    stationary: StationaryOptions,
    key: &StreamKey,
    observer: &mut dyn Observer,
) -> Result<Vec<f64>, GpError> {
    observer.phase(Phase::Hyper);
    let mut subset = sample_without_replacement(&mut key.generator(), rows.all(), ROWS);
    subset.sort_unstable();
    let PickedRows { x, y, noise } = rows.pick(&subset)?;
    let (x, y) = (scaling.features(x.view()), scaling.target(y.view()));
    let options = ExactOptions { stationary: StationaryOptions { ard: true, ..stationary }, ..ExactOptions::default() };
    // Traces are those of the model that is trained, not of this one.
    let mut quiet = Recorder::new(&*observer);
    let gp = exact::fit_with(x.view(), y.view(), &noise, &options, key, &mut quiet)?;
    let centre = column_means(x.view());
    let squares: Vec<f64> = x
        .columns()
        .into_iter()
        .zip(&centre)
        .map(|(column, mean)| column.iter().map(|value| (value - mean).powi(2)).sum::<f64>())
        .collect();
    Ok(relevance(&gp.hyper().lengths, &squares))
}

// Of features with these lengths and sums of squares.
fn relevance(lengths: &[f64], squares: &[f64]) -> Vec<f64> {
    let least = lengths.iter().copied().fold(f64::INFINITY, f64::min);
    let shares: Vec<f64> = lengths.iter().map(|length| (least / length).max(LEAST)).collect();
    let total = squares.iter().sum::<f64>();
    let scaled = squares.iter().zip(&shares).map(|(square, share)| square * share * share).sum::<f64>();
    let common = if scaled > 0.0 { (total / scaled).sqrt() } else { 1.0 };
    shares.into_iter().map(|share| share * common).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_square_stays_and_one_feature_is_left_alone() {
        let (lengths, squares) = ([0.5, 2.0, 1e9], [3.0, 4.0, 5.0]);
        let found = relevance(&lengths, &squares);
        let sum: f64 = squares.iter().zip(&found).map(|(square, factor)| square * factor * factor).sum();
        assert!((sum - 12.0).abs() < 1e-12, "{found:?}");
        assert!((found[0] / found[1] - 4.0).abs() < 1e-12 && (found[0] / found[2] - 1.0 / LEAST).abs() < 1e-9);
        assert_eq!(relevance(&[0.3], &[7.0]), [1.0]);
        // Features that are constant have no squares.
        assert!(relevance(&[0.3, 1.0], &[0.0, 0.0]).iter().all(|factor| factor.is_finite() && *factor > 0.0));
    }
}
