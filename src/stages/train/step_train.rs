//! The methods, every option decided.

use super::language::{Architecture, Kernel};
use super::step_deep::{DeepStep, EmStep, LayersStep, StrideStep};
use serde::Serialize;

/// A regression method with the options it uses; those it does not use are not here, so they cannot matter.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Exact Gaussian-process regression.
    Gp(GpStep),
    /// Sparse Gaussian-process regression.
    SparseGp(SparseStep),
    /// Standard deep regression.
    DeepGp(DeepStep),
    /// STRIDE.
    Stride(StrideStep),
}

impl Method {
    /// The name in tables and in the language.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Gp(_) => "gp",
            Self::SparseGp(_) => "sparse_gp",
            Self::DeepGp(_) => "deep_gp",
            Self::Stride(_) => "stride",
        }
    }

    /// Whether it is for one feature only.
    pub fn takes_one_feature(&self) -> bool {
        self.deep().is_some_and(|(layers, _)| layers.architecture == Architecture::Injective)
    }

    /// The layers and the training loop of a deep method.
    pub const fn deep(&self) -> Option<(&LayersStep, &EmStep)> {
        match self {
            Self::Gp(_) | Self::SparseGp(_) => None,
            Self::DeepGp(step) => Some((&step.deep, &step.em)),
            Self::Stride(step) => Some((&step.deep, &step.em)),
        }
    }
}

/// Options of exact Gaussian-process regression.
#[derive(Clone, Copy, Debug, Serialize, PartialEq)]
pub struct GpStep {
    /// Covariance function.
    pub kernel: Kernel,
    /// One length per feature.
    pub ard: bool,
    /// Given kernel variance.
    pub variance: Option<f64>,
    /// Given correlation length.
    pub length: Option<f64>,
    /// Given noise variance.
    pub noise: Option<f64>,
    /// Which are optimised.
    pub optimise: FreeHyperparameters,
}

/// Options of sparse Gaussian-process regression.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct SparseStep {
    /// Kernel and hyper-parameters.
    pub gp: GpStep,
    /// The inducing points.
    pub inducing: InducingStep,
}

/// How inducing points come about.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum InducingStep {
    /// Greedily.
    Chosen {
        /// How many.
        count: u32,
        /// Rows tried for each; none = all.
        candidates: Option<u32>,
    },
    /// These rows of the source.
    Given {
        /// Their numbers.
        rows: Vec<u64>,
    },
}

/// Which hyper-parameters are optimised.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq)]
pub struct FreeHyperparameters {
    /// Kernel variance.
    pub variance: bool,
    /// Correlation length.
    pub length: bool,
    /// Noise variance.
    pub noise: bool,
}
