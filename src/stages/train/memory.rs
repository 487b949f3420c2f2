//! Estimated peak memory of training, and what is computed again where there is less.

use super::options::{Method, Train};
use crate::gp::deep::{Architecture, Kept, Repeatable};
use crate::stages::Footprint;

/// The program itself, and tiles on their way.
const PROGRAM: u64 = 48 << 20;
/// Sums over rows that wait for their turn: so many, and so many numbers in all.
const SUMS: u64 = 32;
const MOST_SUMS: u64 = 1 << 24;
/// Parts in which derivatives by places are summed, and their sum.
const PARTS: u64 = 5;

/// What training takes, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct TrainingMemory {
    /// In any case.
    least: u64,
    /// What can be held or computed again.
    repeatable: Repeatable,
}

impl TrainingMemory {
    /// For so many rows and features.
    pub fn new(train: &Train, rows: u64, features: u64) -> Self {
        let (layers, em, points) = (&train.deep, &train.em, points(train));
        let by_points = train.top.is_none();
        let repeatable = if train.method == Method::Stride {
            Repeatable::new((layers, em), by_points, (rows, features), points)
        } else {
            Repeatable::default()
        };
        Self { least: least(train, rows, features), repeatable }
    }

    /// What is left for that which can be computed again, of so many bytes in all.
    pub fn left(self, memory: u64) -> u64 {
        memory.saturating_sub(self.least)
    }

    fn kept(self, memory: u64) -> Kept {
        self.repeatable.keep(self.left(memory))
    }
}

/// The peak of training with at most so much memory.
pub fn training(train: &Train, (rows, features): (u64, u64), memory: u64) -> Footprint {
    let needs = TrainingMemory::new(train, rows, features);
    let kept = needs.kept(memory);
    let again = match (kept.basis, kept.inputs) {
        (true, true) => None,
        (true, false) => Some("hidden values in M steps are computed again"),
        (false, true) => Some("the basis of hidden layers is computed again"),
        (false, false) => Some("the basis of hidden layers and hidden values are computed again"),
    };
    let advice = (needs.least > memory).then(|| advice(train, (rows, features), memory));
    Footprint { bytes: needs.least.saturating_add(needs.repeatable.bytes(kept)), again, advice }
}

/// What would fit where this does not.
fn advice(train: &Train, (rows, features): (u64, u64), memory: u64) -> String {
    let (mut fit, mut most) = (0, rows);
    while fit + 1 < most {
        let middle = u64::midpoint(fit, most);
        if least(train, middle, features) <= memory { fit = middle } else { most = middle }
    }
    let other = match train.method {
        Method::Gp => "use `method: sparse_gp` or `stride`, ",
        Method::DeepGp => "use `method: stride`, ",
        Method::Stride if train.deep.hidden.anchors_all_rows() => "use `hidden: aca`, ",
        Method::Stride | Method::SparseGp if local(train, rows, features) > 0 => {
            "keep fewer rows for the local layer (`local: { rows: 100000 }`, or `local: false`), "
        }
        _ => "",
    };
    format!("{other}train on at most {fit} rows, or allow more with `--memory` if the machine has it")
}

/// Inducing points.
fn points(train: &Train) -> u64 {
    train.inducing.rows.as_ref().map_or(u64::from(train.inducing.count), |rows| rows.len() as u64)
}

/// What training takes in any case, in bytes.
fn least(train: &Train, rows: u64, features: u64) -> u64 {
    let data = 8 * rows * (features + 2);
    // The exact process holds a few n × n matrices while it fits.
    let dense = rows.saturating_mul(rows).saturating_mul(4 * 8);
    let hidden = &train.deep.hidden;
    let anchors = hidden.anchor_count(rows, points(train));
    let fit = match train.method {
        Method::Mean => data,
        // The rows again, on the training scale.
        Method::Ridge => 2 * data + 8 * 4 * features * features,
        // And turned, in the index.
        Method::Knn => 4 * data,
        Method::Gp => data.saturating_add(dense),
        // Scaled copies of the rows, and tiles.
        Method::SparseGp => 3 * data + sums(train) + local(train, rows, features),
        Method::DeepGp => {
            (3 * data).saturating_add(dense).saturating_add(chains(train, rows + kept(train, anchors), features))
        }
        Method::Stride => {
            // With inducing points, hidden values at all rows can be computed again.
            let values = if train.top.is_none() { 0 } else { rows };
            let square = if hidden.anchors_all_rows() { dense } else { 0 };
            (3 * data + sums(train))
                .saturating_add(square)
                .saturating_add(chains(train, values + kept(train, anchors), features))
                .saturating_add(local(train, rows, features))
                .saturating_add(neighbours(train, rows, features))
        }
    };
    fit.saturating_add(PROGRAM)
}

/// Sums of products of inducing points, with derivatives, that wait for their turn.
fn sums(train: &Train) -> u64 {
    let points = points(train);
    8 * SUMS.saturating_mul(2 * points * points).min(MOST_SUMS)
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
        u64::from(train.em.particles) * u64::from(train.em.draws().max(1))
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

/// Coordinates of the earlier states that are kept, which are those at the anchors of a hidden layer.
fn kept(train: &Train, anchors: u64) -> u64 {
    anchors.saturating_mul(u64::from(train.em.draws().saturating_sub(1)))
}

/// So many values of every hidden layer of every chain.
fn chains(train: &Train, values: u64, features: u64) -> u64 {
    let hidden_layers = u64::from(train.deep.layers.saturating_sub(1));
    values
        .saturating_mul(8 * outputs(train, features))
        .saturating_mul(hidden_layers)
        .saturating_mul(u64::from(train.em.particles))
}
