//! Noise that differs from row to row, in sparse and deep models: against dense covariances, repeated rows and differences.

use crate::gp_deep_gradient::{agrees, combinations, neighbour_start, problem};
use crate::gp_deep_layers::{exact_start, matrix, sparse_start};
use crate::gp_deep_start::{Listener, quick_exact, quick_sparse};
use crate::naive::deep::{FULL, aca, hmc, log_normal, nystrom, pcn};
use crate::naive::{covariance, hyper, normal_matrix, regression, relative_error};
use ndarray::{Array1, Array2, Axis};
use stride_pipe::gp::deep::{
    Architecture, DeepGp, DeepOptions, DeepProblem, EmObjective, EmOptions, LayerOptions, LogDensity, Start,
    SupportPoints, fit, fit_from,
};
use stride_pipe::gp::kernel::{Hyper, Kernel};
use stride_pipe::gp::observer::Silent;
use stride_pipe::gp::random::StreamKey;
use stride_pipe::gp::row_noise::RowNoise;
use stride_pipe::gp::sparse::{self, JITTER, Penalty, SparseGp, objective_with_noise};

const N: usize = 37;
const OBJECTIVES: [EmObjective; 4] = [EmObjective::Paper, EmObjective::Bound, EmObjective::Trace, EmObjective::Tight];

fn weights(n: usize) -> Array1<f64> {
    Array1::from_shape_fn(n, |row| [1.0, 2.0, 3.0, 0.4][row % 4])
}

fn known(n: usize) -> Array1<f64> {
    Array1::from_shape_fn(n, |row| [0.0, 0.3, 0.02, 1.0, 0.1][row % 5])
}

// Weights, known noise, and both.
fn noises(n: usize) -> [RowNoise; 3] {
    let (weights, known) = (weights(n), known(n));
    [
        RowNoise::new(Some(weights.clone()), None),
        RowNoise::new(None, Some(known.clone())),
        RowNoise::new(Some(weights), Some(known)),
    ]
}

// log N(y | 0, K + noise).
fn dense(k: &Array2<f64>, y: &Array1<f64>, noise: &[f64]) -> f64 {
    let mut k = k.clone();
    k.diag_mut().iter_mut().zip(noise).for_each(|(value, noise)| *value += noise);
    log_normal(&k, y, 0.0)
}

// The bound in one of its forms, from its definition.
fn bound(k: &Array2<f64>, y: &Array1<f64>, rows: &[usize], noise: &[f64], (jitter, form): (f64, Penalty)) -> f64 {
    let (q, n) = (nystrom(k, rows, jitter), y.len() as f64);
    let left = (0..y.len()).map(|i| (k[[i, i]] - q[[i, i]]) / noise[i]);
    let price: f64 = match form {
        Penalty::Linear => left.sum(),
        Penalty::Trace => n * (left.sum::<f64>() / n).ln_1p(),
        Penalty::Tight => left.map(f64::ln_1p).sum(),
    };
    dense(&q, y, noise) - 0.5 * price
}

fn variances(noise: &RowNoise, own: f64) -> Vec<f64> {
    let (weights, known) = (noise.weights.as_ref(), noise.known.as_ref());
    let n = weights.or(known).unwrap().len();
    (0..n).map(|i| own / weights.map_or(1.0, |w| w[i]) + known.map_or(0.0, |s| s[i])).collect()
}

#[test]
fn the_sparse_bounds_are_those_of_the_definition_with_their_gradients() {
    let (x, y) = regression(3, N, 2, 0.1);
    let rows = [1, 5, 8, 13, 20, 33];
    for noise in noises(N) {
        for ard in [false, true] {
            let hyper = hyper(2, ard, 5);
            let k = covariance(Kernel::Matern52, &hyper, x.view(), x.view());
            for form in [Penalty::Linear, Penalty::Trace, Penalty::Tight] {
                let at = |theta: &[f64]| {
                    let hyper = Hyper::from_log(theta).unwrap();
                    objective_with_noise((x.view(), y.view(), &noise), Kernel::Matern52, &hyper, &rows, JITTER, form)
                        .unwrap()
                };
                let theta = hyper.to_log();
                let found = at(&theta);
                let own = variances(&noise, hyper.noise);
                let expected = bound(&k, &y, &rows, &own, (JITTER * hyper.variance, form));
                assert!((found.at.value / expected - 1.0).abs() < 1e-8, "{form:?}: {} {expected}", found.at.value);
                let likelihood = dense(&nystrom(&k, &rows, JITTER * hyper.variance), &y, &own);
                assert!((found.log_likelihood / likelihood - 1.0).abs() < 1e-8);
                for (place, slope) in found.at.gradient.iter().enumerate() {
                    let moved = |step: f64| {
                        let mut theta = theta.clone();
                        theta[place] += step;
                        at(&theta).at.value
                    };
                    let expected = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                    assert!(
                        (slope - expected).abs() < 1e-6 * expected.abs().max(1.0),
                        "{form:?} {noise:?} {place}: {slope} {expected}"
                    );
                }
            }
        }
    }
}

// Every architecture, hidden layer, number of layers and kind of top layer.
#[test]
fn densities_of_deep_models_are_those_of_the_definition_with_their_gradients() {
    for (number, options) in combinations().into_iter().enumerate() {
        let noise = noises(N)[number % 3].clone();
        let is_sparse = matches!(options.start, Start::Sparse(_));
        for objective in OBJECTIVES.into_iter().take(if is_sparse { 4 } else { 1 }) {
            let em = EmOptions { objective: Some(objective), ..options.em.clone() };
            let options = DeepOptions { em, ..options.clone() };
            let (mut problem, xi) = problem(&options, N, 2, number as u64);
            problem.set_noise(noise.clone());
            problem.set_hyper(Hyper { noise: 0.11, ..problem.hyper().clone() });
            agrees(&options, &problem, &xi, 2);
            if matches!(options.start, Start::Neighbours(_)) {
                continue;
            }
            let d = if options.layers.architecture == Architecture::Injective { 1 } else { 2 };
            let (_, y) = regression(number as u64, N, d, 0.2);
            let k = matrix(&problem.top_covariance(&xi, &(0..N).collect::<Vec<_>>()).unwrap());
            let own = variances(&noise, 0.11);
            let found = problem.value(&xi).unwrap();
            let rows: Vec<usize> = (0..N).step_by(4).collect();
            let expected = match (is_sparse, objective) {
                (false, _) => dense(&k, &y, &own),
                (true, EmObjective::Paper) => dense(&nystrom(&k, &rows, JITTER * k[[0, 0]]), &y, &own),
                (true, _) => bound(&k, &y, &rows, &own, (JITTER * k[[0, 0]], objective.penalty())),
            };
            let error = (found.sampled / expected - 1.0).abs();
            assert!(error < 1e-6, "{:?} {objective:?}: {} for {expected}", options.layers, found.sampled);
        }
    }
}

#[test]
fn with_all_earlier_rows_as_neighbours_it_is_the_exact_one() {
    for (number, noise) in noises(N).into_iter().enumerate() {
        for architecture in Architecture::ALL {
            let built = |start: Start| {
                let layers = LayerOptions { architecture, hidden: FULL, ..LayerOptions::default() };
                let options = DeepOptions { start, layers, ..DeepOptions::default() };
                let (mut problem, xi) = problem(&options, N, 2, number as u64);
                let length = if architecture == Architecture::Convolution { 1.0 } else { 0.8 };
                problem.set_hyper(Hyper::isotropic(1.7, length, 0.2));
                problem.set_noise(noise.clone());
                (problem, xi)
            };
            let (exact, xi) = built(exact_start(Kernel::Matern32));
            let (all, _) = built(neighbour_start(Kernel::Matern32, N as u32));
            let ((value, gradient), (found, slopes)) =
                (exact.value_and_gradient(&xi).unwrap(), all.value_and_gradient(&xi).unwrap());
            assert!((found.log_likelihood / value.log_likelihood - 1.0).abs() < 1e-6);
            assert!(relative_error(&slopes[0], &gradient[0]) < 2e-6);
        }
    }
}

// What chains sample differs by a number that does not depend on hidden layers.
#[test]
fn a_weight_is_a_number_of_rows() {
    let whole = Array1::from_shape_fn(N, |row| [1.0, 2.0, 3.0][row % 3]);
    let many: Vec<usize> = (0..N).flat_map(|row| std::iter::repeat_n(row, whole[row] as usize)).collect();
    let noise = RowNoise { weights: Some(whole), known: None };
    let place = |row: &usize| many.iter().position(|known| known == row).unwrap();
    for architecture in Architecture::ALL {
        for (start, objective) in [
            (sparse_start(Kernel::Rbf), EmObjective::Paper),
            (sparse_start(Kernel::Matern32), EmObjective::Bound),
            (exact_start(Kernel::Matern32), EmObjective::Paper),
        ] {
            let inducing = if matches!(start, Start::Sparse(_)) { vec![2, 9, 17, 25, 30] } else { Vec::new() };
            let pivots: Vec<usize> = (0..N).step_by(5).collect();
            let layers = LayerOptions { architecture, hidden: aca(8, 1e-9), ..LayerOptions::default() };
            let em = EmOptions { objective: Some(objective), ..EmOptions::default() };
            let options = DeepOptions { start, layers, em };
            let (x, y) = regression(8, N, if architecture == Architecture::Injective { 1 } else { 2 }, 0.2);
            let built = |rows: &[usize], of: &dyn Fn(&usize) -> usize| {
                let (x, y) = (x.select(Axis(0), rows), y.select(Axis(0), rows));
                let inducing = inducing.iter().map(of).collect();
                let points = SupportPoints { inducing, pivots: Ok(pivots.iter().map(of).collect()), jitter: JITTER };
                DeepProblem::new(x.view(), y.view(), &options, &Hyper::isotropic(1.3, 1.1, 0.15), points).unwrap()
            };
            let mut one = built(&(0..N).collect::<Vec<_>>(), &|row| *row);
            one.set_noise(noise.clone());
            let repeated = built(&many, &place);
            let xi: Vec<Array2<f64>> = one.start_xi().unwrap();
            let moved: Vec<Array2<f64>> =
                xi.iter().map(|xi| xi + &(normal_matrix(4, xi.nrows(), xi.ncols()) * 0.3)).collect();
            let rise =
                |problem: &DeepProblem| problem.value(&moved).unwrap().sampled - problem.value(&xi).unwrap().sampled;
            let (found, expected) = (rise(&one), rise(&repeated));
            let label = format!("{architecture:?} {objective:?}: {found} {expected}");
            assert!((found - expected).abs() < 1e-6 * expected.abs().max(1.0), "{label}");
            let (_, found) = one.value_and_gradient(&moved).unwrap();
            let (_, expected) = repeated.value_and_gradient(&moved).unwrap();
            let error = relative_error(&found[0], &expected[0]);
            assert!(error < 1e-6, "{label}: {error:e}");
        }
    }
}

// A known noise that is the same for all rows is noise.
#[test]
fn the_same_known_noise_of_all_rows_is_noise() {
    for (number, options) in combinations().into_iter().enumerate().step_by(7) {
        let (mut problem, xi) = problem(&options, N, 2, number as u64);
        problem.set_hyper(Hyper { noise: 0.05 + 0.2, ..problem.hyper().clone() });
        let (plain, slopes) = problem.value_and_gradient(&xi).unwrap();
        problem.set_hyper(Hyper { noise: 0.05, ..problem.hyper().clone() });
        problem.set_noise(RowNoise::new(None, Some(Array1::from_elem(N, 0.2))));
        let (found, gradient) = problem.value_and_gradient(&xi).unwrap();
        assert!((found.sampled - plain.sampled).abs() < 1e-8 * plain.sampled.abs(), "{:?}", options.layers);
        assert!(relative_error(&gradient[0], &slopes[0]) < 1e-7, "{:?}", options.layers);
    }
}

fn starts() -> [(Start, &'static str); 3] {
    [
        (Start::Sparse(quick_sparse(Kernel::Rbf, 8)), "stride"),
        (Start::Exact(quick_exact(Kernel::Rbf)), "deep_gp"),
        (neighbour_start(Kernel::Matern32, 6), "neighbours"),
    ]
}

fn quick(start: &Start, architecture: Architecture, number: usize) -> DeepOptions {
    let sampler = if number.is_multiple_of(2) { hmc(4, 3) } else { pcn(20) };
    let (iterations, final_transitions) = (Some(3), Some(6));
    let em = EmOptions { particles: 2, sampler, iterations, final_transitions, climb: Some(4), ..EmOptions::default() };
    let layers = LayerOptions { architecture, hidden: aca(8, 1e-9), ..LayerOptions::default() };
    DeepOptions { start: start.clone(), layers, em }
}

// Equal weights and a known noise of nothing are none, to the bit.
#[test]
fn equal_weights_leave_the_bits_as_they_are() {
    let none = RowNoise::new(Some(Array1::from_elem(60, 0.3)), Some(Array1::zeros(60)));
    assert!(none.is_uniform());
    let (x, y) = regression(5, 60, 2, 0.3);
    for (number, (start, _)) in starts().iter().enumerate() {
        let (options, key) = (quick(start, Architecture::Composition, number), StreamKey::new(4));
        let plain = fit(x.view(), y.view(), &options, &key, None, &mut Silent).unwrap();
        let rows = (x.view(), y.view(), &none);
        let same = fit_from(rows, &options, None, &key, None, &mut Silent).unwrap();
        assert_eq!(plain.parts(), same.parts());
        // Ones that are looked at: the same but for rounding. Noise of different rows has its effect.
        let ones = RowNoise { weights: Some(Array1::ones(60)), known: None };
        let near = fit_from((x.view(), y.view(), &ones), &options, None, &key, None, &mut Silent).unwrap();
        assert!(relative_error(&[near.parts().log_likelihood], &[plain.parts().log_likelihood]) < 1e-6);
        for noise in noises(60) {
            let other = fit_from((x.view(), y.view(), &noise), &options, None, &key, None, &mut Silent).unwrap();
            assert!((other.parts().hyper.noise / plain.parts().hyper.noise - 1.0).abs() > 1e-3);
        }
    }
}

// Whole fits of every kind: resumed from any checkpoint and read from their parts they say the same.
#[test]
fn fits_go_on_and_come_back_to_the_bit() {
    let stars = normal_matrix(18, 13, 2) * 2.0;
    for (number, (start, name)) in starts().iter().enumerate() {
        for (architecture, noise) in [Architecture::Composition, Architecture::Convolution].into_iter().zip(noises(60))
        {
            let (x, y) = regression(5, 60, 2, 0.3);
            let (options, key) = (quick(start, architecture, number), StreamKey::new(4));
            let rows = || (x.view(), y.view(), &noise);
            let mut listener = Listener::default();
            let gp = fit_from(rows(), &options, None, &key, None, &mut listener).unwrap();
            assert!(!listener.checkpoints.is_empty());
            for checkpoint in listener.checkpoints {
                let again = fit_from(rows(), &options, None, &key, Some(checkpoint), &mut Silent).unwrap();
                assert_eq!(again.parts(), gp.parts(), "{name}");
            }
            let back = DeepGp::from_parts(gp.parts().clone()).unwrap();
            assert_eq!(back.predict(stars.view(), true).unwrap(), gp.predict(stars.view(), true).unwrap(), "{name}");
            assert!(gp.left_out_with((x.view(), y.view(), &noise), &key).unwrap().residuals.len() > 5);
        }
    }
}

// Rows of very different noise: the fit finds the part that is not known, and predicts better than without.
#[test]
fn known_noise_makes_fits_better() {
    const ROWS: usize = 240;
    let (x, truth) = regression(6, ROWS, 2, 0.0);
    let std = Array1::from_shape_fn(ROWS, |row| if row % 3 == 0 { 0.05 } else { 1.5 });
    let errors = normal_matrix(7, ROWS, 2);
    let y = Array1::from_shape_fn(ROWS, |row| truth[row] + std[row] * errors[[row, 0]] + 0.1 * errors[[row, 1]]);
    let (x_star, y_star) = (x.select(Axis(0), &(0..ROWS).step_by(3).collect::<Vec<_>>()), truth);
    let smse =
        |mean: &Array1<f64>| mean.iter().zip(y_star.iter().step_by(3)).map(|(mean, y)| (mean - y).powi(2)).sum::<f64>();
    let options = quick_sparse(Kernel::Rbf, 25);
    let key = StreamKey::new(1);
    let plain = sparse::fit(x.view(), y.view(), &options, &key, &mut Silent).unwrap();
    let noise = RowNoise::new(None, Some(&std * &std));
    let gp: SparseGp = sparse::fit_with(x.view(), y.view(), &noise, &options, &key, &mut Silent).unwrap();
    assert!((0.002..0.05).contains(&gp.hyper().noise) && plain.hyper().noise > 0.5, "{:?}", gp.hyper());
    let errors = [&gp, &plain].map(|gp| smse(&gp.predict(x_star.view(), false).unwrap().mean));
    assert!(errors[0] < 0.5 * errors[1], "{errors:?}");
    for (number, (start, name)) in starts().iter().enumerate() {
        let options = quick(start, Architecture::Composition, number);
        let gp = fit_from((x.view(), y.view(), &noise), &options, None, &key, None, &mut Silent).unwrap();
        let error = smse(&gp.predict(x_star.view(), false).unwrap().mean);
        assert!(error < errors[1], "{name}: {error} {errors:?}");
    }
}
