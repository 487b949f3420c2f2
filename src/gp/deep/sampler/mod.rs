//! Markov chains over whitened hidden variables, prior N(0, I).

mod hmc;
mod pcn;

use ndarray::Array2;
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::target::{Density, LogDensity};
use crate::gp::GpError;
use crate::gp::random::standard_normal;

pub use hmc::{Hmc, HmcOptions};
pub use pcn::{Pcn, PcnOptions};

/// The sampler of the E step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "Sampler")]
pub enum SamplerOptions {
    /// Hamiltonian sampler.
    Hmc(HmcOptions),
    /// Preconditioned Crank–Nicolson, as in the paper.
    Pcn(PcnOptions),
}

impl Default for SamplerOptions {
    fn default() -> Self {
        Self::Hmc(HmcOptions::default())
    }
}

impl SamplerOptions {
    /// Everything that is to be known of the sampler.
    pub fn method(&self) -> &dyn SamplerMethod {
        match self {
            Self::Hmc(options) => options,
            Self::Pcn(options) => options,
        }
    }
}

/// What is to be known of a sampler before it runs.
pub trait SamplerMethod {
    /// What its moves are called.
    fn unit(&self) -> &'static str;
    /// Moves per E step.
    fn moves(&self) -> u32;
    /// Moves between two looks at the observer.
    fn round(&self) -> usize {
        1
    }
    /// Moves of the frozen chain at the end, where the pipeline says nothing.
    fn frozen_moves(&self) -> u32 {
        50
    }
    /// Refuses what cannot run.
    fn check(&self) -> Result<(), GpError> {
        Ok(())
    }
}

/// A sampler with what its adaptation remembers; one per chain.
#[derive(Debug, Clone, PartialEq)]
pub enum Sampler {
    /// Preconditioned Crank–Nicolson.
    Pcn(Pcn),
    /// Hamiltonian.
    Hmc(Hmc),
}

/// One Markov chain.
#[derive(Debug, Clone, PartialEq)]
pub struct Chain {
    /// ξ, one matrix per layer.
    pub white: Vec<Array2<f64>>,
    /// Its sampler.
    pub sampler: Sampler,
    // ℓ there, and its gradient where a sampler has left it for the next move.
    density: Density,
    gradient: Option<Vec<Array2<f64>>>,
}

// Where a chain stands.
struct Place<'a> {
    white: &'a mut Vec<Array2<f64>>,
    density: &'a mut Density,
    gradient: &'a mut Option<Vec<Array2<f64>>>,
}

/// What some moves of a chain did.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moves {
    /// Proposals.
    pub tried: usize,
    /// Sum of the probabilities to accept them, or how many were.
    pub accepted: f64,
}

impl Moves {
    /// Adds others.
    pub fn add(&mut self, other: Self) {
        self.tried += other.tried;
        self.accepted += other.accepted;
    }

    /// Share of accepted proposals.
    pub fn rate(&self) -> Option<f64> {
        (self.tried > 0).then(|| self.accepted / self.tried as f64)
    }
}

impl Sampler {
    /// A sampler before its first step, for so many layers.
    pub fn new(kind: &SamplerOptions, layers: usize) -> Self {
        match kind {
            SamplerOptions::Pcn(_) => Self::Pcn(Pcn::new(layers)),
            SamplerOptions::Hmc(options) => Self::Hmc(Hmc::new(options.leapfrog as usize)),
        }
    }

    /// The state as numbers.
    pub fn to_numbers(&self) -> Vec<f64> {
        match self {
            Self::Pcn(pcn) => pcn.to_numbers(),
            Self::Hmc(hmc) => hmc.to_numbers(),
        }
    }

    /// The inverse of [`Sampler::to_numbers`].
    pub fn from_numbers(kind: &SamplerOptions, layers: usize, numbers: &[f64]) -> Result<Self, GpError> {
        let found = match kind {
            SamplerOptions::Pcn(_) => Pcn::from_numbers(layers, numbers).map(Self::Pcn),
            SamplerOptions::Hmc(options) => Hmc::from_numbers(options.leapfrog as usize, numbers).map(Self::Hmc),
        };
        found.ok_or_else(|| GpError::shape(format!("{} numbers of a sampler", numbers.len())))
    }

    /// The step size; the mean over layers where each has its own.
    pub fn step_size(&self) -> f64 {
        match self {
            Self::Pcn(pcn) => pcn.step_size(),
            Self::Hmc(hmc) => hmc.step_size(),
        }
    }

    /// From now on the step size stays what it is.
    pub fn freeze(&mut self) {
        if let Self::Hmc(hmc) = self {
            hmc.freeze();
        }
    }
}

impl Chain {
    /// A chain at ξ, before ℓ there is known.
    pub fn new(white: Vec<Array2<f64>>, sampler: Sampler) -> Self {
        let density = Density { log_likelihood: f64::NEG_INFINITY, bound: None };
        Self { white, sampler, density, gradient: None }
    }

    /// The target has changed: this is ℓ now.
    pub fn settle(&mut self, density: Density) {
        (self.density, self.gradient) = (density, None);
    }

    /// ℓ where the chain stands.
    pub fn log_likelihood(&self) -> f64 {
        self.density.log_likelihood
    }

    /// F_V where the chain stands.
    pub fn bound(&self) -> Option<f64> {
        self.density.bound
    }

    /// Makes `count` moves; `adapt` lets step sizes change.
    ///
    /// Proposals at which ℓ cannot be computed are rejected; only errors that no other proposal would cure end the
    /// chain.
    pub fn run(
        &mut self,
        target: &dyn LogDensity,
        count: usize,
        adapt: bool,
        rng: &mut ChaCha8Rng,
    ) -> Result<Moves, GpError> {
        let Self { white, density, gradient, sampler } = self;
        match sampler {
            Sampler::Pcn(pcn) => pcn.run(target, white, density, count, adapt, rng),
            Sampler::Hmc(hmc) => {
                let mut place = Place { white, density, gradient };
                hmc.run(target, &mut place, count, adapt, rng)
            }
        }
    }
}

fn normals_like(white: &Array2<f64>, rng: &mut ChaCha8Rng) -> Array2<f64> {
    Array2::from_shape_simple_fn(white.dim(), || standard_normal(rng))
}

// A value at which ℓ is not defined is one that is never accepted.
fn unless_undefined<T>(result: Result<T, GpError>) -> Result<Option<T>, GpError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_recoverable() => Ok(None),
        Err(error) => Err(error),
    }
}
