//! What all representations of hidden layers share.

use std::ops::Range;
use std::sync::Arc;

use ndarray::{Array2, ArrayView2};

use super::anchors::Layer;
use super::basis::Basis;
use super::{Adjoints, Anchors, Linear, Representation, SomeRows, TrainingRows};
use crate::gp::GpError;
use crate::gp::deep::design::Design;
use crate::gp::deep::options::Architecture;
use crate::gp::deep::warped::{Slopes, Warped};
use crate::gp::kernel::Hyper;
use crate::gp::linalg::{Cholesky, add_gram, gemm_tn, mirror_lower};

/// How hidden layers follow from ξ: fixed during an E step, the same for all particles.
#[derive(Debug, Clone)]
pub(in crate::gp::deep) struct HiddenLayers {
    pub anchors: Anchors,
    pub representation: Arc<dyn Representation>,
    basis: Arc<Basis>,
}

/// Hidden layers of one particle, at the anchors and (injective) at the knots.
#[derive(Debug, Clone)]
pub(in crate::gp::deep) struct Prepared {
    pub layers: Vec<Layer>,
    /// See [`Representation::linear_weights`].
    pub(super) linear_weights: Option<Array2<f64>>,
}

/// Hidden layers at a tile of rows.
pub(in crate::gp::deep) struct LayersAtRows {
    /// Inputs of the top layer, `[b, D]`.
    pub inputs: Array2<f64>,
    /// What going back needs of every layer but the bottom one.
    pub(super) upper: Vec<LayerAtRows>,
}

pub(super) struct LayerAtRows {
    /// Values of the layer below, `[b, D]`.
    pub below: Array2<f64>,
    pub sites: Warped,
    /// Covariances with the anchors, `[b, r]`.
    pub k: Array2<f64>,
    pub slopes: Slopes,
}

impl From<Array2<f64>> for LayersAtRows {
    fn from(inputs: Array2<f64>) -> Self {
        Self { inputs, upper: Vec::new() }
    }
}

impl HiddenLayers {
    /// With the training rows that are inducing points and pivots; jitter is that of unit variance, and what links rows to
    /// them is held in memory or not.
    pub fn new(
        representation: Arc<dyn Representation>,
        design: &Design,
        rows: &TrainingRows,
        (inducing, pivots): (&[usize], &[usize]),
        start: &Hyper,
        (jitter, hold): (f64, bool),
    ) -> Result<Self, GpError> {
        let list = representation.anchor_rows(rows.all(), inducing, pivots);
        let anchors = Anchors::new(design, rows, &list, jitter)?;
        let at = representation.basis(design, rows, &anchors, start)?;
        let basis = Arc::new(Basis::new(at, design, rows, list.len(), hold)?);
        Ok(Self { anchors, representation, basis })
    }

    /// Training rows `first..end` of those that are held, as [`HiddenLayers::forward`] takes them.
    pub fn range<'a>(&self, design: &Design, rows: &'a TrainingRows, range: Range<usize>) -> SomeRows<'a> {
        let basis = self.basis.range(design, rows, range.clone());
        SomeRows::range(rows, basis, range)
    }

    /// Some of all training rows, as [`HiddenLayers::forward`] takes them.
    pub fn list(&self, design: &Design, rows: &TrainingRows, list: &[usize]) -> Result<SomeRows<'static>, GpError> {
        SomeRows::list(rows, self.basis.list(design, rows, list)?, list)
    }

    /// All layers at the anchors, from xi: one `[r, D]` per layer.
    pub fn prepare(&self, design: &Design, xi: &[Array2<f64>]) -> Result<Prepared, GpError> {
        self.prepare_from(design, xi, None)
    }

    /// The same when it is known for a ξ that differs in one layer only: that layer keeps its covariance, and those
    /// below stay what they are.
    pub fn prepare_from(
        &self,
        design: &Design,
        xi: &[Array2<f64>],
        known: Option<(&Prepared, usize)>,
    ) -> Result<Prepared, GpError> {
        self.check(design, xi)?;
        let mut layers: Vec<Layer> = known.map_or_else(Vec::new, |(known, changed)| known.layers[..changed].to_vec());
        for (index, xi) in xi.iter().enumerate().skip(layers.len()) {
            let factored = match known {
                Some((known, changed)) if changed == index => Arc::clone(&known.layers[index].factored),
                _ => self.anchors.factored(design, layers.last())?,
            };
            layers.push(self.representation.layer(self, design, layers.last(), factored, xi)?);
        }
        let linear_weights = self.representation.linear_weights(self, design, &layers);
        Ok(Prepared { layers, linear_weights })
    }

    fn check(&self, design: &Design, xi: &[Array2<f64>]) -> Result<(), GpError> {
        let expected = (self.anchors.rows.len(), design.width());
        if xi.len() != design.layers || xi.iter().any(|xi| xi.dim() != expected) {
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
            let mut xi = values - &self.mean_at_anchors(design, layers.last());
            factored.lower.solve_lower(xi.view_mut())?;
            layers.push(self.representation.layer(self, design, layers.last(), factored, &xi)?);
            all.push(xi);
        }
        Ok(all)
    }

    /// The same where the values need only be met nearly: ξ for which Σ ‖f − values‖²/s² + ‖ξ‖² over the anchors is least,
    /// layer by layer; `ridge` is s².
    pub fn whiten_near(
        &self,
        design: &Design,
        values: &[Array2<f64>],
        ridge: f64,
    ) -> Result<Vec<Array2<f64>>, GpError> {
        if ridge <= 0.0 {
            return self.whiten(design, values);
        }
        self.check(design, values)?;
        let (mut layers, mut all): (Vec<Layer>, Vec<Array2<f64>>) = (Vec::new(), Vec::new());
        for values in values {
            let factored = self.anchors.factored(design, layers.last())?;
            let (lower, rest) = (factored.lower.lower(), values - &self.mean_at_anchors(design, layers.last()));
            let mut xi = Array2::zeros(rest.dim());
            gemm_tn(1.0, lower, rest.view(), 0.0, xi.view_mut())?;
            let mut gram = Array2::zeros(lower.dim());
            add_gram(lower, gram.view_mut())?;
            mirror_lower(&mut gram);
            gram.diag_mut().iter_mut().for_each(|value| *value += ridge);
            let factor = Cholesky::factor(gram, "the moments of a hidden layer")?;
            factor.solve_lower(xi.view_mut())?;
            factor.solve_lower_transposed(xi.view_mut())?;
            layers.push(self.representation.layer(self, design, layers.last(), factored, &xi)?);
            all.push(xi);
        }
        Ok(all)
    }

    pub(super) fn mean_at_anchors(&self, design: &Design, below: Option<&Layer>) -> Array2<f64> {
        design.mean(below.map_or(self.anchors.start.view(), |layer| layer.values.view()))
    }

    /// The inputs of the top layer at some rows; `keep` what going back needs.
    pub fn forward(
        &self,
        design: &Design,
        prepared: &Prepared,
        rows: &SomeRows<'_>,
        keep: bool,
    ) -> Result<LayersAtRows, GpError> {
        if let Some(map) = prepared.layers.last().and_then(|layer| layer.map.as_ref()) {
            return Ok(map.at(&rows.spots).into());
        }
        self.representation.forward(design, prepared, rows, keep)
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
        let weights = prepared.linear_weights.as_ref()?;
        Some(Linear::new(design, rows, &self.basis, weights.view(), length))
    }

    /// The values of all layers at some training rows, `[b, D]` each, bottom layer first.
    pub fn values(
        &self,
        design: &Design,
        prepared: &Prepared,
        rows: &SomeRows<'_>,
    ) -> Result<Vec<Array2<f64>>, GpError> {
        self.representation.values(self, design, prepared, rows)
    }

    /// Adjoints of no rows.
    pub fn adjoints(&self, design: &Design) -> Adjoints {
        Adjoints::zero(design, self.anchors.rows.len(), self.representation.adjoints_by_layer())
    }

    /// Adjoints of rows that are [`Linear`], by its weights: `[r, D]`.
    pub fn linear_adjoints(&self, design: &Design, by_weights: Array2<f64>) -> Adjoints {
        let mut adjoints = self.adjoints(design);
        match adjoints.weights.first_mut() {
            Some(bottom) => *bottom = by_weights,
            None => adjoints.last = by_weights,
        }
        adjoints
    }

    /// Adds what rows whose adjoint by the inputs of the top layer is `[b, D]` mean for ξ.
    pub fn backward(
        &self,
        design: &Design,
        prepared: &Prepared,
        (rows, at_rows): (&SomeRows<'_>, &LayersAtRows),
        adjoint: Array2<f64>,
        adjoints: &mut Adjoints,
    ) -> Result<(), GpError> {
        if design.knots.is_none() {
            return self.representation.backward(design, prepared, (rows, at_rows), adjoint, adjoints);
        }
        if let Some(to) = adjoints.last.as_slice_mut() {
            rows.spots.iter().zip(&adjoint).for_each(|(spot, adjoint)| spot.value_back(*adjoint, to));
        }
        Ok(())
    }

    /// Derivatives by ξ, one `[r, D]` per layer.
    pub fn gradient(
        &self,
        design: &Design,
        prepared: &Prepared,
        xi: &[Array2<f64>],
        adjoints: Adjoints,
    ) -> Result<Vec<Array2<f64>>, GpError> {
        self.representation.gradient(self, design, prepared, xi, adjoints)
    }

    /// The basis at the knots, `[T, r]`.
    pub(super) fn basis(&self) -> ArrayView2<'_, f64> {
        self.basis.at_knots()
    }
}
