//! What can be said of a plan's data before anything runs: rows and memory.

use crate::plan::{Case, IngestStep, Method, Preview, Stage, Step};
use crate::stages::{StageError, ingest};

/// Rows and estimated memory of a stage; nothing where the input cannot be looked at yet.
pub fn preview(case: &Case, stage: &Stage) -> Result<Preview, StageError> {
    let Some(source) = source(case, stage) else { return Ok(Preview::default()) };
    let schema = ingest::look(source)?;
    let rows = schema.rows();
    let features = schema.resolve(&ingest::selection(source))?.features.len() as u64;
    let data = 8 * rows * (features + 2);
    let memory = match &stage.step {
        Step::Ingest(_) => Some(data),
        // The exact process holds a few n × n matrices while it fits.
        Step::Train(train) => match train.method {
            Method::Gp(_) => Some(data + 4 * 8 * rows * rows),
            // Scaled copies of the rows, and tiles.
            Method::SparseGp(_) => Some(3 * data + (256 << 20)),
        },
        _ => None,
    };
    Ok(Preview { rows: Some(rows), memory, ..Preview::default() })
}

/// The ingest stage whose rows a stage works on.
fn source<'a>(case: &'a Case, stage: &'a Stage) -> Option<&'a IngestStep> {
    match &stage.step {
        Step::Ingest(step) => Some(step),
        step => source(case, case.stage(step.inputs().last()?)?),
    }
}
