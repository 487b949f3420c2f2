//! The gradient of the deep log-likelihood against central differences, for every combination of its parts.

use crate::gp_deep_layers::{exact_start, sparse_start};
use crate::naive::deep::{FULL, SPARSE, aca, hmc};
use crate::naive::{normal_matrix, regression};
use ndarray::Array2;
use stride_pipe::gp::deep::{
    Architecture, DeepOptions, DeepProblem, EmObjective, EmOptions, LayerOptions, LogDensity, NeighbourStart,
    PriorMean, Start, SupportPoints, TopOptions,
};
use stride_pipe::gp::kernel::{Hyper, Kernel};
use stride_pipe::gp::neighbours::{LocalKernel, LocalOptions};
use stride_pipe::gp::random::StreamKey;
use stride_pipe::gp::sparse::JITTER;

/// A top layer by neighbours with the kernel of the hidden layers.
pub fn neighbour_start(kernel: Kernel, neighbours: u32) -> Start {
    Start::Neighbours(NeighbourStart {
        stationary: crate::naive::options(kernel, false),
        top: TopOptions { neighbours, kernel: LocalKernel::Given(kernel) },
        predictions: LocalOptions { neighbours, ..LocalOptions::default() },
    })
}

/// A small problem with the given parts, and hidden variables that are not special.
pub fn problem(options: &DeepOptions, n: usize, width: usize, seed: u64) -> (DeepProblem, Vec<Array2<f64>>) {
    let d = if options.layers.architecture == Architecture::Injective { 1 } else { 2 };
    let (x, y) = regression(seed, n, d, 0.2);
    let start = Hyper::isotropic(1.3, 1.1, 0.15);
    let rows: Vec<usize> = (0..n).collect();
    let sparse = matches!(options.start, Start::Sparse(_));
    let inducing = if sparse { (0..n).step_by(4).collect() } else { Vec::new() };
    let points = SupportPoints { inducing, pivots: Err(rows), jitter: JITTER };
    let mut options = options.clone();
    if options.layers.architecture == Architecture::Composition {
        options.layers.width = Some(width as u32);
    }
    let mut problem = DeepProblem::new(x.view(), y.view(), &options, &start, points).unwrap();
    let mut xi = problem.start_xi().unwrap();
    for (layer, xi) in xi.iter_mut().enumerate() {
        let size = xi.dim();
        *xi += &(normal_matrix(seed + 100 + layer as u64, size.0, size.1) * 0.4);
    }
    problem.refresh_neighbours(&options, &StreamKey::new(seed), &[&xi]).unwrap();
    (problem, xi)
}

pub fn combinations() -> Vec<DeepOptions> {
    let mut all = Vec::new();
    for architecture in Architecture::ALL {
        for hidden in [FULL, aca(9, 1e-9), SPARSE] {
            for kind in 0..3 {
                if kind > 0 && hidden == SPARSE {
                    continue;
                }
                for (kernel, layers, prior_mean) in [
                    (Kernel::Rbf, 2, PriorMean::Zero),
                    (Kernel::Rbf, 3, PriorMean::Identity),
                    (Kernel::Matern12, 2, PriorMean::Zero),
                    (Kernel::Matern52, 2, PriorMean::Identity),
                    (Kernel::Matern32, 3, PriorMean::Identity),
                    (Kernel::Matern52, 4, PriorMean::Zero),
                ] {
                    let start = match kind {
                        0 => sparse_start(kernel),
                        1 => exact_start(kernel),
                        _ => neighbour_start(kernel, 5),
                    };
                    let sampler = hmc(3, 4);
                    let objective = Some(EmObjective::Paper);
                    all.push(DeepOptions {
                        start,
                        layers: LayerOptions { architecture, layers, prior_mean, hidden, ..LayerOptions::default() },
                        em: EmOptions { sampler, objective, ..EmOptions::default() },
                    });
                }
            }
        }
    }
    // Those with neighbours last.
    all.sort_by_key(|options| matches!(options.start, Start::Neighbours(_)));
    all
}

#[test]
fn agrees_with_central_differences_in_every_combination() {
    agree(&combinations().into_iter().enumerate().collect::<Vec<_>>());
}

// The densities that only inducing points have.
#[test]
fn so_does_every_bound() {
    for objective in [EmObjective::Bound, EmObjective::Trace, EmObjective::Tight] {
        let mut all: Vec<(usize, DeepOptions)> = combinations().into_iter().enumerate().collect();
        all.retain(|(_, options)| matches!(options.start, Start::Sparse(_)));
        for (_, options) in &mut all {
            options.em.objective = Some(objective);
        }
        agree(&all);
    }
}

// The number of a combination is its seed.
fn agree(all: &[(usize, DeepOptions)]) {
    for (number, options) in all {
        for width in if options.layers.architecture == Architecture::Composition { 1..=3 } else { 1..=1 } {
            let (problem, xi) = problem(options, 37, width, *number as u64);
            agrees(options, &problem, &xi, width);
        }
    }
}

/// Whether the gradient of the density is that of central differences.
pub fn agrees(options: &DeepOptions, problem: &DeepProblem, xi: &[Array2<f64>], width: usize) {
    let (at, gradient) = problem.value_and_gradient(xi).unwrap();
    assert_eq!(at, problem.value(xi).unwrap());
    for layer in 0..xi.len() {
        let direction = normal_matrix(7 + layer as u64, xi[layer].nrows(), xi[layer].ncols());
        let moved = |step: f64| {
            let mut xi = xi.to_vec();
            xi[layer].scaled_add(step, &direction);
            problem.value(&xi).unwrap().sampled
        };
        let difference = |h: f64| (moved(h) - moved(-h)) / (2.0 * h);
        // Two steps, the error of second order taken away. From far to near: the map of an injective layer
        // has a kink at u_min, which a long step may cross, and rounding spoils short ones where a covariance
        // is ill-conditioned. A wrong gradient agrees with none.
        let richardson = |h: f64| (4.0 * difference(h) - difference(2.0 * h)) / 3.0;
        let expected = [3e-4, 3e-5, 3e-6].map(richardson);
        let found: f64 = (&gradient[layer] * &direction).sum();
        let scale = gradient[layer].iter().map(|g| g.abs()).sum::<f64>().max(1.0);
        // A bound subtracts what is left of variances, and is as much less smooth to rounding.
        let allowed = if options.em.objective == Some(EmObjective::Paper) { 1e-6 } else { 2e-5 };
        let near = expected.iter().any(|expected| (found - expected).abs() < allowed * scale);
        // What two steps differ by is their own error, which depends on the loops of the machine.
        let between = expected.windows(2).any(|pair| {
            (pair[0] - pair[1]).abs() < 20.0 * allowed * scale && (found - pair[0]) * (found - pair[1]) <= 0.0
        });
        assert!(
            near || between,
            "{:?} {:?} {:?} {:?} {} layers, width {width}, layer {layer}: {found} against {expected:?}",
            options.em.objective,
            options.layers.architecture,
            options.layers.hidden,
            options.layers.prior_mean,
            options.layers.layers,
        );
    }
}
