//! The climb before the first E step: hidden variables go uphill on log-likelihood and prior together, so that the chains do
//! not begin with a long walk. And the neighbours that a climb, or an E step, begins with.

use ndarray::{Array2, ArrayView1, ArrayView2};

use super::em::DeepFit;
use super::options::Architecture;
use super::problem::DeepProblem;
use super::sampler::Chain;
use super::target::LogDensity;
use crate::gp::GpError;
use crate::gp::hyper::{Evaluation, Objective, Settings, SoftBounds, maximise};
use crate::gp::neighbours::rounding_variance;
use crate::gp::observer::{Observer, Phase, Progress, Recorder, TracePoint};
use crate::gp::warm::WarmStart;

/// Steps of the climb between two looks at neighbours and hyper-parameters.
const CLIMB_ROUND: usize = 20;

impl DeepFit<'_> {
    /// The covariance function of a top layer by neighbours, and at the `first` start its hyper-parameters.
    pub fn begin_neighbours(
        &mut self,
        (x, y): (ArrayView2<'_, f64>, ArrayView1<'_, f64>),
        first: bool,
        warm: Option<&WarmStart>,
        observer: &mut dyn Observer,
    ) -> Result<(), GpError> {
        let Some(start) = self.options.start.neighbours() else { return Ok(()) };
        self.soft_bounds.lower[2] = self.soft_bounds.lower[2].max(rounding_variance(y).ln());
        if let Some(earlier) = warm.and_then(|warm| warm.local.as_ref()) {
            // Hyper-parameters are those of the earlier model already.
            self.problem.design.top_kernel = start.top.kernel.after(earlier.kernel);
            return Ok(());
        }
        let rows = (x, y, &self.problem.noise);
        let (kernel, mut hyper) = if first {
            start.top(rows, &self.problem.start, self.key, observer)?
        } else {
            // What was traced then is with the checkpoint.
            start.top(rows, &self.problem.start, self.key, &mut Recorder::new(observer))?
        };
        if self.options.layers.architecture == Architecture::Convolution {
            // Local lengths start at the fitted one; that of the layer is a multiple of them.
            hyper.lengths[0] /= self.problem.design.start_length;
        }
        self.problem.design.top_kernel = kernel;
        if first {
            self.problem.set_hyper(hyper);
        }
        Ok(())
    }

    // A few rounds: neighbours, hyper-parameters, hidden variables.
    pub fn climb(
        &mut self,
        mut xi: Vec<Array2<f64>>,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Array2<f64>>, GpError> {
        let steps = self.options.climb();
        let rounds = steps.div_ceil(CLIMB_ROUND);
        for round in 0..rounds {
            observer.phase(Phase::Neighbours);
            self.problem.refresh_neighbours(self.options, self.key, &[&xi])?;
            observer.phase(Phase::Climb);
            self.move_hyperparameters(&[&xi], observer)?;
            let count = CLIMB_ROUND.min(steps - round * CLIMB_ROUND);
            let trace = TracePoint { step: 0, iteration: 0, ..self.trace_point("climb") };
            go_uphill(&self.problem, &mut xi, count, trace, observer)?;
            observer.progress(Progress { what: "rounds uphill", done: round + 1, total: Some(rounds), chains: None });
        }
        Ok(xi)
    }

    // Hyper-parameters uphill, where these hidden variables are, with inducing points as they are.
    fn move_hyperparameters(&mut self, all_xi: &[&[Array2<f64>]], observer: &mut dyn Observer) -> Result<(), GpError> {
        let free = self.options.start.free();
        if !self.options.em.hyperparameters || free == crate::gp::kernel::Free::NONE {
            return Ok(());
        }
        let held = self.problem.held(all_xi)?;
        let (hyper, inducing) = (self.problem.hyper.clone(), &self.problem.inducing);
        let trace = self.trace_point("hyper");
        let found = held.hyperparameters(&hyper, inducing, free, &self.soft_bounds, trace, observer);
        let hyper = self.or_skipped(found, hyper, "hyper.skipped", observer)?;
        self.problem.set_hyper(hyper);
        Ok(())
    }

    // Neighbours as the chains see them now.
    pub fn refresh_neighbours(&mut self, observer: &mut dyn Observer) -> Result<(), GpError> {
        if self.options.start.neighbours().is_none() {
            return Ok(());
        }
        observer.phase(Phase::Neighbours);
        let all: Vec<&[Array2<f64>]> = self.chains.iter().map(Chain::xi).collect();
        self.problem.refresh_neighbours(self.options, self.key, &all)
    }
}

// Moves ξ so many steps uphill.
fn go_uphill(
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
        Ok(Evaluation { value: density.sampled + prior, gradient, jitter: 0.0 })
    }

    fn trace_point(&self, step: i32, theta: &[f64], at: &Evaluation) -> TracePoint {
        let prior = -0.5 * theta.iter().map(|value| value * value).sum::<f64>();
        TracePoint { step, log_likelihood: at.value - prior, ..self.trace.clone() }
    }
}
