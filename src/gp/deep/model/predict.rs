//! Predictions of the mixture.

use ndarray::{Array2, ArrayView2, Axis, s};

use super::component::NewRows;
use super::{DeepGp, parts};
use crate::gp::GpError;
use crate::gp::kernel::ROW_TILE;
use crate::gp::predict::{Prediction, Tile, filled, in_tiles};

/// What the particles say of one hidden layer.
#[derive(Debug, Clone, PartialEq)]
pub struct HiddenLayer {
    /// Its number; 0 is next to the features.
    pub layer: usize,
    /// Mean over the particles, `[p, D]`.
    pub mean: Array2<f64>,
    /// Standard deviation between the particles, `[p, D]`.
    pub spread: Array2<f64>,
}

impl DeepGp {
    /// Predicts `x_star`: `[p, d]`; `variance` asks for the variances too.
    ///
    /// Mean of the particles' means; mean of their variances plus the variance of their means.
    pub fn predict(&self, x_star: ArrayView2<'_, f64>, variance: bool) -> Result<Prediction, GpError> {
        let in_tiles = |x: ArrayView2<'_, f64>| {
            in_tiles(x, &self.design.x_centre, variance, |rows, count| self.predict_tile(rows, count, variance))
        };
        match self.near_order(x_star)? {
            Some(order) => Ok(in_tiles(x_star.select(Axis(0), &order).view())?.of_ordered(&order)),
            None => in_tiles(x_star),
        }
    }

    fn predict_tile(&self, rows: Array2<f64>, count: usize, variance: bool) -> Result<Tile, GpError> {
        let tile = self.begun(rows)?;
        let all: Vec<Tile> = self
            .components
            .iter()
            .map(|component| component.predict(&self.design, &self.parts.hyper, &tile, count, variance))
            .collect::<Result<_, _>>()?;
        let share = 1.0 / all.len().max(1) as f64;
        let mean: Vec<f64> = (0..count).map(|i| all.iter().map(|tile| tile.mean[i] * share).sum()).collect();
        // What only some particles know is not known.
        let shared = |of: fn(&Tile) -> &Vec<f64>| -> Vec<f64> {
            let known = if all.iter().all(|tile| of(tile).len() == count) { count } else { 0 };
            (0..known).map(|i| all.iter().map(|tile| of(tile)[i] * share).sum()).collect()
        };
        let (nearest, global) = (shared(|tile| &tile.nearest), shared(|tile| &tile.global));
        let spread = |tile: &Tile, i: usize| tile.variance[i] + (tile.mean[i] - mean[i]).powi(2);
        let rows = 0..if variance { count } else { 0 };
        let variance = rows.map(|i| all.iter().map(|tile| spread(tile, i) * share).sum()).collect();
        Ok(Tile { mean, variance, nearest, global })
    }

    /// The values of the hidden layers at x: `[p, d]`, bottom layer first: their mean over the particles, and the
    /// standard deviation between them. Layers that one interpolation stands for (`sparse`) are not there.
    pub fn hidden_layers(&self, x: ArrayView2<'_, f64>) -> Result<Vec<HiddenLayer>, GpError> {
        let ((p, d), width) = (x.dim(), self.design.width());
        if d != self.design.x_centre.len() {
            let known = self.design.x_centre.len();
            return Err(GpError::shape(format!("{d} features; the model has {known}")));
        }
        let empty = |layer| HiddenLayer { layer, mean: Array2::zeros((p, width)), spread: Array2::zeros((p, width)) };
        let mut layers: Vec<HiddenLayer> = (0..self.design.layers).map(empty).collect();
        let mut seen = vec![0_usize; layers.len()];
        for component in &self.components {
            for first in (0..p).step_by(ROW_TILE) {
                let rows = s![first..(first + ROW_TILE).min(p), ..];
                let tile = self.begun(filled(x.slice(rows), &self.design.x_centre))?;
                component.inputs(&self.design, &tile, |layer, values| {
                    seen[layer] += 1;
                    let mut mean = layers[layer].mean.slice_mut(rows);
                    let values = values.slice(s![..mean.nrows(), ..]);
                    mean += &values;
                    let mut squares = layers[layer].spread.slice_mut(rows);
                    squares.zip_mut_with(&values, |sum, value| *sum += value * value);
                })?;
            }
        }
        let count = self.components.len() as f64;
        for layer in &mut layers {
            layer.mean /= count;
            layer.spread.zip_mut_with(&layer.mean, |sum, mean| *sum = (*sum / count - mean * mean).max(0.0).sqrt());
        }
        Ok(layers.into_iter().zip(seen).filter(|(_, seen)| *seen > 0).map(|(layer, _)| layer).collect())
    }

    /// How many states of chains it is made of.
    pub(in crate::gp::deep) fn component_count(&self) -> usize {
        self.components.len()
    }

    /// The variance of the interpolation that stands for all hidden layers, if one does (`sparse`).
    pub(in crate::gp::deep) fn interpolated_variance(&self) -> Option<f64> {
        self.bottom.as_ref().filter(|_| parts::is_interpolated(&self.parts)).map(|bottom| bottom.scale.0)
    }

    /// The values of all hidden layers at x: `[p, d]`, bottom layer first, in one of its states. Layers that one
    /// interpolation stands for have their start values.
    pub(in crate::gp::deep) fn layer_values(
        &self,
        state: usize,
        x: ArrayView2<'_, f64>,
    ) -> Result<Vec<Array2<f64>>, GpError> {
        let component = self.components.get(state).ok_or_else(|| GpError::shape("a mixture without particles"))?;
        let mut all = vec![self.design.start_values(x)?; self.design.layers];
        for first in (0..x.nrows()).step_by(ROW_TILE) {
            let rows = s![first..(first + ROW_TILE).min(x.nrows()), ..];
            let tile = self.begun(filled(x.slice(rows), &self.design.x_centre))?;
            component.values(&self.design, &tile, |layer, values| {
                let mut to = all[layer].slice_mut(rows);
                let count = to.nrows();
                to.assign(&values.slice(s![..count, ..]));
            })?;
        }
        Ok(all)
    }

    // A tile of rows with their start values, and their covariances with the anchors of the first hidden layer.
    pub(super) fn begun(&self, x: Array2<f64>) -> Result<NewRows, GpError> {
        let start = self.design.start_values(x.view())?;
        let bottom = match &self.bottom {
            Some(bottom) => bottom.covariances(&self.design, x.view())?,
            None => Array2::zeros((0, 0)),
        };
        Ok(NewRows { x, start, bottom })
    }
}
