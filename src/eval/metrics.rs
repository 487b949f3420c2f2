//! Metrics of one fold, and their summary over folds.

use super::EvalError;
use super::normal::{normal_cdf, normal_density, normal_quantile};

/// Predictions of the test rows of one fold, in the target's own units.
#[derive(Debug, Clone, Copy)]
pub struct Predictions<'a> {
    /// Observed targets.
    pub y_true: &'a [f64],
    /// Predicted means.
    pub y_mean: &'a [f64],
    /// Predicted standard deviations of the observation, where there are any.
    pub y_std: Option<&'a [f64]>,
    /// Noise variance γ² of the model.
    pub noise_variance: Option<f64>,
}

/// One metric; `None` where it is not defined, such as the SMSE of a constant target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    /// Its name in the `metrics` table.
    pub name: &'static str,
    /// Its value.
    pub value: Option<f64>,
}

/// Names of the metrics, in the order of [`metrics`].
pub const NAMES: [&str; 12] = [
    "smse",
    "rmse",
    "mae",
    "mnll",
    "nlpd",
    "crps",
    "coverage_50",
    "coverage_90",
    "coverage_95",
    "width_50",
    "width_90",
    "width_95",
];

/// Levels of the central intervals behind coverage and width.
const LEVELS: [f64; 3] = [0.5, 0.9, 0.95];

/// All metrics of one fold, in the order of [`NAMES`].
pub fn metrics(predictions: &Predictions<'_>) -> Result<Vec<Metric>, EvalError> {
    let Predictions { y_true, y_mean, y_std, noise_variance } = *predictions;
    let rows = y_true.len();
    check_length("y_mean", y_mean.len(), rows)?;
    check_length("y_std", y_std.map_or(rows, <[f64]>::len), rows)?;
    let mse = average(y_true.iter().zip(y_mean).map(|(y, m)| (y - m) * (y - m)));
    let mae = average(y_true.iter().zip(y_mean).map(|(y, m)| (y - m).abs()));
    let mut values = vec![
        mse.zip(population_variance(y_true)).map(|(e, v)| e / v),
        mse.map(f64::sqrt),
        mae,
        mse.zip(noise_variance).and_then(|(e, g)| mnll(e, g)),
    ];
    match y_std {
        Some(y_std) => values.extend(probabilistic(y_true, y_mean, y_std)),
        None => values.resize(NAMES.len(), None),
    }
    Ok(NAMES
        .into_iter()
        .zip(values)
        .map(|(name, value)| Metric { name, value: value.filter(|v| v.is_finite()) })
        .collect())
}

// nlpd, crps, and coverage and width at every level.
fn probabilistic(y_true: &[f64], y_mean: &[f64], y_std: &[f64]) -> Vec<Option<f64>> {
    let rows = || y_true.iter().zip(y_mean).zip(y_std).map(|((y, mean), std)| (*y, *mean, *std));
    let quantiles = LEVELS.map(|level| normal_quantile(0.5 + 0.5 * level));
    let mut values = vec![
        average(rows().map(|(y, mean, std)| nlpd(y, mean, std))),
        average(rows().map(|(y, mean, std)| crps(y, mean, std))),
    ];
    values.extend(
        quantiles.map(|q| average(rows().map(|(y, mean, std)| f64::from(u8::from((y - mean).abs() <= q * std))))),
    );
    values.extend(quantiles.map(|q| average(y_std.iter().map(|std| 2.0 * q * std))));
    values
}

fn check_length(what: &'static str, found: usize, rows: usize) -> Result<(), EvalError> {
    if found == rows { Ok(()) } else { Err(EvalError::LengthMismatch { what, found, rows }) }
}

fn average(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut count, mut sum) = (0_usize, 0.0);
    for value in values {
        count += 1;
        sum += value;
    }
    (count > 0).then(|| sum / count as f64)
}

// None for a constant target: the rounding of its mean must not pass for a variance.
fn population_variance(y: &[f64]) -> Option<f64> {
    let first = y.first()?;
    if y.iter().all(|v| v.to_bits() == first.to_bits()) {
        return None;
    }
    let mean = average(y.iter().copied())?;
    average(y.iter().map(|v| (v - mean) * (v - mean)))
}

// The paper's mean negative log-likelihood: only the noise of the model counts as uncertainty.
fn mnll(mse: f64, noise_variance: f64) -> Option<f64> {
    (noise_variance > 0.0).then(|| 0.5 * (std::f64::consts::TAU * noise_variance).ln() + mse / (2.0 * noise_variance))
}

fn nlpd(y: f64, mean: f64, std: f64) -> f64 {
    let z = (y - mean) / std;
    0.5 * std::f64::consts::TAU.ln() + std.ln() + 0.5 * z * z
}

// σ [z(2Φ(z) − 1) + 2φ(z) − 1/√π]; its limit for a certain prediction is the absolute error.
fn crps(y: f64, mean: f64, std: f64) -> f64 {
    if std == 0.0 {
        return (y - mean).abs();
    }
    let z = (y - mean) / std;
    std * (z * (2.0 * normal_cdf(z) - 1.0) + 2.0 * normal_density(z) - 1.0 / std::f64::consts::PI.sqrt())
}
