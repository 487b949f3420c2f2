//! Predicts the test rows of a fold, in the target's own units.

use super::predicted::{write_calibration, write_transform};
use super::scorer::Tally;
use super::{DRIFT, PREDICTIONS, Predict, quantiles, watch};
use crate::features::SeenValues;
use crate::stages::job::Task;
use crate::stages::split::Folds;
use crate::stages::train::{TargetPrediction, TrainedModel};
use crate::stages::{Collecting, Job, Model, StageError, Work};
use crate::store::{InputTable, ModelFile, ModelMeta, read_known, write_predictions, write_rows};
use crate::tables::{HiddenRow, PredictionBlock};
use ndarray::Array2;

const HIDDEN: &str = "hidden.parquet";

/// Predicts the test rows of the job's fold.
pub fn predict(stage: &Predict, model: &Model, folds: &Folds, job: &mut Job<'_, '_>) -> Result<Work, StageError> {
    let fold = job.task.fold.map_or(0, |(fold, _)| fold as usize);
    let all_folds = folds.all()?;
    if !folds.source.is_by_parts()? {
        folds.source.load(job.record)?;
    }
    let (table, rows) = folds.source.some(&all_folds[fold].test)?;
    let rows = rows.as_slice();
    job.spans.phase("online");
    let file = ModelFile::load(&model.path)?;
    let model = TrainedModel::from_file(&file, &model.path)?;
    let model = if stage.local { model } else { model.without_local() };
    let (x, seen) = model.encode(&table, rows)?;
    // Intervals need the variance even when its column is not asked for.
    let variance = stage.variance || !stage.levels().is_empty();
    let prediction = model.predict_unless(&|| job.cancel.is_set(), &x, variance)?;
    if !stage.watch(true).is_empty() {
        let (tally, fold) = (tally(&file.meta, &x, &seen, &prediction), job.task.fold_number().unwrap_or(0));
        let drift = tally.metrics(&file.meta.feature_names, &model.input_names(), &file.meta.method, "test", fold);
        write_rows(&job.draft.file(DRIFT), &drift)?;
    }
    write_transform(&job.draft.file(PREDICTIONS), prediction.on_scale.as_ref())?;
    let block = block(stage, prediction, &model, (&table, rows), job.task)?;
    job.spans.end_phases();
    write_predictions(&job.draft.file(PREDICTIONS), &block)?;
    write_calibration(&job.draft.file(PREDICTIONS), model.calibration())?;
    if stage.hidden {
        write_rows(&job.draft.file(HIDDEN), &hidden(&model, &table, rows, job.task)?)?;
    }
    Ok(Work::done(block.rows(), format!("{} rows", block.rows())))
}

/// How far test rows are from those of training.
fn tally(meta: &ModelMeta, x: &Array2<f64>, seen: &SeenValues, prediction: &TargetPrediction) -> Tally {
    let mut tally = Tally::new(meta.feature_names.len());
    tally.count_seen(seen);
    let ranges = meta.ranges_of_new_rows();
    for row in x.rows() {
        tally.count_ranges(&row.to_vec(), &ranges);
    }
    for std in prediction.spread().unwrap_or_default() {
        tally.count_variance(std * std, meta.predictive_variance);
    }
    prediction.nearest.iter().flatten().for_each(|ratio| tally.count_nearest(*ratio));
    tally.count_rows(&vec![true; x.nrows()]);
    tally
}

/// Hands hidden layers and drift to the run.
pub fn collect(stage: &Predict, done: &mut Collecting<'_, '_>) -> Result<(), StageError> {
    if stage.hidden {
        done.record.add_rows::<HiddenRow>(done.task, &read_known(&done.entry.file(HIDDEN))?)?;
    }
    if !stage.watch(true).is_empty() {
        watch(stage, true, done)?;
    }
    Ok(())
}

/// The hidden layers of a deep model at these rows of the table; nothing for other models.
fn hidden(model: &TrainedModel, table: &InputTable, rows: &[usize], task: &Task) -> Result<Vec<HiddenRow>, StageError> {
    let (x, _) = model.encode(table, rows)?;
    let mut all = Vec::new();
    for layer in model.hidden_layers(&x)? {
        for ((position, output), mean) in layer.mean.indexed_iter() {
            all.push(HiddenRow {
                run_id: String::new(),
                stage: task.stage.clone(),
                case: task.case.clone(),
                fold: task.fold_number().unwrap_or(0),
                key: table.key_text(rows[position]),
                row: table.number(rows[position]) as i64,
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

fn block(
    stage: &Predict,
    prediction: TargetPrediction,
    model: &TrainedModel,
    (table, rows): (&InputTable, &[usize]),
    task: &Task,
) -> Result<PredictionBlock, StageError> {
    let at = |z: f64| (0..rows.len()).map(|row| prediction.quantile(row, z)).collect();
    let calibration = model.calibration();
    let quantiles = quantiles(&stage.levels(), calibration)?.into_iter().map(|(name, z)| (name, at(z))).collect();
    let y_true: Option<Vec<f64>> = table.target.as_ref().map(|target| rows.iter().map(|row| target[*row]).collect());
    let below = |y_true: &Vec<f64>| {
        y_true.iter().enumerate().map(|(row, y)| prediction.share_below(row, *y, calibration)).collect()
    };
    let y_pit = y_true.as_ref().filter(|_| stage.variance).map(below);
    Ok(PredictionBlock {
        stage: task.stage.clone(),
        case: task.case.clone(),
        fold: task.fold_number().unwrap_or(0),
        split: "test".to_owned(),
        key: rows.iter().map(|row| table.key_text(*row)).collect(),
        y_true,
        row: rows.iter().map(|row| table.number(*row) as i64).collect(),
        y_mean: prediction.mean,
        y_std: prediction.y_std.filter(|_| stage.variance),
        f_std: prediction.f_std.filter(|_| stage.variance),
        noise_std: Some(prediction.noise_std),
        y_mean_global: prediction.global_mean,
        nearest_distance: prediction.nearest,
        y_pit,
        on_scale: prediction.on_scale.filter(|_| stage.variance).map(|on| (on.mean, on.std)),
        quantiles,
        keep: Vec::new(),
    })
}
