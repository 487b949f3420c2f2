//! The rows at which hidden layers are anchored, and one layer there.

use std::sync::Arc;

use ndarray::Array2;

use super::{ListedRows, MonotoneMap, TrainingRows};
use crate::gp::GpError;
use crate::gp::deep::design::Design;
use crate::gp::deep::knots::Spot;
use crate::gp::deep::warped::Warped;
use crate::gp::kernel::square;
use crate::gp::linalg::Cholesky;

/// How errors name K_AA.
const ANCHOR_COVARIANCE: &str = "the covariance of a hidden layer";

/// Rows at which hidden layers are anchored.
#[derive(Debug, Clone)]
pub(in crate::gp::deep) struct Anchors {
    /// Their numbers among the training rows, `[r]`.
    pub rows: Vec<usize>,
    /// Features, `[r, d]`.
    pub x: Array2<f64>,
    /// Start values, `[r, D]`.
    pub start: Array2<f64>,
    /// Injective: where they lie between the knots.
    pub spots: Vec<Spot>,
    // Added to the diagonal of K_AA.
    jitter: f64,
    bottom: Arc<Factored>,
}

/// A layer's covariance at the anchors.
#[derive(Debug)]
pub(in crate::gp::deep) struct Factored {
    /// What the covariance knows of the anchors.
    pub sites: Warped,
    /// K_AA, `[r, r]`, without jitter.
    pub k: Array2<f64>,
    /// The factor of K_AA + jitter.
    pub lower: Cholesky,
}

/// One hidden layer of one particle at the anchors.
#[derive(Debug, Clone)]
pub(in crate::gp::deep) struct Layer {
    /// The layer's covariance, given the layer below.
    pub factored: Arc<Factored>,
    /// `aca`: the weights L⁻ᵀξ, `[r, D]`.
    pub weights: Array2<f64>,
    /// The values, `[r, D]`.
    pub values: Array2<f64>,
    /// The inputs to the next layer, `[r, D]`.
    pub inputs: Array2<f64>,
    /// Injective: the map of this layer.
    pub map: Option<MonotoneMap>,
    /// Injective and `aca`: covariances of the knots with the anchors, `[T, r]`.
    pub k_knots: Array2<f64>,
}

impl Factored {
    fn new(sites: Warped, jitter: f64) -> Result<Self, GpError> {
        let k = square(&sites)?;
        let mut shifted = k.clone();
        shifted.diag_mut().iter_mut().for_each(|v| *v += jitter);
        let lower = Cholesky::factor(shifted, ANCHOR_COVARIANCE)?;
        Ok(Self { sites, k, lower })
    }
}

impl Anchors {
    pub fn new(design: &Design, rows: &TrainingRows, list: &[usize], jitter: f64) -> Result<Self, GpError> {
        if list.is_empty() || list.iter().any(|row| *row >= rows.all()) {
            return Err(GpError::shape(format!("{} anchors of hidden layers among {} rows", list.len(), rows.all())));
        }
        let ListedRows { x, start, spots } = rows.pick(list)?;
        let bottom = Arc::new(Factored::new(design.bottom(x.view())?, jitter)?);
        Ok(Self { rows: list.to_vec(), x, start, spots, jitter, bottom })
    }

    /// The covariance of the layer above `below`, or of the bottom layer.
    pub fn factored(&self, design: &Design, below: Option<&Layer>) -> Result<Arc<Factored>, GpError> {
        match below {
            None => Ok(Arc::clone(&self.bottom)),
            Some(layer) => Factored::new(design.hidden(self.x.view(), layer.inputs.view())?, self.jitter).map(Arc::new),
        }
    }

    /// The covariance of the bottom layer at the anchors.
    pub fn bottom(&self) -> &Warped {
        &self.bottom.sites
    }
}
