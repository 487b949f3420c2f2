//! Hamiltonian Monte Carlo in whitened variables, the Gaussian part solved exactly.
//!
//! One step: half a kick v += ½ε∇ℓ, the rotation (ξ, v) ← (ξ cos ε + v sin ε, v cos ε − ξ sin ε), half a kick. Without
//! ℓ this is exact for any ε; H = −ℓ + ½‖ξ‖² + ½‖v‖². The step size follows dual averaging (Hoffman and Gelman, 2014).
//!
//! In the frozen chain every entry has its own scale S, the mass of its momentum being S⁻²: it turns by Sε, and its kick is
//! ½Sε∇ℓ. That is as exact without ℓ, and keeps H. Data determine some entries much better than others, and without scales
//! the best known one decides on the step of all.

use ndarray::Array2;
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scales::Scales;
use super::{Advice, Moves, Position, Sampler, SamplerMethod, normals_like, unless_undefined};
use crate::gp::GpError;
use crate::gp::deep::target::{DensityAt, LogDensity};
use crate::gp::random::uniform;

/// Probability of acceptance that step sizes aim at.
const ACCEPTANCE: f64 = 0.8;
/// Step tried first when none is known.
const FIRST_STEP: f64 = 0.05;
const SMALLEST_STEP: f64 = 1e-8;
/// Steps of a transition of the frozen chain, on average, unless given: more would be too slow where steps are short.
const LONGEST: f64 = 24.0;
/// The largest step of such a transition: a few of them make a quarter turn.
const LARGEST_LONG_STEP: f64 = 0.5;
/// Transitions between the last M step and the frozen chain.
const SETTLING: u32 = 12;
/// Steps are multiplied by a draw of U(1 − x, 1 + x), one for each transition.
const SPREAD: f64 = 0.2;
// Of dual averaging. Its authors recommend a shrinkage of 0.05 for thousands of transitions; here there are a dozen in
// each E step, and one rejection must not divide the step by ten.
const SHRINKAGE: f64 = 0.3;
const DELAY: f64 = 10.0;
const FORGETTING: f64 = 0.75;

/// Hamiltonian sampler.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Hmc")]
pub struct HmcOptions {
    /// Transitions per E step.
    #[schemars(range(min = 0))]
    pub transitions: u32,
    /// Steps per transition.
    #[schemars(range(min = 1, max = 10_000))]
    pub leapfrog: u32,
    /// Steps per transition of the frozen chain and just before it, on average: every transition draws its own number, from 1 to
    /// nearly twice as many. Default: a quarter turn, but no more than 24. Frozen chains
    /// of fewer than 24 transitions keep `leapfrog`, but for `em.until`.
    #[schemars(range(min = 1, max = 10_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_leapfrog: Option<u32>,
    /// Share of proposals that are accepted, at which step sizes aim.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    #[serde(skip_serializing_if = "is_usual")]
    pub acceptance: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_usual(acceptance: &f64) -> bool {
    *acceptance == ACCEPTANCE
}

impl Default for HmcOptions {
    fn default() -> Self {
        Self { transitions: 12, leapfrog: 8, final_leapfrog: None, acceptance: ACCEPTANCE }
    }
}

impl SamplerMethod for HmcOptions {
    fn unit(&self) -> &'static str {
        "transitions"
    }

    fn moves(&self) -> u32 {
        self.transitions
    }

    // The target has changed, and with it the step that fits; and trajectories are longer from now on.
    fn settling_moves(&self) -> u32 {
        SETTLING
    }

    fn check(&self) -> Result<(), GpError> {
        if self.leapfrog == 0 || self.final_leapfrog == Some(0) {
            return Err(GpError::value("the number of leapfrog steps must be positive"));
        }
        Ok(())
    }

    fn good_acceptance(&self) -> (f64, f64) {
        (0.5, 0.98)
    }

    fn advice(&self) -> Advice {
        Advice {
            to_mix: "more `transitions` of the sampler",
            for_more_draws: "`leapfrog` of the sampler",
            largest_step: "π/2 divided by `leapfrog`",
        }
    }

    fn start(&self, _: usize) -> Box<dyn Sampler> {
        let step = FIRST_STEP.ln();
        Box::new(Hmc {
            options: *self,
            step,
            average: step,
            anchor: step,
            error: 0.0,
            count: 0.0,
            ready: false,
            long: false,
            scales: Scales::default(),
        })
    }

    fn restore(&self, _: usize, numbers: &[f64]) -> Option<Box<dyn Sampler>> {
        let (first, scales) = numbers.split_at_checked(7)?;
        let [step, average, anchor, error, count, ready, long] = *first else { return None };
        let (ready, long, scales) = (ready > 0.0, long > 0.0, Scales::new(scales));
        Some(Box::new(Hmc { options: *self, step, average, anchor, error, count, ready, long, scales }))
    }
}

/// Step size, and what dual averaging remembers.
#[derive(Debug)]
struct Hmc {
    options: HmcOptions,
    // Logarithms of the step, of its average, and of what both shrink to.
    step: f64,
    average: f64,
    anchor: f64,
    error: f64,
    count: f64,
    // Whether a first step was found.
    ready: bool,
    // Whether trajectories are those of the frozen chain.
    long: bool,
    scales: Scales,
}

struct Momentum {
    v: Vec<Array2<f64>>,
    gradient: Vec<Array2<f64>>,
}

impl Sampler for Hmc {
    fn run(
        &mut self,
        target: &dyn LogDensity,
        position: &mut Position,
        count: usize,
        adapt: bool,
        rng: &mut ChaCha8Rng,
    ) -> Result<Moves, GpError> {
        let mut moves = Moves::default();
        let Position { xi, density, gradient } = position;
        let mut gradient_here = match gradient.take() {
            Some(known) => known,
            None => target.value_and_gradient(xi)?.1,
        };
        if !self.ready {
            self.find_first_step(target, xi, density, &gradient_here, rng)?;
        }
        for _ in 0..count {
            let step = self.step_size() * (1.0 + SPREAD * (2.0 * uniform(rng) - 1.0));
            let v: Vec<Array2<f64>> = xi.iter().map(|xi| normals_like(xi, rng)).collect();
            let before = energy(*density, xi, &v);
            let mut proposal = xi.clone();
            let mut momentum = Momentum { v, gradient: gradient_here.clone() };
            let count = self.steps(step, rng);
            let end = trajectory(target, &mut proposal, &mut momentum, (step, count), &mut self.scales)?;
            let log_ratio = end.map_or(f64::NEG_INFINITY, |end| before - energy(end, &proposal, &momentum.v));
            // NaN is no reason to accept.
            let probability = if log_ratio.is_nan() { 0.0 } else { log_ratio.min(0.0).exp() };
            let accepted = (1.0 - uniform(rng)) <= probability && probability > 0.0;
            if let (true, Some(end)) = (accepted, end) {
                (*xi, *density, gradient_here) = (proposal, end, momentum.gradient);
            }
            moves.tried += 1;
            moves.accepted += probability;
            if adapt {
                self.adapt(probability);
            }
        }
        *gradient = Some(gradient_here);
        Ok(moves)
    }

    fn step_size(&self) -> f64 {
        self.step.exp()
    }

    fn freeze(&mut self) {
        if self.count > 0.0 {
            self.step = self.average;
        }
    }

    fn lengthen(&mut self) {
        if !self.long {
            (self.long, self.count, self.error, self.anchor) = (true, 0.0, 0.0, self.step);
            self.scales.watch();
        }
    }

    fn rescale(&mut self) {
        if self.scales.settle() {
            // Another step fits from now on.
            (self.ready, self.count, self.error) = (false, 0.0, 0.0);
        }
    }

    fn to_numbers(&self) -> Vec<f64> {
        let [ready, long] = [self.ready, self.long].map(|yes| if yes { 1.0 } else { 0.0 });
        let own = [self.step, self.average, self.anchor, self.error, self.count, ready, long];
        own.into_iter().chain(self.scales.values().iter().copied()).collect()
    }
}

impl Hmc {
    // A longer rotation than a quarter turn only comes back.
    fn largest_step(&self) -> f64 {
        if self.long {
            return LARGEST_LONG_STEP;
        }
        std::f64::consts::FRAC_PI_2 / f64::from(self.options.leapfrog)
    }

    // Steps of a trajectory. Short ones make a random walk of the chain. Of one length, they may come back to where they
    // began, again and again.
    fn steps(&self, step: f64, rng: &mut ChaCha8Rng) -> usize {
        if !self.long {
            return self.options.leapfrog as usize;
        }
        let quarter_turn = (std::f64::consts::FRAC_PI_2 / step).min(LONGEST).ceil();
        let mean = self.options.final_leapfrog.map_or(quarter_turn, f64::from);
        1 + (uniform(rng) * (2.0 * mean - 1.0)) as usize
    }

    fn adapt(&mut self, probability: f64) {
        self.count += 1.0;
        let share = 1.0 / (self.count + DELAY);
        self.error = (1.0 - share) * self.error + share * (self.options.acceptance - probability);
        let step = self.anchor - self.count.sqrt() / SHRINKAGE * self.error;
        self.step = step.clamp(SMALLEST_STEP.ln(), self.largest_step().ln());
        let weight = self.count.powf(-FORGETTING);
        self.average = weight * self.step + (1.0 - weight) * self.average;
    }

    // Doubles or halves the step until one step of the trajectory is about as often accepted as not.
    fn find_first_step(
        &mut self,
        target: &dyn LogDensity,
        xi: &[Array2<f64>],
        density: &DensityAt,
        gradient: &[Array2<f64>],
        rng: &mut ChaCha8Rng,
    ) -> Result<(), GpError> {
        const TRIALS: usize = 30;
        let largest = self.largest_step();
        let v: Vec<Array2<f64>> = xi.iter().map(|xi| normals_like(xi, rng)).collect();
        let mut step = FIRST_STEP.min(largest);
        let mut longer = None;
        for _ in 0..TRIALS {
            let mut momentum = Momentum { v: v.clone(), gradient: gradient.to_vec() };
            let mut proposal = xi.to_vec();
            let before = energy(*density, xi, &v);
            let end = trajectory(target, &mut proposal, &mut momentum, (step, 1), &mut self.scales)?;
            let log_ratio = end.map_or(f64::NEG_INFINITY, |end| before - energy(end, &proposal, &momentum.v));
            // exp of it above one half; NaN counts as below.
            let now = log_ratio > -std::f64::consts::LN_2;
            if *longer.get_or_insert(now) != now {
                break;
            }
            step *= if now { 2.0 } else { 0.5 };
            if step >= largest || step <= SMALLEST_STEP {
                break;
            }
        }
        // One step is easier than a trajectory.
        self.step = (0.5 * step).clamp(SMALLEST_STEP, largest).ln();
        (self.average, self.anchor, self.ready) = (self.step, self.step, true);
        Ok(())
    }
}

// H = −ℓ + ½‖ξ‖² + ½‖v‖².
fn energy(density: DensityAt, xi: &[Array2<f64>], v: &[Array2<f64>]) -> f64 {
    let squares = |all: &[Array2<f64>]| all.iter().flatten().map(|x| x * x).sum::<f64>();
    -density.sampled + 0.5 * (squares(xi) + squares(v))
}

// Follows the motion, so many steps; `None` where ℓ is not defined on the way.
fn trajectory(
    target: &dyn LogDensity,
    xi: &mut [Array2<f64>],
    momentum: &mut Momentum,
    (step, count): (f64, usize),
    scales: &mut Scales,
) -> Result<Option<DensityAt>, GpError> {
    let turns = scales.turns(step);
    let mut end = None;
    for _ in 0..count {
        kick(momentum, 0.5 * step, scales);
        let entries = xi.iter_mut().flatten().zip(momentum.v.iter_mut().flatten());
        for ((xi, v), (sin, cos)) in entries.zip(turns.iter().cycle()) {
            (*xi, *v) = (*xi * cos + *v * sin, *v * cos - *xi * sin);
        }
        let Some((density, gradient)) = unless_undefined(target.value_and_gradient(xi))? else {
            return Ok(None);
        };
        momentum.gradient = gradient;
        kick(momentum, 0.5 * step, scales);
        scales.see(xi, &momentum.gradient);
        end = Some(density);
    }
    Ok(end)
}

fn kick(momentum: &mut Momentum, size: f64, scales: &Scales) {
    if scales.values().is_empty() {
        for (v, gradient) in momentum.v.iter_mut().zip(&momentum.gradient) {
            v.scaled_add(size, gradient);
        }
        return;
    }
    let entries = momentum.v.iter_mut().flatten().zip(momentum.gradient.iter().flatten());
    for ((v, slope), scale) in entries.zip(scales.values()) {
        *v += size * scale * slope;
    }
}
