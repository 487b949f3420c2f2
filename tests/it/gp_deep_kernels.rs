//! Covariances with local lengths, and the monotone map of one feature.

use crate::gp_deep_layers::{exact_start, matrix, naive, problem, sparse_start, wander};
use crate::naive::deep::{FULL, SPARSE, aca, solve};
use crate::naive::{cholesky, covariance, generator, normal_matrix, relative_error};
use ndarray::{Array1, Array2};
use ndarray_linalg::{EigValsh, UPLO};
use proptest::prelude::*;
use stride_pipe::gp::deep::{Architecture, DeepOptions, DeepProblem, LayerOptions, LogDensity, PriorMean, Warped};
use stride_pipe::gp::kernel::{Hyper, Kernel};
use stride_pipe::gp::random::{standard_normal, uniform};
use stride_pipe::gp::sparse::JITTER;

fn smallest_eigenvalue(k: &Array2<f64>) -> f64 {
    k.eigvalsh(UPLO::Lower).unwrap()[0]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn local_lengths_give_a_positive_covariance(
        seed in 0_u64..10_000, n in 2_usize..45, d in 1_usize..6, spread in 0.0..2.5_f64, variance in 0.1..10.0_f64
    ) {
        let x = normal_matrix(seed, n, d);
        let mut rng = generator(seed + 1);
        let lengths: Vec<f64> = (0..n).map(|_| (spread * standard_normal(&mut rng)).exp()).collect();
        for kernel in Kernel::ALL {
            let cov = Warped::local(kernel, variance, x.view(), &vec![0.0; d], lengths.clone()).unwrap();
            let k = matrix(&cov);
            prop_assert!(k.diag().iter().all(|v| *v == variance));
            prop_assert!(relative_error(&k, k.t()) < 1e-14);
            let least = smallest_eigenvalue(&k);
            prop_assert!(least > -1e-12 * variance * n as f64, "{kernel}: {least}");
        }
    }
}

#[test]
fn the_printed_form_is_not_positive() {
    // ρ(2‖x−x'‖/(h+h')) with the same factor in front, for the squared exponential.
    for (d, clearly) in [(1, -0.5), (5, -0.1)] {
        let n = 40;
        let x = normal_matrix(d as u64, n, d);
        let mut rng = generator(5);
        let h: Vec<f64> = (0..n).map(|_| 0.05 + 3.0 * uniform(&mut rng)).collect();
        let entry = |i: usize, j: usize, printed: bool| {
            let distance = (&x.row(i) - &x.row(j)).mapv(|v| v * v).sum().sqrt();
            let sum = h[i] + h[j];
            let r = if printed { 2.0 * distance / sum } else { (2.0 / sum).sqrt() * distance };
            (2.0 * (h[i] * h[j]).sqrt() / sum).powf(d as f64 / 2.0) * (-0.5 * r * r).exp()
        };
        let printed = Array2::from_shape_fn((n, n), |(i, j)| entry(i, j, true));
        assert!(smallest_eigenvalue(&printed) < clearly, "{d}: {}", smallest_eigenvalue(&printed));
        let ours = Array2::from_shape_fn((n, n), |(i, j)| entry(i, j, false));
        let lengths = h.iter().map(|h| h.sqrt()).collect();
        let cov = Warped::local(Kernel::Rbf, 1.0, x.view(), &vec![0.1; d], lengths).unwrap();
        assert!(relative_error(&matrix(&cov), &ours) < 1e-12);
        assert!(smallest_eigenvalue(&ours) > -1e-12);
    }
}

#[test]
fn local_lengths_belong_to_their_rows() {
    let x = normal_matrix(1, 5, 2);
    assert!(Warped::local(Kernel::Rbf, 1.0, x.view(), &[0.0; 2], vec![1.0; 4]).is_err());
    assert!(Warped::local(Kernel::Rbf, 1.0, x.view(), &[0.0; 3], vec![1.0; 5]).is_err());
}

// An injective problem at these places, and hidden variables that make u what it is asked to be there.
fn map(at: &[f64], u: impl Fn(f64) -> f64) -> (DeepProblem, Vec<Array2<f64>>) {
    let n = at.len();
    let x = Array2::from_shape_fn((n, 1), |(i, _)| at[i]);
    let y = Array1::from_shape_fn(n, |i| (i as f64).sin());
    let options = DeepOptions {
        start: exact_start(Kernel::Matern12),
        layers: LayerOptions { architecture: Architecture::Injective, hidden: FULL, ..LayerOptions::default() },
        ..DeepOptions::default()
    };
    let start = Hyper::isotropic(1.0, 0.7, 0.1);
    let (problem, _) = problem(&options, &x, &y, &start);
    let mut k = covariance(Kernel::Matern12, &Hyper::isotropic(1.0, 0.7, 0.0), x.view(), x.view());
    k.diag_mut().iter_mut().for_each(|v| *v += JITTER);
    let values = Array2::from_shape_fn((n, 1), |(i, _)| u(at[i]));
    let xi = vec![solve(&cholesky(&k), &values)];
    assert!(relative_error(&problem.hidden_values(&xi, &(0..n).collect::<Vec<_>>()).unwrap()[0], &values) < 1e-9);
    (problem, xi)
}

#[test]
fn the_map_integrates_the_squared_slope() {
    let mut rng = generator(3);
    let mut at: Vec<f64> = (0..60).map(|_| 4.0 * uniform(&mut rng) - 1.0).collect();
    at.extend([-1.0, 3.0]);
    // u = 1 gives x itself.
    let (problem, xi) = map(&at, |_| 1.0);
    assert!(relative_error(&problem.top_inputs(&xi).unwrap(), &at) < 1e-9);
    // u = 2 everywhere.
    let (problem, xi) = map(&at, |_| 2.0);
    let expected: Vec<f64> = at.iter().map(|x| -1.0 + 4.0 * (x + 1.0)).collect();
    assert!(relative_error(&problem.top_inputs(&xi).unwrap(), &expected) < 1e-9);
    // Below the smallest slope: 0.3².
    let (problem, xi) = map(&at, |x| 0.1 * x - 1.0);
    let expected: Vec<f64> = at.iter().map(|x| -1.0 + 0.09 * (x + 1.0)).collect();
    assert!(relative_error(&problem.top_inputs(&xi).unwrap(), &expected) < 1e-9);
    // u = a + b x: the integral is ((a + b x)³ − (a − b)³)/3b, and the trapezoidal rule adds b² h³/6 per interval.
    let (a, b) = (1.5, 0.3);
    let (problem, xi) = map(&at, |x| a + b * x);
    let mut sorted = at.clone();
    sorted.sort_by(f64::total_cmp);
    let expected: Vec<f64> = at
        .iter()
        .map(|x| {
            let rule: f64 = sorted.windows(2).filter(|w| w[1] <= *x).map(|w| (w[1] - w[0]).powi(3) * b * b / 6.0).sum();
            -1.0 + ((a + b * x).powi(3) - (a - b).powi(3)) / (3.0 * b) + rule
        })
        .collect();
    let found = problem.top_inputs(&xi).unwrap();
    assert!(relative_error(&found, &expected) < 1e-9);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn the_map_never_turns_back(seed in 0_u64..1000, layers in 2_u32..5, size in 0.1..6.0_f64, zero: bool) {
        let n = 35;
        // With repeated values.
        let x = normal_matrix(seed, n, 1).mapv(|v| (v * 10.0).round() / 10.0);
        let y = Array1::from_shape_fn(n, |i| (i as f64).cos());
        let prior_mean = if zero { PriorMean::Zero } else { PriorMean::Identity };
        for hidden in [FULL, aca(5, 0.0), SPARSE] {
            let architecture = Architecture::Injective;
            let options = DeepOptions {
                start: sparse_start(Kernel::Matern32),
                layers: LayerOptions { architecture, hidden, prior_mean, layers, ..LayerOptions::default() },
                ..DeepOptions::default()
            };
            let (problem, _) = problem(&options, &x, &y, &Hyper::isotropic(1.0, 1.0, 0.1));
            let xi = wander(&problem, seed, size);
            let g = problem.top_inputs(&xi).unwrap();
            for i in 0..n {
                for j in 0..n {
                    let (dx, dg) = (x[[i, 0]] - x[[j, 0]], g[[i, 0]] - g[[j, 0]]);
                    if dx > 0.0 {
                        prop_assert!(dg >= 0.09 * dx * (1.0 - 1e-9), "{hidden:?}: {dg} over {dx}");
                    } else if dx == 0.0 {
                        prop_assert_eq!(dg, 0.0);
                    }
                }
            }
            problem.value(&xi).unwrap();
        }
    }
}

#[test]
fn many_values_share_a_bounded_number_of_knots() {
    let n = 3000;
    let x = Array2::from_shape_fn((n, 1), |(i, _)| ((i * 1237) % n) as f64 / 300.0);
    let y = Array1::from_shape_fn(n, |i| (3.0 * x[[i, 0]]).sin());
    let options = DeepOptions {
        start: sparse_start(Kernel::Matern32),
        layers: LayerOptions { architecture: Architecture::Injective, hidden: aca(8, 0.0), ..LayerOptions::default() },
        ..DeepOptions::default()
    };
    let start = Hyper::isotropic(1.0, 1.5, 0.1);
    let inducing: Vec<usize> = (0..n).step_by(200).collect();
    let points =
        stride_pipe::gp::deep::SupportPoints { inducing, pivots: Err((0..n).step_by(7).collect()), jitter: JITTER };
    let problem = DeepProblem::new(x.view(), y.view(), &options, &start, points).unwrap();
    let xi = wander(&problem, 4, 0.4);
    let g = problem.top_inputs(&xi).unwrap();
    // With 1024 knots g is linear over two or three steps of 1/300; the loops have a knot at every value.
    let naive = naive(&options, &x, &start, &problem);
    let every: Vec<usize> = (0..n).collect();
    let u = problem.hidden_values(&xi, &every).unwrap();
    let mut order = every.clone();
    order.sort_by(|a, b| x[[*a, 0]].total_cmp(&x[[*b, 0]]));
    let mut slopes = Vec::new();
    for pair in order.windows(2) {
        let slope = (g[[pair[1], 0]] - g[[pair[0], 0]]) * 300.0;
        let at = u[0][[pair[0], 0]].max(0.3).powi(2);
        assert!((slope / at - 1.0).abs() < 0.05, "{slope} {at}");
        slopes.push(slope);
    }
    let kinks = slopes.windows(2).filter(|pair| (pair[1] / pair[0] - 1.0).abs() > 1e-9).count();
    assert!(kinks <= 1022, "{kinks} kinks");
    assert!(kinks > 500, "{kinks} kinks");
    let last = order[n - 1];
    assert!((naive.map_at(&u[0], x[[last, 0]]) / g[[last, 0]] - 1.0).abs() < 1e-3);
}
