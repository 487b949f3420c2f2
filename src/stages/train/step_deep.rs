//! The options of the deep methods, every one decided.

use super::language::{Architecture, Kernel, PriorMean};
use super::step_train::{FreeHyperparameters, InducingStep};
use serde::Serialize;

/// Options of standard deep regression.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct DeepStep {
    /// Kernel and hyper-parameters.
    pub start: StartStep,
    /// The deep prior.
    pub deep: LayersStep,
    /// The training loop.
    pub em: EmStep,
}

/// Options of STRIDE.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct StrideStep {
    /// Kernel and hyper-parameters.
    pub start: StartStep,
    /// The inducing points.
    pub inducing: InducingStep,
    /// Birth/death updates in one M step; none when the points are given.
    pub exchanges: u32,
    /// The deep prior.
    pub deep: LayersStep,
    /// The training loop.
    pub em: EmStep,
}

/// The stationary fit that a deep one starts from: one correlation length for all features.
#[derive(Clone, Copy, Debug, Serialize, PartialEq)]
pub struct StartStep {
    /// Covariance function of all layers.
    pub kernel: Kernel,
    /// Given kernel variance.
    pub variance: Option<f64>,
    /// Given correlation length.
    pub length: Option<f64>,
    /// Given noise variance.
    pub noise: Option<f64>,
    /// Which are optimised.
    pub optimise: FreeHyperparameters,
}

/// The deep prior. Options that the architecture does not use are none.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct LayersStep {
    /// How layers build on each other.
    pub architecture: Architecture,
    /// Layers in all, the top layer included.
    pub layers: u32,
    /// Outputs of a hidden layer; none = the number of features. Composition only.
    pub width: Option<u32>,
    /// Mean of the hidden layers.
    pub prior_mean: PriorMean,
    /// How hidden layers are represented.
    pub hidden: HiddenStep,
    /// Hidden correlation length; none = the fitted one.
    pub length: Option<f64>,
    /// Lower end of the local length (convolution) or slope (injective).
    pub u_min: Option<f64>,
    /// Upper end of the local length. Convolution only.
    pub u_max: Option<f64>,
}

/// How hidden layers are represented.
#[derive(Clone, Copy, Debug, Serialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum HiddenStep {
    /// At all training rows.
    Full,
    /// By adaptive cross approximation.
    Aca {
        /// Columns at most.
        rank: u32,
        /// Stop earlier when the residual trace falls below this share.
        tolerance: f64,
        /// Choose the columns anew after every M step but the last.
        repivot: bool,
    },
    /// At the inducing points.
    Sparse,
}

/// The training loop.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq)]
pub struct EmStep {
    /// EM iterations.
    pub iterations: u32,
    /// Markov chains.
    pub particles: u32,
    /// The M step also moves the hyper-parameters.
    pub hyperparameters: bool,
    /// The sampler of the E step.
    pub sampler: SamplerStep,
    /// Length of the frozen chain at the end.
    pub final_transitions: u32,
    /// States of each chain in the mixture. Not told when it is one, so that fits from before it existed stay known.
    #[serde(skip_serializing_if = "is_one")]
    pub draws: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_one(draws: &u32) -> bool {
    *draws == 1
}

/// The sampler of the E step.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum SamplerStep {
    /// Hamiltonian.
    Hmc {
        /// Transitions per E step.
        transitions: u32,
        /// Steps per transition.
        leapfrog: u32,
    },
    /// Preconditioned Crank–Nicolson.
    Pcn {
        /// Steps per E step.
        steps: u32,
    },
}
