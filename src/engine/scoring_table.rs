//! Scoring of a table in memory, for programs that use us as a library.

use super::error::RunError;
use crate::stages::StageError;
use crate::stages::job::{Cancel, Task};
use crate::stages::predict::scorer::{BatchSink, Layout, ScoreOrigin, Scorer, Tally};
use crate::stages::predict::{HeldCondition, OnInvalid, Watch};
use crate::store::StoreError;
use crate::store::input::{BatchChunks, Wanted, rows_together};
use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// What the rows are called in messages.
const NAME: &str = "the table";

/// How rows of a table are scored.
#[derive(Clone, Debug)]
pub struct TableRequest {
    pub key: Option<String>,
    pub keep: Vec<String>,
    pub on_invalid: OnInvalid,
    /// The conditions that are looked at.
    pub watch: Watch,
    /// SHA-256 of the model's file.
    pub model_sha256: String,
}

/// Scores, and what there is to say of the rows.
#[derive(Debug)]
pub struct TableScores {
    pub schema: SchemaRef,
    pub batches: Vec<RecordBatch>,
    pub warnings: Vec<String>,
    pub held: Vec<HeldCondition>,
}

/// Scores the rows of batches. The same bits as those of a file.
pub fn score_table(
    scorer: &Scorer,
    rows: impl RecordBatchReader + Send + 'static,
    request: &TableRequest,
    cancel: &Cancel,
) -> Result<TableScores, RunError> {
    let task = Task::of_run("score", "predict");
    let failed = |source: StageError| match (source, cancel.signal()) {
        (StageError::Interrupted { kept }, Some(signal)) => RunError::Interrupted { signal, kept },
        (source, _) => RunError::Stage { task: Box::new(task.clone()), source },
    };
    let scored = || -> Result<(Layout, Vec<RecordBatch>, Tally), StageError> {
        let schema = rows.schema();
        let others = Wanted { key: request.key.clone(), keep: request.keep.clone(), ..Wanted::default() };
        let has = |column: &str| schema.column_with_name(column).is_some();
        let hint = "give an input that has them; their order does not matter";
        let wanted = scorer.wanted(NAME, has, hint, others)?;
        let parts = in_parts(rows, rows_together(wanted.features.len()));
        let chunks = BatchChunks::new(Path::new(NAME), &schema, parts, &wanted)?;
        let origin = ScoreOrigin::new(scorer.meta(), request.model_sha256.clone(), None);
        let layout = Layout::new(scorer, chunks.columns(), origin)?;
        let batches = Arc::new(Mutex::new(Vec::new()));
        let sink = Box::new(BatchSink::new(layout.clone(), Arc::clone(&batches)));
        let files = [(NAME.into(), 0)];
        let tally = scorer.run(chunks, &files, vec![sink], &mut |_| !cancel.is_set())?;
        let batches = std::mem::take(&mut *batches.lock().unwrap_or_else(PoisonError::into_inner));
        Ok((layout, batches, tally))
    };
    let (layout, batches, tally) = scored().map_err(failed)?;
    let drift = tally.metrics(scorer.features(), &scorer.input_names(), scorer.method(), "score", 0);
    let mut warnings: Vec<String> = tally.warning(request.on_invalid).into_iter().collect();
    warnings.extend(request.watch.unknown(&drift));
    Ok(TableScores { schema: layout.schema, batches, warnings, held: request.watch.held(&drift) })
}

/// Batches of at most so many rows: a data frame may be one batch, and reading, computing and collecting go on together.
fn in_parts(
    rows: impl RecordBatchReader + Send,
    most: usize,
) -> impl Iterator<Item = Result<RecordBatch, StoreError>> + Send {
    let hint = "the program that made the table could not hand its rows over";
    let failed = move |error| StoreError::invalid(Path::new(NAME), format!("{error}"), hint);
    rows.flat_map(move |batch| match batch {
        Ok(batch) => {
            let starts = (0..batch.num_rows()).step_by(most);
            starts.map(|first| Ok(batch.slice(first, most.min(batch.num_rows() - first)))).collect::<Vec<_>>()
        }
        Err(error) => vec![Err(failed(error))],
    })
}
