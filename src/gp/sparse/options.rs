//! What a sparse fit can be asked for.

use serde::Serialize;

use super::penalty::Penalty;
use crate::gp::inducing::InducingOptions;
use crate::gp::kernel::StationaryOptions;

/// How to fit a sparse Gaussian process.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SparseOptions {
    #[serde(rename = "gp")]
    pub stationary: StationaryOptions,
    /// The inducing points: fewer than `count` are used when the rows have no more to say; `rows` are positions among the
    /// training rows.
    pub inducing: InducingOptions,
    /// Number of starts tried by the exact fit on a subset.
    #[serde(skip)]
    pub starts: usize,
    /// Number of rows of that subset.
    #[serde(skip)]
    pub subset: usize,
    /// How often points are chosen and hyper-parameters fitted; the best round is kept.
    #[serde(skip)]
    pub rounds: usize,
    /// The form of the bound that is maximised; a deep fit decides it.
    #[serde(skip)]
    pub penalty: Penalty,
}

impl Default for SparseOptions {
    fn default() -> Self {
        let (stationary, inducing) = (StationaryOptions::default(), InducingOptions::default());
        Self { stationary, inducing, starts: 5, subset: 500, rounds: 2, penalty: Penalty::Linear }
    }
}
