//! Log marginal likelihood of the exact Gaussian process, with its gradient.
//!
//! log p(y) = −½ yᵀα − Σ log Lᵢᵢ − n/2 log 2π, and with W = ααᵀ − (K + γ²I)⁻¹
//! ∂ log p/∂θ = ½ tr(W ∂K/∂θ).

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, s};
use rayon::prelude::*;

use super::check_training;
use crate::gp::GpError;
use crate::gp::hyper::{Evaluation, Objective};
use crate::gp::kernel::{Hyper, Kernel, Points, ROW_TILE, Shape, column_means, covariance_lower, for_kernel};
use crate::gp::linalg::{Cholesky, Interrupt, NEVER, go_on};
use crate::gp::observer::TracePoint;
use crate::gp::row_noise::RowNoise;

/// Log marginal likelihood of x: `[n, d]`, y: `[n]`, and its gradient in the order of [`Hyper::to_log`].
pub fn log_marginal_likelihood(
    x: ArrayView2<'_, f64>,
    y: ArrayView1<'_, f64>,
    kernel: Kernel,
    hyper: &Hyper,
) -> Result<Evaluation, GpError> {
    log_marginal_with(x, y, &RowNoise::default(), kernel, hyper)
}

/// The same with noise that differs from row to row.
pub fn log_marginal_with(
    x: ArrayView2<'_, f64>,
    y: ArrayView1<'_, f64>,
    noise: &RowNoise,
    kernel: Kernel,
    hyper: &Hyper,
) -> Result<Evaluation, GpError> {
    log_marginal_unless(NEVER, (x, y, noise), kernel, hyper)
}

/// The same, given up when that is asked for.
fn log_marginal_unless(
    interrupted: Interrupt<'_>,
    (x, y, noise): (ArrayView2<'_, f64>, ArrayView1<'_, f64>, &RowNoise),
    kernel: Kernel,
    hyper: &Hyper,
) -> Result<Evaluation, GpError> {
    noise.check(x.nrows())?;
    let (points, (k_nn, distances)) = training_covariance((x, y), kernel, hyper, true, interrupted)?;
    let Conditioned { factor, jitter, alpha, log_likelihood } =
        Conditioned::new(k_nn.clone(), (y, noise), hyper, interrupted)?;
    let inverse = factor.inverse_lower(interrupted)?;
    let derivatives = Derivatives {
        kernel,
        hyper,
        noise,
        points: &points,
        k_nn: &k_nn,
        distances: &distances.unwrap_or_default(),
        alpha: &alpha,
        inverse: &inverse,
        jitter,
    };
    Ok(Evaluation { value: log_likelihood, gradient: derivatives.gradient(interrupted)?, jitter })
}

/// The lower triangles of a covariance and, when asked for, of the squared distances it is made of.
type Triangles = (Array2<f64>, Option<Array2<f64>>);

/// The training rows in units of the lengths, and their covariance.
pub(super) fn training_covariance(
    (x, y): (ArrayView2<'_, f64>, ArrayView1<'_, f64>),
    kernel: Kernel,
    hyper: &Hyper,
    keep_distances: bool,
    interrupted: Interrupt<'_>,
) -> Result<(Points, Triangles), GpError> {
    check_training(x, y)?;
    hyper.check(x.ncols())?;
    let points = Points::new(x, &column_means(x), &hyper.lengths)?;
    let triangles = covariance_lower(kernel, hyper.variance, &points, keep_distances, interrupted)?;
    Ok((points, triangles))
}

/// What the covariance of the training rows and their targets say together.
pub(super) struct Conditioned {
    /// The factor of K + γ²I + jitter.
    pub factor: Cholesky,
    pub jitter: f64,
    /// (K + γ²I)⁻¹ y, `[n]`.
    pub alpha: Array1<f64>,
    pub log_likelihood: f64,
}

impl Conditioned {
    /// From the lower triangle of K: `[n, n]` and y: `[n]`.
    pub fn new(
        mut k_nn: Array2<f64>,
        (y, noise): (ArrayView1<'_, f64>, &RowNoise),
        hyper: &Hyper,
        interrupted: Interrupt<'_>,
    ) -> Result<Self, GpError> {
        k_nn.diag_mut().iter_mut().enumerate().for_each(|(row, v)| *v += noise.variance(row, hyper.noise));
        let what = "the covariance of the training rows";
        let (factor, jitter) = Cholesky::factor_with_jitter_unless(interrupted, &k_nn, hyper.variance, what)?;
        let alpha = factor.solve_vector(y)?;
        let log_likelihood = value(y, &alpha, &factor);
        Ok(Self { factor, jitter, alpha, log_likelihood })
    }
}

/// The likelihood from y: `[n]`, alpha: `[n]` and the factor of K + γ²I.
pub(crate) fn value(y: ArrayView1<'_, f64>, alpha: &Array1<f64>, factor: &Cholesky) -> f64 {
    let fit: f64 = y.iter().zip(alpha).map(|(y, a)| y * a).sum();
    let n = y.len() as f64;
    -0.5 * (fit + factor.log_determinant() + n * std::f64::consts::TAU.ln())
}

struct Derivatives<'a> {
    kernel: Kernel,
    hyper: &'a Hyper,
    noise: &'a RowNoise,
    points: &'a Points,
    // Lower triangles, [n, n].
    k_nn: &'a Array2<f64>,
    distances: &'a Array2<f64>,
    inverse: &'a Array2<f64>,
    alpha: &'a Array1<f64>,
    jitter: f64,
}

impl Derivatives<'_> {
    fn gradient(&self, interrupted: Interrupt<'_>) -> Result<Vec<f64>, GpError> {
        let n = self.alpha.len();
        let parameters = self.hyper.lengths.len() + 2;
        let starts: Vec<usize> = (0..n).step_by(ROW_TILE).collect();
        // Collected first and added in order: the sum must not depend on who finishes first.
        let tiles: Vec<Vec<f64>> = starts
            .into_par_iter()
            .map(|first| {
                go_on(interrupted)?;
                let mut sums = vec![0.0; parameters];
                let rows = first..(first + ROW_TILE).min(n);
                for_kernel!(self.kernel, shape => rows.for_each(|i| self.add_row(shape, i, &mut sums)));
                Ok(sums)
            })
            .collect::<Result<_, GpError>>()?;
        let mut gradient = vec![0.0; parameters];
        for tile in tiles {
            for (total, part) in gradient.iter_mut().zip(tile) {
                *total += part;
            }
        }
        Ok(gradient)
    }

    // Adds row i of ½ tr(W ∂K); an entry below the diagonal stands for its mirror image too.
    fn add_row(&self, shape: impl Shape, i: usize, sums: &mut [f64]) {
        let k = self.k_nn.slice(s![i, ..i]);
        let r2 = self.distances.slice(s![i, ..i]);
        let inverse = self.inverse.slice(s![i, ..i]);
        let alpha_i = self.alpha[i];
        let ard = self.hyper.lengths.len() > 1;
        let rows = self.points.rows();
        let (mut by_variance, mut by_length) = (0.0, 0.0);
        for j in 0..i {
            let w = alpha_i * self.alpha[j] - inverse[j];
            by_variance += w * k[j];
            let by_r2 = w * shape.length_weight(k[j], r2[j]);
            if ard {
                let (a, b) = (rows.row(i), rows.row(j));
                for (sum, (a, b)) in sums[1..].iter_mut().zip(a.iter().zip(b)) {
                    *sum += by_r2 * (a - b) * (a - b);
                }
            } else {
                by_length += by_r2 * r2[j];
            }
        }
        let w = alpha_i * alpha_i - self.inverse[[i, i]];
        // The jitter is a fixed share of the variance and moves with it.
        sums[0] += by_variance + 0.5 * w * (self.hyper.variance + self.jitter);
        if !ard {
            sums[1] += by_length;
        }
        if let Some(last) = sums.last_mut() {
            *last += 0.5 * w * (self.hyper.noise / self.noise.weight(i));
        }
    }
}

/// The log marginal likelihood as something to maximise.
#[derive(Debug, Clone)]
pub struct LogMarginal<'a> {
    /// Training rows, `[n, d]`.
    pub x: ArrayView2<'a, f64>,
    /// Targets, `[n]`.
    pub y: ArrayView1<'a, f64>,
    /// How the noise differs from row to row.
    pub noise: &'a RowNoise,
    pub kernel: Kernel,
    /// Number of the start, for the traces.
    pub start: i32,
    /// Name of the phase, for the traces.
    pub phase: &'static str,
}

impl Objective for LogMarginal<'_> {
    fn evaluate(&self, theta: &[f64]) -> Result<Evaluation, GpError> {
        self.evaluate_unless(NEVER, theta)
    }

    fn evaluate_unless(&self, interrupted: Interrupt<'_>, theta: &[f64]) -> Result<Evaluation, GpError> {
        let hyper = Hyper::from_log(theta)?;
        // Far out a logarithm may leave the range of f64: not a mistake of the caller, only a bad point.
        if hyper.check(self.x.ncols()).is_err() && hyper.lengths.len() + 2 == theta.len() {
            return Err(GpError::NonFinite { what: "a hyper-parameter" });
        }
        log_marginal_unless(interrupted, (self.x, self.y, self.noise), self.kernel, &hyper)
    }

    fn trace_point(&self, step: i32, theta: &[f64], at: &Evaluation) -> TracePoint {
        TracePoint {
            particle: self.start,
            step,
            log_likelihood: at.value,
            jitter: at.jitter,
            inducing: self.x.nrows() as i32,
            ..TracePoint::at_log(self.phase, theta)
        }
    }
}
