//! Estimated peak memory of training.

use super::options::{Method, Train};
use crate::gp::deep::Architecture;

/// Tiles of the sparse methods.
const TILES: u64 = 256 << 20;
/// Parts in which derivatives by places are summed, and their sum.
const PARTS: u64 = 5;

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
        Method::SparseGp => 3 * data + TILES + local(train, rows, features),
        Method::DeepGp => 3 * data + dense + chains(),
        Method::Stride => {
            3 * data
                + TILES
                + hidden.shared_bytes(rows, features, points)
                + chains()
                + local(train, rows, features)
                + neighbours(train, rows, features)
        }
    }
}

/// The local layer: for every draw of every chain the kept rows as it sees them, the index of them, which holds them twice,
/// and their residuals.
fn local(train: &Train, rows: u64, features: u64) -> u64 {
    let options = train.local().or_else(|| train.top.map(|_| train.predictions()));
    let Some(options) = options else { return 0 };
    let kept = options.rows.map_or(rows, |kept| rows.min(u64::from(kept)));
    let draws = if train.method == Method::SparseGp {
        1
    } else {
        u64::from(train.em.particles) * u64::from(train.em.draws.max(1))
    };
    let numbers = draws.saturating_mul(3 * coordinates(train, features) + 3).saturating_add(features);
    kept.saturating_mul(8).saturating_mul(numbers)
}

/// Neighbours in training: the lists of every chain, and derivatives by the places of rows, which are summed in parts.
fn neighbours(train: &Train, rows: u64, features: u64) -> u64 {
    let Some(top) = &train.top else { return 0 };
    let lists = 4 * (u64::from(top.neighbours) + 1) * u64::from(train.em.particles);
    rows.saturating_mul(lists + 8 * PARTS * coordinates(train, features))
}

/// Coordinates of the places at which the top layer sees a row.
fn coordinates(train: &Train, features: u64) -> u64 {
    match train.deep.architecture {
        _ if train.method == Method::SparseGp => features,
        Architecture::Composition => outputs(train, features),
        Architecture::Convolution => features,
        Architecture::Injective => 1,
    }
}

/// Outputs of a hidden layer.
fn outputs(train: &Train, features: u64) -> u64 {
    match train.deep.architecture {
        Architecture::Composition => train.deep.width.map_or(features, u64::from),
        Architecture::Convolution | Architecture::Injective => 1,
    }
}

/// Hidden values of all chains at all rows, which the M step needs at once, and the earlier states that are kept, which are
/// coordinates at the anchors of a hidden layer.
fn chains(train: &Train, (rows, anchors): (u64, u64), features: u64) -> u64 {
    let (deep, em) = (&train.deep, &train.em);
    let hidden_layers = u64::from(deep.layers.saturating_sub(1));
    let numbers = rows.saturating_add(anchors.saturating_mul(u64::from(em.draws.saturating_sub(1))));
    numbers
        .saturating_mul(8 * outputs(train, features))
        .saturating_mul(hidden_layers)
        .saturating_mul(u64::from(em.particles))
}
