//! The training problem that everything is measured on: the size of Fashion-MNIST features, made from random numbers.

use ndarray::{Array1, Array2};
use stride_pipe::gp::deep::{CrossOptions, DeepOptions, DeepProblem, LayerOptions, SupportPoints};
use stride_pipe::gp::kernel::Hyper;
use stride_pipe::gp::random::{StreamKey, standard_normal, uniform};
use stride_pipe::gp::sparse::JITTER;

pub const ROWS: usize = 63_000;
pub const FEATURES: usize = 30;
pub const RANK: usize = 50;
pub const INDUCING: [usize; 4] = [25, 50, 125, 500];

/// Rows and targets.
pub fn data(n: usize) -> (Array2<f64>, Array1<f64>) {
    let mut rng = StreamKey::new(1).generator();
    let x = Array2::from_shape_fn((n, FEATURES), |_| standard_normal(&mut rng));
    let y = x.outer_iter().map(|row| (row[0] + row[1]).sin() + 0.1 * uniform(&mut rng)).collect();
    (x, y)
}

/// `K_mm` is well-conditioned: sums are whitened once.
pub const LENGTH: f64 = 5.0;
/// `K_mm` is as ill-conditioned as the jitter allows: every row is solved.
pub const LONG_LENGTH: f64 = 500.0;

pub fn hyper() -> Hyper {
    Hyper::isotropic(1.0, LENGTH, 0.1)
}

/// So many rows, spread evenly.
pub fn spread(n: usize, count: usize, offset: usize) -> Vec<usize> {
    (0..count).map(|i| i * (n / count) + offset).collect()
}

/// STRIDE with one hidden layer by cross approximation and m inducing points.
pub fn stride(x: &Array2<f64>, y: &Array1<f64>, m: usize) -> DeepProblem {
    stride_with(x, y, m, LENGTH)
}

/// The same with another correlation length.
pub fn stride_with(x: &Array2<f64>, y: &Array1<f64>, m: usize, length: f64) -> DeepProblem {
    let hidden = CrossOptions { rank: RANK as u32, tolerance: 0.0, repivot: false }.into();
    let options = DeepOptions { layers: LayerOptions { hidden, ..LayerOptions::default() }, ..DeepOptions::default() };
    let (inducing, pivots) = (spread(x.nrows(), m, 0), Ok(spread(x.nrows(), RANK, 1)));
    let points = SupportPoints { inducing, pivots, jitter: JITTER };
    DeepProblem::new(x.view(), y.view(), &options, &Hyper::isotropic(1.0, length, 0.1), points).unwrap()
}

/// Floating-point operations of one evaluation, exponentials not counted: hidden values, distances, triangular solve, W. The
/// solve counts even where it is left out: it is what the plain method does.
pub fn value_flops(n: usize, m: usize) -> f64 {
    let (n, m, d, r) = (n as f64, m as f64, FEATURES as f64, RANK as f64);
    n * (2.0 * r * d + 2.0 * m * d + 2.0 * m * m)
}

/// The same of a value with its gradient: then V once more, B⁻¹V through L⁻ᵀ, and back to rows, inducing points and ξ.
pub fn gradient_flops(n: usize, m: usize) -> f64 {
    let (nf, mf, d, r) = (n as f64, m as f64, FEATURES as f64, RANK as f64);
    let again = 2.0 * r * d + 2.0 * mf * d + mf * mf;
    let back = 2.0 * mf * mf + 4.0 * mf * d + 2.0 * r * d;
    value_flops(n, m) + nf * (again + back)
}
