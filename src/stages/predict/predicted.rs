//! Predictions on their way from the cache to the table of a run; they may be larger than memory.

use crate::store::{
    Footer, ResultsDir, RunId, StoreError, WrittenTable, open_batches, read_measurable, read_predictions,
};
use crate::tables::predictions::{self, PredictionBlock};
use crate::tables::{TableKind, relabel};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::path::PathBuf;

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
