//! Hidden layers sampled at their anchors, mean + L ξ: what all rows (`full`) and the inducing points (`sparse`) share.

use std::sync::Arc;

use ndarray::{Array2, s};

use super::adjoints::{back_to_sites, to_knots};
use super::anchors::{Factored, Layer};
use super::{Adjoints, HiddenLayers, MonotoneMap, Prepared};
use crate::gp::GpError;
use crate::gp::deep::design::Design;
use crate::gp::kernel::ROW_TILE;
use crate::gp::linalg::{for_row_blocks, gemm_nn, gemm_nt, gemm_tn};

/// One layer at its anchors: mean + L ξ.
pub(super) fn layer(
    hidden: &HiddenLayers,
    design: &Design,
    below: Option<&Layer>,
    factored: Arc<Factored>,
    xi: &Array2<f64>,
) -> Result<Layer, GpError> {
    let mut values = hidden.mean_at_anchors(design, below);
    let mut rise = Array2::zeros(xi.dim());
    for_row_blocks(&mut rise, ROW_TILE, |first, rows| {
        // Row i of L is zero right of the diagonal.
        let end = first + rows.nrows();
        let lower = factored.lower.lower();
        let (lower, xi) = (lower.slice_move(s![first..end, ..end]), xi.slice(s![..end, ..]));
        gemm_nn(1.0, lower, xi, 0.0, rows)
    })?;
    values += &rise;
    let map = if design.knots.is_some() {
        let mut u = design.mean(Array2::zeros((hidden.basis().nrows(), 1)).view());
        gemm_nn(1.0, hidden.basis(), rise.view(), 1.0, u.view_mut())?;
        MonotoneMap::new(design, u)
    } else {
        None
    };
    let inputs = map.as_ref().map_or_else(|| values.clone(), |map| map.at(&hidden.anchors.spots));
    let nothing = Array2::zeros((0, 0));
    Ok(Layer { factored, weights: nothing.clone(), values, inputs, map, k_knots: nothing })
}

/// Derivatives by ξ of every layer.
pub(super) fn gradient(
    hidden: &HiddenLayers,
    design: &Design,
    prepared: &Prepared,
    xi: &[Array2<f64>],
    adjoints: Adjoints,
) -> Result<Vec<Array2<f64>>, GpError> {
    let mut gradient: Vec<Array2<f64>> = Vec::with_capacity(xi.len());
    // By the inputs to the next layer: at the anchors, or (injective) by g at the knots.
    let mut adjoint = adjoints.last;
    for index in (0..prepared.layers.len()).rev() {
        let layer = &prepared.layers[index];
        // By the values at the anchors.
        let by_values = match &layer.map {
            None => adjoint,
            Some(map) => {
                let by_u = map.back(design, adjoint.as_slice().unwrap_or_default());
                let mut back = Array2::zeros(xi[index].dim());
                gemm_tn(1.0, hidden.basis(), by_u.view(), 0.0, back.view_mut())?;
                back
            }
        };
        let lower = &layer.factored.lower;
        let mut by_xi = Array2::zeros(xi[index].dim());
        gemm_tn(1.0, lower.lower(), by_values.view(), 0.0, by_xi.view_mut())?;
        gradient.push(by_xi);
        if index == 0 {
            break;
        }
        let r = lower.n();
        let mut by_lower = Array2::zeros((r, r));
        gemm_nt(1.0, by_values.view(), xi[index].view(), 0.0, by_lower.view_mut())?;
        let by_sites = back_to_sites(&layer.factored.sites, lower.pull_back(by_lower)?)?;
        let below = &prepared.layers[index - 1];
        let mut next = design.warped_back(below.inputs.view(), by_sites, design.length);
        if design.mean_follows() {
            next += &by_values;
        }
        adjoint = if below.map.is_some() { to_knots(&hidden.anchors, design, &next) } else { next };
    }
    gradient.reverse();
    Ok(gradient)
}
