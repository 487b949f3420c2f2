//! Predictions of the exact Gaussian process, in tiles that make a row's result its own.

use ndarray::{Array1, Array2, ArrayView2, s};
use rayon::prelude::*;

use super::ExactGp;
use crate::gp::GpError;
use crate::gp::kernel::{Points, ROW_TILE};
use crate::gp::linalg::{Side, dot, row_slices, solve_triangular};

/// Predictions for p rows, in the units of the training target.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Posterior mean, `[p]`.
    pub mean: Array1<f64>,
    /// Posterior variance of f, `[p]`, never negative; add γ² for that of y.
    pub latent_variance: Option<Array1<f64>>,
}

impl ExactGp {
    /// Predicts `x_star`: `[p, d]`; `variance` asks for the variances too, which cost n² per row.
    ///
    /// A row has the same result, to the bit, alone or among others: every tile has the same number of rows
    /// (the last one is filled up), because BLAS takes other paths through smaller matrices.
    pub fn predict(&self, x_star: ArrayView2<'_, f64>, variance: bool) -> Result<Prediction, GpError> {
        let (p, d) = x_star.dim();
        if d != self.centre.len() {
            return Err(GpError::shape(format!("{d} features to predict from; the model has {}", self.centre.len())));
        }
        let starts: Vec<usize> = (0..p).step_by(ROW_TILE).collect();
        let tiles: Vec<Tile> = starts
            .into_par_iter()
            .map(|first| {
                let rows = x_star.slice(s![first..(first + ROW_TILE).min(p), ..]);
                self.predict_tile(rows, variance)
            })
            .collect::<Result<_, _>>()?;
        Ok(Prediction {
            mean: tiles.iter().flat_map(|tile| &tile.mean).copied().collect(),
            latent_variance: variance.then(|| tiles.iter().flat_map(|tile| &tile.variance).copied().collect()),
        })
    }

    fn predict_tile(&self, rows: ArrayView2<'_, f64>, variance: bool) -> Result<Tile, GpError> {
        let (count, n) = (rows.nrows(), self.points.len());
        // Filled up with the centre, a harmless point.
        let mut padded = Array2::from_shape_fn((ROW_TILE, rows.ncols()), |(_, j)| self.centre[j]);
        padded.slice_mut(s![..count, ..]).assign(&rows);
        let parts = &self.parts;
        let stars = Points::new(padded.view(), &self.centre, &parts.hyper.lengths)?;
        let mut k_star = Array2::zeros((ROW_TILE, n));
        stars.covariance_tile(0, &self.points, parts.kernel, parts.hyper.variance, k_star.view_mut())?;
        let alpha = parts.alpha.as_slice().unwrap_or_default();
        let mean = row_slices(&k_star).take(count).map(|row| dot(row, alpha)).collect();
        let mut tile = Tile { mean, variance: Vec::new() };
        if variance {
            solve_triangular(Side::RightTransposed, parts.lower.view(), k_star.view_mut())?;
            // max(0) would turn NaN, the answer to an invalid row, into certainty.
            let clamp = |v: f64| if v < 0.0 { 0.0 } else { v };
            tile.variance =
                row_slices(&k_star).take(count).map(|row| clamp(parts.hyper.variance - dot(row, row))).collect();
        }
        Ok(tile)
    }
}

struct Tile {
    mean: Vec<f64>,
    variance: Vec<f64>,
}
