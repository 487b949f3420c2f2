//! Predictions of a run on their way to its table: those of folds in memory, scores in files.

use crate::store::{Footer, ResultsDir, RunId, StoreError, WrittenTable, open_batches, read_measurable};
use crate::tables::TableKind;
use crate::tables::predictions::{self, PredictionBlock};
use arrow::array::RecordBatch;
use std::path::PathBuf;

/// Predictions of one stage, case and fold.
#[derive(Clone, Debug)]
pub enum Predicted {
    /// In memory.
    Block(Box<PredictionBlock>),
    /// In a file, which may be larger than memory.
    File {
        /// Where.
        path: PathBuf,
        /// The stage.
        stage: String,
        /// The case.
        case: String,
    },
}

impl Predicted {
    /// What metrics need of them, in memory; of scores only the numbers of rows with a prediction and a true value.
    pub fn block(&self) -> Result<PredictionBlock, StoreError> {
        match self {
            Self::Block(block) => Ok(block.as_ref().clone()),
            Self::File { path, stage, case } => {
                let (stage, case) = (stage.clone(), case.clone());
                Ok(PredictionBlock { stage, case, ..read_measurable(path)? })
            }
        }
    }

    fn template(&self) -> Result<PredictionBlock, StoreError> {
        match self {
            Self::Block(block) => Ok(PredictionBlock {
                quantiles: block.quantiles.iter().map(|(name, _)| (name.clone(), Vec::new())).collect(),
                ..PredictionBlock::default()
            }),
            Self::File { path, .. } => Ok(predictions::template(&open_batches(path)?.0)),
        }
    }

    fn batches(
        &self,
        run_id: &str,
        schema: &arrow::datatypes::SchemaRef,
    ) -> Result<Box<dyn Iterator<Item = Result<RecordBatch, StoreError>> + '_>, StoreError> {
        match self {
            Self::Block(block) => Ok(Box::new(std::iter::once(Ok(block.batch(run_id, schema)?)))),
            Self::File { path, stage, case } => {
                let (run_id, schema) = (run_id.to_owned(), schema.clone());
                let (_, batches) = open_batches(path)?;
                Ok(Box::new(
                    batches.map(move |batch| Ok(predictions::relabel(&batch?, (&run_id, stage, case), &schema)?)),
                ))
            }
        }
    }
}

/// Writes the predictions table of a run.
pub fn write(
    results: &ResultsDir,
    pipeline: &str,
    run_id: &RunId,
    footer: &Footer,
    all: &[Predicted],
) -> Result<WrittenTable, StoreError> {
    let templates = all.iter().map(Predicted::template).collect::<Result<Vec<_>, _>>()?;
    let (schema, _) = predictions::batches("", &templates)?;
    let batches = all.iter().flat_map(|part| match part.batches(run_id.as_str(), &schema) {
        Ok(batches) => batches,
        Err(error) => Box::new(std::iter::once(Err(error))),
    });
    results.stream_table((TableKind::Predictions, pipeline, run_id), footer, &schema, batches)
}
