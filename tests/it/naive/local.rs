//! Rows given their nearest neighbours, from the definition: sort, solve, add up.

use ndarray::{Array1, Array2, ArrayView1};
use stride_pipe::gp::deep::Architecture;
use stride_pipe::gp::kernel::{Hyper, Kernel};
use stride_pipe::gp::row_noise::RowNoise;
use stride_pipe::gp::sparse::JITTER;

use super::deep::Deep;
use super::{cholesky, kernel, solve_lower};

/// Some rows of points by their squared distance to a query, equally near ones by their number.
pub fn nearest(
    points: &Array2<f64>,
    query: ArrayView1<f64>,
    among: impl IntoIterator<Item = usize>,
) -> Vec<(f64, usize)> {
    let distance = |row: usize| points.row(row).iter().zip(query).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
    let mut found: Vec<(f64, usize)> = among.into_iter().map(|row| (distance(row), row)).collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    found
}

/// Where a top layer sees rows: points, and local lengths (1 where the covariance has none).
pub struct Places {
    pub points: Array2<f64>,
    pub lengths: Vec<f64>,
}

impl Places {
    pub fn stationary(points: Array2<f64>) -> Self {
        Self { lengths: vec![1.0; points.nrows()], points }
    }

    /// Of rows with features x and inputs of the top layer.
    pub fn of(deep: &Deep, x: &Array2<f64>, inputs: &Array2<f64>) -> Self {
        if deep.architecture != Architecture::Convolution {
            return Self::stationary(inputs.clone());
        }
        let lengths = inputs.iter().map(|value| value.clamp(deep.bounds.0, deep.bounds.1)).collect();
        Self { points: x.clone(), lengths }
    }

    pub fn at(&self, row: usize) -> (ArrayView1<'_, f64>, f64) {
        (self.points.row(row), self.lengths[row])
    }
}

/// A process with targets at its places.
pub struct Local<'a> {
    pub kernel: Kernel,
    pub hyper: Hyper,
    pub places: &'a Places,
    pub y: &'a [f64],
    /// How their noise differs.
    pub noise: RowNoise,
}

impl Local<'_> {
    fn covariance(&self, a: (ArrayView1<f64>, f64), b: (ArrayView1<f64>, f64)) -> f64 {
        let mean = 0.5 * (a.1 * a.1 + b.1 * b.1);
        let (p, q) = (&a.0 / mean.sqrt(), &b.0 / mean.sqrt());
        (a.1 * b.1 / mean).powf(0.5 * p.len() as f64) * kernel(self.kernel, &self.hyper, p.view(), q.view())
    }

    /// Mean and variance (noise included) of a target at some place, given those of some rows.
    pub fn given(&self, at: (ArrayView1<f64>, f64), rows: &[usize]) -> (f64, f64) {
        self.given_with(at, self.hyper.noise, rows)
    }

    // The same for a target with a noise of its own.
    fn given_with(&self, at: (ArrayView1<f64>, f64), noise: f64, rows: &[usize]) -> (f64, f64) {
        let own = |noise: f64| self.hyper.variance * (1.0 + JITTER) + noise;
        let c = Array2::from_shape_fn((rows.len(), rows.len()), |(i, j)| {
            if i == j {
                own(self.noise_of(rows[i]))
            } else {
                self.covariance(self.places.at(rows[i]), self.places.at(rows[j]))
            }
        });
        let lower = cholesky(&c);
        let cross: Array1<f64> = rows.iter().map(|row| self.covariance(at, self.places.at(*row))).collect();
        let y: Array1<f64> = rows.iter().map(|row| self.y[*row]).collect();
        let (v, w) = (solve_lower(&lower, cross.view()), solve_lower(&lower, y.view()));
        (v.dot(&w), own(noise) - v.dot(&v))
    }

    fn noise_of(&self, row: usize) -> f64 {
        let (weights, known) = (self.noise.weights.as_ref(), self.noise.known.as_ref());
        self.hyper.noise / weights.map_or(1.0, |weights| weights[row]) + known.map_or(0.0, |known| known[row])
    }

    /// log p of a row's target, given those of some others.
    pub fn density(&self, row: usize, others: &[usize]) -> f64 {
        let (mean, variance) = self.given_with(self.places.at(row), self.noise_of(row), others);
        log_density(self.y[row] - mean, variance)
    }

    /// The `count` rows nearest to a point, but for one.
    pub fn neighbours(&self, point: ArrayView1<f64>, count: usize, except: Option<usize>) -> Vec<usize> {
        let among = (0..self.y.len()).filter(|row| Some(*row) != except);
        nearest(&self.places.points, point, among).into_iter().take(count).map(|(_, row)| row).collect()
    }

    /// Mean and latent variance at a place, given the `count` nearest rows.
    pub fn predict(&self, at: (ArrayView1<f64>, f64), count: usize) -> (f64, f64) {
        let (mean, variance) = self.given(at, &self.neighbours(at.0, count, None));
        (mean, variance - self.hyper.noise)
    }

    /// Mean of log p of all rows, each given its nearest among the others.
    pub fn leave_one_out(&self, count: usize) -> f64 {
        let rows = 0..self.y.len();
        let density = |row: usize| self.density(row, &self.neighbours(self.places.points.row(row), count, Some(row)));
        rows.map(density).sum::<f64>() / self.y.len() as f64
    }
}

pub fn log_density(residual: f64, variance: f64) -> f64 {
    -0.5 * ((std::f64::consts::TAU * variance).ln() + residual * residual / variance)
}

/// What regression on inducing points says of the target of every row that it is fitted without: how far it is off, and
/// the variance, noise included. The covariances are those of the inducing points, jitter included: `[m, m]`, and of them
/// with all rows: `[m, n]`.
pub fn refits(
    (k_mm, k_mn): (&Array2<f64>, &Array2<f64>),
    y: &[f64],
    (variance, noise): (f64, &dyn Fn(usize) -> f64),
) -> Vec<(f64, f64)> {
    let (m, n) = k_mn.dim();
    let lower = cholesky(k_mm);
    let v: Vec<Array1<f64>> = k_mn.columns().into_iter().map(|column| solve_lower(&lower, column)).collect();
    (0..n)
        .map(|left_out| {
            let mut b = Array2::eye(m);
            let mut vy = Array1::zeros(m);
            for row in (0..n).filter(|row| *row != left_out) {
                b += &Array2::from_shape_fn((m, m), |(i, j)| v[row][i] * v[row][j] / noise(row));
                vy.scaled_add(y[row] / noise(row), &v[row]);
            }
            let lower_b = cholesky(&b);
            let own = &v[left_out];
            let (c, u) = (solve_lower(&lower_b, vy.view()), solve_lower(&lower_b, own.view()));
            (y[left_out] - u.dot(&c), noise(left_out) + variance - own.dot(own) + u.dot(&u))
        })
        .collect()
}
