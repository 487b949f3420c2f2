//! Predicts rows with a trained model, in the target's own units.

use super::StageError;
use super::train::TrainedModel;
use crate::eval::normal::normal_quantile;
use crate::plan::PredictStep;
use crate::store::InputTable;
use crate::tables::predictions::{interval_columns, interval_quantiles};
use crate::tables::{HiddenRow, PredictionBlock};
use ndarray::Axis;

/// What the predictions of one fold are called.
pub struct Context<'a> {
    /// The predict stage.
    pub stage: &'a str,
    /// The case.
    pub case: &'a str,
    /// The fold.
    pub fold: i32,
}

/// The hidden layers of a deep model at these rows of the table; nothing for other models.
pub fn hidden(
    model: &TrainedModel,
    table: &InputTable,
    rows: &[usize],
    context: &Context<'_>,
) -> Result<Vec<HiddenRow>, StageError> {
    let columns = model.match_features(table)?;
    let x = table.features.select(Axis(0), rows).select(Axis(1), &columns);
    let mut all = Vec::new();
    for layer in model.hidden_layers(&x)? {
        for ((position, output), mean) in layer.mean.indexed_iter() {
            all.push(HiddenRow {
                run_id: String::new(),
                stage: context.stage.to_owned(),
                case: context.case.to_owned(),
                fold: context.fold,
                key: table.key_text(rows[position]),
                row: rows[position] as i64,
                layer: layer.layer as i32 + 1,
                output: output as i32 + 1,
                x1: x[[position, 0]],
                x2: x.get([position, 1]).copied(),
                mean: *mean,
                std: layer.spread[[position, output]],
            });
        }
    }
    Ok(all)
}

/// Names of the quantile columns of these intervals, and their standard normal quantiles.
pub fn quantiles(intervals: &[f64]) -> Result<Vec<(String, f64)>, StageError> {
    let mut quantiles = Vec::with_capacity(2 * intervals.len());
    for level in intervals {
        let (low, high) = interval_columns(*level).map_err(crate::store::StoreError::from)?;
        let (lower, upper) = interval_quantiles(*level);
        quantiles.extend([(low, normal_quantile(lower)), (high, normal_quantile(upper))]);
    }
    Ok(quantiles)
}

/// Predicts these test rows of the table.
pub fn run(
    step: &PredictStep,
    model: &TrainedModel,
    table: &InputTable,
    rows: &[usize],
    context: &Context<'_>,
) -> Result<PredictionBlock, StageError> {
    let columns = model.match_features(table)?;
    let x = table.features.select(Axis(0), rows).select(Axis(1), &columns);
    // Intervals need the variance even when its column is not asked for.
    let prediction = model.predict(&x, step.variance || !step.intervals.is_empty())?;
    let std = prediction.y_std.as_deref().unwrap_or_default();
    let at = |z: f64| prediction.mean.iter().zip(std).map(|(mean, std)| z.mul_add(*std, *mean)).collect();
    let quantiles = quantiles(&step.intervals)?.into_iter().map(|(name, z)| (name, at(z))).collect();
    let noise = vec![model.noise_std(); rows.len()];
    Ok(PredictionBlock {
        stage: context.stage.to_owned(),
        case: context.case.to_owned(),
        fold: context.fold,
        split: "test".to_owned(),
        key: rows.iter().map(|row| table.key_text(*row)).collect(),
        y_true: table.target.as_ref().map(|target| rows.iter().map(|row| target[*row]).collect()),
        row: rows.iter().map(|row| *row as i64).collect(),
        y_mean: prediction.mean,
        y_std: prediction.y_std.filter(|_| step.variance),
        f_std: prediction.f_std.filter(|_| step.variance),
        noise_std: Some(noise),
        quantiles,
        keep: Vec::new(),
    })
}
