//! Hidden layers by cross approximation: mean + K_·A L⁻ᵀξ at any row.

use std::sync::Arc;

use ndarray::{Array2, ArrayView2};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::anchors::{Factored, Layer};
use super::nodes::{back_to_sites, to_knots};
use super::{Anchors, Bars, Hidden, Map, Prepared, Rows, Step, Tile};
use crate::gp::GpError;
use crate::gp::deep::design::Design;
use crate::gp::deep::knots;
use crate::gp::deep::options::may_be_null;
use crate::gp::deep::warped::{Slopes, Warped};
use crate::gp::kernel::{Covariance, ROW_TILE};
use crate::gp::linalg::{for_row_blocks, gemm_nn, gemm_nt, gemm_tn};

/// Options of the cross approximation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(transform = may_be_null)]
pub struct CrossOptions {
    /// Columns of the cross approximation, at most. Default: 50.
    #[schemars(range(min = 1))]
    pub rank: u32,
    /// Stop earlier when the relative residual trace falls below this. Default: 1e-6.
    #[schemars(range(min = 0))]
    pub tolerance: f64,
    /// Choose the columns anew after every M step but the last. Default: true.
    pub repivot: bool,
}

impl Default for CrossOptions {
    fn default() -> Self {
        Self { rank: 50, tolerance: 1e-6, repivot: true }
    }
}

/// Covariances of the bottom layer between places: `[n, d]` and the anchors, `[n, r]`.
pub(in crate::gp::deep) fn bottom_covariances(
    design: &Design,
    places: ArrayView2<'_, f64>,
    anchors: &Anchors,
) -> Result<Array2<f64>, GpError> {
    let at = design.bottom(places)?;
    let mut basis = Array2::zeros((places.nrows(), anchors.rows.len()));
    for_row_blocks(&mut basis, ROW_TILE, |first, tile| at.tile(first, anchors.bottom(), tile))?;
    Ok(basis)
}

/// One layer at the anchors, and at the knots when there are any.
pub(super) fn layer(
    hidden: &Hidden,
    design: &Design,
    below: Option<&Layer>,
    factored: Arc<Factored>,
    white: &Array2<f64>,
) -> Result<Layer, GpError> {
    let mut weights = white.clone();
    factored.lower.solve_lower_transposed(weights.view_mut())?;
    let mut values = hidden.mean_at_anchors(design, below);
    gemm_nn(1.0, factored.k.view(), weights.view(), 1.0, values.view_mut())?;
    if design.knots.is_none() {
        let (inputs, nothing) = (values.clone(), Array2::zeros((0, 0)));
        return Ok(Layer { factored, weights, values, inputs, map: None, k_knots: nothing });
    }
    let k_knots = match below.and_then(|layer| layer.map.as_ref()) {
        None => hidden.basis().to_owned(),
        Some(map) => {
            let mut k = Array2::zeros(hidden.basis().dim());
            knot_sites(design, map)?.tile(0, &factored.sites, k.view_mut())?;
            k
        }
    };
    let mut u = design.mean(Array2::zeros((k_knots.nrows(), 1)).view());
    gemm_nn(1.0, k_knots.view(), weights.view(), 1.0, u.view_mut())?;
    let map = Map::new(design, u);
    let inputs =
        map.as_ref().map_or_else(|| values.clone(), |map| knots::values(&hidden.anchors.spots, &map.g, map.ends));
    Ok(Layer { factored, weights, values, inputs, map, k_knots })
}

// What the covariance above a layer knows of the knots.
fn knot_sites(design: &Design, map: &Map) -> Result<Warped, GpError> {
    let g = ndarray::ArrayView2::from_shape((map.g.len(), 1), &map.g).map_err(|_| GpError::shape("the knots"))?;
    design.hidden(g, g)
}

/// The inputs of the top layer at some rows, layer by layer.
pub(super) fn forward(design: &Design, prepared: &Prepared, rows: &Rows<'_>, keep: bool) -> Result<Tile, GpError> {
    let mut values = design.mean(rows.start.view());
    let mut steps = Vec::new();
    for (index, layer) in prepared.layers.iter().enumerate() {
        if index == 0 {
            gemm_nn(1.0, rows.basis.view(), layer.weights.view(), 1.0, values.view_mut())?;
            continue;
        }
        let (next, step) = through(design, layer, rows, values, keep)?;
        values = next;
        steps.extend(step);
    }
    Ok(Tile { inputs: values, steps })
}

// One upper layer at some rows, from the values below.
fn through(
    design: &Design,
    layer: &Layer,
    rows: &Rows<'_>,
    below: Array2<f64>,
    keep: bool,
) -> Result<(Array2<f64>, Option<Step>), GpError> {
    let anchors = &layer.factored.sites;
    let sites = design.hidden(rows.x.view(), below.view())?;
    let size = (below.nrows(), anchors.len());
    let mut k = Array2::zeros(size);
    let mut slopes = None;
    if keep {
        let mut room = Slopes::new(&sites, size.0, size.1);
        sites.tile_with_slopes(0, anchors, k.view_mut(), &mut room)?;
        slopes = Some(room);
    } else {
        sites.tile(0, anchors, k.view_mut())?;
    }
    let mut values = design.mean(below.view());
    gemm_nn(1.0, k.view(), layer.weights.view(), 1.0, values.view_mut())?;
    Ok((values, slopes.map(|slopes| Step { below, sites, k, slopes })))
}

/// The values of all layers at some training rows.
pub(super) fn values(
    hidden: &Hidden,
    design: &Design,
    prepared: &Prepared,
    rows: &Rows<'_>,
) -> Result<Vec<Array2<f64>>, GpError> {
    let bottom = hidden.anchors.bottom();
    let mut all: Vec<Array2<f64>> = Vec::new();
    for (index, layer) in prepared.layers.iter().enumerate() {
        let below = all.last().map_or_else(|| rows.start.view(), |values| values.view());
        let mut values = design.mean(below);
        let mut k = Array2::zeros((values.nrows(), bottom.len()));
        if index == 0 {
            design.bottom(rows.x.view())?.tile(0, bottom, k.view_mut())?;
        } else {
            let inputs = match &prepared.layers[index - 1].map {
                Some(map) => knots::values(&rows.spots, &map.g, map.ends),
                None => below.to_owned(),
            };
            design.hidden(rows.x.view(), inputs.view())?.tile(0, &layer.factored.sites, k.view_mut())?;
        }
        gemm_nn(1.0, k.view(), layer.weights.view(), 1.0, values.view_mut())?;
        all.push(values);
    }
    Ok(all)
}

/// Adds the derivatives of some rows, bar: `[b, D]` by the inputs of the top layer.
pub(super) fn backward(
    design: &Design,
    prepared: &Prepared,
    rows: &Rows<'_>,
    tile: &Tile,
    mut bar: Array2<f64>,
    bars: &mut Bars,
) -> Result<(), GpError> {
    for index in (1..prepared.layers.len()).rev() {
        let (layer, step) = (&prepared.layers[index], &tile.steps[index - 1]);
        gemm_tn(1.0, step.k.view(), bar.view(), 1.0, bars.weights[index].view_mut())?;
        let mut by_k = Array2::zeros(step.k.dim());
        gemm_nt(1.0, bar.view(), layer.weights.view(), 0.0, by_k.view_mut())?;
        let mut own = Array2::zeros((bar.nrows(), step.sites.coordinates()));
        step.sites.pull_back(
            0,
            &layer.factored.sites,
            by_k.view_mut(),
            &step.slopes,
            own.view_mut(),
            bars.sites[index].view_mut(),
        )?;
        let mut below = design.warped_back(step.below.view(), own, design.length);
        if design.mean_follows() {
            below += &bar;
        }
        bar = below;
    }
    gemm_tn(1.0, rows.basis.view(), bar.view(), 1.0, bars.weights[0].view_mut())
}

/// Derivatives by ξ of every layer, once all rows have added theirs.
pub(super) fn gradient(design: &Design, prepared: &Prepared, bars: Bars) -> Result<Vec<Array2<f64>>, GpError> {
    let Bars { mut weights, mut sites, .. } = bars;
    let mut gradient = Vec::with_capacity(weights.len());
    // By the values at the anchors, from the layer above.
    let mut by_values: Option<Array2<f64>> = None;
    for index in (0..prepared.layers.len()).rev() {
        let layer = &prepared.layers[index];
        let by_weights = std::mem::take(&mut weights[index]);
        let (by_white, by_k) = back_through(layer, by_weights, by_values.as_ref(), index > 0)?;
        gradient.push(by_white);
        if index == 0 {
            break;
        }
        let mut by_sites = std::mem::take(&mut sites[index]);
        by_sites += &back_to_sites(&layer.factored.sites, by_k)?;
        let mut below = design.warped_back(prepared.layers[index - 1].inputs.view(), by_sites, design.length);
        if let (true, Some(above)) = (design.mean_follows(), &by_values) {
            below += above;
        }
        by_values = Some(below);
    }
    gradient.reverse();
    Ok(gradient)
}

// From derivatives by the weights and by the values at the anchors to those by ξ, and (for upper layers) by K_AA.
fn back_through(
    layer: &Layer,
    mut by_weights: Array2<f64>,
    by_values: Option<&Array2<f64>>,
    upper: bool,
) -> Result<(Array2<f64>, Array2<f64>), GpError> {
    let Factored { k, lower, .. } = &*layer.factored;
    let r = lower.n();
    let mut by_k = Array2::zeros(if upper { (r, r) } else { (0, 0) });
    if let Some(by_values) = by_values {
        gemm_tn(1.0, k.view(), by_values.view(), 1.0, by_weights.view_mut())?;
        if upper {
            gemm_nt(1.0, by_values.view(), layer.weights.view(), 0.0, by_k.view_mut())?;
        }
    }
    // weights = L⁻ᵀξ: by ξ it is L⁻¹ of that by the weights, by L it is −weights (by ξ)ᵀ.
    lower.solve_lower(by_weights.view_mut())?;
    if upper {
        let mut by_lower = Array2::zeros((r, r));
        gemm_nt(-1.0, layer.weights.view(), by_weights.view(), 0.0, by_lower.view_mut())?;
        by_k += &lower.pull_back(by_lower)?;
    }
    Ok((by_weights, by_k))
}

/// The same for injective layers, which meet the rows at the knots only.
pub(super) fn gradient_through_knots(
    hidden: &Hidden,
    design: &Design,
    prepared: &Prepared,
    bars: Bars,
) -> Result<Vec<Array2<f64>>, GpError> {
    let mut gradient = Vec::with_capacity(prepared.layers.len());
    // By g at the knots.
    let mut bar = bars.last;
    for index in (0..prepared.layers.len()).rev() {
        let layer = &prepared.layers[index];
        let Some(map) = &layer.map else { return Err(GpError::shape("a layer without its map")) };
        let by_u = map.back(design, bar.as_slice().unwrap_or_default());
        let mut by_weights = Array2::zeros(layer.weights.dim());
        gemm_tn(1.0, layer.k_knots.view(), by_u.view(), 0.0, by_weights.view_mut())?;
        let (by_white, by_k) = back_through(layer, by_weights, None, index > 0)?;
        gradient.push(by_white);
        let Some(below) = (index > 0).then(|| &prepared.layers[index - 1]) else { break };
        let Some(below_map) = &below.map else { return Err(GpError::shape("a layer without its map")) };
        let at_knots = knot_sites(design, below_map)?;
        let size = layer.k_knots.dim();
        let (mut k, mut slopes) = (Array2::zeros(size), Slopes::new(&at_knots, size.0, size.1));
        at_knots.tile_with_slopes(0, &layer.factored.sites, k.view_mut(), &mut slopes)?;
        let mut by_knots = Array2::zeros(size);
        gemm_nt(1.0, by_u.view(), layer.weights.view(), 0.0, by_knots.view_mut())?;
        let mut by_sites = back_to_sites(&layer.factored.sites, by_k)?;
        let mut own = Array2::zeros((size.0, 1));
        at_knots.pull_back(
            0,
            &layer.factored.sites,
            by_knots.view_mut(),
            &slopes,
            own.view_mut(),
            by_sites.view_mut(),
        )?;
        let at_anchors = design.warped_back(below.inputs.view(), by_sites, design.length);
        let own = design.warped_back(own.clone().view(), own, design.length);
        bar = own + to_knots(hidden, design, &at_anchors);
    }
    gradient.reverse();
    Ok(gradient)
}
