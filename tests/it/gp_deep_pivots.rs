//! Pivots of the cross approximation, and hidden layers that keep their values when anchors move.

use crate::gp_deep_layers::{exact_start, matrix, naive, problem, sparse_start, wander};
use crate::naive::deep::{FULL, SPARSE, aca, nystrom, submatrix};
use crate::naive::{generator, normal_matrix, regression, relative_error};
use ndarray::{Array2, Axis, concatenate, s};
use stride_pipe::gp::deep::{
    Architecture, DeepOptions, DeepProblem, HiddenOptions, LayerOptions, LogDensity, PriorMean, Warped, choose_pivots,
};
use stride_pipe::gp::kernel::{Covariance, Hyper, Kernel};
use stride_pipe::gp::random::{sample_without_replacement, uniform};

fn covariance(kernel: Kernel, variance: f64, length: f64, values: &Array2<f64>) -> Warped {
    Warped::stationary(kernel, (variance, length), values.view(), &vec![0.0; values.ncols()]).unwrap()
}

// What the columns leave of the diagonal, row by row.
fn residual(k: &Array2<f64>, pivots: &[usize]) -> Vec<f64> {
    let q = nystrom(k, pivots, 0.0);
    (0..k.nrows()).map(|i| k[[i, i]] - q[[i, i]]).collect()
}

fn mean_residual(all: &[Array2<f64>], pivots: &[usize]) -> Vec<f64> {
    let each: Vec<Vec<f64>> = all.iter().map(|k| residual(k, pivots)).collect();
    (0..each[0].len()).map(|i| each.iter().map(|one| one[i]).sum::<f64>() / each.len() as f64).collect()
}

#[test]
fn every_pivot_has_the_largest_mean_residual() {
    for (seed, kernel) in [(1, Kernel::Rbf), (2, Kernel::Matern12), (3, Kernel::Matern32), (4, Kernel::Matern52)] {
        for members in [1, 3] {
            let x = normal_matrix(seed, 50, 2);
            let values: Vec<Array2<f64>> =
                (0..members).map(|s| &x + &(normal_matrix(100 + s, 50, 2) * (0.6 * s as f64))).collect();
            // Members of another size weigh more.
            let all: Vec<Warped> = values.iter().map(|f| covariance(kernel, 1.0 + seed as f64, 1.2, f)).collect();
            let matrices: Vec<Array2<f64>> = all.iter().map(matrix).collect();
            let pivots = choose_pivots(&all, 14, 0.0).unwrap();
            assert_eq!(pivots.len(), 14);
            for step in 1..pivots.len() {
                let rest = mean_residual(&matrices, &pivots[..step]);
                let largest = rest.iter().copied().fold(0.0, f64::max);
                let taken = rest[pivots[step]];
                assert!(taken > (1.0 - 1e-6) * largest, "{kernel} step {step}: {taken} of {largest}");
            }
        }
    }
}

#[test]
fn leaves_less_than_random_columns() {
    // Evenly spread rows. Among normal ones with few columns the largest residuals are those of outliers, and random
    // columns, which stand where the rows are dense, can leave less.
    let mut rng = generator(8);
    let x = Array2::from_shape_simple_fn((150, 2), || uniform(&mut rng));
    for kernel in Kernel::ALL {
        let cov = covariance(kernel, 2.0, 0.4, &x);
        let k = matrix(&cov);
        let pivots = choose_pivots(&[cov], 25, 0.0).unwrap();
        let left: f64 = residual(&k, &pivots).iter().sum();
        for seed in 0..10 {
            let random = sample_without_replacement(&mut generator(seed), 150, 25);
            let other: f64 = residual(&k, &random).iter().sum();
            assert!(left < other, "{kernel} {seed}: {left} against {other}");
        }
    }
}

#[test]
fn stops_when_the_trace_is_small_enough() {
    let x = normal_matrix(9, 80, 1);
    let cov = covariance(Kernel::Rbf, 3.0, 1.0, &x);
    let k = matrix(&cov);
    let members = [cov];
    for tolerance in [0.3, 1e-2, 1e-4, 1e-6] {
        let pivots = choose_pivots(&members, 80, tolerance).unwrap();
        let share = |count: usize| residual(&k, &pivots[..count]).iter().sum::<f64>() / 240.0;
        assert!(share(pivots.len()) <= tolerance * (1.0 + 1e-6), "{tolerance}");
        assert!(share(pivots.len() - 1) > tolerance * (1.0 - 1e-6), "{tolerance}");
    }
    // One column at least, whatever the tolerance.
    assert_eq!(choose_pivots(&members, 80, 1.0).unwrap().len(), 1);
    assert_eq!(choose_pivots(&members, 3, 0.0).unwrap().len(), 3);
    assert!(choose_pivots(&[], 3, 0.0).unwrap().is_empty());
}

#[test]
fn never_repeats_a_row() {
    let once = normal_matrix(10, 12, 2);
    let x = concatenate(Axis(0), &[once.view(), once.view(), once.slice(s![..5, ..])]).unwrap();
    let shifted = &x + 0.5;
    for kernel in Kernel::ALL {
        let members = [covariance(kernel, 1.0, 0.7, &x), covariance(kernel, 1.0, 0.7, &shifted)];
        let pivots = choose_pivots(&members, 29, 0.0).unwrap();
        let mut features: Vec<usize> = pivots.iter().map(|row| row % 12).collect();
        features.sort_unstable();
        features.dedup();
        assert_eq!(features.len(), pivots.len(), "{kernel}: {pivots:?} repeats a point");
        assert_eq!(pivots.len(), 12, "{kernel}: every point has something to say");
    }
    // Particles that disagree on which rows are the same: no row twice, and all members can still be factored.
    let other = normal_matrix(11, 29, 2);
    let members = [covariance(Kernel::Matern32, 1.0, 0.7, &x), covariance(Kernel::Matern32, 1.0, 0.7, &other)];
    let pivots = choose_pivots(&members, 29, 0.0).unwrap();
    let mut sorted = pivots.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), pivots.len());
    assert_eq!(pivots.len(), 29);
    let constant = covariance(Kernel::Rbf, 1.0, 1.0, &Array2::ones((6, 2)));
    assert_eq!(choose_pivots(&[constant], 6, 0.0).unwrap(), [0]);
}

fn options(architecture: Architecture, hidden: HiddenOptions, prior_mean: PriorMean, layers: u32) -> DeepOptions {
    DeepOptions {
        start: sparse_start(Kernel::Matern32),
        layers: LayerOptions { architecture, hidden, prior_mean, layers, ..LayerOptions::default() },
        ..DeepOptions::default()
    }
}

// The sampled density, and half the squared length of ξ.
fn state(problem: &DeepProblem, xi: &[Array2<f64>]) -> (f64, f64) {
    (problem.value(xi).unwrap().sampled, 0.5 * xi.iter().flatten().map(|v| v * v).sum::<f64>())
}

#[test]
fn new_pivots_cost_no_more_than_they_may() {
    let start = Hyper::isotropic(1.2, 0.9, 0.1);
    let every: Vec<usize> = (0..40).collect();
    let (mut moved, mut kept) = (0, 0);
    for architecture in Architecture::ALL {
        let d = if architecture == Architecture::Injective { 1 } else { 2 };
        let (x, y) = regression(21, 40, d, 0.2);
        for (prior_mean, layers, most) in [
            (PriorMean::Zero, 2, 3.0),
            (PriorMean::Zero, 3, f64::INFINITY),
            (PriorMean::Identity, 2, f64::INFINITY),
            (PriorMean::Identity, 3, 1.0),
            (PriorMean::Identity, 5, f64::INFINITY),
            (PriorMean::Zero, 2, f64::NEG_INFINITY),
        ] {
            let options = options(architecture, aca(9, 0.0), prior_mean, layers);
            let (mut problem, _) = problem(&options, &x, &y, &start);
            let mut all_xi: Vec<_> = (0..3).map(|s| wander(&problem, 50 + s, 0.6)).collect();
            let (old, before) = (problem.anchors().to_vec(), all_xi.clone());
            let states: Vec<(f64, f64)> = before.iter().map(|xi| state(&problem, xi)).collect();
            let members: Vec<Warped> = before.iter().map(|w| problem.top_covariance(w, &every).unwrap()).collect();
            let done = problem.repivot(&every, all_xi.iter_mut().collect(), most).unwrap();
            let label = format!("{architecture:?} {prior_mean:?} {layers} layers, {most}");
            assert!(done || most < f64::INFINITY, "{label}");
            if !done {
                // Nothing has happened, to the bit.
                assert_eq!((problem.anchors(), &all_xi), (&old[..], &before), "{label}");
                kept += 1;
                continue;
            }
            moved += 1;
            assert_eq!(problem.anchors(), choose_pivots(&members, 9, 0.0).unwrap(), "{label}");
            let cost = |(xi, (density, length)): (&Vec<Array2<f64>>, &(f64, f64))| {
                let (now, longer) = state(&problem, xi);
                density - now + (longer - length).max(0.0)
            };
            let costs: f64 = all_xi.iter().zip(&states).map(cost).sum();
            assert!(costs <= 3.0 * most + 1e-6, "{label}: {costs}");
        }
    }
    assert!(moved >= 9 && kept >= 3, "{moved} and {kept}");
}

// Layers that new pivots can express as well stay what they are, away from the pivots too.
#[test]
fn smooth_layers_stay_at_all_rows() {
    let start = Hyper::isotropic(1.2, 3.0, 0.1);
    let every: Vec<usize> = (0..40).collect();
    for architecture in Architecture::ALL {
        let d = if architecture == Architecture::Injective { 1 } else { 2 };
        let (x, y) = regression(21, 40, d, 0.2);
        for layers in [2, 3] {
            let mut options = options(architecture, aca(14, 0.0), PriorMean::Identity, layers);
            options.start = sparse_start(Kernel::Rbf);
            let (mut problem, _) = problem(&options, &x, &y, &start);
            let mut all_xi = [wander(&problem, 50, 0.2)];
            let before = problem.hidden_values(&all_xi[0], &every).unwrap();
            assert!(problem.repivot(&every, all_xi.iter_mut().collect(), f64::INFINITY).unwrap());
            let now = problem.hidden_values(&all_xi[0], &every).unwrap();
            for (layer, (now, before)) in now.iter().zip(&before).enumerate() {
                let error = relative_error(now, before);
                assert!(error < 0.02, "{architecture:?} {layers} layers, layer {layer}: {error}");
            }
        }
    }
}

#[test]
fn only_rows_that_are_seen_become_pivots() {
    let (x, y) = regression(22, 40, 2, 0.2);
    let aca = aca(6, 0.0);
    let mut options = options(Architecture::Composition, aca, PriorMean::Zero, 2);
    options.start = exact_start(Kernel::Matern32);
    let (mut problem, _) = problem(&options, &x, &y, &Hyper::isotropic(1.0, 1.0, 0.1));
    let mut xi = wander(&problem, 2, 0.5);
    let seen: Vec<usize> = (20..40).rev().collect();
    problem.repivot(&seen, vec![&mut xi], f64::INFINITY).unwrap();
    assert!(problem.anchors().iter().all(|row| *row >= 20));
    assert_eq!(problem.anchors().len(), 6);
}

#[test]
fn hidden_variables_follow_the_inducing_points() {
    let start = Hyper::isotropic(1.5, 0.8, 0.2);
    for architecture in Architecture::ALL {
        let d = if architecture == Architecture::Injective { 1 } else { 2 };
        let (x, y) = regression(23, 30, d, 0.2);
        for prior_mean in [PriorMean::Zero, PriorMean::Identity] {
            for layers in [2, 4] {
                let options = options(architecture, SPARSE, prior_mean, layers);
                let (mut problem, old) = problem(&options, &x, &y, &start);
                let mut xi = wander(&problem, 60, 0.5);
                let naive = naive(&options, &x, &start, &problem);
                let before = problem.hidden_values(&xi, &(0..30).collect::<Vec<_>>()).unwrap();
                // Two points go, two come, and the order changes.
                let mut new: Vec<usize> = old[2..].iter().rev().copied().collect();
                new.extend([0, 29]);
                assert!(new[new.len() - 2..].iter().all(|row| !old.contains(row)));
                problem.move_inducing(new.clone(), vec![&mut xi]).unwrap();
                assert_eq!(problem.anchors(), new);
                let after = problem.hidden_values(&xi, &new).unwrap();
                let label = format!("{architecture:?} {prior_mean:?} {layers} layers");
                for (layer, (after, before)) in after.iter().zip(&before).enumerate() {
                    let kept = after.slice(s![..new.len() - 2, ..]).to_owned();
                    let stayed = before.select(Axis(0), &new[..new.len() - 2]);
                    assert!(relative_error(&kept, &stayed) < 1e-9, "{label}, layer {layer}: points that stay");
                    let at = before.select(Axis(0), &old);
                    let interpolated = naive.interpolated(&at, &x, &naive.first);
                    let came = after.slice(s![new.len() - 2.., ..]).to_owned();
                    let expected = submatrix(&interpolated, &[0, 29], &(0..came.ncols()).collect::<Vec<_>>());
                    let error = relative_error(&came, &expected);
                    assert!(error < 1e-8, "{label}, layer {layer}: points that come: {error:e}");
                }
                problem.value(&xi).unwrap();
            }
        }
    }
}

#[test]
fn other_kinds_do_not_follow() {
    let (x, y) = regression(24, 30, 2, 0.2);
    for hidden in [FULL, aca(5, 0.0)] {
        let options = options(Architecture::Composition, hidden, PriorMean::Zero, 3);
        let (mut problem, _) = problem(&options, &x, &y, &Hyper::isotropic(1.0, 1.0, 0.1));
        let mut xi = wander(&problem, 3, 0.5);
        let (before, old) = (xi.clone(), problem.value(&xi).unwrap());
        problem.move_inducing(vec![3, 4, 5], vec![&mut xi]).unwrap();
        assert_eq!(xi, before);
        assert_ne!(problem.value(&xi).unwrap(), old);
        assert_eq!(problem.top_covariance(&xi, &[1]).unwrap().len(), 1);
    }
}
