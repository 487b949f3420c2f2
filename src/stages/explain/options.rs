//! The options of the explain stage.

use crate::pipeline::FilePath;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Says what a model makes of its features: permutation importance, partial dependence, Sobol indices, sensitivities.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Explain {
    /// A train stage, or, with a slash, the directory of a published model.
    pub model: String,
    /// That directory, once it is known where the pipeline file is.
    #[serde(skip)]
    pub published: Option<FilePath>,
    /// The model's split stage (its test rows), or an ingest stage (all its rows).
    pub input: String,
    /// Features to explain: names or patterns. Default: all of the model's.
    pub features: Option<Vec<String>>,
    /// Rows that are looked at, drawn at random where there are more.
    #[schemars(range(min = 2, max = 100_000))]
    #[serde(default = "rows")]
    pub rows: u32,
    /// Permutations of each feature, for permutation importance; 0: none.
    #[schemars(range(min = 0, max = 1000))]
    #[serde(default = "repeats")]
    pub repeats: u32,
    /// Places along each feature at which partial dependence is computed; 0: none.
    #[schemars(range(min = 0, max = 1000))]
    #[serde(default = "grid")]
    pub grid: u32,
    /// Rows whose individual curves are kept beside their mean.
    #[schemars(range(min = 0, max = 10_000))]
    #[serde(default = "curves")]
    pub curves: u32,
    /// Pairs of rows that Sobol indices are estimated from; 0: none.
    #[schemars(range(min = 0, max = 1_000_000))]
    #[serde(default = "samples")]
    pub samples: u32,
    /// Rows at which sensitivities are computed; 0: none.
    #[schemars(range(min = 0, max = 100_000))]
    #[serde(default = "sensitivities")]
    pub sensitivities: u32,
    /// false: of the global model alone, without its local layer.
    #[serde(default = "yes")]
    pub local: bool,
}

const fn rows() -> u32 {
    200
}

const fn repeats() -> u32 {
    5
}

const fn grid() -> u32 {
    12
}

const fn curves() -> u32 {
    20
}

const fn samples() -> u32 {
    1000
}

const fn sensitivities() -> u32 {
    50
}

const fn yes() -> bool {
    true
}

/// What counts in the key.
#[derive(Serialize)]
pub(super) struct CountedOptions<'a> {
    features: &'a Option<Vec<String>>,
    rows: u32,
    repeats: u32,
    grid: u32,
    curves: u32,
    samples: u32,
    sensitivities: u32,
    local: bool,
}

impl Explain {
    pub(super) fn counted(&self) -> CountedOptions<'_> {
        let Self { features, rows, repeats, grid, curves, samples, sensitivities, local, .. } = self;
        let (rows, repeats, grid, curves) = (*rows, *repeats, *grid, *curves);
        let (samples, sensitivities, local) = (*samples, *sensitivities, *local);
        CountedOptions { features, rows, repeats, grid, curves, samples, sensitivities, local }
    }

    /// How many rows a model with so many features has to predict, when there are so many.
    pub(super) fn predictions(&self, available: f64, features: f64) -> f64 {
        let rows = f64::from(self.rows).min(available);
        let sensitive = f64::from(self.sensitivities).min(rows);
        let of_features = f64::from(self.repeats) * rows + f64::from(self.grid) * rows + f64::from(self.samples);
        features * (of_features + 4.0 * sensitive) + rows + 2.0 * f64::from(self.samples)
    }
}
