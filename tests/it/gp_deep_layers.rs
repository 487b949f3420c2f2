//! Hidden layers, top covariance and log-likelihood against plain loops.

use crate::naive::deep::{Deep, FULL, SPARSE, aca, bound, log_normal, nystrom, product, solve};
use crate::naive::{cholesky, normal_matrix, regression, relative_error};
use ndarray::{Array1, Array2, Axis, s};
use ndarray_linalg::{Eigh, UPLO};
use stride_pipe::gp::deep::{
    Architecture, DeepOptions, DeepProblem, EmObjective, EmOptions, HiddenOptions, LayerOptions, LogDensity, PriorMean,
    Start, SupportPoints,
};
use stride_pipe::gp::exact::ExactOptions;
use stride_pipe::gp::kernel::{Covariance, Hyper, Kernel};
use stride_pipe::gp::sparse::{JITTER, SparseOptions};

pub const KINDS: [HiddenOptions; 3] = [FULL, aca(7, 1e-9), SPARSE];

pub fn sparse_start(kernel: Kernel) -> Start {
    Start::Sparse(SparseOptions { stationary: crate::naive::options(kernel, false), ..SparseOptions::default() })
}

pub fn exact_start(kernel: Kernel) -> Start {
    Start::Exact(ExactOptions { stationary: crate::naive::options(kernel, false), ..ExactOptions::default() })
}

/// A problem with given parts: every third row is an inducing point.
pub fn problem(options: &DeepOptions, x: &Array2<f64>, y: &Array1<f64>, start: &Hyper) -> (DeepProblem, Vec<usize>) {
    let exact = matches!(options.start, Start::Exact(_));
    let inducing: Vec<usize> = if exact { Vec::new() } else { (1..x.nrows()).step_by(3).collect() };
    let pivots = Err((0..x.nrows()).collect());
    let points = SupportPoints { inducing: inducing.clone(), pivots, jitter: JITTER };
    (DeepProblem::new(x.view(), y.view(), options, start, points).unwrap(), inducing)
}

pub fn naive(options: &DeepOptions, x: &Array2<f64>, start: &Hyper, problem: &DeepProblem) -> Deep {
    Deep::new(options, x, start, problem.anchors().to_vec(), JITTER)
}

/// Hidden variables near the start, but nothing special.
pub fn wander(problem: &DeepProblem, seed: u64, size: f64) -> Vec<Array2<f64>> {
    let mut xi = problem.start_xi().unwrap();
    for (layer, xi) in xi.iter_mut().enumerate() {
        let (rows, columns) = xi.dim();
        *xi += &(normal_matrix(seed + 31 * layer as u64, rows, columns) * size);
    }
    xi
}

pub fn matrix(covariance: &impl Covariance) -> Array2<f64> {
    let n = covariance.len();
    let mut out = Array2::zeros((n, n));
    covariance.tile(0, covariance, out.view_mut()).unwrap();
    out
}

// Differences between the layers and the loops, with sizes that Matérn's roots allow for.
fn check(options: &DeepOptions, x: &Array2<f64>, y: &Array1<f64>, seed: u64) {
    let start = Hyper::isotropic(1.4, 0.9, 0.12);
    let (mut problem, inducing) = problem(options, x, y, &start);
    let mut hyper = start.clone();
    if options.layers.architecture != Architecture::Convolution {
        hyper.lengths[0] = 1.1;
    }
    (hyper.variance, hyper.noise) = (1.9, 0.08);
    problem.set_hyper(hyper.clone());
    let label = format!(
        "{:?} {:?} {:?} {:?} {} layers",
        options.layers.architecture,
        options.layers.hidden,
        options.layers.prior_mean,
        options.start.kernel(),
        options.layers.layers
    );
    let naive = naive(options, x, &start, &problem);
    let xi = wander(&problem, seed, 0.3);
    let expected = naive.layers(&xi);
    let every: Vec<usize> = (0..x.nrows()).collect();
    let found = problem.hidden_values(&xi, &every).unwrap();
    assert_eq!(found.len(), options.layers.layers as usize - 1);
    for (layer, (found, expected)) in found.iter().zip(&expected.values).enumerate() {
        let error = relative_error(found, expected);
        assert!(error < 1e-7, "{label}, layer {layer}: {error:e}");
    }
    let inputs = &expected.inputs[options.layers.layers as usize - 2];
    let error = relative_error(&problem.top_inputs(&xi).unwrap(), inputs);
    assert!(error < 1e-7, "{label}, top inputs: {error:e}");
    let top = naive.top(&expected, &hyper);
    let some: Vec<usize> = every.iter().rev().step_by(2).copied().collect();
    for rows in [&every, &some] {
        let found = matrix(&problem.top_covariance(&xi, rows).unwrap());
        let expected = crate::naive::deep::submatrix(&top, rows, rows);
        assert!(relative_error(&found, &expected) < 1e-7, "{label}, top covariance");
    }
    let at = problem.value(&xi).unwrap();
    let (log_likelihood, free_energy) = if inducing.is_empty() {
        (log_normal(&top, y, hyper.noise), None)
    } else {
        let jitter = JITTER * hyper.variance;
        let q = nystrom(&top, &inducing, jitter);
        (log_normal(&q, y, hyper.noise), Some(bound(&top, y, &inducing, hyper.noise, jitter)))
    };
    let close = |found: f64, expected: f64| (found - expected).abs() < 2e-6 * expected.abs().max(1.0);
    assert!(close(at.log_likelihood, log_likelihood), "{label}: {} against {log_likelihood}", at.log_likelihood);
    assert_eq!(at.bound.is_some(), free_energy.is_some());
    if let (Some(found), Some(expected)) = (at.bound, free_energy) {
        assert!(close(found, expected), "{label}: F_V {found} against {expected}");
        assert!(found < at.log_likelihood);
    }
}

fn in_every_combination(layers: u32, kernel: Kernel) {
    for (number, architecture) in Architecture::ALL.into_iter().enumerate() {
        let d = if architecture == Architecture::Injective { 1 } else { 2 };
        let (x, y) = regression(40 + number as u64, 27, d, 0.2);
        for hidden in KINDS {
            for prior_mean in [PriorMean::Zero, PriorMean::Identity] {
                for start in [sparse_start(kernel), exact_start(kernel)] {
                    if hidden == SPARSE && matches!(start, Start::Exact(_)) {
                        continue;
                    }
                    let length = (layers % 2 == 1).then_some(1.3);
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
                        em: EmOptions { objective: Some(EmObjective::Paper), ..EmOptions::default() },
                    };
                    check(&options, &x, &y, 5 + u64::from(layers));
                }
            }
        }
    }
}

#[test]
fn one_hidden_layer() {
    in_every_combination(2, Kernel::Matern32);
    in_every_combination(2, Kernel::Rbf);
}

#[test]
fn two_hidden_layers() {
    in_every_combination(3, Kernel::Matern52);
}

#[test]
fn three_hidden_layers() {
    in_every_combination(4, Kernel::Rbf);
}

#[test]
fn four_hidden_layers() {
    in_every_combination(5, Kernel::Matern32);
}

#[test]
fn five_hidden_layers() {
    in_every_combination(6, Kernel::Matern12);
}

#[test]
fn all_rows_as_pivots_are_the_full_covariance() {
    for (kernel, architecture) in [
        (Kernel::Matern12, Architecture::Composition),
        (Kernel::Matern32, Architecture::Convolution),
        (Kernel::Matern32, Architecture::Injective),
    ] {
        let d = if architecture == Architecture::Injective { 1 } else { 2 };
        let n = 18;
        let (x, y) = regression(3, n, d, 0.2);
        let start = Hyper::isotropic(1.0, 0.5, 0.1);
        let options = |hidden| DeepOptions {
            start: sparse_start(kernel),
            layers: LayerOptions { architecture, hidden, ..LayerOptions::default() },
            ..DeepOptions::default()
        };
        let (full, _) = problem(&options(FULL), &x, &y, &start);
        let aca = aca(n as u32, 0.0);
        let (aca, _) = problem(&options(aca), &x, &y, &start);
        let mut sorted = aca.anchors().to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..n).collect::<Vec<_>>(), "every row is a pivot");
        let every: Vec<usize> = (0..n).collect();
        // Ψ by columns: what each hidden variable does alone. The hidden mean is zero.
        let factor = |problem: &DeepProblem| {
            let mut psi = Array2::zeros((n, n));
            for k in 0..n {
                let mut xi = problem.start_xi().unwrap();
                xi[0].fill(0.0);
                xi[0][[k, 0]] = 1.0;
                let values = problem.hidden_values(&xi, &every).unwrap();
                psi.column_mut(k).assign(&values[0].column(0));
            }
            psi
        };
        let (c, psi) = (factor(&full), factor(&aca));
        let (c, psi) = (product(&c, &c.t().to_owned()), product(&psi, &psi.t().to_owned()));
        let exact = crate::naive::covariance(kernel, &Hyper::isotropic(1.0, 0.5, 0.0), x.view(), x.view());
        // The jitter, once and twice.
        assert!(relative_error(&c, &exact) < 1.1e-8, "{architecture:?}");
        assert!(relative_error(&psi, &exact) < 1.1e-8, "{architecture:?}");
        // The same hidden values, as variables of the other kind.
        let xi = wander(&full, 9, 0.5);
        let values = full.hidden_values(&xi, aca.anchors()).unwrap();
        let mut k = crate::naive::deep::submatrix(&exact, aca.anchors(), aca.anchors());
        k.diag_mut().iter_mut().for_each(|v| *v += JITTER);
        let mapped = vec![solve(&cholesky(&k), &values[0])];
        let (a, b) = (full.value(&xi).unwrap(), aca.value(&mapped).unwrap());
        let error = (a.log_likelihood - b.log_likelihood).abs() / a.log_likelihood.abs();
        assert!(error < 1e-6, "{architecture:?}: {error:e}");
    }
}

#[test]
fn narrow_layers_start_from_principal_directions_and_wide_ones_are_padded() {
    let n = 40;
    let mixing = normal_matrix(77, 4, 4);
    let x = normal_matrix(4, n, 4).dot(&mixing) + 3.0;
    let (_, y) = regression(4, n, 1, 0.2);
    let start = Hyper::isotropic(1.0, 2.0, 0.1);
    let values = |width: usize, layers: usize| {
        let options = DeepOptions {
            start: sparse_start(Kernel::Rbf),
            layers: LayerOptions {
                prior_mean: PriorMean::Identity,
                width: Some(width as u32),
                layers: layers as u32,
                ..LayerOptions::default()
            },
            ..DeepOptions::default()
        };
        let (problem, _) = problem(&options, &x, &y, &start);
        let xi = problem.start_xi().unwrap();
        assert!(xi.iter().flatten().all(|xi| *xi == 0.0));
        let every: Vec<usize> = (0..n).collect();
        let all = problem.hidden_values(&xi, &every).unwrap();
        assert!(all.iter().all(|layer| layer == all[0]));
        all[0].clone()
    };
    let centred = &x - &x.mean_axis(Axis(0)).unwrap();
    let (eigenvalues, vectors) = (centred.t().dot(&centred) / n as f64).eigh(UPLO::Lower).unwrap();
    for width in 1..4 {
        let found = values(width, 3);
        assert_eq!(found.dim(), (n, width));
        for k in 0..width {
            let mut direction = vectors.column(3 - k).to_owned();
            let largest = direction.iter().copied().fold(0.0, |a: f64, b| if b.abs() > a.abs() { b } else { a });
            direction *= largest.signum();
            assert!(relative_error(found.column(k), &x.dot(&direction)) < 1e-10, "{width} {k}");
            let mean = found.column(k).mean().unwrap();
            let variance = found.column(k).mapv(|v| (v - mean).powi(2)).mean().unwrap();
            assert!((variance / eigenvalues[3 - k] - 1.0).abs() < 1e-9);
        }
    }
    assert_eq!(values(4, 2), x);
    for width in [5, 7] {
        let found = values(width, 4);
        assert_eq!(found.slice(s![.., ..4]), x);
        assert!(found.slice(s![.., 4..]).iter().all(|v| *v == 0.0));
    }
}
