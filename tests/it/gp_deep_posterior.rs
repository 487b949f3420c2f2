//! Both samplers on tiny real problems, against integration over all hidden variables on a grid.

use crate::gp_deep_layers::{problem, sparse_start};
use crate::gp_deep_sampler::{HMC, PCN, settle};
use crate::naive::deep::aca;
use crate::naive::{generator, regression};
use ndarray::Array2;
use stride_pipe::gp::deep::{
    Architecture, Chain, DeepOptions, DeepProblem, LayerOptions, LogDensity, PriorMean, SamplerOptions,
};
use stride_pipe::gp::kernel::{Hyper, Kernel};

// Hidden variables from a flat list.
fn by_layer(like: &[Array2<f64>], values: &[f64]) -> Vec<Array2<f64>> {
    let mut values = values.iter().copied();
    like.iter().map(|part| Array2::from_shape_simple_fn(part.dim(), || values.next().unwrap())).collect()
}

// Means and second moments of ξ, and the mean of ℓ, by the midpoint rule.
fn grid(problem: &DeepProblem, like: &[Array2<f64>], points: usize) -> Vec<f64> {
    let size: usize = like.iter().map(Array2::len).sum();
    let at = |index: usize| -5.0 + 10.0 * (index as f64 + 0.5) / points as f64;
    let mut all: Vec<(f64, Vec<f64>)> = Vec::new();
    for cell in 0..points.pow(size as u32) {
        let xi: Vec<f64> = (0..size).map(|k| at(cell / points.pow(k as u32) % points)).collect();
        let at = problem.value(&by_layer(like, &xi)).unwrap();
        let log_prior: f64 = xi.iter().map(|v| -0.5 * v * v).sum();
        let mut moments = xi.clone();
        moments.extend(xi.iter().map(|v| v * v));
        moments.push(at.log_likelihood);
        all.push((at.sampled + log_prior, moments));
    }
    let largest = all.iter().map(|(weight, _)| *weight).fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = all.iter().map(|(weight, _)| (weight - largest).exp()).sum();
    let moment = |k: usize| all.iter().map(|(w, m)| (w - largest).exp() * m[k]).sum::<f64>() / total;
    (0..=2 * size).map(moment).collect()
}

fn sampled(
    problem: &DeepProblem,
    like: &[Array2<f64>],
    (kind, long): (SamplerOptions, bool),
    count: usize,
    thin: usize,
) -> Vec<f64> {
    let mut rng = generator(5);
    let mut chain = Chain::new(like.to_vec(), kind.method().start(like.len()));
    chain.refresh_density(problem.value(like).unwrap());
    chain.run(problem, 600, true, &mut rng).unwrap();
    if long {
        settle(&mut chain, problem, &mut rng);
    }
    chain.sampler.freeze();
    let size: usize = like.iter().map(Array2::len).sum();
    let mut total = vec![0.0; 2 * size + 1];
    for _ in 0..count {
        chain.run(problem, thin, false, &mut rng).unwrap();
        for (k, value) in chain.xi().iter().flatten().enumerate() {
            total[k] += value / count as f64;
            total[size + k] += value * value / count as f64;
        }
        total[2 * size] += chain.log_likelihood() / count as f64;
    }
    total
}

fn check(architecture: Architecture, layers: usize, rank: usize, prior_mean: PriorMean, exact: bool) {
    let (x, y) = regression(31, 8, 1, 0.1);
    let start =
        if exact { crate::gp_deep_layers::exact_start(Kernel::Matern32) } else { sparse_start(Kernel::Matern32) };
    let hidden = aca(rank as u32, 0.0);
    let options = DeepOptions {
        start,
        layers: LayerOptions { architecture, layers: layers as u32, hidden, prior_mean, ..LayerOptions::default() },
        ..DeepOptions::default()
    };
    let (problem, _) = problem(&options, &x, &y, &Hyper::isotropic(1.5, 1.0, 0.1));
    let like = problem.start_xi().unwrap();
    assert_eq!(like.iter().map(Array2::len).sum::<usize>(), rank * (layers - 1));
    let expected = grid(&problem, &like, if rank * (layers - 1) == 1 { 800 } else { 90 });
    let hmc = sampled(&problem, &like, (HMC, false), 3000, 1);
    let frozen = sampled(&problem, &like, (HMC, true), 3000, 1);
    let pcn = sampled(&problem, &like, (PCN, false), 3000, 8);
    let size = rank * (layers - 1);
    for k in 0..=2 * size {
        // In units of the spread where there is one; ℓ has a spread of about one.
        let spread = if k < size {
            (expected[size + k] - expected[k].powi(2)).sqrt()
        } else {
            expected[k].abs().sqrt().max(1.0)
        };
        for (name, found) in [("hmc", &hmc), ("frozen hmc", &frozen), ("pcn", &pcn)] {
            let error = (found[k] - expected[k]).abs() / spread;
            assert!(error < 0.12, "{architecture:?} {layers} {rank} {name} {k}: {} for {}", found[k], expected[k]);
        }
    }
}

#[test]
fn one_hidden_variable() {
    check(Architecture::Composition, 2, 1, PriorMean::Identity, false);
    check(Architecture::Convolution, 2, 1, PriorMean::Zero, true);
    check(Architecture::Injective, 2, 1, PriorMean::Identity, false);
}

#[test]
fn two_hidden_variables() {
    check(Architecture::Composition, 2, 2, PriorMean::Identity, true);
    check(Architecture::Composition, 3, 1, PriorMean::Identity, false);
    check(Architecture::Convolution, 2, 2, PriorMean::Identity, false);
}
