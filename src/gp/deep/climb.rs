//! The climb before the first E step: hidden variables go uphill on log-likelihood and prior together, so that the chains do
//! not begin with a long walk.

use ndarray::Array2;

use super::problem::DeepProblem;
use super::target::LogDensity;
use crate::gp::GpError;
use crate::gp::hyper::{Evaluation, Objective, Settings, SoftBounds, maximise};
use crate::gp::observer::{Observer, TracePoint};

/// Moves ξ so many steps uphill.
pub(super) fn climb(
    problem: &DeepProblem,
    xi: &mut [Array2<f64>],
    steps: usize,
    trace: TracePoint,
    observer: &mut dyn Observer,
) -> Result<(), GpError> {
    let start: Vec<f64> = xi.iter().flatten().copied().collect();
    let shapes = xi.iter().map(Array2::dim).collect();
    let objective = LogPosterior { problem, shapes, trace };
    // The prior keeps ξ from running away; no bounds are needed.
    let free = vec![true; start.len()];
    let bounds = SoftBounds { lower: vec![f64::MIN; start.len()], upper: vec![f64::MAX; start.len()], weight: 0.0 };
    let settings = Settings { iterations: steps, tolerance: 1e-6 };
    let found = maximise(&objective, &start, &free, &bounds, &settings, observer)?;
    xi.iter_mut().flatten().zip(found.theta).for_each(|(to, value)| *to = value);
    Ok(())
}

struct LogPosterior<'a> {
    problem: &'a DeepProblem,
    shapes: Vec<(usize, usize)>,
    trace: TracePoint,
}

impl LogPosterior<'_> {
    fn xi(&self, theta: &[f64]) -> Result<Vec<Array2<f64>>, GpError> {
        let mut rest = theta;
        let mut all = Vec::with_capacity(self.shapes.len());
        for (rows, columns) in &self.shapes {
            let (own, after) = rest.split_at(rows * columns);
            let own = Array2::from_shape_vec((*rows, *columns), own.to_vec());
            all.push(own.map_err(|error| GpError::shape(error.to_string()))?);
            rest = after;
        }
        Ok(all)
    }
}

impl Objective for LogPosterior<'_> {
    fn evaluate(&self, theta: &[f64]) -> Result<Evaluation, GpError> {
        let (density, gradient) = self.problem.value_and_gradient(&self.xi(theta)?)?;
        let prior = -0.5 * theta.iter().map(|value| value * value).sum::<f64>();
        let gradient = gradient.iter().flatten().zip(theta).map(|(slope, value)| slope - value).collect();
        Ok(Evaluation { value: density.log_likelihood + prior, gradient, jitter: 0.0 })
    }

    fn trace_point(&self, step: i32, theta: &[f64], at: &Evaluation) -> TracePoint {
        let prior = -0.5 * theta.iter().map(|value| value * value).sum::<f64>();
        TracePoint { step, log_likelihood: at.value - prior, ..self.trace.clone() }
    }
}
