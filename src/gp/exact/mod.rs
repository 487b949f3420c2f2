//! The exact Gaussian process: y = f(x) + ε, f ~ GP(0, k), ε ~ N(0, γ²).

mod fit;
mod likelihood;
mod predict;

use ndarray::{Array1, Array2, ArrayView1, ArrayView2};

use super::GpError;
use super::kernel::{Hyper, Kernel, Points, column_means};
use super::linalg::{Cholesky, Interrupt, NEVER};
use super::row_noise::RowNoise;

pub use fit::{ExactOptions, fit, fit_from, fit_with};
pub(crate) use fit::{keep_fixed, median_distance, soft_bounds};
pub(crate) use likelihood::value as likelihood_of;
use likelihood::{Conditioned, training_covariance};
pub use likelihood::{LogMarginal, log_marginal_likelihood, log_marginal_with};

/// Everything that makes up a conditioned Gaussian process, as a model file keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct ExactParts {
    /// Training rows, `[n, d]`.
    pub x: Array2<f64>,
    /// (K + γ²I)⁻¹ y, `[n]`.
    pub alpha: Array1<f64>,
    /// Lower Cholesky factor of K + γ²I + jitter, `[n, n]`.
    pub lower: Array2<f64>,
    pub kernel: Kernel,
    pub hyper: Hyper,
    /// What was added to the diagonal; 0 as a rule.
    pub jitter: f64,
    /// Log marginal likelihood of the training rows.
    pub log_likelihood: f64,
}

/// A Gaussian process conditioned on training rows.
#[derive(Debug, Clone)]
pub struct ExactGp {
    parts: ExactParts,
    // Follow from the parts; kept because every prediction needs them.
    centre: Vec<f64>,
    points: Points,
}

impl ExactGp {
    /// Conditions on x: `[n, d]`, y: `[n]` with given hyper-parameters.
    pub fn condition(
        x: ArrayView2<'_, f64>,
        y: ArrayView1<'_, f64>,
        kernel: Kernel,
        hyper: &Hyper,
    ) -> Result<Self, GpError> {
        Self::condition_with(x, y, &RowNoise::default(), kernel, hyper)
    }

    /// The same with noise that differs from row to row.
    pub fn condition_with(
        x: ArrayView2<'_, f64>,
        y: ArrayView1<'_, f64>,
        noise: &RowNoise,
        kernel: Kernel,
        hyper: &Hyper,
    ) -> Result<Self, GpError> {
        Self::condition_unless(NEVER, (x, y, noise), kernel, hyper)
    }

    /// The same, given up when that is asked for.
    pub(crate) fn condition_unless(
        interrupted: Interrupt<'_>,
        (x, y, noise): (ArrayView2<'_, f64>, ArrayView1<'_, f64>, &RowNoise),
        kernel: Kernel,
        hyper: &Hyper,
    ) -> Result<Self, GpError> {
        noise.check(x.nrows())?;
        let (_, (k_nn, _)) = training_covariance((x, y), kernel, hyper, false, interrupted)?;
        let Conditioned { factor, jitter, alpha, log_likelihood } =
            Conditioned::new(k_nn, (y, noise), hyper, interrupted)?;
        let (x, lower) = (x.as_standard_layout().into_owned(), factor.into_lower());
        Self::from_parts(ExactParts { x, alpha, lower, kernel, hyper: hyper.clone(), jitter, log_likelihood })
    }

    /// Restores a Gaussian process from [`ExactGp::parts`]; its predictions are the same bits.
    pub fn from_parts(parts: ExactParts) -> Result<Self, GpError> {
        let (n, d) = parts.x.dim();
        parts.hyper.check(d)?;
        if parts.alpha.len() != n || parts.lower.dim() != (n, n) {
            return Err(GpError::shape(format!(
                "{n} rows, weights {:?}, factor {:?}",
                parts.alpha.shape(),
                parts.lower.shape()
            )));
        }
        if !parts.alpha.iter().all(|v| v.is_finite()) {
            return Err(GpError::NonFinite { what: "the weights" });
        }
        let lower = Cholesky::from_lower(parts.lower)?.into_lower();
        let x = parts.x.as_standard_layout().into_owned();
        let centre = column_means(x.view());
        let points = Points::new(x.view(), &centre, &parts.hyper.lengths)?;
        let parts = ExactParts { x, lower, ..parts };
        Ok(Self { parts, centre, points })
    }

    /// What a model file has to hold.
    pub fn parts(&self) -> &ExactParts {
        &self.parts
    }

    /// The same, without a copy.
    pub fn into_parts(self) -> ExactParts {
        self.parts
    }

    pub fn kernel(&self) -> Kernel {
        self.parts.kernel
    }

    pub fn hyper(&self) -> &Hyper {
        &self.parts.hyper
    }

    /// Log marginal likelihood of the training rows.
    pub fn log_likelihood(&self) -> f64 {
        self.parts.log_likelihood
    }

    /// What was added to the diagonal of the training covariance; 0 as a rule.
    pub fn jitter(&self) -> f64 {
        self.parts.jitter
    }
}

/// Refuses training rows that no method can use.
pub(crate) fn check_training(x: ArrayView2<'_, f64>, y: ArrayView1<'_, f64>) -> Result<(), GpError> {
    if x.nrows() != y.len() {
        return Err(GpError::shape(format!("{} rows and {} targets", x.nrows(), y.len())));
    }
    if x.nrows() == 0 || x.ncols() == 0 {
        return Err(GpError::shape("no training rows, or no features"));
    }
    if !x.iter().all(|v| v.is_finite()) {
        return Err(GpError::NonFinite { what: "the features" });
    }
    if !y.iter().all(|v| v.is_finite()) {
        return Err(GpError::NonFinite { what: "the target" });
    }
    Ok(())
}
