//! `evaluate`: metrics per fold and over folds.

mod stage;

pub use stage::{Evaluate, KIND};

use super::StageError;
use crate::eval::conformal::Calibration;
use crate::eval::metrics::{self, Predictions, ScaledPredictions};
use crate::eval::transform::Transform;
use crate::tables::{MetricRow, PredictionBlock};
use polars::prelude::{DataFrame, IntoLazy, NamedFrom, PolarsError, Series, col};

/// What the rows of one evaluation have in common.
pub struct MetricContext<'a> {
    pub run_id: &'a str,
    /// The stage that computes them.
    pub stage: &'a str,
    pub case: &'a str,
    pub method: &'a str,
}

/// Predictions of a fold, with what there is to know about their distributions.
pub struct Measurable {
    pub block: PredictionBlock,
    /// What intervals are calibrated by; none for those of the normal distribution.
    pub calibration: Option<Calibration>,
    /// The scale on which the target is modelled, and the noise there; none where it is its own.
    pub scale: Option<(Transform, f64)>,
}

/// The metrics of every fold, whose intervals may be calibrated, then their mean and sample standard deviation over the folds.
pub fn run(context: &MetricContext<'_>, blocks: &[Measurable]) -> Result<Vec<MetricRow>, StageError> {
    let mut rows = Vec::new();
    for block in blocks {
        rows.extend(fold_metrics(context, block)?);
    }
    with_summary(context, rows)
}

/// What the chains of a model say about themselves.
pub struct ChainFigures {
    pub fold: i32,
    pub rows: i64,
    /// Metrics by name; none where not defined.
    pub metrics: Vec<(String, Option<f64>)>,
}

/// The metrics of the chains of every fold, then their mean and sample standard deviation over the folds.
pub fn chains(context: &MetricContext<'_>, folds: &[ChainFigures]) -> Result<Vec<MetricRow>, StageError> {
    let of_fold = |chains: &ChainFigures| {
        let (fold, rows) = (chains.fold, chains.rows);
        let row =
            |(name, value): &(String, Option<f64>)| context.row((Some(fold), "train"), (name, "value"), *value, rows);
        chains.metrics.iter().map(row).collect::<Vec<_>>()
    };
    with_summary(context, folds.iter().flat_map(of_fold).collect())
}

impl MetricContext<'_> {
    fn row(
        &self,
        (fold, split): (Option<i32>, &str),
        (metric, stat): (&str, &str),
        value: Option<f64>,
        rows: i64,
    ) -> MetricRow {
        MetricRow {
            run_id: self.run_id.to_owned(),
            stage: self.stage.to_owned(),
            case: self.case.to_owned(),
            method: self.method.to_owned(),
            fold,
            split: split.to_owned(),
            metric: metric.to_owned(),
            stat: stat.to_owned(),
            feature: None,
            value,
            rows,
        }
    }
}

fn with_summary(context: &MetricContext<'_>, mut rows: Vec<MetricRow>) -> Result<Vec<MetricRow>, StageError> {
    let summary = over_folds(context, &rows).map_err(|error| StageError::Data {
        what: format!("the metrics could not be summarised: {error}"),
        hint: "this is a mistake of the program; please report it".to_owned(),
    })?;
    rows.extend(summary);
    Ok(rows)
}

fn fold_metrics(
    context: &MetricContext<'_>,
    Measurable { block, calibration, scale }: &Measurable,
) -> Result<Vec<MetricRow>, StageError> {
    let Some(y_true) = &block.y_true else { return Ok(Vec::new()) };
    let noise_variance = block.noise_std.as_ref().and_then(|noise| noise.first()).map(|std| std * std);
    let (y_mean, y_std) = (block.y_mean.as_slice(), block.y_std.as_deref());
    let on_scale = scale.zip(block.on_scale.as_ref()).map(|((transform, noise_std), (mean, std))| ScaledPredictions {
        transform,
        mean,
        std,
        noise_std,
    });
    let calibration = calibration.as_ref();
    let predictions = Predictions { y_true, y_mean, y_std, noise_variance, calibration, on_scale };
    let row =
        |(name, value)| context.row((Some(block.fold), &block.split), (name, "value"), value, block.rows() as i64);
    Ok(metrics::evaluate(&predictions)?.into_iter().map(row).collect())
}

/// Mean and sample standard deviation of the fold values; a metric that no fold defines stays undefined.
fn over_folds(context: &MetricContext<'_>, rows: &[MetricRow]) -> Result<Vec<MetricRow>, PolarsError> {
    let text = |name: &str, values: Vec<&str>| Series::new(name.into(), values).into();
    let frame = DataFrame::new_infer_height(vec![
        text("metric", rows.iter().map(|row| row.metric.as_str()).collect()),
        text("split", rows.iter().map(|row| row.split.as_str()).collect()),
        Series::new("value".into(), rows.iter().map(|row| row.value).collect::<Vec<_>>()).into(),
        Series::new("rows".into(), rows.iter().map(|row| row.rows).collect::<Vec<_>>()).into(),
    ])?;
    let grouped = frame
        .lazy()
        .group_by_stable([col("metric"), col("split")])
        .agg([col("value").mean().alias("mean"), col("value").std(1).alias("std"), col("rows").sum()])
        .collect()?;
    let (metric, split) = (grouped.column("metric")?.str()?, grouped.column("split")?.str()?);
    let (mean, std) = (grouped.column("mean")?.f64()?, grouped.column("std")?.f64()?);
    let count = grouped.column("rows")?.i64()?;
    let mut summary = Vec::with_capacity(2 * grouped.height());
    for index in 0..grouped.height() {
        for (stat, value) in [("mean", mean.get(index)), ("std", std.get(index))] {
            let (metric, split) = (metric.get(index).unwrap_or_default(), split.get(index).unwrap_or_default());
            summary.push(context.row((None, split), (metric, stat), value, count.get(index).unwrap_or_default()));
        }
    }
    Ok(summary)
}
