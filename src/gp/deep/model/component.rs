//! One particle of the mixture, ready to predict.

use std::sync::Arc;

use ndarray::{Array2, ArrayView2};

use crate::gp::GpError;
use crate::gp::deep::design::Design;
use crate::gp::deep::hidden::MonotoneMap;
use crate::gp::deep::top::Posterior;
use crate::gp::deep::warped::Warped;
use crate::gp::kernel::{Covariance, Hyper};
use crate::gp::linalg::gemm_nn;
use crate::gp::neighbours::LocalLayer;
use crate::gp::predict::Tile;

/// Hidden layers and top layer of one particle.
#[derive(Debug, Clone)]
pub(super) struct Component {
    pub hidden: Extension,
    pub top: Arc<dyn Posterior>,
    pub local: Option<Arc<LocalLayer>>,
}

/// How new rows pass through the hidden layers.
#[derive(Debug, Clone)]
pub(super) enum Extension {
    /// Layer by layer: mean + k(·, anchors) weights.
    Layered {
        /// Weights of the first layer, `[r, D]`; its anchors are those of all particles.
        first: Array2<f64>,
        layers: Vec<UpperLayer>,
    },
    /// By the map g of the last layer (injective).
    Maps(Vec<MonotoneMap>),
}

/// The covariance of the first hidden layer, the same for all particles: it sees the features alone.
#[derive(Debug, Clone)]
pub(super) struct Bottom {
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
pub(super) struct NewRows {
    /// Features, `[b, d]`.
    pub x: Array2<f64>,
    /// Start values of the hidden layers, `[b, D]`.
    pub start: Array2<f64>,
    /// Covariances with the anchors of the first hidden layer, `[b, r]`; empty where there are none.
    pub bottom: Array2<f64>,
}

/// A layer above the first.
#[derive(Debug, Clone)]
pub(super) struct UpperLayer {
    /// What the layer's covariance knows of the anchors.
    pub anchors: Warped,
    /// `[r, D]`.
    pub weights: Array2<f64>,
}

impl Component {
    /// The inputs of the top layer; `see` gets the values of every hidden layer on the way, bottom layer first.
    pub fn inputs(
        &self,
        design: &Design,
        rows: &NewRows,
        mut see: impl FnMut(usize, &Array2<f64>),
    ) -> Result<Array2<f64>, GpError> {
        let (x, mut values) = (rows.x.view(), design.mean(rows.start.view()));
        match &self.hidden {
            Extension::Maps(maps) => {
                let spots = design.spots(x).ok_or_else(|| GpError::shape("a map without knots"))?;
                for (index, map) in maps.iter().enumerate() {
                    values = map.at(&spots);
                    see(index, &values);
                }
            }
            Extension::Layered { first, layers } => {
                gemm_nn(1.0, rows.bottom.view(), first.view(), 1.0, values.view_mut())?;
                // One interpolation may stand for all layers.
                let lowest = design.layers - layers.len() - 1;
                see(lowest, &values);
                for (index, layer) in layers.iter().enumerate() {
                    let at = design.hidden(x, values.view())?;
                    let mut k = Array2::zeros((x.nrows(), layer.anchors.len()));
                    at.tile(0, &layer.anchors, k.view_mut())?;
                    let mut next = design.mean(values.view());
                    gemm_nn(1.0, k.view(), layer.weights.view(), 1.0, next.view_mut())?;
                    values = next;
                    see(lowest + 1 + index, &values);
                }
            }
        }
        Ok(values)
    }

    /// The values of every hidden layer at some rows, bottom layer first; of a map the slopes u that it is made of.
    pub fn values(
        &self,
        design: &Design,
        rows: &NewRows,
        mut see: impl FnMut(usize, &Array2<f64>),
    ) -> Result<(), GpError> {
        let Extension::Maps(maps) = &self.hidden else { return self.inputs(design, rows, see).map(drop) };
        let spots = design.spots(rows.x.view()).ok_or_else(|| GpError::shape("a map without knots"))?;
        for (index, map) in maps.iter().enumerate() {
            let u = map.u.to_vec();
            see(index, &Array2::from_shape_fn((spots.len(), 1), |(row, _)| spots[row].value(&u, (0.0, 0.0))));
        }
        Ok(())
    }

    // For a prediction only the last map counts: injective maps are from the feature itself.
    pub fn last_inputs(&self, design: &Design, rows: &NewRows) -> Result<Array2<f64>, GpError> {
        if let (Extension::Maps(maps), Some(spots)) = (&self.hidden, design.spots(rows.x.view()))
            && let Some(map) = maps.last()
        {
            return Ok(map.at(&spots));
        }
        self.inputs(design, rows, |_, _| {})
    }

    /// Mean and (when asked for) latent variance of the first `count` rows.
    pub fn predict(
        &self,
        design: &Design,
        hyper: &Hyper,
        rows: &NewRows,
        count: usize,
        variance: bool,
    ) -> Result<Tile, GpError> {
        let inputs = self.last_inputs(design, rows)?;
        let stars = design.top(rows.x.view(), inputs.view(), hyper)?;
        let Some(local) = &self.local else {
            return self.top.predict(&stars, hyper, count, variance).map(Tile::from);
        };
        let (mean, _) = self.top.predict(&stars, hyper, count, false)?;
        let tile = local.predict(&design.places(rows.x.view(), inputs).sites(), mean, variance)?;
        // Without a top layer of its own there is nothing to compare with.
        Ok(if self.top.is_nothing() { Tile { global: Vec::new(), ..tile } } else { tile })
    }
}
