//! Hidden layers sampled at their anchors, mean + L ξ: all training rows (`full`) or the inducing points (`sparse`).

use std::sync::Arc;

use ndarray::{Array2, ArrayView2, Axis};

use super::anchors::{Factored, Layer};
use super::{Bars, Hidden, Kind, Map, Prepared, Rows, Tile, TrainingRows};
use crate::gp::GpError;
use crate::gp::deep::design::Design;
use crate::gp::deep::knots;
use crate::gp::deep::warped::{Slopes, Warped};
use crate::gp::kernel::{Covariance, Hyper, ROW_TILE, square};
use crate::gp::linalg::{Cholesky, add_all, for_row_blocks, gemm_nn, gemm_nt, gemm_tn};

/// Weights that carry values at the inducing points to all training rows, `[n, m]`, or to all knots, `[T, m]`:
/// k(x, X_m)(K_mm + γ²I)⁻¹ with the stationary model. Inducing rows keep their values.
pub(super) fn interpolation(
    design: &Design,
    rows: &TrainingRows,
    inducing: &[usize],
    start: &Hyper,
) -> Result<Array2<f64>, GpError> {
    let (places, numbers): (ArrayView2<'_, f64>, Vec<usize>) = if rows.knots.is_empty() {
        (rows.x.view(), (0..rows.len()).collect())
    } else {
        (rows.knot_x.view(), rows.knots.clone())
    };
    let (anchors, factor) = stationary(design, rows.x.select(Axis(0), inducing).view(), start)?;
    let at = Warped::stationary(design.kernel, (start.variance, start.lengths[0]), places, &design.x_centre)?;
    let mut weights = Array2::zeros((places.nrows(), inducing.len()));
    for_row_blocks(&mut weights, ROW_TILE, |first, mut tile| {
        at.tile(first, &anchors, tile.view_mut())?;
        factor.solve_rows(tile)
    })?;
    for (number, mut weights) in numbers.iter().zip(weights.outer_iter_mut()) {
        if let Some(own) = inducing.iter().position(|row| row == number) {
            weights.fill(0.0);
            weights[own] = 1.0;
        }
    }
    Ok(weights)
}

/// The stationary covariance at x: `[m, d]`, and the factor of K_mm + γ²I.
pub(in crate::gp::deep) fn stationary(
    design: &Design,
    x: ArrayView2<'_, f64>,
    start: &Hyper,
) -> Result<(Warped, Cholesky), GpError> {
    let anchors = Warped::stationary(design.kernel, (start.variance, start.lengths[0]), x, &design.x_centre)?;
    let mut k_mm = square(&anchors)?;
    k_mm.diag_mut().iter_mut().for_each(|v| *v += start.noise);
    let factor = Cholesky::factor(k_mm, "the covariance of the inducing points")?;
    Ok((anchors, factor))
}

/// One layer at its anchors: mean + L ξ.
pub(super) fn layer(
    hidden: &Hidden,
    design: &Design,
    below: Option<&Layer>,
    factored: Arc<Factored>,
    white: &Array2<f64>,
) -> Result<Layer, GpError> {
    let mean = hidden.mean_at_anchors(design, below);
    let mut values = mean.clone();
    let mut rise = Array2::zeros(white.dim());
    for_row_blocks(&mut rise, ROW_TILE, |first, rows| {
        // Row i of L is zero right of the diagonal.
        let end = first + rows.nrows();
        let lower = factored.lower.lower();
        let (lower, white) = (lower.slice_move(ndarray::s![first..end, ..end]), white.slice(ndarray::s![..end, ..]));
        gemm_nn(1.0, lower, white, 0.0, rows)
    })?;
    values += &rise;
    let map = if design.knots.is_some() {
        let mut u = design.mean(Array2::zeros((hidden.basis.nrows(), 1)).view());
        gemm_nn(1.0, hidden.basis(), rise.view(), 1.0, u.view_mut())?;
        Map::new(design, u)
    } else {
        None
    };
    let inputs = match &map {
        None => values.clone(),
        Some(map) => knots::values(&hidden.anchors.spots, &map.g, map.ends),
    };
    let nothing = Array2::zeros((0, 0));
    Ok(Layer { factored, weights: nothing.clone(), values, inputs, map, k_knots: nothing })
}

/// The inputs of the top layer at some rows.
pub(super) fn forward(hidden: &Hidden, design: &Design, prepared: &Prepared, rows: &Rows<'_>) -> Result<Tile, GpError> {
    let inputs = match (hidden.kind, prepared.layers.last()) {
        (Kind::Sparse, _) => {
            let mut inputs = design.mean(rows.start.view());
            gemm_nn(1.0, rows.basis.view(), prepared.spread.view(), 1.0, inputs.view_mut())?;
            inputs
        }
        (_, Some(last)) => last.values.select(Axis(0), &rows.numbers),
        (_, None) => rows.start.to_owned(),
    };
    Ok(Tile { inputs, steps: Vec::new() })
}

/// The values of all layers at some training rows.
pub(super) fn values(
    hidden: &Hidden,
    design: &Design,
    prepared: &Prepared,
    rows: &Rows<'_>,
) -> Result<Vec<Array2<f64>>, GpError> {
    let base = design.mean(hidden.anchors.start.view());
    prepared
        .layers
        .iter()
        .map(|layer| match (hidden.kind, design.knots.is_some()) {
            (Kind::Full, _) => Ok(layer.values.select(Axis(0), &rows.numbers)),
            // Means telescope: every layer is the mean above the start values, and a rise that is interpolated.
            (_, false) => {
                let mut values = design.mean(rows.start.view());
                gemm_nn(1.0, rows.basis.view(), (&layer.values - &base).view(), 1.0, values.view_mut())?;
                Ok(values)
            }
            // u between the knots: as g is linear there, u² is nearly so, and u itself too.
            (_, true) => {
                let u = layer.map.as_ref().map_or_else(Vec::new, |map| map.u.to_vec());
                let known = |row: &usize| hidden.anchors.rows.iter().position(|anchor| anchor == row);
                let mut values = knots::values(&rows.spots, &u, (0.0, 0.0));
                for (number, value) in rows.numbers.iter().zip(values.iter_mut()) {
                    if let Some(own) = known(number) {
                        *value = layer.values[[own, 0]];
                    }
                }
                Ok(values)
            }
        })
        .collect()
}

/// Adds the derivatives of some rows, bar: `[b, D]`, to those by the values of the last layer.
pub(super) fn backward(hidden: &Hidden, rows: &Rows<'_>, bar: &Array2<f64>, bars: &mut Bars) -> Result<(), GpError> {
    if hidden.kind == Kind::Sparse {
        return gemm_tn(1.0, rows.basis.view(), bar.view(), 1.0, bars.last.view_mut());
    }
    for (number, bar) in rows.numbers.iter().zip(bar.outer_iter()) {
        add_all(bars.last.row_mut(*number), bar);
    }
    Ok(())
}

/// Derivatives by ξ of every layer.
pub(super) fn gradient(
    hidden: &Hidden,
    design: &Design,
    prepared: &Prepared,
    white: &[Array2<f64>],
    bars: Bars,
) -> Result<Vec<Array2<f64>>, GpError> {
    let mut gradient: Vec<Array2<f64>> = Vec::with_capacity(white.len());
    // By the inputs to the next layer: at the anchors, or (injective) by g at the knots.
    let mut bar = bars.last;
    for index in (0..prepared.layers.len()).rev() {
        let layer = &prepared.layers[index];
        // By the values at the anchors.
        let by_values = match &layer.map {
            None => bar,
            Some(map) => {
                let by_u = map.back(design, bar.as_slice().unwrap_or_default());
                let mut back = Array2::zeros(white[index].dim());
                gemm_tn(1.0, hidden.basis(), by_u.view(), 0.0, back.view_mut())?;
                back
            }
        };
        let lower = &layer.factored.lower;
        let mut by_white = Array2::zeros(white[index].dim());
        gemm_tn(1.0, lower.lower(), by_values.view(), 0.0, by_white.view_mut())?;
        gradient.push(by_white);
        if index == 0 {
            break;
        }
        let r = lower.n();
        let mut by_lower = Array2::zeros((r, r));
        gemm_nt(1.0, by_values.view(), white[index].view(), 0.0, by_lower.view_mut())?;
        let by_sites = back_to_sites(&layer.factored.sites, lower.pull_back(by_lower)?)?;
        let below = &prepared.layers[index - 1];
        let mut next = design.warped_back(below.inputs.view(), by_sites, design.length);
        if design.mean_follows() {
            next += &by_values;
        }
        bar = if below.map.is_some() { to_knots(hidden, design, &next) } else { next };
    }
    gradient.reverse();
    Ok(gradient)
}

/// From a symmetric derivative by K_AA to one by what the covariance knows of the anchors.
pub(in crate::gp::deep) fn back_to_sites(sites: &Warped, mut bar: Array2<f64>) -> Result<Array2<f64>, GpError> {
    let r = bar.nrows();
    let mut slopes = Slopes::new(sites, r, r);
    let mut k = Array2::zeros((r, r));
    sites.tile_with_slopes(0, sites, k.view_mut(), &mut slopes)?;
    let (mut own, mut others) = (Array2::zeros((r, sites.coordinates())), Array2::zeros((r, sites.coordinates())));
    sites.pull_back(0, sites, bar.view_mut(), &slopes, own.view_mut(), others.view_mut())?;
    own += &others;
    Ok(own)
}

/// From derivatives by g at the anchors, `[r, 1]`, to those at the knots, `[T, 1]`.
pub(super) fn to_knots(hidden: &Hidden, design: &Design, bar: &Array2<f64>) -> Array2<f64> {
    let knots = design.knots.as_ref().map_or(0, |knots| knots.at.len());
    let mut back = vec![0.0; knots];
    hidden.anchors.spots.iter().zip(bar).for_each(|(spot, bar)| spot.value_back(*bar, &mut back));
    Array2::from_shape_vec((knots, 1), back).unwrap_or_else(|_| Array2::zeros((knots, 1)))
}
