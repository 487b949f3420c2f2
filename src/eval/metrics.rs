//! The metrics: one table that says all about each, and their values on one fold.

use super::EvalError;
use super::conformal::Calibration;
use super::distribution::RowPrediction;
use super::normal::{normal_cdf, normal_quantile};

pub use super::distribution::ScaledPredictions;

/// Predictions of the test rows of one fold, in the target's own units.
#[derive(Debug, Clone, Copy)]
pub struct Predictions<'a> {
    pub y_true: &'a [f64],
    pub y_mean: &'a [f64],
    /// Predicted standard deviations of the observation, where there are any.
    pub y_std: Option<&'a [f64]>,
    /// Noise variance γ² of the model.
    pub noise_variance: Option<f64>,
    /// What intervals are calibrated by; none for those of the normal distribution.
    pub calibration: Option<&'a Calibration>,
    /// Where the target is modelled on another scale: what is normal there.
    pub on_scale: Option<ScaledPredictions<'a>>,
}

/// All there is to know about a metric. What is computed, checked, stored, printed and drawn goes by this table.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name in the `metrics` table, in conditions and on the command line.
    pub name: &'static str,
    /// What it is, in the middle of a sentence.
    pub words: &'static str,
    /// What it is computed from.
    pub source: MetricSource,
    /// Which values are good.
    pub better: Better,
    /// A stage is judged by the metric of lowest rank that it has.
    pub headline: Option<u8>,
    /// Its place among the columns that are printed at the end of a run, and what that column is called.
    pub printed: Option<(u8, &'static str)>,
    /// Whether its values are in the units of the target.
    pub in_units_of_the_target: bool,
    /// Whether the report's table of cases has a column of it.
    pub column: bool,
    /// What its chart or column in the report is called; without one it has no chart.
    pub caption: Option<&'static str>,
    /// How a single value is written.
    pub format: NumberFormat,
}

/// What a metric is computed from.
#[derive(Debug, Clone, Copy)]
pub enum MetricSource {
    /// Predictions of rows whose target is known.
    Predictions(fn(&Predictions<'_>) -> Option<f64>),
    /// The Markov chains of a training.
    Chains,
    /// Rows that are scored, beside those of training.
    Drift,
}

/// Which values of a metric are good.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Better {
    Lower,
    Higher,
    /// Those near this one.
    Near(f64),
    Neither,
}

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberFormat {
    /// With so many significant digits.
    Significant(i32),
    /// With so many digits after the point.
    Decimals(usize),
    Percent,
    /// As a whole number; those of several cases add up.
    Count,
}

const fn lower(name: &'static str, words: &'static str, value: fn(&Predictions<'_>) -> Option<f64>) -> Metric {
    Metric { source: MetricSource::Predictions(value), better: Better::Lower, column: true, ..other(name, words) }
}

// The same without a column in the report's table of cases.
const fn lower_beside(name: &'static str, words: &'static str, value: fn(&Predictions<'_>) -> Option<f64>) -> Metric {
    Metric { column: false, ..lower(name, words, value) }
}

const fn coverage(name: &'static str, level: f64, value: fn(&Predictions<'_>) -> Option<f64>) -> Metric {
    let better = Better::Near(level);
    let words = "share of true values inside central intervals of this level";
    Metric { source: MetricSource::Predictions(value), better, ..other(name, words) }
}

const fn width(name: &'static str, value: fn(&Predictions<'_>) -> Option<f64>) -> Metric {
    Metric { source: MetricSource::Predictions(value), ..other(name, "mean width of central intervals of this level") }
}

const fn other(name: &'static str, words: &'static str) -> Metric {
    Metric {
        name,
        words,
        source: MetricSource::Chains,
        better: Better::Neither,
        headline: None,
        printed: None,
        in_units_of_the_target: false,
        column: false,
        caption: None,
        format: NumberFormat::Significant(4),
    }
}

/// Every metric, in the order of the documentation.
pub const METRICS: &[Metric] = &[
    Metric { headline: Some(1), caption: Some("SMSE"), ..lower("smse", "standardised mean squared error", smse) },
    Metric {
        headline: Some(2),
        printed: Some((2, "RMSE")),
        in_units_of_the_target: true,
        ..lower("rmse", "root mean squared error", |p| mse(p).map(f64::sqrt))
    },
    Metric { headline: Some(3), ..lower("mae", "mean absolute error", mae) },
    // It says nothing of intervals, and ranks models otherwise than `nlpd` does: only where it is asked for.
    lower_beside("mnll", "mean negative log-likelihood", mnll),
    Metric {
        headline: Some(5),
        printed: Some((3, "NLPD")),
        caption: Some("NLPD"),
        ..lower("nlpd", "negative log predictive density", |p| over_rows(p, |row| row.nlpd(row.std)))
    },
    Metric {
        headline: Some(4),
        caption: Some("CRPS"),
        ..lower("crps", "continuous ranked probability score", |p| over_rows(p, RowPrediction::crps))
    },
    coverage("coverage_50", 0.5, |p| share_inside(p, 0.5)),
    coverage("coverage_90", 0.9, |p| share_inside(p, 0.9)),
    Metric {
        printed: Some((4, "in 95 %")),
        column: true,
        caption: Some("Coverage of 95 % intervals"),
        ..coverage("coverage_95", 0.95, |p| share_inside(p, 0.95))
    },
    width("width_50", |p| mean_width(p, 0.5)),
    width("width_90", |p| mean_width(p, 0.9)),
    Metric { column: true, ..width("width_95", |p| mean_width(p, 0.95)) },
    lower_beside("interval_score_95", "width of 95 % intervals, and how far outside true values lie", interval_score),
    lower_beside("pinball", "mean pinball loss of the quantiles 5 %, 10 % … 95 %", pinball),
    Metric {
        source: MetricSource::Predictions(|p| smse(p).map(|smse| 1.0 - smse)),
        better: Better::Higher,
        printed: Some((1, "R²")),
        ..other("r2", "share of the target's variance that is explained")
    },
    Metric {
        better: Better::Lower,
        caption: Some("R̂"),
        format: NumberFormat::Decimals(3),
        ..other("rhat_log_likelihood", "R̂ of the log-likelihood")
    },
    Metric {
        better: Better::Higher,
        caption: Some("ESS"),
        format: NumberFormat::Decimals(0),
        ..other("ess_log_likelihood", "effective sample size")
    },
    Metric {
        better: Better::Lower,
        caption: Some("R̂ of predictions"),
        format: NumberFormat::Decimals(3),
        ..other("rhat_predictions", "R̂ of predictions at 50 training rows, the largest")
    },
    Metric {
        better: Better::Higher,
        caption: Some("ESS of predictions"),
        format: NumberFormat::Decimals(0),
        ..other("ess_predictions", "effective sample size of predictions at 50 training rows, the smallest")
    },
    Metric { caption: Some("acceptance"), format: NumberFormat::Percent, ..other("acceptance", "acceptance") },
    Metric {
        source: MetricSource::Drift,
        better: Better::Near(1.0),
        caption: Some("Predictive variance over that of training"),
        format: NumberFormat::Significant(3),
        ..other("variance_ratio", "predictive variance over that of training")
    },
    Metric {
        source: MetricSource::Drift,
        better: Better::Lower,
        caption: Some("Rows that could not be scored"),
        format: NumberFormat::Count,
        ..other("rows_invalid", "rows that could not be scored")
    },
    Metric {
        source: MetricSource::Drift,
        better: Better::Lower,
        format: NumberFormat::Percent,
        ..other("share_outside_range", "share of rows outside the range of training")
    },
    Metric {
        source: MetricSource::Drift,
        better: Better::Lower,
        format: NumberFormat::Percent,
        ..other("share_missing", "share of rows without a value in this column")
    },
    Metric {
        source: MetricSource::Drift,
        better: Better::Lower,
        format: NumberFormat::Percent,
        ..other("share_unseen_levels", "share of rows whose level of this category training has not seen")
    },
    Metric {
        source: MetricSource::Drift,
        better: Better::Near(1.0),
        caption: Some("Distance to the nearest training row over that in training"),
        format: NumberFormat::Significant(3),
        ..other("nearest_distance_ratio", "distance to the nearest training row over that in training")
    },
];

impl Metric {
    /// How far a value is from the best; none where no value is better than another.
    pub fn badness(&self, value: f64) -> Option<f64> {
        match self.better {
            Better::Lower => Some(value),
            Better::Higher => Some(-value),
            Better::Near(nominal) => Some((value - nominal).abs()),
            Better::Neither => None,
        }
    }

    /// What it should be.
    pub const fn nominal(&self) -> Option<f64> {
        if let Better::Near(nominal) = self.better { Some(nominal) } else { None }
    }
}

/// The metrics of predictions: those that `evaluate` computes.
pub fn of_predictions() -> impl Iterator<Item = &'static Metric> {
    METRICS.iter().filter(|metric| matches!(metric.source, MetricSource::Predictions(_)))
}

/// The metrics of Markov chains.
pub fn of_chains() -> impl Iterator<Item = &'static Metric> {
    METRICS.iter().filter(|metric| matches!(metric.source, MetricSource::Chains))
}

/// The metrics of rows that are scored.
pub fn of_drift() -> impl Iterator<Item = &'static Metric> {
    METRICS.iter().filter(|metric| matches!(metric.source, MetricSource::Drift))
}

/// The name of the metric that runs are compared by.
pub fn headline() -> &'static str {
    METRICS
        .iter()
        .filter(|metric| metric.headline.is_some())
        .min_by_key(|metric| metric.headline)
        .map_or("", |m| m.name)
}

/// All metrics of one fold, in the order of [`METRICS`]; `None` where one is not defined, such as the SMSE of a
/// constant target.
pub fn evaluate(predictions: &Predictions<'_>) -> Result<Vec<(&'static str, Option<f64>)>, EvalError> {
    let Predictions { y_true, y_mean, y_std, .. } = *predictions;
    let rows = y_true.len();
    check_length("y_mean", y_mean.len(), rows)?;
    check_length("y_std", y_std.map_or(rows, <[f64]>::len), rows)?;
    let value = |metric: &Metric| match metric.source {
        MetricSource::Predictions(value) => Some((metric.name, value(predictions).filter(|value| value.is_finite()))),
        MetricSource::Chains | MetricSource::Drift => None,
    };
    Ok(METRICS.iter().filter_map(value).collect())
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

fn mse(predictions: &Predictions<'_>) -> Option<f64> {
    average(predictions.y_true.iter().zip(predictions.y_mean).map(|(y, m)| (y - m) * (y - m)))
}

fn mae(predictions: &Predictions<'_>) -> Option<f64> {
    average(predictions.y_true.iter().zip(predictions.y_mean).map(|(y, m)| (y - m).abs()))
}

fn smse(predictions: &Predictions<'_>) -> Option<f64> {
    mse(predictions).zip(population_variance(predictions.y_true)).map(|(error, variance)| error / variance)
}

// The paper's mean negative log-likelihood: only the noise of the model counts as uncertainty.
fn mnll(predictions: &Predictions<'_>) -> Option<f64> {
    if let Some(on) = &predictions.on_scale {
        return over_rows(predictions, |row| row.nlpd(on.noise_std));
    }
    let noise = predictions.noise_variance.filter(|noise| *noise > 0.0)?;
    Some(0.5 * (std::f64::consts::TAU * noise).ln() + mse(predictions)? / (2.0 * noise))
}

// Mean over the rows of a function of target and distribution.
fn over_rows(predictions: &Predictions<'_>, value: impl Fn(&RowPrediction) -> f64) -> Option<f64> {
    if let Some(ScaledPredictions { transform, mean, std, .. }) = predictions.on_scale {
        let rows = predictions.y_true.iter().zip(mean).zip(std);
        return average(rows.map(|((y, mean), std)| {
            let (at, transform) = (transform.forward(*y), Some(transform));
            value(&RowPrediction { y: *y, at, mean: *mean, std: *std, transform })
        }));
    }
    let rows = predictions.y_true.iter().zip(predictions.y_mean).zip(predictions.y_std?);
    average(
        rows.map(|((y, mean), std)| value(&RowPrediction { y: *y, at: *y, mean: *mean, std: *std, transform: None })),
    )
}

fn share_inside(predictions: &Predictions<'_>, level: f64) -> Option<f64> {
    if predictions.calibration.is_some() {
        let inside = |y: f64, low: f64, high: f64| f64::from(u8::from(low <= y && y <= high));
        return over_intervals(predictions, level, inside);
    }
    let q = normal_quantile(0.5 + 0.5 * level);
    over_rows(predictions, |row| f64::from(u8::from((row.at - row.mean).abs() <= q * row.std)))
}

fn mean_width(predictions: &Predictions<'_>, level: f64) -> Option<f64> {
    if predictions.calibration.is_some() || predictions.on_scale.is_some() {
        return over_intervals(predictions, level, |_, low, high| high - low);
    }
    let q = normal_quantile(0.5 + 0.5 * level);
    over_rows(predictions, |row| 2.0 * q * row.std)
}

// Gneiting and Raftery: the width, and 2/α times how far a value lies outside.
fn interval_score(predictions: &Predictions<'_>) -> Option<f64> {
    const LEVEL: f64 = 0.95;
    let outside = 2.0 / (1.0 - LEVEL);
    over_intervals(predictions, LEVEL, |y, low, high| high - low + outside * ((low - y).max(0.0) + (y - high).max(0.0)))
}

// Mean over rows and quantiles; twice the mean over ever more quantiles would be the CRPS.
fn pinball(predictions: &Predictions<'_>) -> Option<f64> {
    const STEPS: u32 = 20;
    let quantiles: Vec<(f64, f64)> = (1..STEPS)
        .map(|step| f64::from(step) / f64::from(STEPS))
        .map(|p| (p, score_quantile(predictions.calibration, p)))
        .collect();
    over_rows(predictions, |row| {
        let loss = |(p, z): &(f64, f64)| {
            let error = row.y - row.quantile(*z);
            if error < 0.0 { (p - 1.0) * error } else { p * error }
        };
        quantiles.iter().map(loss).sum::<f64>() / quantiles.len() as f64
    })
}

// Mean over the rows of a function of target and both ends of the central interval of this level.
fn over_intervals(predictions: &Predictions<'_>, level: f64, value: impl Fn(f64, f64, f64) -> f64) -> Option<f64> {
    let (low, high) = (0.5 * (1.0 - level), f64::midpoint(1.0, level));
    let (low, high) = (score_quantile(predictions.calibration, low), score_quantile(predictions.calibration, high));
    over_rows(predictions, |row| value(row.y, row.quantile(low), row.quantile(high)))
}

/// How many predicted standard deviations the quantile p of a target lies above its mean.
pub fn score_quantile(calibration: Option<&Calibration>, p: f64) -> f64 {
    calibration.map_or_else(|| normal_quantile(p), |calibration| calibration.quantile(p))
}

/// How many predicted standard deviations above its mean this share of a target's distribution ends.
pub fn score_at(calibration: Option<&Calibration>, share: f64) -> f64 {
    calibration.map_or_else(|| normal_quantile(share), |calibration| calibration.score_at(share))
}

/// The share of its predicted distribution that lies below a target.
pub fn share_below(calibration: Option<&Calibration>, score: f64) -> f64 {
    calibration.map_or_else(|| normal_cdf(score), |calibration| calibration.share_below(score))
}
