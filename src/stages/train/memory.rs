//! Estimated peak memory of training.

use super::language::Architecture;
use super::step_deep::{EmStep, HiddenStep, LayersStep};
use super::step_train::{InducingStep, Method};

/// Tiles of the sparse methods.
const TILES: u64 = 256 << 20;

/// Estimated peak memory of training, in bytes.
pub fn training(method: &Method, rows: u64, features: u64) -> u64 {
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
