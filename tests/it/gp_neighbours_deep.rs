//! A top layer by neighbours: against the exact one, against the definition, and where it starts.

use crate::gp_deep_gradient::{neighbour_start, problem};
use crate::gp_deep_layers::{exact_start, naive, wander};
use crate::naive::deep::{FULL, aca, pcn};
use crate::naive::local::{Local, Places, nearest};
use crate::naive::{normal_matrix, regression, relative_error, with_threads};
use ndarray::{Array2, Axis};
use stride_pipe::gp::deep::{
    Architecture, DeepOptions, DeepProblem, EmOptions, HiddenOptions, LayerOptions, LogDensity, PriorMean, Start,
    SupportPoints, fit,
};
use stride_pipe::gp::kernel::{Hyper, Kernel};
use stride_pipe::gp::observer::Silent;
use stride_pipe::gp::random::{StreamKey, permutation};
use stride_pipe::gp::row_noise::RowNoise;
use stride_pipe::gp::sparse::JITTER;

const ACA: HiddenOptions = aca(9, 1e-9);

fn options(start: Start, architecture: Architecture, hidden: HiddenOptions, layers: u32) -> DeepOptions {
    let prior_mean = if layers == 2 { PriorMean::Zero } else { PriorMean::Identity };
    DeepOptions {
        start,
        layers: LayerOptions { architecture, layers, prior_mean, hidden, ..LayerOptions::default() },
        ..DeepOptions::default()
    }
}

// Every architecture, with full layers and cross approximation, two and three layers.
fn kinds() -> impl Iterator<Item = (Architecture, HiddenOptions, u32)> {
    let hidden = |architecture| [FULL, ACA].map(|hidden| (architecture, hidden));
    let pairs = Architecture::ALL.into_iter().flat_map(hidden);
    pairs.flat_map(|(architecture, hidden)| [2, 3].map(|layers| (architecture, hidden, layers)))
}

// The lengths of a convolution are multiples of its local ones; exact layers know no other than 1.
fn hyper(architecture: Architecture) -> Hyper {
    Hyper::isotropic(1.7, if architecture == Architecture::Convolution { 1.0 } else { 0.8 }, 0.2)
}

#[test]
fn with_all_earlier_rows_as_neighbours_it_is_the_exact_one() {
    const N: usize = 30;
    for (number, (architecture, hidden, layers)) in kinds().enumerate() {
        for kernel in Kernel::ALL {
            let built = |start: Start| {
                let options = options(start, architecture, hidden, layers);
                let (mut problem, xi) = problem(&options, N, 2, number as u64);
                problem.set_hyper(hyper(architecture));
                (problem, xi)
            };
            let (exact, xi) = built(exact_start(kernel));
            let (value, gradient) = exact.value_and_gradient(&xi).unwrap();
            for count in [N as u32 - 1, N as u32 + 5] {
                let label = format!("{architecture:?} {hidden:?} {kernel} {layers} layers, {count} neighbours");
                let (all, same) = built(neighbour_start(kernel, count));
                assert_eq!(xi, same);
                let (found, slopes) = all.value_and_gradient(&xi).unwrap();
                let error = (found.log_likelihood / value.log_likelihood - 1.0).abs();
                assert!(error < 1e-6, "{label}: {error:e}");
                assert_eq!(found.bound, None);
                for (found, expected) in slopes.iter().zip(&gradient) {
                    let error = relative_error(found, expected);
                    assert!(error < 2e-6, "{label}: gradient {error:e}");
                }
            }
        }
    }
}

// The likelihood of Vecchia: the nearest earlier rows by the inputs at ξ₀, covariances by those at ξ.
fn vecchia(
    (options, problem): (&DeepOptions, &DeepProblem),
    (x, y): (&Array2<f64>, &[f64]),
    key: &StreamKey,
    (count, top): (usize, Kernel),
    (xi_0, xi): (&[Array2<f64>], &[Array2<f64>]),
) -> f64 {
    let deep = naive(options, x, &START, problem);
    let places = |xi: &[Array2<f64>]| Places::of(&deep, x, deep.layers(xi).inputs.last().unwrap());
    let (before, now) = (places(xi_0), places(xi));
    let local = Local { kernel: top, hyper: problem.hyper().clone(), places: &now, y, noise: RowNoise::default() };
    let order = permutation(&mut key.with("deep").with("order").generator(), y.len());
    let ordered = before.points.select(Axis(0), &order);
    let density = |position: usize| {
        let earlier = nearest(&ordered, ordered.row(position), 0..position);
        let rows: Vec<usize> = earlier.into_iter().take(count).map(|(_, position)| order[position]).collect();
        local.density(order[position], &rows)
    };
    (0..y.len()).map(density).sum()
}

static START: std::sync::LazyLock<Hyper> = std::sync::LazyLock::new(|| Hyper::isotropic(1.4, 0.9, 0.12));

#[test]
fn the_likelihood_is_that_of_the_definition() {
    const N: usize = 45;
    for (number, (architecture, hidden, layers)) in kinds().enumerate() {
        for (kernel, top) in
            [(Kernel::Rbf, Kernel::Matern12), (Kernel::Matern32, Kernel::Rbf), (Kernel::Matern52, Kernel::Matern52)]
        {
            let mut start = neighbour_start(kernel, 4);
            if let Start::Neighbours(start) = &mut start {
                start.top.kernel = stride_pipe::gp::neighbours::LocalKernel::Given(top);
            }
            let options = options(start, architecture, hidden, layers);
            let (x, y) = regression(number as u64, N, if architecture == Architecture::Injective { 1 } else { 2 }, 0.2);
            let points = SupportPoints { inducing: Vec::new(), pivots: Err((0..N).collect()), jitter: JITTER };
            let mut problem = DeepProblem::new(x.view(), y.view(), &options, &START, points).unwrap();
            problem.set_hyper(Hyper::isotropic(1.7, 0.8, 0.07));
            let key = StreamKey::new(number as u64);
            let [here, there] = [3, 4].map(|seed| wander(&problem, seed, 0.2));
            assert!(problem.value(&here).is_err(), "rows without neighbours");
            problem.refresh_neighbours(&options, &key, &[&here]).unwrap();
            let naive = |problem: &DeepProblem, before: &[Array2<f64>], now: &[Array2<f64>]| {
                vecchia((&options, problem), (&x, y.as_slice().unwrap()), &key, (4, top), (before, now))
            };
            let label = format!("{architecture:?} {hidden:?} {kernel} {top} {layers} layers");
            let check = |found: f64, expected: f64, what: &str| {
                assert!((found / expected - 1.0).abs() < 1e-7, "{label}, {what}: {found} for {expected}");
            };
            check(problem.value(&here).unwrap().log_likelihood, naive(&problem, &here, &here), "here");
            // Neighbours stay what they are while hidden variables move.
            check(problem.value(&there).unwrap().log_likelihood, naive(&problem, &here, &there), "there");
            let known = problem.know(&here).unwrap();
            for layer in 0..here.len() {
                let mut moved = here.clone();
                moved[layer].clone_from(&there[layer]);
                let (found, _) = problem.value_of_layer(&moved, layer, &known).unwrap();
                assert_eq!(found, problem.value(&moved).unwrap(), "{label}, layer {layer}");
            }
            // And are chosen anew when asked; the order is the same.
            problem.refresh_neighbours(&options, &StreamKey::new(77), &[&there]).unwrap();
            check(problem.value(&there).unwrap().log_likelihood, naive(&problem, &there, &there), "anew");
        }
    }
}

#[test]
fn the_same_bits_with_any_number_of_threads() {
    for architecture in Architecture::ALL {
        let options = options(neighbour_start(Kernel::Matern32, 6), architecture, ACA, 3);
        let work = || {
            let (problem, xi) = problem(&options, 1203, 2, 5);
            (problem.value(&xi).unwrap(), problem.value_and_gradient(&xi).unwrap())
        };
        let one = with_threads(1, work);
        assert_eq!(one.0, one.1.0, "{architecture:?}");
        for threads in [2, 3] {
            assert_eq!(with_threads(threads, work), one, "{architecture:?}, {threads} threads");
        }
    }
}

/// Without a climb, without samples, and with the identity as mean, hidden layers change nothing.
#[test]
fn every_architecture_starts_as_the_same_process() {
    let (x, y) = regression(21, 80, 1, 0.2);
    let x = x * 3.0;
    let stars = normal_matrix(22, 40, 1) * 4.0;
    for kernel in [Kernel::Matern32, Kernel::Rbf] {
        for architecture in Architecture::ALL {
            let mut options = options(neighbour_start(kernel, 12), architecture, FULL, 3);
            options.em = EmOptions {
                iterations: Some(0),
                particles: 1,
                sampler: pcn(1),
                final_transitions: Some(0),
                climb: Some(0),
                ..EmOptions::default()
            };
            let gp = fit(x.view(), y.view(), &options, &StreamKey::new(6), None, &mut Silent).unwrap();
            let found = gp.predict(stars.view(), true).unwrap();
            // The stationary process in the features, with the hyper-parameters of the composition.
            options.layers.architecture = Architecture::Composition;
            let other = fit(x.view(), y.view(), &options, &StreamKey::new(6), None, &mut Silent).unwrap();
            let numbers = &other.parts().local.as_ref().unwrap().hyper;
            let hyper = Hyper::isotropic(numbers[[0, 0]], numbers[[0, 1]], numbers[[0, 2]]);
            let places = Places::stationary(x.clone());
            let local = Local { kernel, hyper, places: &places, y: y.as_slice().unwrap(), noise: RowNoise::default() };
            let (mean, variance): (Vec<f64>, Vec<f64>) =
                stars.outer_iter().map(|star| local.predict((star, 1.0), 12)).unzip();
            let error = relative_error(&found.mean, &mean);
            assert!(error < 1e-6, "{architecture:?} {kernel}: {error:e}");
            let error = relative_error(&found.latent_variance.unwrap(), &variance);
            assert!(error < 1e-6, "{architecture:?} {kernel}: variance {error:e}");
        }
    }
}
