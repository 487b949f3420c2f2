//! What can be asked of the baselines: the one declaration of these options.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Regression by nearest neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Knn")]
pub struct KnnOptions {
    /// Nearest training rows whose targets are averaged; null: the best of 1 to 50 by leave-one-out error.
    #[schemars(range(min = 1, max = 1000))]
    pub neighbours: Option<u32>,
}
