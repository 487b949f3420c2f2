//! Whether the chains have mixed: split-R̂ and bulk effective sample size (Vehtari et al., 2021).

/// What the chains say about themselves.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnostics {
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
