//! The derivative of the bound by log γ² where rows have a noise of γ²/wᵢ + sᵢ² with known sᵢ².
//!
//! With noiseᵢ = τ/fᵢ² and everything in rows times their factors f (see [`RowNoise`]), one more pass over the rows has
//!
//! ```text
//! ∂F/∂log γ² = ½ Σ ρᵢ [ (yᵢ − vᵢᵀβ̃)²/τ − 1 + vᵢᵀB⁻¹vᵢ/τ + dᵢtᵢ ],   ρᵢ = (γ²/wᵢ)/noiseᵢ
//! ```
//!
//! with dᵢ and tᵢ of `penalty.rs`. Without known noise all ρ are 1, and sums that are there already say the same.

use ndarray::ArrayView1;

use super::penalty::RowWeights;
use super::state::State;
use crate::gp::GpError;
use crate::gp::kernel::Covariance;
use crate::gp::linalg::panels::{squares, weighted};
use crate::gp::linalg::{Triangle, sum_rows};
use crate::gp::row_noise::RowNoise;

/// ∂F/∂log γ² of the state's objective for rows with targets y: `[n]`, times their factors, and γ²; none where no noise is
/// known.
pub(crate) fn noise_slope<C: Covariance>(
    covariance: &C,
    y: ArrayView1<'_, f64>,
    state: &State<C>,
    (noise, own): (&RowNoise, f64),
) -> Result<Option<f64>, GpError> {
    if noise.known.is_none() {
        return Ok(None);
    }
    let (m, level, beta) = (state.len(), state.level().noise, state.beta().to_vec());
    let (lower, lower_b) = (Triangle::new(state.lower())?, Triangle::new(state.lower_b())?);
    let weights = RowWeights { variance: state.inducing().variance(), noise: level, factors: covariance.factors() };
    let common = state.common_weight();
    let of_rows = |rows| {
        let mut sum = 0.0;
        covariance.for_panels(rows, state.inducing(), Some(&lower), &mut |rows, v| {
            let (explained, fitted) = (squares(&v[..m]), weighted(v, &beta));
            lower_b.solve(v);
            let back = squares(&v[..m]);
            for (i, row) in rows.enumerate() {
                let (left, weight) = weights.of(row, explained[i]);
                let residual = y[row] - fitted[i];
                let all = (residual * residual + back[i]) / level - 1.0 + common.unwrap_or(weight) * left;
                sum += 0.5 * noise.own_share(row, own) * all;
            }
        })?;
        Ok(sum)
    };
    sum_rows(covariance.span(), 1, || 0.0, of_rows).map(Some)
}
