//! The top layer integrated out exactly: ℓ = log N(y | 0, K + γ²I) of the top covariance at all training rows.

use ndarray::{Array1, Array2};

use super::hidden::{Bars, Prepared, Rows, Tile};
use super::target::{Density, Target};
use super::warped::Warped;
use crate::gp::GpError;
use crate::gp::exact::likelihood_of;
use crate::gp::kernel::square_lower;
use crate::gp::linalg::Cholesky;

/// K + γ²I at hidden layers that are known, factored, and what follows for y.
#[derive(Debug, Clone)]
pub(super) struct ExactTop {
    pub covariance: Warped,
    pub factor: Cholesky,
    /// (K + γ²I)⁻¹ y, `[n]`.
    pub alpha: Array1<f64>,
    pub log_likelihood: f64,
}

impl ExactTop {
    /// Conditions on y: `[n]`; no jitter, the noise stands on the diagonal.
    pub fn new(covariance: Warped, y: ndarray::ArrayView1<'_, f64>, noise: f64) -> Result<Self, GpError> {
        let mut shifted = square_lower(&covariance)?;
        shifted.diag_mut().iter_mut().for_each(|v| *v += noise);
        let factor = Cholesky::factor(shifted, "the covariance of the training rows")?;
        let alpha = factor.solve_vector(y)?;
        let log_likelihood = likelihood_of(y, &alpha, &factor);
        if !log_likelihood.is_finite() {
            return Err(GpError::NonFinite { what: "the log-likelihood" });
        }
        Ok(Self { covariance, factor, alpha, log_likelihood })
    }

    /// ∂ℓ/∂K = ½ (ααᵀ − (K + γ²I)⁻¹), `[n, n]`.
    pub fn by_covariance(&self) -> Result<Array2<f64>, GpError> {
        let mut bar = self.factor.inverse()?;
        for ((i, j), bar) in bar.indexed_iter_mut() {
            *bar = 0.5 * (self.alpha[i] * self.alpha[j] - *bar);
        }
        Ok(bar)
    }
}

fn condition<'t>(
    target: &'t Target<'_>,
    prepared: &Prepared,
    keep: bool,
) -> Result<(ExactTop, Rows<'t>, Tile), GpError> {
    let rows = target.hidden.range(target.rows, 0, target.rows.len());
    let tile = target.forward(prepared, &rows, keep)?;
    let top = ExactTop::new(target.warped(&rows, &tile)?, target.y, target.hyper.noise)?;
    Ok((top, rows, tile))
}

/// ℓ.
pub(super) fn value(target: &Target<'_>, prepared: &Prepared) -> Result<Density, GpError> {
    let (top, ..) = condition(target, prepared, false)?;
    Ok(Density { log_likelihood: top.log_likelihood, bound: None })
}

/// ℓ, and its derivatives on their way back to ξ.
pub(super) fn value_and_bars(target: &Target<'_>, prepared: &Prepared) -> Result<(Density, Bars), GpError> {
    let (top, rows, tile) = condition(target, prepared, true)?;
    let by_sites = super::hidden::back_to_sites(&top.covariance, top.by_covariance()?)?;
    let bar = target.design.warped_back(tile.inputs.view(), by_sites, target.hyper.lengths[0]);
    let mut bars = target.hidden.bars(target.design);
    target.hidden.backward(target.design, prepared, &rows, &tile, bar, &mut bars)?;
    Ok((Density { log_likelihood: top.log_likelihood, bound: None }, bars))
}
