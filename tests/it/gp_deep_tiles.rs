//! More rows than a tile or a chunk holds, fewer knots than rows, and data that hardly deserve the name.

use crate::gp_deep_layers::{exact_start, sparse_start, wander};
use crate::gp_deep_start::{quick_exact, quick_sparse};
use crate::naive::deep::{FULL, SPARSE, aca, hmc, log_normal};
use crate::naive::{normal_matrix, regression, relative_error};
use ndarray::{Array1, Array2, Axis};
use stride_pipe::gp::deep::{
    Architecture, DeepOptions, DeepProblem, EmOptions, HiddenOptions, LayerOptions, LogDensity, PriorMean, Start,
    SupportPoints, fit,
};
use stride_pipe::gp::kernel::{Hyper, Kernel};
use stride_pipe::gp::observer::Silent;
use stride_pipe::gp::random::StreamKey;
use stride_pipe::gp::sparse::{JITTER, Level, State};

const ACA: HiddenOptions = aca(5, 0.0);

// A problem whose top layer has other hyper-parameters than the hidden ones.
fn problem(options: &DeepOptions, x: &Array2<f64>, y: &Array1<f64>) -> (DeepProblem, Vec<usize>, Hyper) {
    let n = x.nrows();
    let exact = matches!(options.start, Start::Exact(_));
    let inducing: Vec<usize> = if exact { Vec::new() } else { (0..7).map(|i| i * (n - 1) / 6).collect() };
    let pivots = Err((0..n).step_by(n.div_ceil(300)).collect());
    let points = SupportPoints { inducing: inducing.clone(), pivots, jitter: JITTER };
    let mut problem = DeepProblem::new(x.view(), y.view(), options, &Hyper::isotropic(1.1, 1.2, 0.3), points).unwrap();
    let hyper = Hyper::isotropic(1.7, 0.8, 0.2);
    problem.set_hyper(hyper.clone());
    (problem, inducing, hyper)
}

fn check_gradient(problem: &DeepProblem, xi: &[Array2<f64>], label: &str) {
    let (_, gradient) = problem.value_and_gradient(xi).unwrap();
    for layer in 0..xi.len() {
        let (rows, columns) = xi[layer].dim();
        let mut direction = normal_matrix(layer as u64, rows, columns);
        direction /= direction.iter().map(|v| v * v).sum::<f64>().sqrt();
        let moved = |step: f64| {
            let mut xi = xi.to_vec();
            xi[layer].scaled_add(step, &direction);
            problem.value(&xi).unwrap().sampled
        };
        let difference = |h: f64| (moved(h) - moved(-h)) / (2.0 * h);
        let expected = (4.0 * difference(1e-4) - difference(2e-4)) / 3.0;
        let found: f64 = (&gradient[layer] * &direction).sum();
        let scale = gradient[layer].iter().map(|g| g * g).sum::<f64>().sqrt().max(1.0);
        assert!((found - expected).abs() < 2e-6 * scale, "{label}, layer {layer}: {found} for {expected}");
    }
}

fn check(options: &DeepOptions, x: &Array2<f64>, y: &Array1<f64>, label: &str) {
    let (problem, inducing, hyper) = problem(options, x, y);
    let xi = wander(&problem, 3, 0.2);
    let every: Vec<usize> = (0..x.nrows()).collect();
    let top = problem.top_covariance(&xi, &every).unwrap();
    let at = problem.value(&xi).unwrap();
    if inducing.is_empty() {
        let expected = log_normal(&crate::gp_deep_layers::matrix(&top), y, hyper.noise);
        assert!((at.log_likelihood / expected - 1.0).abs() < 1e-9, "{label}");
    } else {
        let level = Level { noise: hyper.noise, jitter: JITTER };
        let state = State::with_penalty(&top, y.view(), &inducing, level, options.objective().penalty()).unwrap();
        assert!((at.log_likelihood / state.log_likelihood() - 1.0).abs() < 1e-9, "{label}");
        assert!((at.bound.unwrap() / state.objective() - 1.0).abs() < 1e-9, "{label}");
    }
    // Rows are the same one by one and in tiles.
    let some: Vec<usize> = every.iter().rev().step_by(x.nrows() / 50).copied().collect();
    let all = problem.top_inputs(&xi).unwrap();
    if options.layers.architecture != Architecture::Injective {
        let last = problem.hidden_values(&xi, &some).unwrap().pop().unwrap();
        assert!(relative_error(&last, &all.select(Axis(0), &some)) < 1e-10, "{label}");
    }
    check_gradient(&problem, &xi, label);
}

#[test]
fn several_tiles() {
    let (x, y) = regression(91, 1300, 2, 0.3);
    for architecture in [Architecture::Composition, Architecture::Convolution] {
        for hidden in [ACA, SPARSE] {
            for prior_mean in [PriorMean::Zero, PriorMean::Identity] {
                let start = sparse_start(Kernel::Matern52);
                let length = Some(1.5);
                let options = DeepOptions {
                    start,
                    layers: LayerOptions {
                        architecture,
                        hidden,
                        prior_mean,
                        layers: 3,
                        length,
                        ..LayerOptions::default()
                    },
                    ..DeepOptions::default()
                };
                check(&options, &x, &y, &format!("{architecture:?} {hidden:?} {prior_mean:?}"));
            }
        }
    }
}

#[test]
fn several_tiles_in_a_chunk() {
    let (x, y) = regression(92, 17_500, 2, 0.3);
    for architecture in [Architecture::Composition, Architecture::Convolution] {
        let options = DeepOptions {
            start: sparse_start(Kernel::Rbf),
            layers: LayerOptions { architecture, hidden: ACA, layers: 3, ..LayerOptions::default() },
            ..DeepOptions::default()
        };
        check(&options, &x, &y, &format!("{architecture:?}"));
    }
}

#[test]
fn full_layers_of_several_tiles() {
    let (x, y) = regression(93, 600, 2, 0.3);
    for (architecture, exact) in [(Architecture::Composition, false), (Architecture::Convolution, true)] {
        let start = if exact { exact_start(Kernel::Matern32) } else { sparse_start(Kernel::Matern32) };
        let length = Some(0.6);
        let options = DeepOptions {
            start,
            layers: LayerOptions { architecture, hidden: FULL, layers: 2, length, ..LayerOptions::default() },
            ..DeepOptions::default()
        };
        check(&options, &x, &y, &format!("{architecture:?}"));
    }
}

#[test]
fn fewer_knots_than_rows() {
    // More values than knots, and fewer.
    let many = Array2::from_shape_fn((1100, 1), |(i, _)| ((i * 677) % 1100) as f64 / 200.0);
    let few = normal_matrix(94, 90, 1).mapv(|v| (v * 8.0).round() / 8.0);
    for x in [many, few] {
        let y = Array1::from_shape_fn(x.nrows(), |i| (2.0 * x[[i, 0]]).sin() + 0.1 * (i as f64).cos());
        for hidden in [ACA, SPARSE, FULL] {
            if hidden == FULL && x.nrows() > 1000 {
                continue;
            }
            for (layers, prior_mean) in [(2, PriorMean::Zero), (3, PriorMean::Identity)] {
                let start = sparse_start(Kernel::Matern52);
                let architecture = Architecture::Injective;
                let length = Some(0.9);
                let options = DeepOptions {
                    start,
                    layers: LayerOptions {
                        architecture,
                        hidden,
                        prior_mean,
                        layers,
                        length,
                        ..LayerOptions::default()
                    },
                    ..DeepOptions::default()
                };
                check(&options, &x, &y, &format!("{} rows, {hidden:?}, {layers} layers", x.nrows()));
            }
        }
    }
}

#[test]
fn the_smallest_and_dullest_data_do_not_panic() {
    let mut worked = 0;
    for n in [1, 2, 3, 9] {
        for constant in [false, true] {
            for architecture in Architecture::ALL {
                let d = if architecture == Architecture::Injective { 1 } else { 2 };
                let x = if constant { Array2::from_elem((n, d), 0.7) } else { normal_matrix(95, n, d) };
                let y = Array1::from_shape_fn(n, |i| if n == 1 { 0.0 } else { (i as f64 * 2.0).sin() });
                for (hidden, exact) in [(ACA, false), (FULL, true), (SPARSE, false)] {
                    let kernel = Kernel::Matern32;
                    let start =
                        if exact { Start::Exact(quick_exact(kernel)) } else { Start::Sparse(quick_sparse(kernel, 4)) };
                    let options = DeepOptions {
                        start,
                        layers: LayerOptions { architecture, layers: 3, hidden, ..LayerOptions::default() },
                        em: EmOptions {
                            iterations: Some(2),
                            particles: 2,
                            sampler: hmc(2, 2),
                            final_transitions: Some(2),
                            ..EmOptions::default()
                        },
                    };
                    let label = format!("{n} rows {architecture:?} {hidden:?} constant {constant}");
                    match fit(x.view(), y.view(), &options, &StreamKey::new(1), None, &mut Silent) {
                        Ok(gp) => {
                            let found = gp.predict(x.view(), true).unwrap();
                            assert!(found.mean.iter().all(|v| v.is_finite()), "{label}");
                            worked += 1;
                        }
                        Err(error) => println!("{label}: {error}"),
                    }
                }
            }
        }
    }
    assert_eq!(worked, 72);
}
