//! What a deep fit can be asked for.

use crate::gp::GpError;
use crate::gp::exact::ExactOptions;
use crate::gp::kernel::{Free, Kernel};
use crate::gp::sparse::SparseOptions;

/// How layers build on each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// k(u(x), u(x')): a layer's values are the inputs of the next.
    Composition,
    /// A layer's values are the local correlation length of the next.
    Convolution,
    /// A layer's values are the slope of a monotone map of the one feature.
    Injective,
}

impl Architecture {
    /// Every architecture.
    pub const ALL: [Self; 3] = [Self::Composition, Self::Convolution, Self::Injective];

    /// The name in pipelines and model files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Composition => "composition",
            Self::Convolution => "convolution",
            Self::Injective => "injective",
        }
    }
}

/// Mean of the hidden layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PriorMean {
    /// Zero.
    Zero,
    /// What makes the deep model the stationary one: the layer below, the fitted length, the slope 1.
    Identity,
}

/// How hidden layers are represented.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HiddenKind {
    /// At all training rows.
    Full,
    /// By adaptive cross approximation.
    Aca {
        /// Columns at most.
        rank: usize,
        /// Stop earlier when the residual trace falls below this share.
        tolerance: f64,
        /// Choose the columns anew after every M step but the last.
        repivot: bool,
    },
    /// At the inducing points, interpolated to all other rows.
    Sparse,
}

/// The sampler of the E step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SamplerKind {
    /// Preconditioned Crank–Nicolson.
    Pcn {
        /// Steps per E step.
        steps: usize,
    },
    /// Hamiltonian, with the Gaussian part solved exactly.
    Hmc {
        /// Transitions per E step.
        transitions: usize,
        /// Steps per transition.
        leapfrog: usize,
    },
}

/// The stationary fit that comes first, and with it the kind of top layer.
#[derive(Debug, Clone, PartialEq)]
pub enum Start {
    /// STRIDE: a sparse fit; the top layer has its inducing points.
    Sparse(SparseOptions),
    /// Standard deep regression: an exact fit; the top layer is marginalised exactly.
    Exact(ExactOptions),
}

impl Start {
    /// The covariance function of all layers.
    pub fn kernel(&self) -> Kernel {
        match self {
            Self::Sparse(options) => options.stationary.kernel,
            Self::Exact(options) => options.stationary.kernel,
        }
    }

    /// Which hyper-parameters may move.
    pub fn free(&self) -> Free {
        match self {
            Self::Sparse(options) => options.stationary.hyperparameters.optimise,
            Self::Exact(options) => options.stationary.hyperparameters.optimise,
        }
    }
}

/// How to fit a deep Gaussian process.
#[derive(Debug, Clone, PartialEq)]
pub struct DeepOptions {
    /// The stationary fit that comes first.
    pub start: Start,
    /// How layers build on each other.
    pub architecture: Architecture,
    /// Layers in all, the top one included; at least 2.
    pub layers: usize,
    /// Outputs of a hidden layer; `None`: the number of features. Composition only.
    pub width: Option<usize>,
    /// Mean of the hidden layers.
    pub prior_mean: PriorMean,
    /// How hidden layers are represented.
    pub hidden: HiddenKind,
    /// Hidden correlation length; `None`: the fitted one.
    pub length: Option<f64>,
    /// Lower end of the local length (convolution) or slope (injective).
    pub u_min: Option<f64>,
    /// Upper end of the local length (convolution).
    pub u_max: Option<f64>,
    /// EM iterations.
    pub iterations: usize,
    /// Markov chains.
    pub particles: usize,
    /// Birth/death updates in one M step.
    pub exchanges: usize,
    /// The M step also moves the hyper-parameters.
    pub hyperparameters: bool,
    /// The sampler of the E step.
    pub sampler: SamplerKind,
    /// Length of the frozen chain at the end.
    pub final_transitions: usize,
    /// States of each chain that the mixture holds, spread evenly over the frozen chain; the last is one of them.
    pub draws: usize,
}

impl Default for DeepOptions {
    fn default() -> Self {
        Self {
            start: Start::Sparse(SparseOptions::default()),
            architecture: Architecture::Composition,
            layers: 2,
            width: None,
            prior_mean: PriorMean::Zero,
            hidden: HiddenKind::Aca { rank: 50, tolerance: 1e-6, repivot: true },
            length: None,
            u_min: None,
            u_max: None,
            iterations: 10,
            particles: 10,
            exchanges: 3,
            hyperparameters: true,
            sampler: SamplerKind::Hmc { transitions: 12, leapfrog: 8 },
            final_transitions: 50,
            draws: 1,
        }
    }
}

impl DeepOptions {
    /// Refuses what no fit can do; d is the number of features.
    pub(super) fn check(&self, d: usize) -> Result<(), GpError> {
        let positive = |value: Option<f64>| value.is_none_or(|value| value.is_finite() && value > 0.0);
        if self.layers < 2 || self.particles == 0 {
            return Err(GpError::value("a deep model needs at least two layers and one particle"));
        }
        if self.architecture == Architecture::Injective && d != 1 {
            return Err(GpError::value(format!("the injective architecture is for one feature; there are {d}")));
        }
        if self.width.is_some_and(|width| width == 0 || self.architecture != Architecture::Composition && width != 1) {
            return Err(GpError::value("hidden layers have one output unless the architecture is `composition`"));
        }
        if matches!((&self.start, self.hidden), (Start::Exact(_), HiddenKind::Sparse)) {
            return Err(GpError::value("hidden layers at the inducing points need a method that has such points"));
        }
        if !positive(self.length) || !positive(self.u_min) || !positive(self.u_max) {
            return Err(GpError::value("lengths must be positive"));
        }
        if matches!(self.hidden, HiddenKind::Aca { rank: 0, .. })
            || matches!(self.sampler, SamplerKind::Hmc { leapfrog: 0, .. })
        {
            return Err(GpError::value("the rank and the number of leapfrog steps must be positive"));
        }
        if self.draws == 0 || self.draws > self.final_transitions.max(1) {
            let (draws, moves) = (self.draws, self.final_transitions);
            return Err(GpError::value(format!("{draws} states of a frozen chain of {moves} moves")));
        }
        Ok(())
    }
}
