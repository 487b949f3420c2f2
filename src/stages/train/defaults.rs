//! What the train stage does where the pipeline says nothing: the one place to change it.

use super::language::{Architecture, HiddenMethod, Preset, PriorMean};

/// Inducing points.
pub const INDUCING: u32 = 50;
/// Rows tried for each inducing point.
pub const CANDIDATES: u32 = 1000;

/// Which sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampler {
    /// Hamiltonian.
    Hmc,
    /// Preconditioned Crank–Nicolson.
    Pcn,
}

/// Defaults of the deep methods; those of the mathematics are the same, which a test checks.
#[derive(Clone, Debug)]
pub struct Defaults {
    pub architecture: Architecture,
    pub layers: u32,
    pub prior_mean: PriorMean,
    pub hidden_of_stride: HiddenMethod,
    pub hidden_of_deep_gp: HiddenMethod,
    pub rank: u32,
    pub tolerance: f64,
    pub repivot: bool,
    pub iterations: u32,
    pub particles: u32,
    pub exchanges: u32,
    pub hyperparameters: bool,
    pub sampler: Sampler,
    pub transitions: u32,
    pub leapfrog: u32,
    pub steps: u32,
    pub final_transitions: u32,
}

/// Without a preset.
const PLAIN: Defaults = Defaults {
    architecture: Architecture::Composition,
    layers: 2,
    prior_mean: PriorMean::Zero,
    hidden_of_stride: HiddenMethod::Aca,
    hidden_of_deep_gp: HiddenMethod::Full,
    rank: 50,
    tolerance: 1e-6,
    repivot: true,
    iterations: 10,
    particles: 10,
    exchanges: 3,
    hyperparameters: true,
    sampler: Sampler::Hmc,
    transitions: 12,
    leapfrog: 8,
    steps: 400,
    final_transitions: 50,
};

/// As in the paper.
const PAPER: Defaults = Defaults {
    prior_mean: PriorMean::Zero,
    particles: 50,
    exchanges: 5,
    hyperparameters: false,
    sampler: Sampler::Pcn,
    steps: 400,
    final_transitions: 0,
    ..PLAIN
};

/// The defaults under a preset.
pub const fn defaults(preset: Option<Preset>) -> &'static Defaults {
    match preset {
        None => &PLAIN,
        Some(Preset::Paper) => &PAPER,
    }
}
