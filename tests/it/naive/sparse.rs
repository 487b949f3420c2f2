//! The sparse bound from its definition, in extended precision.

use ndarray::{Array1, Array2, ArrayView1, ArrayView2};
use stride_pipe::gp::kernel::{Hyper, Kernel};
use stride_pipe::gp::sparse::Penalty;

use super::extended::Extended;

pub type Matrix = Vec<Vec<Extended>>;

/// A data set with inducing points and hyper-parameters.
#[derive(Clone)]
pub struct Problem {
    pub kernel: Kernel,
    pub x: Array2<f64>,
    pub y: Array1<f64>,
    pub rows: Vec<usize>,
    pub hyper: Hyper,
    /// Relative to the variance.
    pub jitter: f64,
}

// Hyper-parameters moved by small amounts of their logarithms.
struct Moved {
    variance: Extended,
    lengths: Vec<Extended>,
    noise: Extended,
}

/// The posterior at some points.
pub struct Solution {
    exact: Extended,
    pub bound: f64,
    pub mean: Vec<f64>,
    pub variance: Vec<f64>,
}

impl Problem {
    fn moved(&self, index: usize, by: f64) -> Moved {
        let factor = Extended::from(by).exp();
        let last = self.hyper.lengths.len() + 1;
        let apply = |i: usize, v: f64| if i == index { factor * v.into() } else { v.into() };
        Moved {
            variance: apply(0, self.hyper.variance),
            lengths: self.hyper.lengths.iter().enumerate().map(|(i, v)| apply(i + 1, *v)).collect(),
            noise: apply(last, self.hyper.noise),
        }
    }

    fn kernel(&self, hyper: &Moved, a: ArrayView1<f64>, b: ArrayView1<f64>) -> Extended {
        let mut r2 = Extended::ZERO;
        for j in 0..a.len() {
            let length = hyper.lengths[if hyper.lengths.len() == 1 { 0 } else { j }];
            let scaled = (Extended::from(a[j]) - b[j].into()) / length;
            r2 = r2 + scaled * scaled;
        }
        let rho = match self.kernel {
            Kernel::Rbf => (-(r2 * 0.5.into())).exp(),
            Kernel::Matern12 => (-r2.sqrt()).exp(),
            Kernel::Matern32 => {
                let s = (r2 * 3.0.into()).sqrt();
                (Extended::ONE + s) * (-s).exp()
            }
            Kernel::Matern52 => {
                let s = (r2 * 5.0.into()).sqrt();
                (Extended::ONE + s + s * s / 3.0.into()) * (-s).exp()
            }
            Kernel::RationalQuadratic(shape) => {
                assert_eq!(shape.alpha, 1.0, "there is no logarithm here");
                Extended::ONE / (Extended::ONE + r2 * 0.5.into())
            }
        };
        hyper.variance * rho
    }

    fn solve(&self, hyper: &Moved, stars: ArrayView2<f64>, penalty: Penalty) -> Solution {
        let (m, n) = (self.rows.len(), self.y.len());
        let z: Vec<_> = self.rows.iter().map(|i| self.x.row(*i)).collect();
        let mut k_mm: Matrix = (0..m).map(|i| (0..m).map(|j| self.kernel(hyper, z[i], z[j])).collect()).collect();
        for (i, row) in k_mm.iter_mut().enumerate() {
            row[i] = row[i] + hyper.variance * self.jitter.into();
        }
        let lower = cholesky(&k_mm);
        let whiten = |x: ArrayView1<f64>| solve_lower(&lower, z.iter().map(|z| self.kernel(hyper, *z, x)).collect());
        let v: Matrix = (0..n).map(|i| whiten(self.x.row(i))).collect();
        let mut b = vec![vec![Extended::ZERO; m]; m];
        let mut vy = vec![Extended::ZERO; m];
        let mut yy = Extended::ZERO;
        for (v, y) in v.iter().zip(&self.y) {
            yy = yy + Extended::from(*y) * (*y).into();
            for i in 0..m {
                vy[i] = vy[i] + v[i] * (*y).into() / hyper.noise;
                for j in 0..=i {
                    b[i][j] = b[i][j] + v[i] * v[j];
                }
            }
        }
        let trace: Extended = (0..m).fold(Extended::ZERO, |sum, i| sum + b[i][i]);
        let missing = hyper.variance * (n as f64).into() - trace;
        for (i, row) in b.iter_mut().enumerate() {
            for v in row.iter_mut() {
                *v = *v / hyper.noise;
            }
            row[i] = row[i] + Extended::ONE;
        }
        let lower_b = cholesky(&b);
        let c = solve_lower(&lower_b, vy);
        let log_det = lower_b.iter().enumerate().fold(Extended::ZERO, |sum, (i, row)| sum + row[i].ln());
        let normal = (Extended::TAU * hyper.noise).ln() * (n as f64).into();
        let price = match penalty {
            Penalty::Linear => missing / hyper.noise,
            Penalty::Trace => {
                let rows = Extended::from(n as f64);
                rows * (Extended::ONE + missing / (rows * hyper.noise)).ln()
            }
            Penalty::Tight => v
                .iter()
                .fold(Extended::ZERO, |sum, v| sum + (Extended::ONE + (hyper.variance - dot(v, v)) / hyper.noise).ln()),
        };
        let bound = normal + log_det * 2.0.into() + yy / hyper.noise + price - dot(&c, &c);
        let (mut mean, mut variance) = (Vec::new(), Vec::new());
        for star in stars.outer_iter() {
            let v = whiten(star);
            let u = solve_lower(&lower_b, v.clone());
            mean.push(dot(&u, &c).value());
            variance.push((hyper.variance - dot(&v, &v) + dot(&u, &u)).value());
        }
        let exact = bound * (-0.5).into();
        Solution { exact, bound: exact.value(), mean, variance }
    }

    /// Bound and posterior.
    pub fn solution(&self, stars: ArrayView2<f64>) -> Solution {
        self.solve(&self.moved(usize::MAX, 0.0), stars, Penalty::Linear)
    }

    /// The bound in this form.
    pub fn objective(&self, penalty: Penalty) -> f64 {
        self.solve(&self.moved(usize::MAX, 0.0), self.x.slice(ndarray::s![..0, ..]), penalty).bound
    }

    /// The bound with one more inducing point.
    pub fn bound_with(&self, row: usize, penalty: Penalty) -> f64 {
        let mut more = self.clone();
        more.rows.push(row);
        more.objective(penalty)
    }

    /// The bound without inducing point number `j`.
    pub fn bound_without(&self, j: usize, penalty: Penalty) -> f64 {
        let mut fewer = self.clone();
        fewer.rows.remove(j);
        fewer.objective(penalty)
    }

    /// The gradient by central differences: with thirty digits the step can be so small that its square vanishes.
    pub fn gradient(&self, penalty: Penalty) -> Vec<f64> {
        const STEP: f64 = 1e-7;
        let none = self.x.slice(ndarray::s![..0, ..]);
        let value = |i: usize, by: f64| self.solve(&self.moved(i, by), none, penalty).exact;
        let slope = |i: usize| (value(i, STEP) - value(i, -STEP)) / (2.0 * STEP).into();
        (0..self.hyper.lengths.len() + 2).map(|i| slope(i).value()).collect()
    }
}

pub fn dot(a: &[Extended], b: &[Extended]) -> Extended {
    a.iter().zip(b).fold(Extended::ZERO, |sum, (a, b)| sum + *a * *b)
}

pub fn cholesky(a: &Matrix) -> Matrix {
    let mut lower: Matrix = Vec::new();
    for (i, row) in a.iter().enumerate() {
        let mut new: Vec<Extended> = Vec::new();
        for j in 0..=i {
            let above = if j == i { &new } else { &lower[j] };
            let sum = (0..j).fold(row[j], |sum, k| sum - new[k] * above[k]);
            let next = if j == i { sum.sqrt() } else { sum / lower[j][j] };
            new.push(next);
        }
        lower.push(new);
    }
    lower
}

pub fn solve_lower(lower: &Matrix, mut b: Vec<Extended>) -> Vec<Extended> {
    for i in 0..b.len() {
        let sum = (0..i).fold(b[i], |sum, k| sum - lower[i][k] * b[k]);
        b[i] = sum / lower[i][i];
    }
    b
}
