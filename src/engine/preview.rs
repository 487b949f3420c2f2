//! What can be said of a plan's data before anything runs: rows and memory.

use crate::plan::{
    Architecture, Case, EmStep, HiddenStep, InducingStep, IngestStep, LayersStep, Method, Preview, Stage, Step,
};
use crate::stages::{StageError, ingest};

/// Rows and estimated memory of a stage; nothing where the input cannot be looked at yet.
pub fn preview(case: &Case, stage: &Stage) -> Result<Preview, StageError> {
    let Some(source) = source(case, stage) else { return Ok(Preview::default()) };
    let schema = ingest::look(source)?;
    let rows = schema.rows();
    let features = schema.resolve(&ingest::selection(source))?.features.len() as u64;
    let data = 8 * rows * (features + 2);
    let memory = match &stage.step {
        // Chunks on their way, whatever the number of rows.
        Step::Ingest(ingest) if ingest.streams => Some(data.min(CHUNKS)),
        Step::Ingest(_) => Some(data),
        Step::Train(train) => Some(training(&train.method, rows, features)),
        _ => None,
    };
    Ok(Preview { rows: Some(rows), memory, ..Preview::default() })
}

/// Rows that are being scored.
const CHUNKS: u64 = 256 << 20;

/// Tiles of the sparse methods.
const TILES: u64 = 256 << 20;

/// Estimated peak memory of training, in bytes.
fn training(method: &Method, rows: u64, features: u64) -> u64 {
    let data = 8 * rows * (features + 2);
    // The exact process holds a few n × n matrices while it fits.
    let dense = 4 * 8 * rows * rows;
    match method {
        Method::Gp(_) => data + dense,
        // Scaled copies of the rows, and tiles.
        Method::SparseGp(_) => 3 * data + TILES,
        Method::DeepGp(step) => {
            let columns = match step.deep.hidden {
                HiddenStep::Aca { rank, .. } => u64::from(rank).min(rows),
                HiddenStep::Full | HiddenStep::Sparse => rows,
            };
            3 * data + dense + chains(&step.deep, &step.em, (rows, columns), features)
        }
        Method::Stride(step) => {
            let (columns, layers) = match step.deep.hidden {
                HiddenStep::Full => (rows, dense),
                HiddenStep::Aca { rank, .. } => (u64::from(rank), 8 * rows * (features + u64::from(rank))),
                HiddenStep::Sparse => {
                    let points = points(&step.inducing);
                    (points, 8 * rows * (features + points))
                }
            };
            3 * data + TILES + layers + chains(&step.deep, &step.em, (rows, columns.min(rows)), features)
        }
    }
}

/// Hidden values of all chains at all rows, which the M step needs at once, and the earlier states that are kept, which are
/// coordinates in the columns of a hidden layer's basis.
fn chains(deep: &LayersStep, em: &EmStep, (rows, columns): (u64, u64), features: u64) -> u64 {
    let outputs = match deep.architecture {
        Architecture::Composition => deep.width.map_or(features, u64::from),
        Architecture::Convolution | Architecture::Injective => 1,
    };
    let hidden_layers = u64::from(deep.layers.saturating_sub(1));
    let numbers = rows.saturating_add(columns.saturating_mul(u64::from(em.draws.saturating_sub(1))));
    numbers.saturating_mul(8 * outputs).saturating_mul(hidden_layers).saturating_mul(u64::from(em.particles))
}

const fn points(inducing: &InducingStep) -> u64 {
    match inducing {
        InducingStep::Chosen { count, .. } => *count as u64,
        InducingStep::Given { rows } => rows.len() as u64,
    }
}

/// The ingest stage whose rows a stage works on.
fn source<'a>(case: &'a Case, stage: &'a Stage) -> Option<&'a IngestStep> {
    match &stage.step {
        Step::Ingest(step) => Some(step),
        step => source(case, case.stage(step.inputs().last()?)?),
    }
}
