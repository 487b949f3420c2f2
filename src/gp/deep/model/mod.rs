//! The trained model: a mixture over states of the chains, each with its own hidden layers and the same top layer.
//!
//! Nothing of it grows with the number of training rows, unless hidden layers live at all of them (`full`) or the top
//! layer has no inducing points. What the mixture needs is kept as named numbers, so that a model file can hold any
//! combination of architecture, hidden layers and top layer.

mod component;
mod local;
mod parts;
mod predict;

use std::collections::BTreeMap;

use ndarray::Array2;

use super::ChainDiagnostics;
use super::design::Design;
use super::em::DeepFit;
use super::options::Architecture;
use crate::gp::GpError;
use crate::gp::kernel::{Hyper, Kernel};
use crate::gp::neighbours::LocalParts;
use component::{Bottom, Component};

pub(super) use parts::PartsReader;
pub use predict::HiddenLayer;

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
    /// Matrices by name; vectors are matrices of one row.
    pub numbers: BTreeMap<String, Array2<f64>>,
    /// Mean over the particles of what the M step maximises; `None` without inducing points.
    pub bound: Option<f64>,
    /// Mean of ℓ over the particles.
    pub log_likelihood: f64,
    /// What the chains said.
    pub diagnostics: ChainDiagnostics,
    /// The layer that remembers training rows, if there is one.
    pub local: Option<LocalParts>,
}

/// A trained deep Gaussian process.
#[derive(Debug, Clone)]
pub struct DeepGp {
    parts: DeepParts,
    design: Design,
    /// The first hidden layer's covariance; none where rows pass by a map.
    bottom: Option<Bottom>,
    components: Vec<Component>,
    /// Of a top layer by neighbours, right after the fit: rows of the local layer that training has not seen.
    unseen: Vec<u32>,
}

impl DeepGp {
    /// The model at the end of a fit.
    pub(super) fn new(fit: &DeepFit<'_>) -> Result<Self, GpError> {
        Self::restored(parts::of_fit(fit)?)
    }

    /// Restores a model from its parts; its predictions are the same bits.
    pub fn from_parts(parts: DeepParts) -> Result<Self, GpError> {
        let gp = Self::restored(parts)?;
        let empty = |component: &Component| component.top.is_nothing() && component.local.is_none();
        if gp.components.iter().any(empty) {
            return Err(GpError::shape("a top layer by neighbours without its training rows"));
        }
        Ok(gp)
    }

    fn restored(parts: DeepParts) -> Result<Self, GpError> {
        let (design, bottom, components) = parts::restore(&parts)?;
        let mut gp = Self { parts, design, bottom, components, unseen: Vec::new() };
        gp.restore_local()?;
        Ok(gp)
    }

    pub(super) fn design(&self) -> &Design {
        &self.design
    }

    /// Architecture, hidden layers and their outputs.
    pub fn layout(&self) -> (Architecture, usize, usize) {
        (self.design.architecture, self.design.layers, self.design.width())
    }

    /// What a model file has to hold.
    pub fn parts(&self) -> &DeepParts {
        &self.parts
    }
}
