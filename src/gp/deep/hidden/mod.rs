//! Hidden layers of one particle: from whitened variables ξ to the inputs of the top layer, and back with derivatives.
//!
//! | kind | a layer at its anchors A | at other rows |
//! |---|---|---|
//! | `full` | mean + L ξ, A = all training rows | – |
//! | `sparse` | mean + L ξ, A = the inducing points | stationary regression on the values at A |
//! | `aca` | mean + K_AA L⁻ᵀξ, A = the pivots | mean + K_·A L⁻ᵀξ |
//!
//! with L Lᵀ = K_AA + jitter, the layer's covariance at the anchors. Bottom layers are stationary: their K and L stay
//! the same as long as the anchors do. With the injective architecture everything passes through the knots of the map
//! g, and rows only interpolate it.

mod anchors;
mod cross;
mod linear;
mod nodes;
mod rows;

use std::sync::{Arc, OnceLock};

use ndarray::{Array1, Array2, ArrayView2};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::design::Design;
use super::options::{Architecture, may_be_null};
use crate::gp::GpError;
use crate::gp::kernel::Hyper;
use crate::gp::linalg::add_all;
use crate::gp::linalg::panels::PanelRows;
use anchors::Layer;

pub(super) use anchors::Anchors;
pub use cross::CrossOptions;
pub(super) use linear::Linear;
pub(super) use nodes::{back_to_sites, stationary};
pub(super) use rows::{Rows, TrainingRows};

use super::knots;
use super::warped::{Slopes, Warped};

/// How hidden layers are represented.
// Serde cannot refuse unknown options beside flattened ones; the schema does.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Hidden", deny_unknown_fields, transform = may_be_null)]
pub struct HiddenOptions {
    /// The representation. Default: aca; full for `deep_gp`.
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
    /// Refuses what cannot be.
    pub(super) fn check(&self) -> Result<(), GpError> {
        if self.method == HiddenMethod::Aca && self.cross.rank == 0 {
            return Err(GpError::value("the rank must be positive"));
        }
        Ok(())
    }
}

/// How hidden layers follow from ξ: fixed during an E step, the same for all particles.
#[derive(Debug, Clone)]
pub(super) struct Hidden {
    pub anchors: Anchors,
    kind: Kind,
    /// What links rows (or knots) to the anchors, `[n, r]` or `[T, r]`: bottom covariances or interpolation weights.
    basis: Array2<f64>,
    /// The same once more, for [`Linear`]; not made unless it is asked for.
    basis_in_panels: OnceLock<PanelRows>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Full,
    Sparse,
    Cross,
}

/// Hidden layers of one particle, at the anchors and (injective) at the knots.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    pub layers: Vec<Layer>,
    /// `sparse`: the values of the last layer above its mean, at the anchors, `[r, D]`.
    spread: Array2<f64>,
}

/// Hidden layers at a tile of rows.
pub(super) struct Tile {
    /// Inputs of the top layer, `[b, D]`.
    pub inputs: Array2<f64>,
    /// What going back needs of every layer but the bottom one.
    steps: Vec<Step>,
}

struct Step {
    /// Values of the layer below, `[b, D]`.
    below: Array2<f64>,
    sites: Warped,
    /// Covariances with the anchors, `[b, r]`.
    k: Array2<f64>,
    slopes: Slopes,
}

/// Derivatives on their way back, summed over rows.
#[derive(Debug, Clone)]
pub(super) struct Bars {
    /// By the weights L⁻ᵀξ of each layer, `[r, D]`; `aca`.
    weights: Vec<Array2<f64>>,
    /// By what the layers' covariances know of the anchors, `[r, D]`; `aca`.
    sites: Vec<Array2<f64>>,
    /// By the values of the last layer at the anchors, `[r, D]` (`full`, `sparse`), or by g at the knots, `[T, 1]`.
    last: Array2<f64>,
}

impl Bars {
    /// Adds those of other rows.
    pub fn add(&mut self, other: &Self) {
        let pairs = self.weights.iter_mut().zip(&other.weights).chain(self.sites.iter_mut().zip(&other.sites));
        pairs.for_each(|(total, part)| add_all(total, part));
        add_all(&mut self.last, &other.last);
    }

    /// How many numbers it holds.
    pub fn size(&self) -> usize {
        self.weights.iter().chain(&self.sites).map(Array2::len).sum::<usize>() + self.last.len()
    }
}

impl Hidden {
    fn new(anchors: Anchors, kind: Kind, basis: Array2<f64>) -> Self {
        Self { anchors, kind, basis, basis_in_panels: OnceLock::new() }
    }

    /// At all training rows; jitter is that of unit variance.
    pub fn full(design: &Design, rows: &TrainingRows, jitter: f64) -> Result<Self, GpError> {
        let anchors = Anchors::new(design, rows, &(0..rows.len()).collect::<Vec<_>>(), jitter)?;
        let mut basis = Array2::zeros((rows.knots.len(), if rows.knots.is_empty() { 0 } else { rows.len() }));
        for (k, row) in rows.knots.iter().enumerate() {
            basis[[k, *row]] = 1.0;
        }
        Ok(Self::new(anchors, Kind::Full, basis))
    }

    /// By cross approximation at the training rows `pivots`.
    pub fn cross(design: &Design, rows: &TrainingRows, pivots: &[usize], jitter: f64) -> Result<Self, GpError> {
        let anchors = Anchors::new(design, rows, pivots, jitter)?;
        let places = if rows.knots.is_empty() { rows.x.view() } else { rows.knot_x.view() };
        let basis = cross::bottom_covariances(design, places, &anchors)?;
        Ok(Self::new(anchors, Kind::Cross, basis))
    }

    /// At the inducing points, interpolated by stationary regression with `start`.
    pub fn sparse(
        design: &Design,
        rows: &TrainingRows,
        inducing: &[usize],
        start: &Hyper,
        jitter: f64,
    ) -> Result<Self, GpError> {
        let anchors = Anchors::new(design, rows, inducing, jitter)?;
        let basis = nodes::interpolation(design, rows, inducing, start)?;
        Ok(Self::new(anchors, Kind::Sparse, basis))
    }

    /// Whether hidden variables live at the inducing points, and move with them.
    pub fn follows_inducing(&self) -> bool {
        self.kind == Kind::Sparse
    }

    /// Training rows `first..end`, as [`Hidden::forward`] takes them.
    pub fn range<'a>(&'a self, rows: &'a TrainingRows, first: usize, end: usize) -> Rows<'a> {
        Rows::range(rows, self.basis.view(), first, end)
    }

    /// Some training rows, as [`Hidden::forward`] takes them.
    pub fn list<'a>(&'a self, rows: &'a TrainingRows, list: &[usize]) -> Rows<'a> {
        Rows::list(rows, self.basis.view(), list)
    }

    /// All layers at the anchors, from white: one `[r, D]` per layer.
    pub fn prepare(&self, design: &Design, white: &[Array2<f64>]) -> Result<Prepared, GpError> {
        self.prepare_from(design, white, None)
    }

    /// The same when it is known for a white that differs in one layer only: that layer keeps its covariance, and
    /// those below stay what they are.
    pub fn prepare_from(
        &self,
        design: &Design,
        white: &[Array2<f64>],
        known: Option<(&Prepared, usize)>,
    ) -> Result<Prepared, GpError> {
        self.check(design, white)?;
        let mut layers: Vec<Layer> = known.map_or_else(Vec::new, |(known, changed)| known.layers[..changed].to_vec());
        for (index, white) in white.iter().enumerate().skip(layers.len()) {
            let factored = match known {
                Some((known, changed)) if changed == index => Arc::clone(&known.layers[index].factored),
                _ => self.anchors.factored(design, layers.last())?,
            };
            let layer = match self.kind {
                Kind::Cross => cross::layer(self, design, layers.last(), factored, white)?,
                Kind::Full | Kind::Sparse => nodes::layer(self, design, layers.last(), factored, white)?,
            };
            layers.push(layer);
        }
        let spread = match (self.kind, layers.last()) {
            (Kind::Sparse, Some(last)) => &last.values - &design.mean(self.anchors.start.view()),
            _ => Array2::zeros((0, 0)),
        };
        Ok(Prepared { layers, spread })
    }

    fn check(&self, design: &Design, white: &[Array2<f64>]) -> Result<(), GpError> {
        let expected = (self.anchors.rows.len(), design.width());
        if white.len() != design.layers || white.iter().any(|white| white.dim() != expected) {
            return Err(GpError::shape(format!("hidden variables of {} layers of {expected:?}", design.layers)));
        }
        Ok(())
    }

    /// ξ such that the layers have these values: `[r, D]` each at the anchors, bottom layer first.
    pub fn whiten(&self, design: &Design, values: &[Array2<f64>]) -> Result<Vec<Array2<f64>>, GpError> {
        self.check(design, values)?;
        let (mut layers, mut all): (Vec<Layer>, Vec<Array2<f64>>) = (Vec::new(), Vec::new());
        for values in values {
            let factored = self.anchors.factored(design, layers.last())?;
            let mut white = values - &self.mean_at_anchors(design, layers.last());
            factored.lower.solve_lower(white.view_mut())?;
            let layer = match self.kind {
                Kind::Cross => cross::layer(self, design, layers.last(), factored, &white)?,
                Kind::Full | Kind::Sparse => nodes::layer(self, design, layers.last(), factored, &white)?,
            };
            layers.push(layer);
            all.push(white);
        }
        Ok(all)
    }

    fn mean_at_anchors(&self, design: &Design, below: Option<&Layer>) -> Array2<f64> {
        design.mean(below.map_or(self.anchors.start.view(), |layer| layer.values.view()))
    }

    /// The inputs of the top layer at some rows; `keep` what going back needs.
    pub fn forward(&self, design: &Design, prepared: &Prepared, rows: &Rows<'_>, keep: bool) -> Result<Tile, GpError> {
        if let Some(map) = prepared.layers.last().and_then(|layer| layer.map.as_ref()) {
            let inputs = knots::values(&rows.spots, &map.g, map.ends);
            return Ok(Tile { inputs, steps: Vec::new() });
        }
        match self.kind {
            Kind::Cross => cross::forward(design, prepared, rows, keep),
            Kind::Full | Kind::Sparse => nodes::forward(self, design, prepared, rows),
        }
    }

    /// The inputs of the top layer at all training rows, where they are linear in ξ and the top covariance is stationary
    /// in them with the correlation `length`.
    pub fn linear<'a>(
        &'a self,
        design: &'a Design,
        rows: &'a TrainingRows,
        prepared: &Prepared,
        length: f64,
    ) -> Option<Linear<'a>> {
        if design.architecture != Architecture::Composition {
            return None;
        }
        let weights = match (self.kind, &prepared.layers[..]) {
            (Kind::Cross, [bottom]) => &bottom.weights,
            (Kind::Sparse, _) => &prepared.spread,
            _ => return None,
        };
        // Particles on other threads wait for it: nothing in there may wait for them.
        let basis = self.basis_in_panels.get_or_init(|| PanelRows::new(self.basis()));
        Some(Linear::new(design, rows, basis, weights.view(), length))
    }

    /// The values of all layers at some training rows, `[b, D]` each, bottom layer first.
    pub fn values(&self, design: &Design, prepared: &Prepared, rows: &Rows<'_>) -> Result<Vec<Array2<f64>>, GpError> {
        match self.kind {
            Kind::Cross => cross::values(self, design, prepared, rows),
            Kind::Full | Kind::Sparse => nodes::values(self, design, prepared, rows),
        }
    }

    /// Derivatives of nothing.
    pub fn bars(&self, design: &Design) -> Bars {
        let (r, width) = (self.anchors.rows.len(), design.width());
        let knots = design.knots.as_ref().map_or(0, |knots| knots.at.len());
        let (layers, last) = match (self.kind, knots) {
            (Kind::Cross, 0) => (design.layers, (0, 0)),
            (_, 0) => (0, (r, width)),
            (_, knots) => (0, (knots, 1)),
        };
        let zeros = || (0..layers).map(|_| Array2::zeros((r, width))).collect();
        Bars { weights: zeros(), sites: zeros(), last: Array2::zeros(last) }
    }

    /// Derivatives of rows that are [`Linear`], by its weights: `[r, D]`.
    pub fn linear_bars(&self, design: &Design, by_weights: Array2<f64>) -> Bars {
        let mut bars = self.bars(design);
        match bars.weights.first_mut() {
            Some(bottom) => *bottom = by_weights,
            None => bars.last = by_weights,
        }
        bars
    }

    /// Adds what rows whose derivative by the inputs of the top layer is bar: `[b, D]` mean for ξ.
    pub fn backward(
        &self,
        design: &Design,
        prepared: &Prepared,
        rows: &Rows<'_>,
        tile: &Tile,
        bar: Array2<f64>,
        bars: &mut Bars,
    ) -> Result<(), GpError> {
        if design.knots.is_some() {
            if let Some(to) = bars.last.as_slice_mut() {
                rows.spots.iter().zip(&bar).for_each(|(spot, bar)| spot.value_back(*bar, to));
            }
            return Ok(());
        }
        match self.kind {
            Kind::Cross => cross::backward(design, prepared, rows, tile, bar, bars),
            Kind::Full | Kind::Sparse => nodes::backward(self, rows, &bar, bars),
        }
    }

    /// Derivatives by ξ, one `[r, D]` per layer.
    pub fn gradient(
        &self,
        design: &Design,
        prepared: &Prepared,
        white: &[Array2<f64>],
        bars: Bars,
    ) -> Result<Vec<Array2<f64>>, GpError> {
        match (self.kind, design.knots.is_some()) {
            (Kind::Cross, false) => cross::gradient(design, prepared, bars),
            (Kind::Cross, true) => cross::gradient_through_knots(self, design, prepared, bars),
            (Kind::Full | Kind::Sparse, _) => nodes::gradient(self, design, prepared, white, bars),
        }
    }

    /// The weights L⁻ᵀξ with which a layer goes on to new rows, `[r, D]`.
    pub fn weights(&self, layer: &Layer, white: &Array2<f64>) -> Result<Array2<f64>, GpError> {
        if self.kind == Kind::Cross {
            return Ok(layer.weights.clone());
        }
        let mut weights = white.clone();
        layer.factored.lower.solve_lower_transposed(weights.view_mut())?;
        Ok(weights)
    }

    fn basis(&self) -> ArrayView2<'_, f64> {
        self.basis.view()
    }
}

/// The map g of one layer (injective).
#[derive(Debug, Clone)]
pub(super) struct Map {
    /// u at the knots, `[T]`.
    pub u: Array1<f64>,
    /// g at the knots, `[T]`.
    pub g: Vec<f64>,
    /// Slopes of g at both ends.
    pub ends: (f64, f64),
}

impl Map {
    fn new(design: &Design, u: Array2<f64>) -> Option<Self> {
        let knots = design.knots.as_ref()?;
        let u = u.into_iter().collect::<Array1<f64>>();
        Some(Self { g: knots.integrate(u.view()), ends: knots.ends(u.view()), u })
    }

    /// The derivative by u at the knots, `[T, 1]`, of something whose derivative by g there is bar: `[T]`.
    fn back(&self, design: &Design, bar: &[f64]) -> Array2<f64> {
        let back = design.knots.as_ref().map_or_else(Vec::new, |knots| knots.integrate_back(self.u.view(), bar));
        let rows = back.len();
        Array2::from_shape_vec((rows, 1), back).unwrap_or_else(|_| Array2::zeros((rows, 1)))
    }
}
