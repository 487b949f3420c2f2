//! The trained model: a mixture over the particles.

use ndarray::{Array2, ArrayView2};
use std::collections::BTreeMap;

use super::Diagnostics;
use crate::gp::GpError;
use crate::gp::exact::Prediction;
use crate::gp::kernel::{Hyper, Kernel};

/// Everything that makes up a trained deep Gaussian process, as a model file keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct DeepParts {
    /// The covariance function of all layers.
    pub kernel: Kernel,
    /// Hyper-parameters of the top layer.
    pub hyper: Hyper,
    /// Training rows that are inducing points, `[m]`; empty without them.
    pub inducing: Vec<usize>,
    /// Options that prediction needs (architecture, prior mean and so on), by name.
    pub words: BTreeMap<String, String>,
    /// Numbers by name; vectors are matrices of one row.
    pub numbers: BTreeMap<String, Array2<f64>>,
    /// Mean of F_V over the particles; `None` without inducing points.
    pub bound: Option<f64>,
    /// Mean of ℓ over the particles.
    pub log_likelihood: f64,
    /// What the chains said.
    pub diagnostics: Diagnostics,
}

/// A trained deep Gaussian process.
#[derive(Debug, Clone)]
pub struct DeepGp {
    parts: DeepParts,
}

impl DeepGp {
    /// Restores a model from its parts; its predictions are the same bits.
    pub fn from_parts(parts: DeepParts) -> Result<Self, GpError> {
        Ok(Self { parts })
    }

    /// What a model file has to hold.
    pub fn parts(&self) -> &DeepParts {
        &self.parts
    }

    /// Predicts `x_star`: `[p, d]`; `variance` asks for the variances too.
    pub fn predict(&self, _x_star: ArrayView2<'_, f64>, _variance: bool) -> Result<Prediction, GpError> {
        Err(GpError::value("deep fits are being built"))
    }
}
