//! Predictions of the mixture, in tiles that make a row's result its own.

use ndarray::{Array2, ArrayView2, s};
use rayon::prelude::*;

use super::DeepGp;
use super::component::Rows;
use crate::gp::GpError;
use crate::gp::exact::Prediction;
use crate::gp::kernel::ROW_TILE;

impl DeepGp {
    /// Predicts `x_star`: `[p, d]`; `variance` asks for the variances too.
    ///
    /// Mean of the particles' means; mean of their variances plus the variance of their means. A row has the same
    /// result, to the bit, alone or among others: every tile has the same number of rows (the last one is filled up).
    pub fn predict(&self, x_star: ArrayView2<'_, f64>, variance: bool) -> Result<Prediction, GpError> {
        let (p, d) = x_star.dim();
        if d != self.design.x_centre.len() {
            let known = self.design.x_centre.len();
            return Err(GpError::shape(format!("{d} features to predict from; the model has {known}")));
        }
        let starts: Vec<usize> = (0..p).step_by(ROW_TILE).collect();
        let tiles: Vec<(Vec<f64>, Vec<f64>)> = starts
            .into_par_iter()
            .map(|first| self.predict_tile(x_star.slice(s![first..(first + ROW_TILE).min(p), ..]), variance))
            .collect::<Result<_, _>>()?;
        Ok(Prediction {
            mean: tiles.iter().flat_map(|(mean, _)| mean).copied().collect(),
            latent_variance: variance.then(|| tiles.iter().flat_map(|(_, variance)| variance).copied().collect()),
        })
    }

    fn predict_tile(&self, rows: ArrayView2<'_, f64>, variance: bool) -> Result<(Vec<f64>, Vec<f64>), GpError> {
        let count = rows.nrows();
        // Filled up with the centre, a harmless point.
        let mut x = Array2::from_shape_fn((ROW_TILE, rows.ncols()), |(_, j)| self.design.x_centre[j]);
        x.slice_mut(s![..count, ..]).assign(&rows);
        let start = self.design.start_values(x.view())?;
        let bottom = match &self.bottom {
            Some(bottom) => bottom.covariances(&self.design, x.view())?,
            None => Array2::zeros((0, 0)),
        };
        let tile = Rows { x: x.view(), start: start.view(), bottom: bottom.view() };
        let all: Vec<(Vec<f64>, Vec<f64>)> = self
            .components
            .iter()
            .map(|component| component.predict(&self.design, &self.parts.hyper, &tile, count, variance))
            .collect::<Result<_, _>>()?;
        let share = 1.0 / all.len().max(1) as f64;
        let mean: Vec<f64> = (0..count).map(|i| all.iter().map(|(means, _)| means[i] * share).sum()).collect();
        if !variance {
            return Ok((mean, Vec::new()));
        }
        let spread = (0..count)
            .map(|i| all.iter().map(|(means, variances)| (variances[i] + (means[i] - mean[i]).powi(2)) * share).sum())
            .collect();
        Ok((mean, spread))
    }
}
