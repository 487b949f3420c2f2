//! The gradient where covariances are ill-conditioned, against difference quotients with thirty digits.

use crate::gp_sparse_battery::energy;
use crate::naive::deep::aca;
use crate::naive::extended::Extended;
use crate::naive::normal_matrix;
use crate::naive::sparse::{Matrix, cholesky, dot, solve_lower};
use ndarray::{Array1, Array2};
use stride_pipe::gp::deep::{
    DeepOptions, DeepProblem, EmObjective, EmOptions, LayerOptions, LogDensity, PriorMean, SupportPoints,
};
use stride_pipe::gp::kernel::Hyper;
use stride_pipe::gp::sparse::JITTER;

fn rbf(a: &[Extended], b: &[Extended], variance: f64, length: f64) -> Extended {
    let r2 = a.iter().zip(b).fold(Extended::ZERO, |sum, (a, b)| {
        let scaled = (*a - *b) / length.into();
        sum + scaled * scaled
    });
    Extended::from(variance) * (-(r2 * 0.5.into())).exp()
}

fn extended(a: &Array2<f64>) -> Matrix {
    a.outer_iter().map(|row| row.iter().map(|v| Extended::from(*v)).collect()).collect()
}

// L⁻ᵀ b.
fn solve_transposed(lower: &Matrix, mut b: Vec<Extended>) -> Vec<Extended> {
    for i in (0..b.len()).rev() {
        let sum = (i + 1..b.len()).fold(b[i], |sum, k| sum - lower[k][i] * b[k]);
        b[i] = sum / lower[i][i];
    }
    b
}

/// Composition with one hidden layer by cross approximation, in extended precision.
struct Exact<'a> {
    x: Matrix,
    y: &'a Array1<f64>,
    pivots: &'a [usize],
    inducing: &'a [usize],
    hyper: &'a Hyper,
    identity: bool,
}

impl Exact<'_> {
    fn factor(&self, at: &[Vec<Extended>], variance: f64) -> Matrix {
        let length = self.hyper.lengths[0];
        let mut k: Matrix = at.iter().map(|a| at.iter().map(|b| rbf(a, b, variance, length)).collect()).collect();
        for (i, row) in k.iter_mut().enumerate() {
            row[i] = row[i] + Extended::from(variance) * JITTER.into();
        }
        cholesky(&k)
    }

    // mean + K_·A L⁻ᵀ (ξ + step δ).
    fn hidden(&self, xi: &Array2<f64>, direction: &Array2<f64>, step: f64) -> Matrix {
        let at: Matrix = self.pivots.iter().map(|row| self.x[*row].clone()).collect();
        let lower = self.factor(&at, 1.0);
        let weights: Matrix = (0..xi.ncols())
            .map(|k| {
                let moved = |i: usize| Extended::from(xi[[i, k]]) + Extended::from(step) * direction[[i, k]].into();
                solve_transposed(&lower, (0..xi.nrows()).map(moved).collect())
            })
            .collect();
        let length = self.hyper.lengths[0];
        self.x
            .iter()
            .map(|x| {
                let k: Vec<Extended> = at.iter().map(|a| rbf(x, a, 1.0, length)).collect();
                let mean = |j: usize| if self.identity { x[j] } else { Extended::ZERO };
                weights.iter().enumerate().map(|(j, weights)| mean(j) + dot(&k, weights)).collect()
            })
            .collect()
    }

    // ℓ = log N(y | 0, Q + γ²I), less what a bound subtracts.
    fn sampled(&self, f: &Matrix, objective: EmObjective) -> Extended {
        let (m, n) = (self.inducing.len(), self.y.len());
        let (variance, length) = (self.hyper.variance, self.hyper.lengths[0]);
        let noise = Extended::from(self.hyper.noise);
        let at: Matrix = self.inducing.iter().map(|row| f[*row].clone()).collect();
        let lower = self.factor(&at, variance);
        let mut b = vec![vec![Extended::ZERO; m]; m];
        let mut vy = vec![Extended::ZERO; m];
        let mut yy = Extended::ZERO;
        let (mut missing, mut logs) = (Extended::ZERO, Extended::ZERO);
        for (f, y) in f.iter().zip(self.y) {
            let v = solve_lower(&lower, at.iter().map(|a| rbf(a, f, variance, length)).collect());
            let y = Extended::from(*y);
            yy = yy + y * y;
            let left = (Extended::from(variance) - dot(&v, &v)) / noise;
            missing = missing + left;
            logs = logs + (Extended::ONE + left).ln();
            for i in 0..m {
                vy[i] = vy[i] + v[i] * y / noise;
                for j in 0..=i {
                    b[i][j] = b[i][j] + v[i] * v[j] / noise;
                }
            }
        }
        for (i, row) in b.iter_mut().enumerate() {
            row[i] = row[i] + Extended::ONE;
        }
        let lower_b = cholesky(&b);
        let c = solve_lower(&lower_b, vy);
        let log_det = lower_b.iter().enumerate().fold(Extended::ZERO, |sum, (i, row)| sum + row[i].ln());
        let normal = (Extended::TAU * noise).ln() * (n as f64).into();
        let rows = Extended::from(n as f64);
        let price = match objective {
            EmObjective::Paper => Extended::ZERO,
            EmObjective::Bound => missing,
            EmObjective::Trace => rows * (Extended::ONE + missing / rows).ln(),
            EmObjective::Tight => logs,
        };
        (normal + log_det * 2.0.into() + yy / noise + price - dot(&c, &c)) * (-0.5).into()
    }
}

#[test]
fn agrees_with_extended_precision_on_energy() {
    let (x, y) = energy();
    let every: Vec<usize> = (0..110).map(|i| i * 7).collect();
    let (x, y) = (x.select(ndarray::Axis(0), &every), y.select(ndarray::Axis(0), &every));
    let hyper = Hyper::isotropic(300.0, 10.0, 0.03);
    let inducing: Vec<usize> = (0..25).map(|i| (i * 37) % 110).collect();
    let objectives = [EmObjective::Paper, EmObjective::Bound, EmObjective::Trace, EmObjective::Tight];
    let cases = [PriorMean::Zero, PriorMean::Identity].into_iter().flat_map(|mean| objectives.map(|of| (mean, of)));
    for (number, (prior_mean, objective)) in cases.enumerate() {
        let options = DeepOptions {
            layers: LayerOptions { prior_mean, hidden: aca(12, 0.0), ..LayerOptions::default() },
            em: EmOptions { objective: Some(objective), ..EmOptions::default() },
            ..DeepOptions::default()
        };
        let points = SupportPoints { inducing: inducing.clone(), pivots: Err((0..110).collect()), jitter: JITTER };
        let problem = DeepProblem::new(x.view(), y.view(), &options, &hyper, points).unwrap();
        let mut xi = problem.start_xi().unwrap();
        let (rows, columns) = xi[0].dim();
        xi[0] += &(normal_matrix(number as u64, rows, columns) * 0.05);
        let direction = normal_matrix(9, rows, columns);
        let exact = Exact {
            x: extended(&x),
            y: &y,
            pivots: problem.anchors(),
            inducing: &inducing,
            hyper: &hyper,
            identity: prior_mean == PriorMean::Identity,
        };
        let at = |step: f64| exact.sampled(&exact.hidden(&xi[0], &direction, step), objective);
        let (found, gradient) = problem.value_and_gradient(&xi).unwrap();
        let value = at(0.0).value();
        let error = (found.sampled / value - 1.0).abs();
        assert!(error < 1e-6, "{prior_mean:?} {objective:?}: {} for {value}", found.sampled);
        // With thirty digits the step can be so small that its square vanishes.
        let step = 1e-8;
        let slope = ((at(step) - at(-step)) / (2.0 * step).into()).value();
        let found: f64 = (&gradient[0] * &direction).sum();
        assert!((found / slope - 1.0).abs() < 1e-6, "{prior_mean:?} {objective:?}: {found} for {slope}");
    }
}
