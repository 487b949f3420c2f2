//! Hidden layers by cross approximation: mean + K_·A L⁻ᵀξ at any row.

use std::sync::Arc;

use ndarray::{Array2, ArrayView2, ArrayViewMut2};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::adjoints::{back_to_sites, to_knots};
use super::anchors::{Factored, Layer};
use super::layers::LayerAtRows;
use super::{
    Adjoints, Anchors, BasisAt, HiddenLayers, LayersAtRows, MonotoneMap, Prepared, Representation, SomeRows,
    TrainingRows,
};
use crate::gp::GpError;
use crate::gp::deep::design::Design;
use crate::gp::deep::pivots;
use crate::gp::deep::warped::{Slopes, Warped};
use crate::gp::kernel::{Covariance, Hyper};
use crate::gp::linalg::{gemm_nn, gemm_nt, gemm_tn};

/// Options of the cross approximation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CrossOptions {
    /// Columns of the cross approximation, at most.
    #[schemars(range(min = 1))]
    pub rank: u32,
    /// Stop earlier when the relative residual trace falls below this.
    #[schemars(range(min = 0))]
    pub tolerance: f64,
    /// Choose the columns anew after every M step but the last.
    pub repivot: bool,
}

impl Default for CrossOptions {
    fn default() -> Self {
        Self { rank: 50, tolerance: 1e-6, repivot: true }
    }
}

impl CrossOptions {
    /// The rows among those `seen` at which the covariances of all particles are known worst, one after the other.
    pub(in crate::gp::deep) fn choose_pivots(&self, members: &[Warped], seen: &[usize]) -> Result<Vec<usize>, GpError> {
        let chosen = pivots::choose(members, self.rank as usize, self.tolerance)?;
        Ok(chosen.into_iter().map(|pivot| seen[pivot]).collect())
    }
}

impl Representation for CrossOptions {
    fn check(&self) -> Result<(), GpError> {
        if self.rank == 0 {
            return Err(GpError::value("the rank must be positive"));
        }
        Ok(())
    }

    fn cross(&self) -> Option<&CrossOptions> {
        Some(self)
    }

    fn anchor_rows(&self, _: usize, _: &[usize], pivots: &[usize]) -> Vec<usize> {
        pivots.to_vec()
    }

    fn anchor_count(&self, _: u64, _: u64) -> u64 {
        u64::from(self.rank)
    }

    fn basis(
        &self,
        _: &Design,
        _: &TrainingRows,
        anchors: &Anchors,
        _: &Hyper,
    ) -> Result<Option<Box<dyn BasisAt>>, GpError> {
        Ok(Some(Box::new(BottomCovariances(anchors.bottom().clone()))))
    }

    fn layer(
        &self,
        hidden: &HiddenLayers,
        design: &Design,
        below: Option<&Layer>,
        factored: Arc<Factored>,
        xi: &Array2<f64>,
    ) -> Result<Layer, GpError> {
        let mut weights = xi.clone();
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
        let map = MonotoneMap::new(design, u);
        let inputs = map.as_ref().map_or_else(|| values.clone(), |map| map.at(&hidden.anchors.spots));
        Ok(Layer { factored, weights, values, inputs, map, k_knots })
    }

    fn linear_weights(&self, _: &HiddenLayers, _: &Design, layers: &[Layer]) -> Option<Array2<f64>> {
        let [bottom] = layers else { return None };
        Some(bottom.weights.clone())
    }

    fn forward(
        &self,
        design: &Design,
        prepared: &Prepared,
        rows: &SomeRows<'_>,
        keep: bool,
    ) -> Result<LayersAtRows, GpError> {
        let mut values = design.mean(rows.start.view());
        let mut upper = Vec::new();
        for (index, layer) in prepared.layers.iter().enumerate() {
            if index == 0 {
                gemm_nn(1.0, rows.basis.view(), layer.weights.view(), 1.0, values.view_mut())?;
                continue;
            }
            let (next, kept) = through(design, layer, rows, values, keep)?;
            values = next;
            upper.extend(kept);
        }
        Ok(LayersAtRows { inputs: values, upper })
    }

    fn values(
        &self,
        hidden: &HiddenLayers,
        design: &Design,
        prepared: &Prepared,
        rows: &SomeRows<'_>,
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
                    Some(map) => map.at(&rows.spots),
                    None => below.to_owned(),
                };
                design.hidden(rows.x.view(), inputs.view())?.tile(0, &layer.factored.sites, k.view_mut())?;
            }
            gemm_nn(1.0, k.view(), layer.weights.view(), 1.0, values.view_mut())?;
            all.push(values);
        }
        Ok(all)
    }

    fn adjoints_by_layer(&self) -> bool {
        true
    }

    fn backward(
        &self,
        design: &Design,
        prepared: &Prepared,
        (rows, at_rows): (&SomeRows<'_>, &LayersAtRows),
        mut adjoint: Array2<f64>,
        adjoints: &mut Adjoints,
    ) -> Result<(), GpError> {
        for index in (1..prepared.layers.len()).rev() {
            let (layer, step) = (&prepared.layers[index], &at_rows.upper[index - 1]);
            gemm_tn(1.0, step.k.view(), adjoint.view(), 1.0, adjoints.weights[index].view_mut())?;
            let mut by_k = Array2::zeros(step.k.dim());
            gemm_nt(1.0, adjoint.view(), layer.weights.view(), 0.0, by_k.view_mut())?;
            let mut own = Array2::zeros((adjoint.nrows(), step.sites.coordinates()));
            step.sites.pull_back(
                0,
                &layer.factored.sites,
                by_k.view_mut(),
                &step.slopes,
                own.view_mut(),
                adjoints.sites[index].view_mut(),
            )?;
            let mut below = design.warped_back(step.below.view(), own, design.length);
            if design.mean_follows() {
                below += &adjoint;
            }
            adjoint = below;
        }
        gemm_tn(1.0, rows.basis.view(), adjoint.view(), 1.0, adjoints.weights[0].view_mut())
    }

    fn gradient(
        &self,
        hidden: &HiddenLayers,
        design: &Design,
        prepared: &Prepared,
        _: &[Array2<f64>],
        adjoints: Adjoints,
    ) -> Result<Vec<Array2<f64>>, GpError> {
        if design.knots.is_some() {
            return gradient_through_knots(hidden, design, prepared, adjoints);
        }
        gradient(design, prepared, adjoints)
    }
}

// With the anchors, by the covariance of the bottom layer.
#[derive(Debug)]
struct BottomCovariances(Warped);

impl BasisAt for BottomCovariances {
    fn fill(
        &self,
        design: &Design,
        x: ArrayView2<'_, f64>,
        _: &[usize],
        out: ArrayViewMut2<'_, f64>,
    ) -> Result<(), GpError> {
        design.bottom(x)?.tile(0, &self.0, out)
    }

    fn by_blocks(&self) -> bool {
        false
    }
}

// What the covariance above a layer knows of the knots.
fn knot_sites(design: &Design, map: &MonotoneMap) -> Result<Warped, GpError> {
    let g = ArrayView2::from_shape((map.g.len(), 1), &map.g).map_err(|_| GpError::shape("the knots"))?;
    design.hidden(g, g)
}

// One upper layer at some rows, from the values below.
fn through(
    design: &Design,
    layer: &Layer,
    rows: &SomeRows<'_>,
    below: Array2<f64>,
    keep: bool,
) -> Result<(Array2<f64>, Option<LayerAtRows>), GpError> {
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
    Ok((values, slopes.map(|slopes| LayerAtRows { below, sites, k, slopes })))
}

// Derivatives by ξ of every layer, once all rows have added theirs.
fn gradient(design: &Design, prepared: &Prepared, adjoints: Adjoints) -> Result<Vec<Array2<f64>>, GpError> {
    let Adjoints { mut weights, mut sites, .. } = adjoints;
    let mut gradient = Vec::with_capacity(weights.len());
    // By the values at the anchors, from the layer above.
    let mut by_values: Option<Array2<f64>> = None;
    for index in (0..prepared.layers.len()).rev() {
        let layer = &prepared.layers[index];
        let by_weights = std::mem::take(&mut weights[index]);
        let (by_xi, by_k) = back_through(layer, by_weights, by_values.as_ref(), index > 0)?;
        gradient.push(by_xi);
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

// The same for injective layers, which meet the rows at the knots only.
fn gradient_through_knots(
    hidden: &HiddenLayers,
    design: &Design,
    prepared: &Prepared,
    adjoints: Adjoints,
) -> Result<Vec<Array2<f64>>, GpError> {
    let mut gradient = Vec::with_capacity(prepared.layers.len());
    // By g at the knots.
    let mut adjoint = adjoints.last;
    for index in (0..prepared.layers.len()).rev() {
        let layer = &prepared.layers[index];
        let Some(map) = &layer.map else { return Err(GpError::shape("a layer without its map")) };
        let by_u = map.back(design, adjoint.as_slice().unwrap_or_default());
        let mut by_weights = Array2::zeros(layer.weights.dim());
        gemm_tn(1.0, layer.k_knots.view(), by_u.view(), 0.0, by_weights.view_mut())?;
        let (by_xi, by_k) = back_through(layer, by_weights, None, index > 0)?;
        gradient.push(by_xi);
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
        adjoint = own + to_knots(&hidden.anchors, design, &at_anchors);
    }
    gradient.reverse();
    Ok(gradient)
}
