//! What the chains sample: ℓ(ξ) = log p(y | hidden layers), or a bound of it, with its gradient.

use ndarray::{Array2, ArrayView1};

use super::design::Design;
use super::hidden::{HiddenLayers, LayersAtRows, Prepared, SomeRows, TrainingRows};
use super::options::EmObjective;
use super::top::TopLayer;
use super::warped::Warped;
use crate::gp::GpError;
use crate::gp::kernel::Hyper;
use crate::gp::linalg::{TILE, for_row_blocks};
use crate::gp::neighbours::{AdjointRoom, NeighbourLists};
use crate::gp::row_noise::{RowNoise, ScaledRows};
use crate::gp::sparse::Level;

/// The log density of the targets at some ξ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DensityAt {
    /// What chains sample, but for the prior: ℓ, or the bound.
    pub sampled: f64,
    /// ℓ.
    pub log_likelihood: f64,
    /// What the M step maximises, F_V or another form of it; `None` without inducing points.
    pub bound: Option<f64>,
}

impl DensityAt {
    /// Where there is no bound, ℓ is sampled.
    pub fn likelihood(log_likelihood: f64) -> Self {
        Self { sampled: log_likelihood, log_likelihood, bound: None }
    }
}

/// A log-likelihood of whitened hidden variables, one matrix per layer. The prior N(0, I) is not part of it.
pub trait LogDensity: Sync {
    /// ℓ.
    fn value(&self, xi: &[Array2<f64>]) -> Result<DensityAt, GpError>;
    /// What an evaluation at ξ would leave for [`LogDensity::value_of_layer`].
    fn know(&self, xi: &[Array2<f64>]) -> Result<Known, GpError> {
        let _ = xi;
        Ok(Known::default())
    }
    /// ℓ where only `layer` differs from a ξ that was evaluated before, with what was `known` then; the same bits as
    /// [`LogDensity::value`].
    fn value_of_layer(&self, xi: &[Array2<f64>], layer: usize, known: &Known) -> Result<(DensityAt, Known), GpError> {
        let _ = (layer, known);
        Ok((self.value(xi)?, Known::default()))
    }
    /// ℓ and ∂ℓ/∂ξ.
    fn value_and_gradient(&self, xi: &[Array2<f64>]) -> Result<(DensityAt, Vec<Array2<f64>>), GpError>;
}

/// What an evaluation leaves for the next one that differs in one layer; nothing, where there is nothing to save.
#[derive(Debug, Clone, Default)]
pub struct Known(Option<Prepared>);

/// The log-likelihood of the training targets.
#[derive(Debug, Clone)]
pub(super) struct Target<'a> {
    pub design: &'a Design,
    pub rows: &'a TrainingRows,
    /// Targets, `[n]`.
    pub y: ArrayView1<'a, f64>,
    pub noise: &'a RowNoise,
    /// Rows brought to one noise, that of the level, where they have not the same.
    pub scaled: Option<&'a ScaledRows>,
    pub hidden: &'a HiddenLayers,
    /// Of the top layer.
    pub hyper: &'a Hyper,
    pub top: &'static dyn TopLayer,
    /// Training rows that are inducing points, `[m]`; empty without them.
    pub inducing: &'a [usize],
    /// The same on their way through the hidden layers.
    pub inducing_rows: &'a SomeRows<'static>,
    pub level: Level,
    pub objective: EmObjective,
    /// Who is whose neighbour, where the top layer asks.
    pub neighbours: Option<&'a NeighbourLists>,
    pub room: Option<&'a AdjointRoom>,
}

impl<'a> Target<'a> {
    /// Targets of rows brought to one noise, `[n]`, and what these rows are multiplied by, if they are.
    pub fn scaled(&self) -> (ArrayView1<'a, f64>, Option<&'a [f64]>) {
        self.scaled.map_or((self.y, None), |scaled| (scaled.y.view(), Some(&scaled.factors[..])))
    }

    /// Hidden layers at the anchors.
    pub fn prepare(&self, xi: &[Array2<f64>]) -> Result<Prepared, GpError> {
        self.hidden.prepare(self.design, xi)
    }

    /// Hidden layers at some rows.
    pub fn forward(&self, prepared: &Prepared, rows: &SomeRows<'_>, keep: bool) -> Result<LayersAtRows, GpError> {
        self.hidden.forward(self.design, prepared, rows, keep)
    }

    /// The top covariance at rows whose hidden layers are known.
    pub fn warped(&self, rows: &SomeRows<'_>, at_rows: &LayersAtRows) -> Result<Warped, GpError> {
        self.design.top(rows.x.view(), at_rows.inputs.view(), self.hyper)
    }

    /// The inputs of the top layer at all training rows, `[n, D]`.
    pub fn all_inputs(&self, xi: &[Array2<f64>]) -> Result<Array2<f64>, GpError> {
        self.inputs(&self.prepare(xi)?)
    }

    /// The same when the hidden layers are known at their anchors.
    pub fn inputs(&self, prepared: &Prepared) -> Result<Array2<f64>, GpError> {
        let mut inputs = Array2::zeros((self.rows.len(), self.design.width()));
        for_row_blocks(&mut inputs, TILE, |first, mut part| {
            let rows = self.hidden.range(self.design, self.rows, first..first + part.nrows());
            part.assign(&self.forward(prepared, &rows, false)?.inputs);
            Ok(())
        })?;
        Ok(inputs)
    }
}

impl LogDensity for Target<'_> {
    fn value(&self, xi: &[Array2<f64>]) -> Result<DensityAt, GpError> {
        self.top.value(self, &self.prepare(xi)?)
    }

    fn know(&self, xi: &[Array2<f64>]) -> Result<Known, GpError> {
        self.prepare(xi).map(|prepared| Known(Some(prepared)))
    }

    fn value_of_layer(&self, xi: &[Array2<f64>], layer: usize, known: &Known) -> Result<(DensityAt, Known), GpError> {
        let known = known.0.as_ref().map(|known| (known, layer));
        let prepared = self.hidden.prepare_from(self.design, xi, known)?;
        Ok((self.top.value(self, &prepared)?, Known(Some(prepared))))
    }

    fn value_and_gradient(&self, xi: &[Array2<f64>]) -> Result<(DensityAt, Vec<Array2<f64>>), GpError> {
        let prepared = self.prepare(xi)?;
        let (density, adjoints) = self.top.value_and_adjoints(self, &prepared)?;
        Ok((density, self.hidden.gradient(self.design, &prepared, xi, adjoints)?))
    }
}
