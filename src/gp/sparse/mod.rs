//! The sparse Gaussian process (Titsias): m inducing points among the training rows stand for all n.
//!
//! | file | holds |
//! |---|---|
//! | `sums` | the one pass over the rows, in tiles |
//! | `penalty` | the forms of the bound |
//! | `state` | the bound at fixed hyper-parameters; adding and removing a point |
//! | `gradient` | the bound with its gradient in the hyper-parameters |
//! | `noise_slope` | its derivative by the noise, where a part of that is known |
//! | `options`, `fit` | the schedule that chooses points and hyper-parameters |
//! | `linear` | what a fit is compared with, so that it cannot end at "all noise" unnoticed |
//! | `local` | the layer that remembers training rows |
//! | `predict` | mean and variance at new rows |

mod fit;
mod gradient;
mod linear;
mod local;
mod noise_slope;
mod options;
mod penalty;
mod predict;
mod state;
mod sums;

use std::sync::Arc;

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis};

use super::GpError;
use super::fit_rows::FitRows;
use super::kernel::{Hyper, Kernel, Stationary, column_means};
use super::linalg::{Cholesky, means_over};
use super::neighbours::{LocalLayer, LocalParts};
use super::row_noise::RowNoise;

pub use fit::fit_held;
pub(crate) use fit::{LARGEST_VARIANCE, rows_from};
pub use fit::{fit, fit_from, fit_with};
pub use gradient::{BoundEvaluation, bound_with_gradient, objective_with_gradient, objective_with_noise};
pub(crate) use gradient::{level_gradient, objective_of, objective_with_rows};
pub use options::SparseOptions;
pub use penalty::Penalty;
pub(crate) use penalty::{PassSums, RowWeights};
pub(crate) use state::{Addition, RowTotals, factor_at};
pub use state::{Level, State};
pub(crate) use sums::{Sums, Whitening, add_product};

/// What K_mm always gets on its diagonal, as a share of the kernel variance.
pub const JITTER: f64 = 1e-8;

/// Everything that makes up a sparse Gaussian process, as a model file keeps it: nothing grows with n.
#[derive(Debug, Clone, PartialEq)]
pub struct SparseParts {
    /// Which training rows the inducing points are, `[m]`.
    pub rows: Vec<usize>,
    /// The inducing points, `[m, d]`.
    pub x_m: Array2<f64>,
    /// L⁻ᵀ L_B⁻ᵀ c, `[m]`.
    pub alpha: Array1<f64>,
    /// L, the lower Cholesky factor of K_mm + jitter, `[m, m]`.
    pub lower: Array2<f64>,
    /// L_B, the lower Cholesky factor of B = I + L⁻¹K_mn K_nm L⁻ᵀ/γ², `[m, m]`.
    pub lower_b: Array2<f64>,
    pub kernel: Kernel,
    pub hyper: Hyper,
    /// What was added to the diagonal of K_mm.
    pub jitter: f64,
    /// F_V of the training rows.
    pub bound: f64,
    /// ℓ = log N(y | 0, Q + γ²I) of the training rows.
    pub log_likelihood: f64,
    /// The layer that remembers training rows, if there is one.
    pub local: Option<LocalParts>,
}

/// A sparse Gaussian process conditioned on training rows.
#[derive(Debug, Clone)]
pub struct SparseGp {
    parts: SparseParts,
    // Follow from the parts; kept because every prediction needs them.
    centre: Vec<f64>,
    inducing: Stationary,
    local: Option<Arc<LocalLayer>>,
}

impl SparseGp {
    /// Conditions on x: `[n, d]`, y: `[n]` with given hyper-parameters and inducing points `rows`; `jitter` is
    /// relative to σ², as a rule [`JITTER`].
    pub fn condition(
        x: ArrayView2<'_, f64>,
        y: ArrayView1<'_, f64>,
        kernel: Kernel,
        hyper: &Hyper,
        rows: &[usize],
        jitter: f64,
    ) -> Result<Self, GpError> {
        Self::condition_with((x, y, &RowNoise::default()), kernel, hyper, rows, jitter)
    }

    /// The same with noise that differs from row to row.
    pub fn condition_with(
        data: (ArrayView2<'_, f64>, ArrayView1<'_, f64>, &RowNoise),
        kernel: Kernel,
        hyper: &Hyper,
        rows: &[usize],
        jitter: f64,
    ) -> Result<Self, GpError> {
        Self::condition_held(&data.into(), kernel, hyper, rows, jitter)
    }

    /// The same for the rows that are held of all.
    pub(crate) fn condition_held(
        data: &FitRows<'_>,
        kernel: Kernel,
        hyper: &Hyper,
        rows: &[usize],
        jitter: f64,
    ) -> Result<Self, GpError> {
        data.check()?;
        let FitRows { x, y, noise, span, .. } = data.clone();
        let scaled = noise.scaled(y, hyper.noise);
        let y = scaled.as_ref().map_or(y, |scaled| scaled.y.view());
        let factors = scaled.as_ref().map(|scaled| scaled.factors.clone());
        let covariance = Stationary::new(kernel, hyper, x, &means_over(&span, x)?)?.multiplied(factors).of(&span);
        let state = State::new(&covariance, y, rows, Level { noise: noise.level(hyper.noise), jitter })?;
        Self::from_parts(SparseParts {
            rows: rows.to_vec(),
            x_m: span.gather(rows, x.ncols(), |own| Ok(x.select(Axis(0), own)))?,
            alpha: state.alpha()?,
            lower: state.lower().to_owned(),
            lower_b: state.lower_b().to_owned(),
            kernel,
            hyper: hyper.clone(),
            jitter: state.jitter(),
            bound: state.bound(),
            log_likelihood: state.log_likelihood(),
            local: None,
        })
    }

    /// Restores a Gaussian process from [`SparseGp::parts`]; its predictions are the same bits.
    pub fn from_parts(parts: SparseParts) -> Result<Self, GpError> {
        let (m, d) = parts.x_m.dim();
        parts.hyper.check(d)?;
        let sizes = [parts.lower.nrows(), parts.lower.ncols(), parts.lower_b.nrows(), parts.lower_b.ncols()];
        if m == 0 || sizes != [m; 4] || parts.alpha.len() != m || parts.rows.len() != m {
            return Err(GpError::shape(format!(
                "{m} inducing points, weights {:?}, factors {:?} and {:?}",
                parts.alpha.shape(),
                parts.lower.shape(),
                parts.lower_b.shape()
            )));
        }
        if !parts.alpha.iter().chain(&parts.x_m).all(|v| v.is_finite()) {
            return Err(GpError::NonFinite { what: "the weights" });
        }
        let lower = Cholesky::from_lower(parts.lower)?.into_lower();
        let lower_b = Cholesky::from_lower(parts.lower_b)?.into_lower();
        let x_m = parts.x_m.as_standard_layout().into_owned();
        let centre = column_means(x_m.view());
        let inducing = Stationary::new(parts.kernel, &parts.hyper, x_m.view(), &centre)?;
        let parts = SparseParts { x_m, lower, lower_b, ..parts };
        let mut gp = Self { parts, centre, inducing, local: None };
        gp.restore_local()?;
        Ok(gp)
    }

    /// What a model file has to hold.
    pub fn parts(&self) -> &SparseParts {
        &self.parts
    }

    /// The same, without a copy.
    pub fn into_parts(self) -> SparseParts {
        self.parts
    }

    pub fn kernel(&self) -> Kernel {
        self.parts.kernel
    }

    pub fn hyper(&self) -> &Hyper {
        &self.parts.hyper
    }

    /// Which training rows are inducing points.
    pub fn rows(&self) -> &[usize] {
        &self.parts.rows
    }

    /// F_V of the training rows.
    pub fn bound(&self) -> f64 {
        self.parts.bound
    }

    /// ℓ = log N(y | 0, Q + γ²I) of the training rows.
    pub fn log_likelihood(&self) -> f64 {
        self.parts.log_likelihood
    }

    /// What was added to the diagonal of K_mm.
    pub fn jitter(&self) -> f64 {
        self.parts.jitter
    }
}
