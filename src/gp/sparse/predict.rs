//! Predictions of the sparse Gaussian process.

use ndarray::{Array2, ArrayView2};

use super::SparseGp;
use crate::gp::GpError;
use crate::gp::kernel::{Covariance, ROW_TILE, Stationary};
use crate::gp::linalg::{Side, dot, row_slices, solve_triangular};
use crate::gp::neighbours::Sites;
use crate::gp::predict::{Prediction, Tile, in_tiles, not_negative};

impl SparseGp {
    /// Predicts `x_star`: `[p, d]`; `variance` asks for the variances too, which cost m² per row.
    ///
    /// Mean `k_m`ᵀα, latent variance σ² − ‖L⁻¹`k_m`‖² + ‖L_B⁻¹L⁻¹`k_m`‖².
    pub fn predict(&self, x_star: ArrayView2<'_, f64>, variance: bool) -> Result<Prediction, GpError> {
        in_tiles(x_star, &self.centre, variance, |rows, count| self.predict_tile(&rows, count, variance))
    }

    fn predict_tile(&self, rows: &Array2<f64>, count: usize, variance: bool) -> Result<Tile, GpError> {
        let parts = &self.parts;
        let stars = Stationary::new(parts.kernel, &parts.hyper, rows.view(), &self.centre)?;
        let mut k_star = Array2::zeros((ROW_TILE, self.inducing.len()));
        stars.tile(0, &self.inducing, k_star.view_mut())?;
        let alpha = parts.alpha.as_slice().unwrap_or_default();
        let mean: Vec<f64> = row_slices(&k_star).take(count).map(|row| dot(row, alpha)).collect();
        if let Some(local) = &self.local {
            let sites = Sites { points: stars.points().rows(), lengths: None };
            return local.predict(&sites, mean, variance);
        }
        if !variance {
            return Ok((mean, Vec::new()).into());
        }
        solve_triangular(Side::RightTransposed, parts.lower.view(), k_star.view_mut())?;
        let mut remaining: Vec<f64> =
            row_slices(&k_star).take(count).map(|row| parts.hyper.variance - dot(row, row)).collect();
        solve_triangular(Side::RightTransposed, parts.lower_b.view(), k_star.view_mut())?;
        for (value, row) in remaining.iter_mut().zip(row_slices(&k_star)) {
            *value = not_negative(*value + dot(row, row));
        }
        Ok((mean, remaining).into())
    }
}
