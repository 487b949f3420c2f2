//! One particle of the mixture, ready to predict.

use ndarray::{Array1, Array2, ArrayView2};

use crate::gp::GpError;
use crate::gp::deep::design::Design;
use crate::gp::deep::knots;
use crate::gp::deep::warped::Warped;
use crate::gp::kernel::{Covariance, Hyper};
use crate::gp::linalg::panels::{Lane, squares, weighted};
use crate::gp::linalg::{Triangle, gemm_nn};

/// Hidden layers and top layer of one particle.
#[derive(Debug, Clone)]
pub(super) struct Component {
    pub hidden: Hidden,
    pub top: Top,
}

/// How new rows pass through the hidden layers.
#[derive(Debug, Clone)]
pub(super) enum Hidden {
    /// Layer by layer: mean + k(·, anchors) weights.
    Chain {
        /// Weights of the first layer, `[r, D]`; its anchors are those of all particles.
        first: Array2<f64>,
        /// The layers above.
        layers: Vec<Link>,
    },
    /// By the map g of the last layer (injective).
    Maps(Vec<Map>),
}

/// The map of one injective layer, from the feature to the inputs of the next.
#[derive(Debug, Clone)]
pub(super) struct Map {
    /// g at the knots.
    pub g: Vec<f64>,
    /// Its slopes at both ends.
    pub ends: (f64, f64),
}

/// The covariance of the first hidden layer, the same for all particles: it sees the features alone.
#[derive(Debug, Clone)]
pub(super) struct Bottom {
    /// Variance and length.
    pub scale: (f64, f64),
    /// What it knows of the anchors.
    pub anchors: Warped,
}

impl Bottom {
    /// The covariances of x: `[b, d]` with the anchors, `[b, r]`.
    pub fn covariances(&self, design: &Design, x: ArrayView2<'_, f64>) -> Result<Array2<f64>, GpError> {
        let at = Warped::stationary(design.kernel, self.scale, x, &design.x_centre)?;
        let mut k = Array2::zeros((x.nrows(), self.anchors.len()));
        at.tile(0, &self.anchors, k.view_mut())?;
        Ok(k)
    }
}

/// What all particles need of a tile of rows.
pub(super) struct Rows {
    /// Features, `[b, d]`.
    pub x: Array2<f64>,
    /// Start values of the hidden layers, `[b, D]`.
    pub start: Array2<f64>,
    /// Covariances with the anchors of the first hidden layer, `[b, r]`; empty where there are none.
    pub bottom: Array2<f64>,
}

/// One layer of a chain.
#[derive(Debug, Clone)]
pub(super) struct Link {
    /// What the layer's covariance knows of the anchors.
    pub anchors: Warped,
    /// `[r, D]`.
    pub weights: Array2<f64>,
}

/// The top layer, conditioned on the training targets.
#[derive(Debug, Clone)]
pub(super) struct Top {
    /// What the covariance knows of the inducing points, or of all training rows.
    pub anchors: Warped,
    /// The posterior mean is k(·, anchors) alpha.
    pub alpha: Array1<f64>,
    /// The factor of K_mm, or of K + γ²I.
    pub lower: Triangle,
    /// The factor of B; `None` for an exact top layer.
    pub lower_b: Option<Triangle>,
}

impl Component {
    /// The inputs of the top layer; `see` gets the values of every hidden layer on the way, bottom layer first.
    pub fn inputs(
        &self,
        design: &Design,
        rows: &Rows,
        mut see: impl FnMut(usize, &Array2<f64>),
    ) -> Result<Array2<f64>, GpError> {
        let (x, mut values) = (rows.x.view(), design.mean(rows.start.view()));
        match &self.hidden {
            Hidden::Maps(maps) => {
                let spots = design.spots(x).ok_or_else(|| GpError::shape("a map without knots"))?;
                for (index, map) in maps.iter().enumerate() {
                    values = knots::values(&spots, &map.g, map.ends);
                    see(index, &values);
                }
            }
            Hidden::Chain { first, layers } => {
                gemm_nn(1.0, rows.bottom.view(), first.view(), 1.0, values.view_mut())?;
                // One interpolation may stand for all layers.
                let lowest = design.layers - layers.len() - 1;
                see(lowest, &values);
                for (index, link) in layers.iter().enumerate() {
                    let at = design.hidden(x, values.view())?;
                    let mut k = Array2::zeros((x.nrows(), link.anchors.len()));
                    at.tile(0, &link.anchors, k.view_mut())?;
                    let mut next = design.mean(values.view());
                    gemm_nn(1.0, k.view(), link.weights.view(), 1.0, next.view_mut())?;
                    values = next;
                    see(lowest + 1 + index, &values);
                }
            }
        }
        Ok(values)
    }

    // For a prediction only the last map counts: injective maps are from the feature itself.
    fn last_inputs(&self, design: &Design, rows: &Rows) -> Result<Array2<f64>, GpError> {
        if let (Hidden::Maps(maps), Some(spots)) = (&self.hidden, design.spots(rows.x.view()))
            && let Some(map) = maps.last()
        {
            return Ok(knots::values(&spots, &map.g, map.ends));
        }
        self.inputs(design, rows, |_, _| {})
    }

    /// Mean and (when asked for) latent variance of the first `count` rows.
    pub fn predict(
        &self,
        design: &Design,
        hyper: &Hyper,
        rows: &Rows,
        count: usize,
        variance: bool,
    ) -> Result<(Vec<f64>, Vec<f64>), GpError> {
        let inputs = self.last_inputs(design, rows)?;
        let stars = design.top(rows.x.view(), inputs.view(), hyper)?;
        let alpha = self.top.alpha.as_slice().unwrap_or_default();
        let (mut mean, mut remaining) = (vec![0.0; count], vec![0.0; if variance { count } else { 0 }]);
        stars.for_panels(0..count, &self.top.anchors, None, &mut |rows, k| {
            let store = |lane: Lane, to: &mut [f64]| to[rows.clone()].copy_from_slice(&lane[..rows.len()]);
            store(weighted(k, alpha), &mut mean);
            if variance {
                self.top.lower.solve(k);
                let mut left = squares(&k[..alpha.len()]).map(|explained| hyper.variance - explained);
                if let Some(lower_b) = &self.top.lower_b {
                    lower_b.solve(k);
                    let back = squares(&k[..alpha.len()]);
                    left.iter_mut().zip(back).for_each(|(left, back)| *left += back);
                }
                store(left, &mut remaining);
            }
        })?;
        // max(0) would turn NaN, the answer to an invalid row, into certainty.
        for value in &mut remaining {
            *value = if *value < 0.0 { 0.0 } else { *value };
        }
        Ok((mean, remaining))
    }
}
