//! The M step: inducing points and hyper-parameters that maximise the mean bound over the particles.

use std::cell::RefCell;
use std::sync::Arc;

use ndarray::{ArrayView1, ArrayView2};
use rayon::prelude::*;

use super::design::Design;
use super::options::Architecture;
use super::top::{TopLayer, TopNeighbours};
use super::top_rows::{TopInputs, TopRows};
use crate::gp::GpError;
use crate::gp::hyper::{Evaluation, Objective, Settings, SoftBounds, maximise};
use crate::gp::inducing::{Choice, Member};
use crate::gp::kernel::{Free, Hyper};
use crate::gp::linalg::Span;
use crate::gp::neighbours::NeighbourLists;
use crate::gp::observer::{Observer, TracePoint};
use crate::gp::row_noise::{RowNoise, ScaledRows};
use crate::gp::sparse::{Level, Penalty, State};
use crate::gp::team::for_each_of;

/// Moving the hyper-parameters a little in every M step is enough: the next one goes on from there.
const STEPS: Settings = Settings { iterations: 6, tolerance: 1e-6 };

/// What an M step works on: hidden layers stand still.
pub(super) struct Held<'a> {
    pub design: &'a Design,
    /// Features of the rows that are held, `[b, d]`.
    pub x: ArrayView2<'a, f64>,
    /// Their targets, `[b]`.
    pub y: ArrayView1<'a, f64>,
    /// Which of all rows they are.
    pub span: Span,
    pub noise: &'a RowNoise,
    /// Inputs of the top layer, `[n, D]`, of every particle.
    pub inputs: Vec<TopInputs<'a>>,
    /// Relative to σ².
    pub jitter: f64,
    pub top: &'static dyn TopLayer,
    /// The form of the bound.
    pub penalty: Penalty,
    /// Who is whose neighbour, where the top layer asks.
    pub neighbours: Option<&'a TopNeighbours>,
}

impl<'a> Held<'a> {
    /// The neighbours of all rows, as a particle sees them.
    pub fn neighbours_of(&self, particle: usize) -> Option<&NeighbourLists> {
        self.neighbours.and_then(|all| all.lists.get(particle)).map(Arc::as_ref)
    }

    // The top covariance of every particle, for rows brought to one noise if they have not the same.
    fn covariances<'h>(
        &'h self,
        hyper: &'h Hyper,
        scaled: Option<&ScaledRows>,
    ) -> Result<Vec<TopRows<'h, 'a>>, GpError> {
        self.inputs
            .par_iter()
            .map(|inputs| inputs.covariance((self.design, self.x, &self.span), hyper, scaled))
            .collect()
    }

    /// Exchanges inducing points so many times; the new ones.
    pub fn exchange(
        &self,
        choice: &Choice<'_>,
        hyper: &Hyper,
        inducing: &[usize],
        steps: usize,
        observer: &mut dyn Observer,
    ) -> Result<Vec<usize>, GpError> {
        let scaled = self.noise.scaled(self.y, hyper.noise);
        let y = scaled.as_ref().map_or(self.y, |scaled| scaled.y.view());
        let covariances = self.covariances(hyper, scaled.as_ref())?;
        let level = Level { noise: self.noise.level(hyper.noise), jitter: self.jitter };
        let mut members = for_each_of(covariances.iter().collect(), |covariance: &TopRows<'_, '_>| {
            let state = State::with_penalty(covariance, y, inducing, level, self.penalty)?;
            Ok(Member { covariance, state })
        })?;
        Choice { y, ..choice.clone() }.exchange(&mut members, steps, observer)?;
        Ok(members.first().map_or_else(Vec::new, |member| member.state.rows().to_vec()))
    }

    /// Hyper-parameters after a few steps uphill from `start`.
    pub fn hyperparameters(
        &self,
        start: &Hyper,
        inducing: &[usize],
        free: Free,
        soft_bounds: &SoftBounds,
        trace: TracePoint,
        observer: &mut dyn Observer,
    ) -> Result<Hyper, GpError> {
        // The local lengths of a convolution are the only ones it has.
        let length = free.length && self.design.architecture != Architecture::Convolution;
        let free = Free { length, ..free };
        let objective = MeanBound { held: self, inducing, trace, seen: RefCell::default() };
        let maximum = maximise(&objective, &start.to_log(), &free.mask(1), soft_bounds, &STEPS, observer)?;
        let found = Hyper::from_log(&maximum.theta)?;
        Ok(crate::gp::exact::keep_fixed(found, start, free))
    }
}

// The mean over the particles, of a bound or of ℓ.
struct MeanBound<'a, 'h> {
    held: &'a Held<'h>,
    inducing: &'a [usize],
    trace: TracePoint,
    // Mean ℓ at every point so far, for the traces: the best point need not be the last.
    seen: RefCell<Vec<(Vec<f64>, f64)>>,
}

impl Objective for MeanBound<'_, '_> {
    fn evaluate(&self, theta: &[f64]) -> Result<Evaluation, GpError> {
        let hyper = Hyper::from_log(theta)?;
        if hyper.check(self.held.design.width()).is_err() || hyper.noise <= 0.0 {
            return Err(GpError::NonFinite { what: "a hyper-parameter" });
        }
        let (held, inducing) = (self.held, self.inducing);
        let particles = (0..held.inputs.len()).collect();
        let all: Vec<(Evaluation, f64)> =
            for_each_of(particles, |particle| held.top.objective(held, particle, &hyper, inducing))?;
        let count = all.len().max(1) as f64;
        let mut mean = Evaluation { value: 0.0, gradient: vec![0.0; theta.len()], jitter: 0.0 };
        let mut log_likelihood = 0.0;
        for (at, ell) in &all {
            mean.value += at.value / count;
            mean.gradient.iter_mut().zip(&at.gradient).for_each(|(mean, part)| *mean += part / count);
            mean.jitter = mean.jitter.max(at.jitter);
            log_likelihood += ell / count;
        }
        self.seen.borrow_mut().push((theta.to_vec(), log_likelihood));
        Ok(mean)
    }

    fn trace_point(&self, step: i32, theta: &[f64], at: &Evaluation) -> TracePoint {
        let exp = |i: usize| theta.get(i).map_or(f64::NAN, |v| v.exp());
        let seen = self.seen.borrow();
        let log_likelihood = seen.iter().rev().find(|(at, _)| at == theta).map_or(f64::NAN, |(_, value)| *value);
        TracePoint {
            step,
            log_likelihood,
            bound: self.held.top.has_bound().then_some(at.value),
            variance: exp(0),
            length: Some(exp(1)),
            noise: exp(2),
            jitter: at.jitter,
            ..self.trace.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;
    use crate::gp::deep::options::PriorMean;
    use crate::gp::deep::top::Start;
    use crate::gp::exact::ExactOptions;
    use crate::gp::kernel::Kernel;
    use crate::gp::sparse::{JITTER, SparseOptions};

    // Derivatives by log σ², log λ and log γ² against central differences.
    fn agree(
        architecture: Architecture,
        (start, noise): (&Start, &RowNoise),
        inducing: &[usize],
        penalty: Penalty,
    ) -> Result<(), GpError> {
        let convolution = architecture == Architecture::Convolution;
        let design = Design {
            architecture,
            kernel: Kernel::Matern32,
            top_kernel: Kernel::Matern32,
            layers: 1,
            prior_mean: PriorMean::Zero,
            length: 1.0,
            start_length: 1.0,
            bounds: (0.1, 10.0),
            x_centre: vec![0.0; 2],
            projection: None,
            centre: vec![0.0; if convolution { 1 } else { 2 }],
            knots: None,
        };
        let x = Array2::from_shape_fn((40, 2), |(i, j)| ((i * (3 + 4 * j)) % 19) as f64 * 0.2);
        let y = ndarray::Array1::from_shape_fn(40, |i| (x[[i, 0]] * 1.3).sin() + 0.4 * x[[i, 1]] - 0.5);
        let inputs =
            if convolution { Array2::from_shape_fn((40, 1), |(i, _)| 0.5 + 0.05 * i as f64) } else { x.clone() };
        let (inputs, top) = (vec![TopInputs::Held(inputs)], start.top());
        let (design, jitter) = (&design, JITTER);
        let (span, neighbours) = (Span::whole(40), None);
        let held = Held { design, x: x.view(), y: y.view(), span, noise, inputs, jitter, top, penalty, neighbours };
        let at = Hyper::isotropic(1.4, 0.9, 0.05).to_log();
        let evaluate = |theta: &[f64]| top.objective(&held, 0, &Hyper::from_log(theta)?, inducing).map(|found| found.0);
        let gradient = evaluate(&at)?.gradient;
        for (i, slope) in gradient.iter().enumerate() {
            let step = 1e-5;
            let (mut up, mut down) = (at.clone(), at.clone());
            up[i] += step;
            down[i] -= step;
            let expected = (evaluate(&up)?.value - evaluate(&down)?.value) / (2.0 * step);
            assert!(
                (slope - expected).abs() < 1e-6 * expected.abs().max(1.0),
                "{architecture:?} {penalty:?} {i}: {slope} {expected}"
            );
        }
        assert!(gradient[0].abs() > 0.1 && gradient[2].abs() > 0.1, "nothing to compare: {gradient:?}");
        Ok(())
    }

    #[test]
    fn hyperparameters_climb_along_the_gradient() -> Result<(), GpError> {
        let rows = [1, 9, 14, 22, 30, 37];
        let weights = ndarray::Array1::from_shape_fn(40, |row| [0.5, 1.0, 2.0][row % 3]);
        let known = ndarray::Array1::from_shape_fn(40, |row| [0.0, 0.02, 0.1, 0.3][row % 4]);
        let noises = [
            RowNoise::default(),
            RowNoise::new(Some(weights.clone()), None),
            RowNoise::new(None, Some(known.clone())),
            RowNoise::new(Some(weights), Some(known)),
        ];
        for architecture in [Architecture::Composition, Architecture::Convolution] {
            for noise in &noises {
                agree(architecture, (&Start::Exact(ExactOptions::default()), noise), &[], Penalty::Linear)?;
                for penalty in [Penalty::Linear, Penalty::Trace, Penalty::Tight] {
                    agree(architecture, (&Start::Sparse(SparseOptions::default()), noise), &rows, penalty)?;
                }
            }
        }
        Ok(())
    }
}
