//! Predictions in tiles that make a row's result its own.
//!
//! A row has the same result, to the bit, alone or among others: every tile has the same number of rows (the last one
//! is filled up), because BLAS takes other paths through smaller matrices.

use ndarray::{Array1, Array2, ArrayView2, s};
use rayon::prelude::*;

use super::GpError;
use super::kernel::ROW_TILE;

/// Predictions for p rows, in the units of the training target.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Posterior mean, `[p]`.
    pub mean: Array1<f64>,
    /// Posterior variance of f, `[p]`, never negative; add γ² for that of y.
    pub latent_variance: Option<Array1<f64>>,
    /// Distance to the nearest training row, `[p]`, where 1 is usual among training rows; models with a local layer only.
    pub nearest: Option<Array1<f64>>,
    /// Posterior mean without the local layer, `[p]`; models that have one above something else only.
    pub global_mean: Option<Array1<f64>>,
}

impl Prediction {
    /// Of rows that were given in another order: entry i is that of row `order[i]`.
    #[must_use]
    pub(crate) fn of_ordered(self, order: &[usize]) -> Self {
        let put_back = |values: Array1<f64>| {
            let mut own = Array1::zeros(values.len());
            order.iter().zip(&values).for_each(|(row, value)| own[*row] = *value);
            own
        };
        Self {
            mean: put_back(self.mean),
            latent_variance: self.latent_variance.map(put_back),
            nearest: self.nearest.map(put_back),
            global_mean: self.global_mean.map(put_back),
        }
    }
}

/// What is predicted of the rows of a tile.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tile {
    pub mean: Vec<f64>,
    /// Latent variances; empty where they are not asked for.
    pub variance: Vec<f64>,
    /// See [`Prediction::nearest`]; empty without a local layer.
    pub nearest: Vec<f64>,
    /// See [`Prediction::global_mean`]; empty without a local layer, or without anything below it.
    pub global: Vec<f64>,
}

impl From<(Vec<f64>, Vec<f64>)> for Tile {
    fn from((mean, variance): (Vec<f64>, Vec<f64>)) -> Self {
        Self { mean, variance, ..Self::default() }
    }
}

/// Predicts `x_star`: `[p, d]` tile by tile. `predict` gets full tiles, and how many of their rows count.
pub(crate) fn in_tiles(
    x_star: ArrayView2<'_, f64>,
    centre: &[f64],
    variance: bool,
    predict: impl Fn(Array2<f64>, usize) -> Result<Tile, GpError> + Sync,
) -> Result<Prediction, GpError> {
    let (p, d) = x_star.dim();
    if d != centre.len() {
        return Err(GpError::shape(format!("{d} features to predict from; the model has {}", centre.len())));
    }
    let starts: Vec<usize> = (0..p).step_by(ROW_TILE).collect();
    let tile = |first: usize| {
        let rows = x_star.slice(s![first..(first + ROW_TILE).min(p), ..]);
        predict(filled(rows, centre), rows.nrows())
    };
    let tiles: Vec<Tile> = starts.into_par_iter().map(tile).collect::<Result<_, _>>()?;
    let joined = |of: fn(&Tile) -> &Vec<f64>| tiles.iter().flat_map(of).copied().collect::<Array1<f64>>();
    let known = |values: Array1<f64>| (!values.is_empty()).then_some(values);
    Ok(Prediction {
        mean: joined(|tile| &tile.mean),
        latent_variance: variance.then(|| joined(|tile| &tile.variance)),
        nearest: known(joined(|tile| &tile.nearest)),
        global_mean: known(joined(|tile| &tile.global)),
    })
}

/// A full tile with these rows first, filled up with the centre, a harmless point.
pub(crate) fn filled(rows: ArrayView2<'_, f64>, centre: &[f64]) -> Array2<f64> {
    let mut tile = Array2::from_shape_fn((ROW_TILE, rows.ncols()), |(_, j)| centre[j]);
    tile.slice_mut(s![..rows.nrows(), ..]).assign(&rows);
    tile
}

/// A variance that rounding has made negative is none. `max(0)` would turn NaN, the answer to an invalid row, into certainty.
pub(crate) fn not_negative(variance: f64) -> f64 {
    if variance < 0.0 { 0.0 } else { variance }
}
