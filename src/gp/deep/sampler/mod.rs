//! Markov chains over whitened hidden variables, prior N(0, I).

mod hmc;
mod pcn;

use ndarray::Array2;
use rand_chacha::ChaCha8Rng;

use super::options::SamplerKind;
use super::target::{Density, LogDensity};
use crate::gp::GpError;
use crate::gp::random::standard_normal;

pub use hmc::Hmc;
pub use pcn::Pcn;

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
    pub fn new(kind: SamplerKind, layers: usize) -> Self {
        match kind {
            SamplerKind::Pcn { .. } => Self::Pcn(Pcn::new(layers)),
            SamplerKind::Hmc { leapfrog, .. } => Self::Hmc(Hmc::new(leapfrog)),
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
    pub fn from_numbers(kind: SamplerKind, layers: usize, numbers: &[f64]) -> Result<Self, GpError> {
        let found = match kind {
            SamplerKind::Pcn { .. } => Pcn::from_numbers(layers, numbers).map(Self::Pcn),
            SamplerKind::Hmc { leapfrog, .. } => Hmc::from_numbers(leapfrog, numbers).map(Self::Hmc),
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
