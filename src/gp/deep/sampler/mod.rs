//! Markov chains over whitened hidden variables, prior N(0, I).
//!
//! A sampler is one file that implements [`SamplerMethod`] and [`Sampler`], and its place in [`SamplerOptions`].

mod hmc;
mod pcn;
mod scales;

use ndarray::Array2;
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::target::{DensityAt, LogDensity};
use crate::gp::GpError;
use crate::gp::random::standard_normal;

pub use hmc::HmcOptions;
pub use pcn::PcnOptions;

/// The sampler of the E step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// The sampler that these options choose.
    pub fn method(&self) -> &dyn SamplerMethod {
        match self {
            Self::Hmc(options) => options,
            Self::Pcn(options) => options,
        }
    }
}

/// A kind of sampler: how it starts, how long it runs, and what to advise when its figures are bad.
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
    /// Moves between the last M step and the frozen chain, in which the sampler adapts to the target as it is now.
    fn settling_moves(&self) -> u32 {
        0
    }
    /// Frozen moves between two looks at what chains predict, which cost about as much as a value of ℓ.
    fn spacing(&self) -> usize {
        1
    }
    /// Refuses what cannot run.
    fn check(&self) -> Result<(), GpError> {
        Ok(())
    }
    /// Least and largest share of accepted proposals that are good.
    fn good_acceptance(&self) -> (f64, f64);
    /// What helps chains that do badly.
    fn advice(&self) -> Advice;
    /// A sampler before its first move, for so many layers.
    fn start(&self, layers: usize) -> Box<dyn Sampler>;
    /// The sampler that gave these numbers; `None` if none of this kind did.
    fn restore(&self, layers: usize, numbers: &[f64]) -> Option<Box<dyn Sampler>>;
}

/// What helps chains that do badly, in words that fit the warnings.
#[derive(Debug, Clone, Copy)]
pub struct Advice {
    /// To use, when the chains have not mixed.
    pub to_mix: &'static str,
    /// To do, when the draws depend on each other.
    pub for_more_draws: &'static str,
    /// The largest step size.
    pub largest_step: &'static str,
}

/// A sampler with what its adaptation remembers; one per chain.
pub trait Sampler: std::fmt::Debug + Send + Sync {
    /// Makes `count` moves; `adapt` lets step sizes change.
    fn run(
        &mut self,
        target: &dyn LogDensity,
        position: &mut Position,
        count: usize,
        adapt: bool,
        rng: &mut ChaCha8Rng,
    ) -> Result<Moves, GpError>;
    /// The step size; the mean over layers where each has its own.
    fn step_size(&self) -> f64;
    /// From now on the step size stays what it is.
    fn freeze(&mut self) {}
    /// From now on moves go as far as those of the frozen chain do.
    fn lengthen(&mut self) {}
    /// Makes use of what was learnt of the target since then.
    fn rescale(&mut self) {}
    /// The state as numbers, for [`SamplerMethod::restore`].
    fn to_numbers(&self) -> Vec<f64>;
}

/// Where a chain stands.
#[derive(Debug)]
pub struct Position {
    /// ξ, one matrix per layer.
    pub xi: Vec<Array2<f64>>,
    density: DensityAt,
    // ∂ℓ/∂ξ where a sampler has left it for the next move.
    gradient: Option<Vec<Array2<f64>>>,
}

/// One Markov chain.
#[derive(Debug)]
pub struct Chain {
    pub position: Position,
    pub sampler: Box<dyn Sampler>,
}

/// What some moves of a chain did.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moves {
    pub tried: usize,
    /// Sum of the probabilities to accept them, or how many were.
    pub accepted: f64,
}

impl Moves {
    pub fn add(&mut self, other: Self) {
        self.tried += other.tried;
        self.accepted += other.accepted;
    }

    /// Share of accepted proposals.
    pub fn rate(&self) -> Option<f64> {
        (self.tried > 0).then(|| self.accepted / self.tried as f64)
    }
}

impl Chain {
    /// A chain at ξ, before ℓ there is known.
    pub fn new(xi: Vec<Array2<f64>>, sampler: Box<dyn Sampler>) -> Self {
        let density = DensityAt::likelihood(f64::NEG_INFINITY);
        Self { position: Position { xi, density, gradient: None }, sampler }
    }

    /// ξ, one matrix per layer.
    pub fn xi(&self) -> &[Array2<f64>] {
        &self.position.xi
    }

    /// The target has changed: this is ℓ now.
    pub fn refresh_density(&mut self, density: DensityAt) {
        (self.position.density, self.position.gradient) = (density, None);
    }

    /// ℓ where the chain stands.
    pub fn log_likelihood(&self) -> f64 {
        self.position.density.log_likelihood
    }

    /// What is sampled, where the chain stands, but for the prior.
    pub fn sampled(&self) -> f64 {
        self.position.density.sampled
    }

    /// What the M step maximises, where the chain stands.
    pub fn bound(&self) -> Option<f64> {
        self.position.density.bound
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
        self.sampler.run(target, &mut self.position, count, adapt, rng)
    }
}

fn normals_like(xi: &Array2<f64>, rng: &mut ChaCha8Rng) -> Array2<f64> {
    Array2::from_shape_simple_fn(xi.dim(), || standard_normal(rng))
}

// A value at which ℓ is not defined is one that is never accepted.
fn unless_undefined<T>(result: Result<T, GpError>) -> Result<Option<T>, GpError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_recoverable() => Ok(None),
        Err(error) => Err(error),
    }
}
