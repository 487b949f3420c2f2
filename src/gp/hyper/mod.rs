//! Maximises an objective over logarithms of parameters: L-BFGS that survives failed factorisations.
//!
//! The solver and its line search are argmin's; this file keeps them inside the region where the mathematics
//! works, and keeps the best point whatever happens to them.

mod search;

use super::GpError;
use super::linalg::Interrupt;
use super::observer::{Observer, TracePoint};
use search::Search;

/// An objective at one point.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    pub value: f64,
    /// The derivative by every parameter, fixed ones included.
    pub gradient: Vec<f64>,
    /// The jitter that was needed.
    pub jitter: f64,
}

/// Something to maximise.
pub trait Objective {
    /// Value and gradient together, since they share a factorisation. A recoverable error means "not here".
    fn evaluate(&self, theta: &[f64]) -> Result<Evaluation, GpError>;
    /// The same, given up when that is asked for: for objectives that take long.
    fn evaluate_unless(&self, _interrupted: Interrupt<'_>, theta: &[f64]) -> Result<Evaluation, GpError> {
        self.evaluate(theta)
    }
    /// How an accepted step looks in the traces.
    fn trace_point(&self, step: i32, theta: &[f64], at: &Evaluation) -> TracePoint;
}

/// Bounds that may be crossed at a price: `weight`·(distance)² is subtracted from the objective.
///
/// They lie far outside what data can support, and only keep a line search from running off to 0 or ∞ along a
/// direction in which the likelihood is flat.
#[derive(Debug, Clone)]
pub struct SoftBounds {
    /// The lower bound of each parameter.
    pub lower: Vec<f64>,
    /// The upper bound of each parameter.
    pub upper: Vec<f64>,
    /// Of the order of the number of rows, as the objective is.
    pub weight: f64,
}

/// When to stop.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The largest number of L-BFGS iterations, restarts included.
    pub iterations: usize,
    /// Two iterations in a row with a smaller change, relative to max(1, |value|), end the search.
    pub tolerance: f64,
}

/// Why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The value hardly changed any more.
    Converged,
    /// The line search found nothing better, also after a restart.
    Stalled,
    /// The cap on iterations was reached.
    IterationCap,
}

/// The best point of a search.
#[derive(Debug, Clone)]
pub struct Maximum {
    pub theta: Vec<f64>,
    /// The objective there, nothing subtracted.
    pub at: Evaluation,
    pub iterations: usize,
    /// Why the search ended.
    pub stop: Stop,
}

/// How often L-BFGS forgets its curvature and starts again from the best point.
const RESTARTS: usize = 1;

/// Maximises `objective` from theta: `start`, moving only the `free` parameters.
///
/// Fails only when the start itself cannot be evaluated, on interruption, or on an error that no other point
/// would cure; a line search that ends in a message is not a failure.
pub fn maximise(
    objective: &dyn Objective,
    start: &[f64],
    free: &[bool],
    bounds: &SoftBounds,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<Maximum, GpError> {
    let n = start.len();
    if free.len() != n || bounds.lower.len() != n || bounds.upper.len() != n {
        return Err(GpError::shape(format!("{n} parameters to optimise")));
    }
    let watched: &dyn Observer = observer;
    let first = objective.evaluate_unless(&|| watched.interrupted(), start)?;
    if !first.value.is_finite() || first.gradient.iter().any(|g| !g.is_finite()) {
        return Err(GpError::NonFinite { what: "the objective at its start" });
    }
    let search = Search::new(objective, start, free, bounds, observer, first);
    let mut iterations = 0;
    // With nothing free, the start is the answer.
    let mut stop = Stop::Converged;
    let rounds = if search.can_move() { RESTARTS + 1 } else { 0 };
    for _ in 0..rounds {
        let before = search.best_value();
        stop = search.climb(settings, &mut iterations)?;
        let gain = search.best_value() - before;
        if stop != Stop::Stalled || gain <= settings.tolerance * before.abs().max(1.0) {
            break;
        }
    }
    let (theta, at) = search.into_best();
    Ok(Maximum { theta, at, iterations, stop })
}
