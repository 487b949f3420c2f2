//! Predictions on their way from the cache to the table of a run; they may be larger than memory.

use super::{CALIBRATION, TRANSFORM};
use crate::eval::conformal::Calibration;
use crate::eval::transform::Transform;
use crate::stages::train::OnScale;
use crate::store::{
    Footer, ResultsDir, RunId, StoreError, WrittenTable, open_batches, read_measurable, read_predictions, write_atomic,
    write_columns,
};
use crate::tables::predictions::{self, PredictionBlock};
use crate::tables::{TableKind, relabel};
use arrow::array::{ArrayRef, AsArray as _, Float64Array, PrimitiveArray, RecordBatch, UInt64Array};
use arrow::datatypes::{Float64Type, SchemaRef, UInt64Type};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file with predictions of one stage, case and fold.
#[derive(Clone, Debug)]
pub struct Predicted {
    pub path: PathBuf,
    pub stage: String,
    pub case: String,
    /// Whether they are scores of an input rather than predictions of test rows.
    pub scores: bool,
}

/// Batches that are read one after the other.
type PredictedBatches<'a> = Box<dyn Iterator<Item = Result<RecordBatch, StoreError>> + 'a>;

impl Predicted {
    /// What metrics need of them, in memory; of scores only the numbers of rows with a prediction and a true value.
    pub fn block(&self) -> Result<PredictionBlock, StoreError> {
        let block = if self.scores { read_measurable(&self.path)? } else { read_predictions(&self.path)? };
        Ok(PredictionBlock { stage: self.stage.clone(), case: self.case.clone(), ..block })
    }

    /// What their intervals are calibrated by; none for those of the normal distribution.
    pub fn calibration(&self) -> Result<Option<Calibration>, StoreError> {
        let path = self.path.with_file_name(CALIBRATION);
        if !path.is_file() {
            return Ok(None);
        }
        let (mut ranks, mut scores) = (Vec::new(), Vec::new());
        for batch in open_batches(&path)?.1 {
            let batch = batch?;
            let rank = batch.column_by_name("rank").and_then(|column| column.as_primitive_opt::<UInt64Type>());
            let score = batch.column_by_name("score").and_then(|column| column.as_primitive_opt::<Float64Type>());
            ranks.extend(rank.into_iter().flat_map(PrimitiveArray::values).copied());
            scores.extend(score.into_iter().flat_map(PrimitiveArray::values).copied());
        }
        let damaged =
            || StoreError::invalid(&path, "not a calibration", "the file is damaged: remove it and run again");
        Calibration::from_parts(ranks, scores).map(Some).ok_or_else(damaged)
    }

    /// The scale on which their target is modelled, and the noise there; none where it is its own.
    pub fn transform(&self) -> Result<Option<(Transform, f64)>, StoreError> {
        let path = self.path.with_file_name(TRANSFORM);
        if !path.is_file() {
            return Ok(None);
        }
        let text = std::fs::read(&path).map_err(|error| StoreError::read(&path, error))?;
        serde_json::from_slice(&text).map(Some).map_err(|error| {
            let hint = "the file is damaged: remove it and run again";
            StoreError::invalid(&path, format!("not a scale of a target: {error}"), hint)
        })
    }

    fn batches(&self, run_id: &str, schema: &SchemaRef) -> Result<PredictedBatches<'_>, StoreError> {
        let (run_id, schema) = (run_id.to_owned(), schema.clone());
        let (_, batches) = open_batches(&self.path)?;
        let table = TableKind::Predictions.name();
        Ok(Box::new(batches.map(move |batch| {
            // The cache knows neither stage nor case: another one may have put it there.
            Ok(relabel(&batch?, (&run_id, &self.stage, &self.case), &schema, table)?)
        })))
    }
}

/// Writes what intervals are calibrated by beside the predictions: whoever measures them needs all of it.
pub(super) fn write_calibration(predictions: &Path, calibration: Option<&Calibration>) -> Result<(), StoreError> {
    let Some(calibration) = calibration else { return Ok(()) };
    let ranks: ArrayRef = Arc::new(UInt64Array::from(calibration.ranks().to_vec()));
    let scores: ArrayRef = Arc::new(Float64Array::from(calibration.scores().to_vec()));
    write_columns(&predictions.with_file_name(CALIBRATION), vec![("rank", ranks), ("score", scores)])?;
    Ok(())
}

/// Writes the scale of the target beside the predictions, if it is not its own.
pub(super) fn write_transform(predictions: &Path, on_scale: Option<&OnScale>) -> Result<(), StoreError> {
    let Some(OnScale { transform, noise_std, .. }) = on_scale else { return Ok(()) };
    let path = predictions.with_file_name(TRANSFORM);
    write_atomic(&path, json!([transform, noise_std]).to_string().as_bytes()).map(drop)
}

/// Writes the predictions table of a run.
pub fn write_predictions_of_run(
    results: &ResultsDir,
    pipeline: &str,
    run_id: &RunId,
    footer: &Footer,
    all: &[Predicted],
) -> Result<WrittenTable, StoreError> {
    let templates = all.iter().map(|part| Ok(predictions::template(&open_batches(&part.path)?.0)));
    let templates = templates.collect::<Result<Vec<_>, StoreError>>()?;
    let (schema, _) = predictions::batches("", &templates)?;
    let batches = all.iter().flat_map(|part| match part.batches(run_id.as_str(), &schema) {
        Ok(batches) => batches,
        Err(error) => Box::new(std::iter::once(Err(error))),
    });
    results.stream_table((TableKind::Predictions, pipeline, run_id), footer, &schema, batches)
}
