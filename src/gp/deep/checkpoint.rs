//! The state of a fit between two EM iterations, or two batches of frozen moves: with it, a fit goes on to the same bits.

use ndarray::Array2;

use super::problem::SupportPoints;
use crate::gp::kernel::Hyper;

/// Everything that a fit carries from one EM iteration to the next.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// EM iterations that are done.
    pub iteration: usize,
    /// Hyper-parameters of the stationary fit: lengths of hidden layers and bounds follow from them.
    pub start: Hyper,
    /// Hyper-parameters of the top layer.
    pub hyper: Hyper,
    /// Training rows that are inducing points, `[m]`; empty without them.
    pub inducing: Vec<usize>,
    /// Training rows at which hidden layers are anchored by cross approximation, `[r]`; empty otherwise.
    pub pivots: Vec<usize>,
    /// Jitter, relative to the kernel variance.
    pub jitter: f64,
    pub particles: Vec<ParticleState>,
    /// Proposals of the frozen phase so far, all chains together.
    pub frozen_tried: usize,
    /// How many of them were accepted, or the sum of the probabilities to.
    pub frozen_accepted: f64,
    /// Batches of the frozen phase that are done.
    pub frozen_batches: usize,
    /// Time that was used.
    pub seconds: f64,
}

impl Checkpoint {
    /// Inducing points, pivots and jitter.
    pub(super) fn points(&self) -> SupportPoints {
        let (inducing, pivots) = (self.inducing.clone(), Ok(self.pivots.clone()));
        SupportPoints { inducing, pivots, jitter: self.jitter }
    }
}

/// One Markov chain.
#[derive(Debug, Clone, PartialEq)]
pub struct ParticleState {
    /// Whitened hidden variables ξ, one `[r, D]` per hidden layer, bottom first.
    pub xi: Vec<Array2<f64>>,
    /// State of the sampler: step sizes, and what their adaptation remembers.
    pub sampler: Vec<f64>,
    /// ℓ after every round of moves of the frozen phase so far.
    pub frozen: Vec<f64>,
    /// Means at fixed rows in the frozen phase so far, row after row, draw after draw.
    pub predictions: Vec<f64>,
    /// The mean of what was sampled, in every E step.
    pub heights: Vec<f64>,
}
