//! What the chains of a fit say about themselves.

use super::sampler::Moves;
use crate::eval::chains::{bulk_ess, split_rhat};

/// What the chains say about themselves.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainDiagnostics {
    /// Split-R̂ of ℓ over the frozen phase; `None` when it is too short.
    pub rhat: Option<f64>,
    /// Bulk effective sample size of ℓ over the frozen phase, all chains together.
    pub ess: Option<f64>,
    /// Share of accepted proposals in the frozen phase.
    pub acceptance: Option<f64>,
    /// Draws of each chain in the frozen phase.
    pub draws: usize,
    /// Jitter at the end, relative to the kernel variance; 1e-8 unless it had to grow.
    pub jitter: f64,
}

impl ChainDiagnostics {
    /// From ℓ of every chain after every round of moves of the frozen phase.
    pub(super) fn new(frozen: &[Vec<f64>], moves: Moves, jitter: f64) -> Self {
        Self {
            rhat: split_rhat(frozen),
            ess: bulk_ess(frozen),
            acceptance: moves.rate(),
            draws: frozen.iter().map(Vec::len).min().unwrap_or(0),
            jitter,
        }
    }
}
