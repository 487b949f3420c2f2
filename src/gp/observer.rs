//! How progress, traces and the wish to stop cross the border of the mathematics.

use super::deep::Checkpoint;
use super::kernel::Hyper;

/// One line of the `traces` table, as far as the mathematics knows it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TracePoint {
    /// Markov chain; for a fit with several starts, the number of the start.
    pub particle: i32,
    /// EM iteration; 0 where there is none.
    pub iteration: i32,
    /// What was going on, for example `hyper.start`.
    pub phase: &'static str,
    /// Step within the phase.
    pub step: i32,
    pub log_likelihood: f64,
    /// Lower bound of the log marginal likelihood; sparse methods only.
    pub bound: Option<f64>,
    /// Share of accepted proposals; samplers only.
    pub acceptance: Option<f64>,
    /// Step size of the sampler.
    pub step_size: Option<f64>,
    /// Kernel variance σ².
    pub variance: f64,
    /// Correlation length λ; `None` when every feature has its own.
    pub length: Option<f64>,
    /// Noise variance γ².
    pub noise: f64,
    /// Jitter added to the diagonal.
    pub jitter: f64,
    /// Number of inducing points; the training rows for an exact Gaussian process.
    pub inducing: i32,
}

impl TracePoint {
    /// A point of a phase that knows the hyper-parameters only.
    pub(crate) fn at(phase: &'static str, hyper: &Hyper) -> Self {
        let (variance, length, noise) = (hyper.variance, hyper.length(), hyper.noise);
        Self { phase, log_likelihood: f64::NAN, variance, length, noise, ..Self::default() }
    }

    /// The same from their logarithms.
    pub(crate) fn at_log(phase: &'static str, theta: &[f64]) -> Self {
        let unknown = |_| Hyper::isotropic(f64::NAN, f64::NAN, f64::NAN);
        Self::at(phase, &Hyper::from_log(theta).unwrap_or_else(unknown))
    }
}

/// How far a piece of work has come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// What is counted, for example `starts`.
    pub what: &'static str,
    /// How many are done.
    pub done: usize,
    /// How many there are, where that is known.
    pub total: Option<usize>,
    /// How the sampling is doing; deep fits only.
    pub chains: Option<ChainProgress>,
}

/// What a deep fit shows while its chains run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChainProgress {
    /// EM iteration, from 1; the frozen chain at the end counts as the last.
    pub iteration: usize,
    /// EM iterations in all.
    pub iterations: usize,
    /// Mean log-likelihood of the particles.
    pub log_likelihood: f64,
    /// Share of proposals accepted in this E step, over all particles.
    pub acceptance: f64,
}

/// A part of the work that is worth timing. It lasts until the next one starts or the call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Hyper-parameters are being fitted.
    Hyper,
    /// Inducing points are being chosen.
    Select,
    /// The model is factored for given hyper-parameters.
    Condition,
    /// Hidden layers go uphill before they are sampled.
    Climb,
    /// Hidden layers are being sampled.
    EStep,
    /// Neighbours are being looked for.
    Neighbours,
    /// The local layer is being fitted.
    Local,
    /// Training rows are left out to calibrate intervals.
    Calibrate,
    /// Inducing points are exchanged and hyper-parameters moved, given the samples.
    MStep,
}

impl Phase {
    /// The name in the `timings` table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hyper => "offline.hyper",
            Self::Select => "offline.select",
            Self::Condition => "offline.condition",
            Self::Calibrate => "offline.calibrate",
            Self::Climb => "offline.climb",
            Self::EStep => "offline.e_step",
            Self::Neighbours => "offline.neighbours",
            Self::Local => "offline.local",
            Self::MStep => "offline.m_step",
        }
    }
}

/// Receives what happens inside a fit, and may ask it to stop.
///
/// `Sync`, because parallel parts of a fit ask [`Observer::interrupted`] while they run; everything else
/// is called from the thread of the caller, in an order that does not depend on the number of threads.
pub trait Observer: Sync {
    /// A step was taken.
    fn trace(&mut self, point: &TracePoint);
    fn progress(&mut self, progress: Progress);
    /// A phase starts; the caller times it with its own clock.
    fn phase(&mut self, phase: Phase);
    /// An EM iteration was finished: from here a fit can go on later. Deep fits only.
    fn checkpoint(&mut self, _state: &Checkpoint) {}
    /// Seconds on a clock of the caller's, for fits with a budget of time; any clock that does not go back will do.
    fn seconds(&self) -> f64 {
        0.0
    }
    /// Bytes that a fit may hold of what it could compute again; results do not depend on it.
    fn memory(&self) -> u64 {
        u64::MAX
    }
    /// Whether to stop with [`GpError::Interrupted`](super::GpError::Interrupted) as soon as possible.
    fn interrupted(&self) -> bool;
}

/// Listens to nothing and never stops anything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn trace(&mut self, _point: &TracePoint) {}
    fn progress(&mut self, _progress: Progress) {}
    fn phase(&mut self, _phase: Phase) {}
    fn interrupted(&self) -> bool {
        false
    }
}

/// Keeps the traces of one of several parallel fits, to be reported in order once all are done.
pub(crate) struct Recorder<'a> {
    /// The traces so far.
    pub points: Vec<TracePoint>,
    outer: &'a dyn Observer,
}

impl<'a> Recorder<'a> {
    /// An empty recorder that is interrupted when `outer` is.
    pub fn new(outer: &'a dyn Observer) -> Self {
        Self { points: Vec::new(), outer }
    }
}

impl Observer for Recorder<'_> {
    fn trace(&mut self, point: &TracePoint) {
        self.points.push(point.clone());
    }
    fn progress(&mut self, _progress: Progress) {}
    fn phase(&mut self, _phase: Phase) {}
    fn interrupted(&self) -> bool {
        self.outer.interrupted()
    }
    fn seconds(&self) -> f64 {
        self.outer.seconds()
    }
    fn memory(&self) -> u64 {
        self.outer.memory()
    }
}
