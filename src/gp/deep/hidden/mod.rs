//! Hidden layers of one particle: from whitened variables ξ to the inputs of the top layer, and back with derivatives.
//!
//! | representation | a layer at its anchors A | at other rows |
//! |---|---|---|
//! | `full` | mean + L ξ, A = all training rows | – |
//! | `sparse` | mean + L ξ, A = the inducing points | stationary regression on the values at A |
//! | `aca` | mean + K_AA L⁻ᵀξ, A = the pivots | mean + K_·A L⁻ᵀξ |
//!
//! with L Lᵀ = K_AA + jitter, the layer's covariance at the anchors. Bottom layers are stationary: their K and L stay
//! the same as long as the anchors do. With the injective architecture everything passes through the knots of the map
//! g, and rows only interpolate it.
//!
//! A representation is one file that implements [`Representation`], and its place in [`HiddenMethod`]. What all of them
//! share is in `layers`.

mod adjoints;
mod anchors;
mod basis;
mod cross;
mod full;
mod layers;
mod linear;
mod map;
mod nodes;
mod refit;
mod rows;
mod sparse;

use std::fmt::Debug;
use std::sync::Arc;

use ndarray::Array2;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::design::Design;
use crate::gp::GpError;
use crate::gp::kernel::Hyper;
use anchors::{Anchors, Factored, Layer};
use basis::BasisAt;

pub(super) use adjoints::{Adjoints, back_to_sites};
pub use cross::CrossOptions;
pub(super) use layers::{HiddenLayers, LayersAtRows, Prepared};
pub(super) use linear::Linear;
pub(super) use map::MonotoneMap;
pub(super) use rows::{ListedRows, SomeRows, TrainingRows};

/// How hidden layers are represented.
// Serde cannot refuse unknown options beside flattened ones; the schema does.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Hidden", deny_unknown_fields)]
pub struct HiddenOptions {
    /// The representation; `full` for `deep_gp` if nothing is written.
    pub method: HiddenMethod,
    /// Of `aca`.
    #[serde(flatten)]
    pub cross: CrossOptions,
}

/// The representation of hidden layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HiddenMethod {
    /// At all rows.
    Full,
    /// Adaptive cross approximation.
    #[default]
    Aca,
    /// At the inducing points.
    Sparse,
}

// Only the options of the method that is used count.
impl Serialize for HiddenOptions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.method {
            HiddenMethod::Aca => serializer.collect_map([(self.method, &self.cross)]),
            HiddenMethod::Full | HiddenMethod::Sparse => self.method.serialize(serializer),
        }
    }
}

impl From<HiddenMethod> for HiddenOptions {
    fn from(method: HiddenMethod) -> Self {
        Self { method, ..Self::default() }
    }
}

impl From<CrossOptions> for HiddenOptions {
    fn from(cross: CrossOptions) -> Self {
        Self { method: HiddenMethod::Aca, cross }
    }
}

impl HiddenOptions {
    /// Anchors of a hidden layer, for so many rows and inducing points.
    pub fn anchor_count(&self, rows: u64, inducing: u64) -> u64 {
        self.representation().anchor_count(rows, inducing).min(rows)
    }

    /// Whether every row is an anchor.
    pub fn anchors_all_rows(&self) -> bool {
        self.method == HiddenMethod::Full
    }

    pub(super) fn representation(&self) -> Arc<dyn Representation> {
        match self.method {
            HiddenMethod::Full => Arc::new(full::Full),
            HiddenMethod::Aca => Arc::new(self.cross),
            HiddenMethod::Sparse => Arc::new(sparse::Sparse),
        }
    }
}

/// A way to represent hidden layers: what is sampled, and how it reaches all rows.
///
/// Rows of the injective architecture go by the map of the last layer, whatever the representation.
pub(super) trait Representation: Debug + Send + Sync {
    /// Rejects options that make no sense.
    fn check(&self) -> Result<(), GpError> {
        Ok(())
    }
    /// The options of the cross approximation, where layers are anchored at pivots.
    fn cross(&self) -> Option<&CrossOptions> {
        None
    }
    /// Whether hidden variables live at the inducing points, and move with them.
    fn follows_inducing(&self) -> bool {
        false
    }
    /// The training rows, of n, at which layers are anchored, given those that are inducing points and pivots.
    fn anchor_rows(&self, n: usize, inducing: &[usize], pivots: &[usize]) -> Vec<usize>;
    /// How many anchors there are for so many rows and inducing points, before anything is known of them.
    fn anchor_count(&self, rows: u64, inducing: u64) -> u64;
    /// What links rows (or knots) to the anchors; `None` where nothing does.
    fn basis(
        &self,
        design: &Design,
        rows: &TrainingRows,
        anchors: &Anchors,
        start: &Hyper,
    ) -> Result<Option<Box<dyn BasisAt>>, GpError>;
    /// One layer at its anchors, from xi: `[r, D]`.
    fn layer(
        &self,
        hidden: &HiddenLayers,
        design: &Design,
        below: Option<&Layer>,
        factored: Arc<Factored>,
        xi: &Array2<f64>,
    ) -> Result<Layer, GpError> {
        nodes::layer(hidden, design, below, factored, xi)
    }
    /// The weights: `[r, D]` with which the inputs of the top layer are mean + basis · weights; `None` where they are not
    /// linear.
    fn linear_weights(&self, hidden: &HiddenLayers, design: &Design, layers: &[Layer]) -> Option<Array2<f64>> {
        let _ = (hidden, design, layers);
        None
    }
    /// The inputs of the top layer at some rows; `keep` what going back needs.
    fn forward(
        &self,
        design: &Design,
        prepared: &Prepared,
        rows: &SomeRows<'_>,
        keep: bool,
    ) -> Result<LayersAtRows, GpError>;
    /// The values of all layers at some training rows, `[b, D]` each, bottom layer first.
    fn values(
        &self,
        hidden: &HiddenLayers,
        design: &Design,
        prepared: &Prepared,
        rows: &SomeRows<'_>,
    ) -> Result<Vec<Array2<f64>>, GpError>;
    /// Whether [`Adjoints`] are kept layer by layer, not by the values of the last layer at the anchors.
    fn adjoints_by_layer(&self) -> bool {
        false
    }
    /// Adds what rows whose adjoint by the inputs of the top layer is `[b, D]` mean for ξ.
    fn backward(
        &self,
        design: &Design,
        prepared: &Prepared,
        at: (&SomeRows<'_>, &LayersAtRows),
        adjoint: Array2<f64>,
        adjoints: &mut Adjoints,
    ) -> Result<(), GpError>;
    /// Derivatives by ξ, one `[r, D]` per layer, once all rows have added theirs.
    fn gradient(
        &self,
        hidden: &HiddenLayers,
        design: &Design,
        prepared: &Prepared,
        xi: &[Array2<f64>],
        adjoints: Adjoints,
    ) -> Result<Vec<Array2<f64>>, GpError> {
        nodes::gradient(hidden, design, prepared, xi, adjoints)
    }
    /// What new rows need of one particle, by name; not for the injective architecture.
    fn for_new_rows(
        &self,
        hidden: &HiddenLayers,
        design: &Design,
        (prepared, xi): (&Prepared, &[Array2<f64>]),
        start: &Hyper,
    ) -> Result<Vec<(String, Array2<f64>)>, GpError> {
        let _ = (hidden, design, start);
        let mut numbers = Vec::new();
        for (level, (layer, xi)) in prepared.layers.iter().zip(xi).enumerate() {
            let mut weights = xi.clone();
            layer.factored.lower.solve_lower_transposed(weights.view_mut())?;
            numbers.push((format!("weights.{level}"), weights));
            if level > 0 {
                numbers.push((format!("below.{level}"), prepared.layers[level - 1].inputs.clone()));
            }
        }
        Ok(numbers)
    }
}
