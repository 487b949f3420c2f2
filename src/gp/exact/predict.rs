//! Predictions of the exact Gaussian process.

use ndarray::{Array2, ArrayView2};

use super::ExactGp;
use crate::gp::GpError;
use crate::gp::kernel::{Points, ROW_TILE};
use crate::gp::leave_one_out::LeaveOneOut;
use crate::gp::linalg::{Cholesky, Interrupt, Side, dot, row_slices, solve_triangular};
use crate::gp::predict::{Prediction, Tile, in_tiles, not_negative};

impl ExactGp {
    /// Predicts `x_star`: `[p, d]`; `variance` asks for the variances too, which cost n² per row.
    pub fn predict(&self, x_star: ArrayView2<'_, f64>, variance: bool) -> Result<Prediction, GpError> {
        in_tiles(x_star, &self.centre, variance, |rows, count| self.predict_tile(&rows, count, variance))
    }

    /// What is said of the training rows, each left out in its turn: the residual of row i is αᵢ/Cᵢ, its variance 1/Cᵢ, with
    /// Cᵢ from the diagonal of (K + γ²I)⁻¹.
    pub fn left_out(&self, interrupted: Interrupt<'_>) -> Result<LeaveOneOut, GpError> {
        let inverse = Cholesky::from_lower(self.parts.lower.clone())?.inverse_lower(interrupted)?;
        let rows = self.parts.alpha.iter().zip(inverse.diag());
        let (residuals, variances) = rows.map(|(alpha, inverse)| (alpha / inverse, 1.0 / inverse)).unzip();
        Ok(LeaveOneOut { residuals, variances })
    }

    fn predict_tile(&self, rows: &Array2<f64>, count: usize, variance: bool) -> Result<Tile, GpError> {
        let parts = &self.parts;
        let stars = Points::new(rows.view(), &self.centre, &parts.hyper.lengths)?;
        let mut k_star = Array2::zeros((ROW_TILE, self.points.len()));
        stars.covariance_tile(0, &self.points, parts.kernel, parts.hyper.variance, k_star.view_mut())?;
        let alpha = parts.alpha.as_slice().unwrap_or_default();
        let mean = row_slices(&k_star).take(count).map(|row| dot(row, alpha)).collect();
        if !variance {
            return Ok((mean, Vec::new()).into());
        }
        solve_triangular(Side::RightTransposed, parts.lower.view(), k_star.view_mut())?;
        let remaining = |row: &[f64]| not_negative(parts.hyper.variance - dot(row, row));
        Ok((mean, row_slices(&k_star).take(count).map(remaining).collect()).into())
    }
}
