//! What the chains of a fit say about themselves.

use super::frozen::FrozenDraws;

/// What the chains say about themselves.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainDiagnostics {
    /// Split-R̂ of ℓ over the frozen phase; `None` when it is too short.
    pub rhat: Option<f64>,
    /// Bulk effective sample size of ℓ over the frozen phase, all chains together.
    pub ess: Option<f64>,
    /// The largest split-R̂ of the means at fifty training rows; `None` also where the top layer has no mean.
    pub rhat_predictions: Option<f64>,
    /// The smallest bulk effective sample size of these.
    pub ess_predictions: Option<f64>,
    /// Share of accepted proposals in the frozen phase.
    pub acceptance: Option<f64>,
    /// Draws of each chain in the frozen phase.
    pub draws: usize,
    /// Jitter at the end, relative to the kernel variance; 1e-8 unless it had to grow.
    pub jitter: f64,
}

impl ChainDiagnostics {
    /// From what was drawn in the frozen phase, with predictions at so many rows.
    pub(super) fn new(frozen: &FrozenDraws, rows: usize, jitter: f64) -> Self {
        let (rhat, ess) = frozen.of_likelihood();
        let (rhat_predictions, ess_predictions) = frozen.of_predictions(rows);
        Self {
            rhat,
            ess,
            rhat_predictions,
            ess_predictions,
            acceptance: frozen.moves.rate(),
            draws: frozen.log_likelihood.iter().map(Vec::len).min().unwrap_or(0),
            jitter,
        }
    }
}
