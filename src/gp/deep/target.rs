//! What the chains sample: ℓ(ξ) = log p(y | hidden layers), with its gradient.

use ndarray::{Array2, ArrayView1};

use super::design::Design;
use super::hidden::{Hidden, Prepared, Rows, Tile, TrainingRows};
use super::warped::Warped;
use crate::gp::GpError;
use crate::gp::kernel::Hyper;
use crate::gp::sparse::{Level, State};

/// ℓ at some ξ, and F_V beside it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Density {
    /// ℓ.
    pub log_likelihood: f64,
    /// F_V; `None` without inducing points.
    pub bound: Option<f64>,
}

/// A log-likelihood of whitened hidden variables, one matrix per layer. The prior N(0, I) is not part of it.
pub trait LogDensity: Sync {
    /// ℓ.
    fn value(&self, white: &[Array2<f64>]) -> Result<Density, GpError>;
    /// What an evaluation at ξ would leave for [`LogDensity::value_of_layer`].
    fn know(&self, white: &[Array2<f64>]) -> Result<Known, GpError> {
        let _ = white;
        Ok(Known::default())
    }
    /// ℓ where only `layer` differs from a ξ that was evaluated before, with what was `known` then; the same bits as
    /// [`LogDensity::value`].
    fn value_of_layer(&self, white: &[Array2<f64>], layer: usize, known: &Known) -> Result<(Density, Known), GpError> {
        let _ = (layer, known);
        Ok((self.value(white)?, Known::default()))
    }
    /// ℓ and ∂ℓ/∂ξ.
    fn value_and_gradient(&self, white: &[Array2<f64>]) -> Result<(Density, Vec<Array2<f64>>), GpError>;
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
    pub hidden: &'a Hidden,
    /// Of the top layer.
    pub hyper: &'a Hyper,
    pub top: Top<'a>,
}

/// How the top layer is integrated out.
#[derive(Debug, Clone)]
pub(super) enum Top<'a> {
    /// With inducing points.
    Sparse {
        /// Their training rows, `[m]`.
        inducing: &'a [usize],
        /// The same on their way through the hidden layers.
        rows: Box<Rows<'a>>,
        /// Noise and jitter.
        level: Level,
    },
    /// Exactly.
    Exact,
}

impl Top<'_> {
    /// With these inducing points; `jitter` is relative to σ².
    pub fn sparse<'a>(
        rows: &'a TrainingRows,
        hidden: &'a Hidden,
        inducing: &'a [usize],
        noise: f64,
        jitter: f64,
    ) -> Top<'a> {
        Top::Sparse { inducing, rows: Box::new(hidden.list(rows, inducing)), level: Level { noise, jitter } }
    }
}

impl Target<'_> {
    /// Hidden layers at the anchors.
    pub fn prepare(&self, white: &[Array2<f64>]) -> Result<Prepared, GpError> {
        self.hidden.prepare(self.design, white)
    }

    /// Hidden layers at some rows.
    pub fn forward(&self, prepared: &Prepared, rows: &Rows<'_>, keep: bool) -> Result<Tile, GpError> {
        self.hidden.forward(self.design, prepared, rows, keep)
    }

    /// The top covariance at rows whose hidden layers are known.
    pub fn warped(&self, rows: &Rows<'_>, tile: &Tile) -> Result<Warped, GpError> {
        self.design.top(rows.x.view(), tile.inputs.view(), self.hyper)
    }

    /// The inputs of the top layer at all training rows, `[n, D]`.
    pub fn all_inputs(&self, white: &[Array2<f64>]) -> Result<Array2<f64>, GpError> {
        use crate::gp::linalg::for_row_blocks;
        let prepared = self.prepare(white)?;
        let mut inputs = Array2::zeros((self.rows.len(), self.design.width()));
        for_row_blocks(&mut inputs, crate::gp::linalg::TILE, |first, mut part| {
            let rows = self.hidden.range(self.rows, first, first + part.nrows());
            part.assign(&self.forward(&prepared, &rows, false)?.inputs);
            Ok(())
        })?;
        Ok(inputs)
    }

    fn density(&self, prepared: &Prepared) -> Result<Density, GpError> {
        match &self.top {
            Top::Sparse { .. } => super::sparse_top::solve(self, prepared).map(|top| density(&top.state)),
            Top::Exact => super::exact_top::value(self, prepared),
        }
    }

    /// The sparse model of the top layer; with inducing points only.
    pub fn state(&self, white: &[Array2<f64>]) -> Result<State<Warped>, GpError> {
        super::sparse_top::solve(self, &self.prepare(white)?).map(|top| top.state)
    }
}

impl LogDensity for Target<'_> {
    fn value(&self, white: &[Array2<f64>]) -> Result<Density, GpError> {
        self.density(&self.prepare(white)?)
    }

    fn know(&self, white: &[Array2<f64>]) -> Result<Known, GpError> {
        self.prepare(white).map(|prepared| Known(Some(prepared)))
    }

    fn value_of_layer(&self, white: &[Array2<f64>], layer: usize, known: &Known) -> Result<(Density, Known), GpError> {
        let known = known.0.as_ref().map(|known| (known, layer));
        let prepared = self.hidden.prepare_from(self.design, white, known)?;
        Ok((self.density(&prepared)?, Known(Some(prepared))))
    }

    fn value_and_gradient(&self, white: &[Array2<f64>]) -> Result<(Density, Vec<Array2<f64>>), GpError> {
        let prepared = self.prepare(white)?;
        let (density, bars) = match &self.top {
            Top::Sparse { .. } => super::sparse_top::value_and_bars(self, &prepared)?,
            Top::Exact => super::exact_top::value_and_bars(self, &prepared)?,
        };
        Ok((density, self.hidden.gradient(self.design, &prepared, white, bars)?))
    }
}

/// ℓ and F_V of a sparse model.
pub(super) fn density(state: &State<Warped>) -> Density {
    Density { log_likelihood: state.log_likelihood(), bound: Some(state.bound()) }
}
