//! Predictions of the sparse Gaussian process, in tiles that make a row's result its own.

use ndarray::{Array2, ArrayView2, s};
use rayon::prelude::*;

use super::SparseGp;
use crate::gp::GpError;
use crate::gp::exact::Prediction;
use crate::gp::kernel::{Covariance, ROW_TILE, Stationary};
use crate::gp::linalg::{Side, dot, row_slices, solve_triangular};

impl SparseGp {
    /// Predicts `x_star`: `[p, d]`; `variance` asks for the variances too, which cost m² per row.
    ///
    /// Mean `k_m`ᵀα, latent variance σ² − ‖L⁻¹`k_m`‖² + ‖L_B⁻¹L⁻¹`k_m`‖². A row has the same result, to the bit,
    /// alone or among others: every tile has the same number of rows (the last one is filled up).
    pub fn predict(&self, x_star: ArrayView2<'_, f64>, variance: bool) -> Result<Prediction, GpError> {
        let (p, d) = x_star.dim();
        if d != self.centre.len() {
            return Err(GpError::shape(format!("{d} features to predict from; the model has {}", self.centre.len())));
        }
        let starts: Vec<usize> = (0..p).step_by(ROW_TILE).collect();
        let tiles: Vec<(Vec<f64>, Vec<f64>)> = starts
            .into_par_iter()
            .map(|first| {
                let rows = x_star.slice(s![first..(first + ROW_TILE).min(p), ..]);
                self.predict_tile(rows, variance)
            })
            .collect::<Result<_, _>>()?;
        Ok(Prediction {
            mean: tiles.iter().flat_map(|(mean, _)| mean).copied().collect(),
            latent_variance: variance.then(|| tiles.iter().flat_map(|(_, variance)| variance).copied().collect()),
        })
    }

    fn predict_tile(&self, rows: ArrayView2<'_, f64>, variance: bool) -> Result<(Vec<f64>, Vec<f64>), GpError> {
        let (count, m) = (rows.nrows(), self.inducing.len());
        let parts = &self.parts;
        // Filled up with the centre, a harmless point.
        let mut padded = Array2::from_shape_fn((ROW_TILE, rows.ncols()), |(_, j)| self.centre[j]);
        padded.slice_mut(s![..count, ..]).assign(&rows);
        let stars = Stationary::new(parts.kernel, &parts.hyper, padded.view(), &self.centre)?;
        let mut k_star = Array2::zeros((ROW_TILE, m));
        stars.tile(0, &self.inducing, k_star.view_mut())?;
        let alpha = parts.alpha.as_slice().unwrap_or_default();
        let mean = row_slices(&k_star).take(count).map(|row| dot(row, alpha)).collect();
        if !variance {
            return Ok((mean, Vec::new()));
        }
        solve_triangular(Side::RightTransposed, parts.lower.view(), k_star.view_mut())?;
        let mut remaining: Vec<f64> =
            row_slices(&k_star).take(count).map(|row| parts.hyper.variance - dot(row, row)).collect();
        solve_triangular(Side::RightTransposed, parts.lower_b.view(), k_star.view_mut())?;
        for (value, row) in remaining.iter_mut().zip(row_slices(&k_star)) {
            let sum = *value + dot(row, row);
            // max(0) would turn NaN, the answer to an invalid row, into certainty.
            *value = if sum < 0.0 { 0.0 } else { sum };
        }
        Ok((mean, remaining))
    }
}
