//! One search: argmin's L-BFGS, fed with points that are evaluated once, and watched from outside.

use std::cell::RefCell;

use argmin::core::{CostFunction, Error, Gradient, IterState, Problem, Solver, State};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;

use super::{Evaluation, Objective, Settings, SoftBounds, Stop};
use crate::gp::GpError;
use crate::gp::observer::Observer;

/// Pairs kept by L-BFGS; more than the number of parameters without ARD, so that it is then nearly BFGS.
const MEMORY: usize = 10;
/// Evaluations after which a line search is given up.
const LINE_SEARCH_EVALUATIONS: usize = 25;
/// Length of the very first step, in log units. L-BFGS has no scale then, and gradients of a likelihood are
/// in the hundreds: a step of that length would end at e^±100.
const FIRST_STEP: f64 = 0.5;
/// Parameters this far out of bounds are not evaluated at all.
const HARD_MARGIN: f64 = 30.0;
/// Components of the gradient below this, relative to max(1, |value|), count as zero.
const GRADIENT_TOLERANCE: f64 = 1e-9;

// A point in the free parameters, as the solver sees it: cost = −(objective − penalty)·scale.
#[derive(Clone)]
struct Seen {
    point: Vec<f64>,
    cost: f64,
    gradient: Vec<f64>,
}

struct SearchState<'a> {
    observer: &'a mut dyn Observer,
    // The last point, because argmin asks for cost and gradient one after the other.
    last: Option<Seen>,
    // Where the current line search started.
    anchor: Seen,
    best: (Vec<f64>, Evaluation, f64),
    evaluations_left: usize,
    scale: f64,
    // An error that ends the search; argmin would only hand back its text.
    fatal: Option<GpError>,
}

pub(super) struct Search<'a> {
    objective: &'a dyn Objective,
    base: Vec<f64>,
    index: Vec<usize>,
    bounds: &'a SoftBounds,
    inner: RefCell<SearchState<'a>>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        objective: &'a dyn Objective,
        start: &[f64],
        free: &[bool],
        bounds: &'a SoftBounds,
        observer: &'a mut dyn Observer,
        first: Evaluation,
    ) -> Self {
        let index: Vec<usize> = (0..start.len()).filter(|i| free[*i]).collect();
        let penalised = first.value - penalty(bounds, start, &index).0;
        Self {
            objective,
            base: start.to_vec(),
            index,
            bounds,
            inner: RefCell::new(SearchState {
                observer,
                last: None,
                anchor: Seen { point: Vec::new(), cost: 0.0, gradient: Vec::new() },
                best: (start.to_vec(), first, penalised),
                evaluations_left: 0,
                scale: 1.0,
                fatal: None,
            }),
        }
    }

    /// Whether any parameter is free.
    pub(super) fn can_move(&self) -> bool {
        !self.index.is_empty()
    }

    /// The best objective so far, less the penalty.
    pub(super) fn best_value(&self) -> f64 {
        self.inner.borrow().best.2
    }

    /// The best point, and the objective there.
    pub(super) fn into_best(self) -> (Vec<f64>, Evaluation) {
        let (theta, at, _) = self.inner.into_inner().best;
        (theta, at)
    }

    /// One run of L-BFGS from the best point; adds to `iterations`.
    pub(super) fn climb(&self, settings: &Settings, iterations: &mut usize) -> Result<Stop, GpError> {
        let start = self.rescale();
        let mut solver: LBFGS<_, Vec<f64>, Vec<f64>, f64> = LBFGS::new(MoreThuenteLineSearch::new(), MEMORY);
        let mut problem = Problem::new(Cost(self));
        let mut state: IterState<Vec<f64>, Vec<f64>, (), (), (), f64> =
            IterState::new().param(start.point.clone()).cost(start.cost).gradient(start.gradient.clone());
        let mut quiet = 0;
        let mut previous = start;
        loop {
            if previous.gradient.iter().all(|g| g.abs() <= GRADIENT_TOLERANCE * previous.cost.abs().max(self.scale())) {
                return Ok(Stop::Converged);
            }
            if *iterations >= settings.iterations {
                return Ok(Stop::IterationCap);
            }
            self.begin_line_search(previous.clone());
            let outcome = solver.next_iter(&mut problem, state);
            if let Some(error) = self.inner.borrow_mut().fatal.take() {
                return Err(error);
            }
            let Ok((next, _)) = outcome else {
                return Ok(Stop::Stalled);
            };
            // argmin reports a failed line search as a terminated state without a point.
            let (Some(point), Some(gradient), false) = (next.get_param(), next.get_gradient(), next.terminated())
            else {
                return Ok(Stop::Stalled);
            };
            let current = Seen { point: point.clone(), cost: next.get_cost(), gradient: gradient.clone() };
            *iterations += 1;
            // NaN has been turned into a shorter step, so that the two can be compared.
            if current.cost >= previous.cost {
                return Ok(Stop::Stalled);
            }
            self.report(*iterations)?;
            let change = previous.cost - current.cost;
            let small = settings.tolerance * current.cost.abs().max(self.scale());
            quiet = if change <= small { quiet + 1 } else { 0 };
            if quiet == 2 {
                return Ok(Stop::Converged);
            }
            previous = current;
            state = next;
            state.increment_iter();
        }
    }

    fn scale(&self) -> f64 {
        self.inner.borrow().scale
    }

    // Chooses the scale of the cost for a first step of FIRST_STEP, and returns the best point in it.
    fn rescale(&self) -> Seen {
        let mut inner = self.inner.borrow_mut();
        let (theta, at, value) = inner.best.clone();
        let (_, slope) = penalty(self.bounds, &theta, &self.index);
        let gradient: Vec<f64> = self.index.iter().zip(&slope).map(|(i, s)| s - at.gradient[*i]).collect();
        let norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        inner.scale = 1.0 / (norm / FIRST_STEP).max(1.0);
        let scale = inner.scale;
        let seen = Seen {
            point: self.index.iter().map(|i| theta[*i]).collect(),
            cost: -value * scale,
            gradient: gradient.iter().map(|g| g * scale).collect(),
        };
        inner.last = Some(seen.clone());
        seen
    }

    fn begin_line_search(&self, anchor: Seen) {
        let mut inner = self.inner.borrow_mut();
        inner.anchor = anchor;
        inner.evaluations_left = LINE_SEARCH_EVALUATIONS;
    }

    // Shows the best point so far, which is the accepted one but for the rare line search that has passed by a
    // better one.
    fn report(&self, step: usize) -> Result<(), GpError> {
        let inner = &mut *self.inner.borrow_mut();
        let (theta, at, _) = &inner.best;
        let point = self.objective.trace_point(step as i32, theta, at);
        inner.observer.trace(&point);
        if inner.observer.interrupted() {
            return Err(GpError::Interrupted);
        }
        Ok(())
    }

    fn see(&self, point: &[f64]) -> Result<Seen, Error> {
        let inner = &mut *self.inner.borrow_mut();
        if let Some(seen) = inner.last.as_ref().filter(|seen| seen.point == point) {
            return Ok(seen.clone());
        }
        if inner.anchor.point == point {
            return Ok(inner.anchor.clone());
        }
        if inner.observer.interrupted() {
            inner.fatal = Some(GpError::Interrupted);
        } else if inner.evaluations_left > 0 {
            inner.evaluations_left -= 1;
            let seen = self.evaluate(inner, point);
            match seen {
                Ok(seen) => {
                    inner.last = Some(seen.clone());
                    return Ok(seen);
                }
                Err(error) => inner.fatal = Some(error),
            }
        }
        Err(Error::msg("line search given up"))
    }

    fn evaluate(&self, inner: &mut SearchState<'_>, point: &[f64]) -> Result<Seen, GpError> {
        let mut theta = self.base.clone();
        for (i, value) in self.index.iter().zip(point) {
            theta[*i] = *value;
        }
        let out_of_reach = self.index.iter().any(|i| {
            let inside = self.bounds.lower[*i] - HARD_MARGIN..=self.bounds.upper[*i] + HARD_MARGIN;
            !inside.contains(&theta[*i])
        });
        if out_of_reach {
            return Ok(shorter_step(&inner.anchor, point));
        }
        let watched: &dyn Observer = inner.observer;
        let at = match self.objective.evaluate_unless(&|| watched.interrupted(), &theta) {
            Ok(at) if at.value.is_finite() && at.gradient.iter().all(|g| g.is_finite()) => at,
            Ok(_) => return Ok(shorter_step(&inner.anchor, point)),
            Err(error) if error.is_recoverable() => return Ok(shorter_step(&inner.anchor, point)),
            Err(error) => return Err(error),
        };
        let (penalty, slope) = penalty(self.bounds, &theta, &self.index);
        let value = at.value - penalty;
        let scale = inner.scale;
        let gradient = self.index.iter().zip(&slope).map(|(i, s)| (s - at.gradient[*i]) * scale).collect();
        if value > inner.best.2 {
            inner.best = (theta, at, value);
        }
        Ok(Seen { point: point.to_vec(), cost: -value * scale, gradient })
    }
}

// What a line search is told about a point that cannot be evaluated: a finite cost as much above the start as
// makes its interpolation come back with roughly a fifth of the step (it takes an infinite cost for an error).
fn shorter_step(anchor: &Seen, point: &[f64]) -> Seen {
    let slope: f64 = anchor.gradient.iter().zip(point.iter().zip(&anchor.point)).map(|(g, (p, a))| g * (p - a)).sum();
    Seen {
        point: point.to_vec(),
        cost: anchor.cost + 2.0 * slope.abs(),
        gradient: anchor.gradient.iter().map(|g| -4.0 * g).collect(),
    }
}

// The penalty for being out of bounds, and its derivative by each free parameter.
fn penalty(bounds: &SoftBounds, theta: &[f64], index: &[usize]) -> (f64, Vec<f64>) {
    let mut total = 0.0;
    let slope = index
        .iter()
        .map(|i| {
            let excess = theta[*i] - theta[*i].max(bounds.lower[*i]).min(bounds.upper[*i]);
            total += bounds.weight * excess * excess;
            2.0 * bounds.weight * excess
        })
        .collect();
    (total, slope)
}

struct Cost<'s, 'a>(&'s Search<'a>);

impl CostFunction for Cost<'_, '_> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, point: &Vec<f64>) -> Result<f64, Error> {
        self.0.see(point).map(|seen| seen.cost)
    }
}

impl Gradient for Cost<'_, '_> {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, point: &Vec<f64>) -> Result<Vec<f64>, Error> {
        self.0.see(point).map(|seen| seen.gradient)
    }
}
