//! Estimated peak memory of training.

use super::options::{Method, Train};
use crate::gp::deep::Architecture;

/// Tiles of the sparse methods.
const TILES: u64 = 256 << 20;

/// Estimated peak memory of training, in bytes.
pub fn training(train: &Train, rows: u64, features: u64) -> u64 {
    let data = 8 * rows * (features + 2);
    // The exact process holds a few n × n matrices while it fits.
    let dense = 4 * 8 * rows * rows;
    let points = train.inducing.rows.as_ref().map_or(u64::from(train.inducing.count), |rows| rows.len() as u64);
    let hidden = &train.deep.hidden;
    let chains = || chains(train, (rows, hidden.anchor_count(rows, points)), features);
    match train.method {
        Method::Mean => data,
        // The rows again, on the training scale.
        Method::Ridge => 2 * data + 8 * 4 * features * features,
        // And turned, in the index.
        Method::Knn => 4 * data,
        Method::Gp => data + dense,
        // Scaled copies of the rows, and tiles.
        Method::SparseGp => 3 * data + TILES,
        Method::DeepGp => 3 * data + dense + chains(),
        Method::Stride => 3 * data + TILES + hidden.shared_bytes(rows, features, points) + chains(),
    }
}

/// Hidden values of all chains at all rows, which the M step needs at once, and the earlier states that are kept, which are
/// coordinates at the anchors of a hidden layer.
fn chains(train: &Train, (rows, anchors): (u64, u64), features: u64) -> u64 {
    let (deep, em) = (&train.deep, &train.em);
    let outputs = match deep.architecture {
        Architecture::Composition => deep.width.map_or(features, u64::from),
        Architecture::Convolution | Architecture::Injective => 1,
    };
    let hidden_layers = u64::from(deep.layers.saturating_sub(1));
    let numbers = rows.saturating_add(anchors.saturating_mul(u64::from(em.draws.saturating_sub(1))));
    numbers.saturating_mul(8 * outputs).saturating_mul(hidden_layers).saturating_mul(u64::from(em.particles))
}
