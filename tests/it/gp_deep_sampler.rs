//! The samplers against distributions that are known, and against a plain Hamiltonian transition.

use crate::naive::deep::{hmc, pcn};
use crate::naive::{generator, normal_matrix};
use ndarray::Array2;
use ndarray_linalg::Determinant;
use rand_chacha::ChaCha8Rng;
use stride_pipe::eval::normal::{normal_cdf, normal_density};
use stride_pipe::gp::GpError;
use stride_pipe::gp::deep::{Chain, DensityAt, HmcOptions, LogDensity, SamplerOptions};
use stride_pipe::gp::random::{standard_normal, uniform};

pub const HMC: SamplerOptions = hmc(1, 5);
// With trajectories as the frozen chain has them.
const LONG: SamplerOptions = hmc(1, 4);
pub const PCN: SamplerOptions = pcn(1);

type Xi = Vec<Array2<f64>>;

/// ℓ = −½ Σ a (ξ − b)² over all entries, defined where the first entry is at most `wall`.
struct Gaussian {
    a: Xi,
    b: Xi,
    wall: f64,
    error: GpError,
}

impl LogDensity for Gaussian {
    fn value(&self, xi: &[Array2<f64>]) -> Result<DensityAt, GpError> {
        if xi[0][[0, 0]] > self.wall {
            return Err(self.error.clone());
        }
        let mut log_likelihood = 0.0;
        for ((xi, a), b) in xi.iter().flatten().zip(self.a.iter().flatten()).zip(self.b.iter().flatten()) {
            log_likelihood -= 0.5 * a * (xi - b).powi(2);
        }
        Ok(DensityAt::likelihood(log_likelihood))
    }

    fn value_and_gradient(&self, xi: &[Array2<f64>]) -> Result<(DensityAt, Xi), GpError> {
        let density = self.value(xi)?;
        let slope = |k: usize| (&self.b[k] - &xi[k]) * &self.a[k];
        Ok((density, (0..xi.len()).map(slope).collect()))
    }
}

fn shapes() -> [(usize, usize); 2] {
    [(2, 1), (1, 2)]
}

fn target(a: f64, b: f64, wall: f64) -> Gaussian {
    let fill = |seed: u64, scale: f64| -> Xi {
        shapes().iter().map(|(r, c)| normal_matrix(seed, *r, *c).mapv(|v| scale * (0.5 + v.abs()))).collect()
    };
    let error = GpError::NotPositiveDefinite { what: "a test", jitter: 0.0 };
    Gaussian { a: fill(1, a), b: fill(2, b), wall, error }
}

fn evaluated(kind: SamplerOptions, target: &Gaussian) -> Chain {
    let xi: Xi = shapes().iter().map(|size| Array2::zeros(*size)).collect();
    let density = target.value(&xi).unwrap();
    let mut chain = Chain::new(xi, kind.method().start(2));
    chain.refresh_density(density);
    chain
}

/// What a chain does between the last M step and its frozen moves.
pub fn settle(chain: &mut Chain, target: &dyn LogDensity, rng: &mut ChaCha8Rng) {
    let before = chain.sampler.to_numbers().len();
    chain.sampler.lengthen();
    chain.run(target, 200, true, rng).unwrap();
    chain.sampler.rescale();
    chain.run(target, 300, true, rng).unwrap();
    let entries: usize = chain.xi().iter().map(Array2::len).sum();
    assert_eq!(chain.sampler.to_numbers().len(), before + entries, "every entry has its scale");
}

// Draws of all entries of a chain that was adapted and then frozen, every `thin` moves.
fn draws(kind: SamplerOptions, target: &Gaussian, count: usize, thin: usize) -> Vec<Vec<f64>> {
    let mut rng = generator(12);
    let mut chain = evaluated(kind, target);
    chain.run(target, 2000, true, &mut rng).unwrap();
    if kind == LONG {
        settle(&mut chain, target, &mut rng);
    }
    chain.sampler.freeze();
    let step = chain.sampler.step_size();
    let mut all = Vec::new();
    for _ in 0..count {
        chain.run(target, thin, false, &mut rng).unwrap();
        all.push(chain.xi().iter().flatten().copied().collect());
        let density = target.value(chain.xi()).unwrap();
        assert_eq!(chain.log_likelihood(), density.log_likelihood);
    }
    assert_eq!(chain.sampler.step_size(), step, "a frozen sampler keeps its step");
    all
}

// Mean, variance and the largest distance from the distribution function, entry by entry.
fn check(kind: SamplerOptions, target: &Gaussian, thin: usize, posterior: impl Fn(f64, f64) -> (f64, f64)) {
    const COUNT: usize = 6000;
    let all = draws(kind, target, COUNT, thin);
    let parameters: Vec<(f64, f64)> =
        target.a.iter().flatten().zip(target.b.iter().flatten()).map(|(a, b)| posterior(*a, *b)).collect();
    for (k, (mean, variance)) in parameters.iter().enumerate() {
        let mut values: Vec<f64> = all.iter().map(|draw| (draw[k] - mean) / variance.sqrt()).collect();
        let first = values.iter().sum::<f64>() / COUNT as f64;
        let second = values.iter().map(|v| v * v).sum::<f64>() / COUNT as f64;
        assert!(first.abs() < 0.06, "{kind:?} entry {k}: mean {first}");
        assert!((second - 1.0).abs() < 0.08, "{kind:?} entry {k}: variance {second}");
        values.sort_by(f64::total_cmp);
        let distance = values
            .iter()
            .enumerate()
            .map(|(i, v)| ((i as f64 + 0.5) / COUNT as f64 - normal_cdf(*v)).abs())
            .fold(0.0, f64::max);
        assert!(distance < 0.03, "{kind:?} entry {k}: Kolmogorov-Smirnov {distance}");
    }
    // Entries are independent.
    let covariance = |i: usize, j: usize| {
        let at = |draw: &Vec<f64>, k: usize| (draw[k] - parameters[k].0) / parameters[k].1.sqrt();
        all.iter().map(|draw| at(draw, i) * at(draw, j)).sum::<f64>() / COUNT as f64
    };
    assert!(covariance(0, 1).abs() < 0.06 && covariance(1, 3).abs() < 0.06);
}

#[test]
fn a_flat_likelihood_leaves_the_prior() {
    for (kind, thin) in [(HMC, 1), (PCN, 1), (hmc(1, 1), 2), (LONG, 1)] {
        check(kind, &target(0.0, 0.0, f64::INFINITY), thin, |_, _| (0.0, 1.0));
    }
}

#[test]
fn a_gaussian_likelihood_has_a_known_posterior() {
    // Precisions from 1 to 10, centres up to 2.
    for (kind, thin) in [(HMC, 2), (PCN, 15), (LONG, 2)] {
        check(kind, &target(4.0, 1.0, f64::INFINITY), thin, |a, b| (a * b / (1.0 + a), 1.0 / (1.0 + a)));
    }
}

#[test]
fn places_without_a_likelihood_are_never_entered() {
    let wall = 0.4;
    for (kind, thin) in [(HMC, 2), (PCN, 8)] {
        let all = draws(kind, &target(0.0, 0.0, wall), 6000, thin);
        let first: Vec<f64> = all.iter().map(|draw| draw[0]).collect();
        assert!(first.iter().all(|v| *v <= wall));
        // The normal distribution, cut off at the wall.
        let ratio = normal_density(wall) / normal_cdf(wall);
        let mean = first.iter().sum::<f64>() / first.len() as f64;
        assert!((mean + ratio).abs() < 0.06, "{kind:?}: {mean} for {}", -ratio);
        let second = first.iter().map(|v| v * v).sum::<f64>() / first.len() as f64;
        assert!((second - (1.0 - wall * ratio)).abs() < 0.1, "{kind:?}: {second}");
        let other = all.iter().map(|draw| draw[2] * draw[2]).sum::<f64>() / all.len() as f64;
        assert!((other - 1.0).abs() < 0.08, "{kind:?}: {other}");
    }
}

#[test]
fn only_hopeless_errors_end_a_chain() {
    for kind in [HMC, PCN] {
        for (error, ends) in [
            (GpError::NotPositiveDefinite { what: "a test", jitter: 1.0 }, false),
            (GpError::NonFinite { what: "a test" }, false),
            (GpError::BadShape { what: "a test".into() }, true),
        ] {
            // The chain stands at the wall: of many moves some go beyond it.
            let target = Gaussian { error: error.clone(), ..target(1.0, 1.0, 0.0) };
            let mut chain = evaluated(kind, &target);
            let before = chain.xi().to_vec();
            let result = chain.run(&target, 200, true, &mut generator(2));
            if ends {
                assert_eq!(result.unwrap_err(), error);
            } else {
                let moves = result.unwrap();
                assert!(moves.rate().unwrap() < 1.0 && chain.xi()[0][[0, 0]] <= 0.0);
                assert_ne!(chain.xi(), before);
            }
        }
    }
}

#[test]
fn states_survive_as_numbers() {
    for kind in [HMC, PCN] {
        let target = target(2.0, 1.0, f64::INFINITY);
        let mut rng = generator(4);
        let mut chain = evaluated(kind, &target);
        // Not a multiple of the window after which steps change.
        chain.run(&target, 137, true, &mut rng).unwrap();
        if kind == HMC {
            settle(&mut chain, &target, &mut rng);
        }
        let numbers = chain.sampler.to_numbers();
        let copy = kind.method().restore(2, &numbers).unwrap();
        assert_eq!(format!("{copy:?}"), format!("{:?}", chain.sampler));
        let mut other = Chain::new(chain.xi().to_vec(), copy);
        other.refresh_density(target.value(other.xi()).unwrap());
        let mut same = rng.clone();
        chain.run(&target, 200, true, &mut rng).unwrap();
        other.run(&target, 200, true, &mut same).unwrap();
        assert_eq!(chain.xi(), other.xi());
        assert_eq!(format!("{:?}", chain.sampler), format!("{:?}", other.sampler));
        assert_ne!(chain.sampler.to_numbers(), numbers);
        for wrong in [&numbers[..4], &[]] {
            assert!(kind.method().restore(2, wrong).is_none());
        }
        let other = if kind == HMC { PCN } else { HMC };
        assert!(other.method().restore(2, &numbers).is_none());
    }
}

// A scale is the spread of a normal distribution, which it was learnt from.
#[test]
fn scales_are_those_of_the_posterior() {
    let target = target(40.0, 1.0, f64::INFINITY);
    let (mut rng, mut chain) = (generator(7), evaluated(HMC, &target));
    chain.run(&target, 200, true, &mut rng).unwrap();
    let before = chain.sampler.to_numbers().len();
    settle(&mut chain, &target, &mut rng);
    let numbers = chain.sampler.to_numbers();
    for (a, scale) in target.a.iter().flatten().zip(&numbers[before..]) {
        let spread = 1.0 / (1.0 + a).sqrt();
        assert!((scale / spread - 1.0).abs() < 0.2, "{scale} for {spread}");
    }
}

#[test]
fn adaptation_reaches_its_aim() {
    let target = target(60.0, 1.0, f64::INFINITY);
    for (kind, low, high) in [(HMC, 0.7, 0.93), (PCN, 0.18, 0.38)] {
        let mut rng = generator(9);
        let mut chain = evaluated(kind, &target);
        chain.run(&target, 3000, true, &mut rng).unwrap();
        chain.sampler.freeze();
        let rate = chain.run(&target, 2000, false, &mut rng).unwrap().rate().unwrap();
        assert!((low..high).contains(&rate), "{kind:?}: {rate}");
    }
}

// ---- a plain Hamiltonian transition ----

#[test]
fn step_sizes_aim_at_the_acceptance_asked_for() {
    let target = target(400.0, 0.5, f64::INFINITY);
    let rate = |acceptance: f64| {
        let kind = SamplerOptions::Hmc(HmcOptions { transitions: 1, leapfrog: 5, acceptance, ..HmcOptions::default() });
        let (mut chain, mut rng) = (evaluated(kind, &target), generator(21));
        chain.run(&target, 3000, true, &mut rng).unwrap();
        chain.sampler.freeze();
        chain.run(&target, 2000, false, &mut rng).unwrap().rate().unwrap()
    };
    for acceptance in [0.6, 0.9] {
        assert!((rate(acceptance) - acceptance).abs() < 0.06, "{acceptance}: {}", rate(acceptance));
    }
}

fn gradient(target: &Gaussian, xi: &[f64]) -> Vec<f64> {
    let (a, b): (Vec<f64>, Vec<f64>) =
        (target.a.iter().flatten().copied().collect(), target.b.iter().flatten().copied().collect());
    (0..xi.len()).map(|k| a[k] * (b[k] - xi[k])).collect()
}

fn energy(target: &Gaussian, xi: &[f64], v: &[f64]) -> f64 {
    let (a, b): (Vec<f64>, Vec<f64>) =
        (target.a.iter().flatten().copied().collect(), target.b.iter().flatten().copied().collect());
    (0..xi.len()).map(|k| 0.5 * (a[k] * (xi[k] - b[k]).powi(2) + xi[k] * xi[k] + v[k] * v[k])).sum()
}

// Half a kick, a rotation, half a kick, so many times.
fn follow(target: &Gaussian, xi: &mut [f64], v: &mut [f64], step: f64, count: usize) {
    for _ in 0..count {
        let slope = gradient(target, xi);
        for k in 0..xi.len() {
            let kicked = v[k] + 0.5 * step * slope[k];
            (xi[k], v[k]) = (xi[k] * step.cos() + kicked * step.sin(), kicked * step.cos() - xi[k] * step.sin());
        }
        let slope = gradient(target, xi);
        v.iter_mut().zip(slope).for_each(|(v, slope)| *v += 0.5 * step * slope);
    }
}

fn plain_transition(target: &Gaussian, xi: &mut Vec<f64>, step: f64, count: usize, rng: &mut ChaCha8Rng) -> f64 {
    let step = step * (0.8 + 0.4 * uniform(rng));
    let mut v: Vec<f64> = xi.iter().map(|_| standard_normal(rng)).collect();
    let before = energy(target, xi, &v);
    let mut proposal = xi.clone();
    follow(target, &mut proposal, &mut v, step, count);
    let probability = (before - energy(target, &proposal, &v)).exp().min(1.0);
    if 1.0 - uniform(rng) <= probability {
        *xi = proposal;
    }
    probability
}

#[test]
fn equals_a_plain_transition() {
    let target = target(30.0, 1.0, f64::INFINITY);
    let mut rng = generator(6);
    let mut chain = evaluated(HMC, &target);
    chain.run(&target, 40, true, &mut rng).unwrap();
    chain.sampler.freeze();
    let mut xi: Vec<f64> = chain.xi().iter().flatten().copied().collect();
    let mut same = rng.clone();
    let mut rejected = 0;
    for _ in 0..300 {
        let before = xi.clone();
        let moves = chain.run(&target, 1, false, &mut rng).unwrap();
        let probability = plain_transition(&target, &mut xi, chain.sampler.step_size(), 5, &mut same);
        assert!((moves.accepted - probability).abs() < 1e-9, "{} {probability}", moves.accepted);
        rejected += usize::from(before == xi);
        for (found, expected) in chain.xi().iter().flatten().zip(&mut xi) {
            assert!((found - *expected).abs() < 1e-9);
            // Rounding must not add up over the transitions.
            *expected = *found;
        }
    }
    assert!(rejected > 5, "{rejected}");
}

#[test]
fn motion_is_reversible_and_keeps_volume_and_energy() {
    let target = target(5.0, 1.0, f64::INFINITY);
    let xi: Vec<f64> = normal_matrix(1, 1, 4).into_iter().collect();
    let v: Vec<f64> = normal_matrix(2, 1, 4).into_iter().collect();
    let run = |xi: &[f64], v: &[f64], step: f64, count: usize| {
        let (mut xi, mut v) = (xi.to_vec(), v.to_vec());
        follow(&target, &mut xi, &mut v, step, count);
        (xi, v)
    };
    let (there, mut back) = run(&xi, &v, 0.2, 7);
    for v in &mut back {
        *v = -*v;
    }
    let (home, stop) = run(&there, &back, 0.2, 7);
    assert!(home.iter().zip(&xi).all(|(a, b)| (a - b).abs() < 1e-12));
    assert!(stop.iter().zip(&v).all(|(a, b)| (a + b).abs() < 1e-12));
    // The determinant of the derivative, by differences: exact for a quadratic energy.
    let mut jacobian = Array2::zeros((8, 8));
    let state: Vec<f64> = xi.iter().chain(&v).copied().collect();
    for k in 0..8 {
        let at = |by: f64| {
            let mut moved = state.clone();
            moved[k] += by;
            let (xi, v) = run(&moved[..4], &moved[4..], 0.2, 7);
            ndarray::Array1::from_iter(xi.into_iter().chain(v))
        };
        jacobian.column_mut(k).assign(&((at(0.5) - at(-0.5)) / 1.0));
    }
    let determinant = jacobian.det().unwrap();
    assert!((determinant - 1.0).abs() < 1e-10, "{determinant}");
    // The same stretch of time in ever smaller steps: the largest error of the energy falls with their square.
    let error = |count: usize| {
        let (mut at, mut w) = (xi.clone(), v.clone());
        let start = energy(&target, &at, &w);
        let mut worst = 0.0_f64;
        for _ in 0..count {
            follow(&target, &mut at, &mut w, 0.8 / count as f64, 1);
            worst = worst.max((energy(&target, &at, &w) - start).abs());
        }
        worst
    };
    for count in [16, 64, 256] {
        let ratio = error(count) / error(4 * count);
        assert!((14.0..18.0).contains(&ratio), "{count}: {ratio}");
    }
}
