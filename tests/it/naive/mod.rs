//! Reference implementations as plain as the definitions, and small random data.

#![expect(clippy::needless_pass_by_value, reason = "views are cheap to pass")]

pub mod deep;
pub mod extended;
pub mod local;
pub mod sparse;

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, s};
use rand_chacha::ChaCha8Rng;
use stride_pipe::gp::kernel::{Hyper, Kernel, StationaryOptions};
use stride_pipe::gp::predict::Prediction;
use stride_pipe::gp::random::{StreamKey, standard_normal};

/// k(a, b), from the textbook.
pub fn kernel(kernel: Kernel, hyper: &Hyper, a: ArrayView1<f64>, b: ArrayView1<f64>) -> f64 {
    let mut r2 = 0.0;
    for j in 0..a.len() {
        let length = hyper.lengths[if hyper.lengths.len() == 1 { 0 } else { j }];
        r2 += ((a[j] - b[j]) / length).powi(2);
    }
    let r = r2.sqrt();
    let rho = match kernel {
        Kernel::Rbf => (-r2 / 2.0).exp(),
        Kernel::Matern12 => (-r).exp(),
        Kernel::Matern32 => (1.0 + 3f64.sqrt() * r) * (-3f64.sqrt() * r).exp(),
        Kernel::Matern52 => (1.0 + 5f64.sqrt() * r + 5.0 * r2 / 3.0) * (-5f64.sqrt() * r).exp(),
        Kernel::RationalQuadratic(shape) => (1.0 + r2 / (2.0 * shape.alpha)).powf(-shape.alpha),
    };
    hyper.variance * rho
}

/// Covariance by two loops.
pub fn covariance(k: Kernel, hyper: &Hyper, z: ArrayView2<f64>, x: ArrayView2<f64>) -> Array2<f64> {
    Array2::from_shape_fn((z.nrows(), x.nrows()), |(i, j)| kernel(k, hyper, z.row(i), x.row(j)))
}

/// Lower Cholesky factor by three loops.
pub fn cholesky(a: &Array2<f64>) -> Array2<f64> {
    let n = a.nrows();
    let mut l = Array2::<f64>::zeros((n, n));
    for i in 0..n {
        for j in 0..=i {
            let mut sum = a[[i, j]];
            for k in 0..j {
                sum -= l[[i, k]] * l[[j, k]];
            }
            l[[i, j]] = if i == j { sum.sqrt() } else { sum / l[[j, j]] };
        }
    }
    l
}

/// L⁻¹ b by forward substitution.
pub fn solve_lower(l: &Array2<f64>, b: ArrayView1<f64>) -> Array1<f64> {
    let mut x = b.to_owned();
    for i in 0..x.len() {
        for k in 0..i {
            x[i] -= l[[i, k]] * x[k];
        }
        x[i] /= l[[i, i]];
    }
    x
}

/// Log marginal likelihood from the definition.
pub fn log_likelihood(k: Kernel, hyper: &Hyper, x: ArrayView2<f64>, y: ArrayView1<f64>) -> f64 {
    let mut a = covariance(k, hyper, x, x);
    a.diag_mut().iter_mut().for_each(|v| *v += hyper.noise);
    let l = cholesky(&a);
    let w = solve_lower(&l, y);
    let log_det: f64 = l.diag().iter().map(|v| v.ln()).sum();
    -0.5 * w.dot(&w) - log_det - 0.5 * y.len() as f64 * (2.0 * std::f64::consts::PI).ln()
}

/// Posterior mean and latent variance at one point.
pub fn posterior(
    k: Kernel,
    hyper: &Hyper,
    x: ArrayView2<f64>,
    y: ArrayView1<f64>,
    star: ArrayView1<f64>,
) -> (f64, f64) {
    let mut a = covariance(k, hyper, x, x);
    a.diag_mut().iter_mut().for_each(|v| *v += hyper.noise);
    let l = cholesky(&a);
    let k_star = Array1::from_shape_fn(x.nrows(), |i| kernel(k, hyper, x.row(i), star));
    let v = solve_lower(&l, k_star.view());
    let w = solve_lower(&l, y);
    (v.dot(&w), hyper.variance - v.dot(&v))
}

/// A generator for test data.
pub fn generator(seed: u64) -> ChaCha8Rng {
    StreamKey::new(seed).with("test").generator()
}

/// A matrix of standard normal numbers.
pub fn normal_matrix(seed: u64, rows: usize, columns: usize) -> Array2<f64> {
    let mut rng = generator(seed);
    Array2::from_shape_fn((rows, columns), |_| standard_normal(&mut rng))
}

/// Ordinary hyper-parameters for d features.
pub fn hyper(d: usize, ard: bool, seed: u64) -> Hyper {
    let spread = normal_matrix(seed, 1, d + 2);
    let lengths = if ard { d } else { 1 };
    Hyper {
        variance: (0.4 * spread[[0, 0]]).exp(),
        lengths: (0..lengths).map(|j| 1.5 * (0.3 * spread[[0, j + 1]]).exp()).collect(),
        noise: 0.1 * (0.5 * spread[[0, d + 1]]).exp(),
    }
}

/// Predictions of a row are the same bits alone, among others, and in every position of a tile.
#[track_caller]
pub fn assert_rows_are_on_their_own(d: usize, predict: impl Fn(ArrayView2<f64>) -> Prediction) {
    let bits = |values: ArrayView1<f64>| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let stars = normal_matrix(8, 203, d);
    let all = predict(stars.view());
    let variance = all.latent_variance.unwrap();
    for (start, end) in [(0, 1), (1, 2), (17, 18), (95, 97), (50, 203), (202, 203)] {
        let some = predict(stars.slice(s![start..end, ..]));
        assert_eq!(bits(some.mean.view()), bits(all.mean.slice(s![start..end])));
        assert_eq!(bits(some.latent_variance.unwrap().view()), bits(variance.slice(s![start..end])));
    }
    let same = predict(Array2::from_shape_fn((200, d), |(_, j)| stars[[0, j]]).view());
    assert!(bits(same.mean.view()).iter().all(|b| *b == all.mean[0].to_bits()));
    assert!(bits(same.latent_variance.unwrap().view()).iter().all(|b| *b == variance[0].to_bits()));
}

/// Figures that another program found: data, what was asked, and its answer.
pub struct Reference<'a> {
    pub x: &'a Array2<f64>,
    pub y: &'a Array1<f64>,
    pub x_star: &'a Array2<f64>,
    pub kernel: Kernel,
    pub hyper: Hyper,
    pub answer: &'a serde_json::Value,
    pub label: String,
}

/// Compares with every case of a file of `reference/`; returns their number.
pub fn compare_with(text: &str, compare: impl Fn(&Reference)) -> usize {
    let sets: Vec<serde_json::Value> = serde_json::from_str(text).unwrap();
    let mut compared = 0;
    for set in &sets {
        let (x, x_star, y) = (matrix(&set["x"]), matrix(&set["x_star"]), Array1::from(numbers(&set["y"])));
        for answer in set["cases"].as_array().unwrap() {
            let kernel: Kernel = answer["kernel"].as_str().unwrap().parse().unwrap();
            let (variance, noise) = (answer["variance"].as_f64().unwrap(), answer["noise"].as_f64().unwrap());
            let hyper = Hyper { variance, lengths: numbers(&answer["lengths"]), noise };
            let label = format!("{} {kernel} {hyper:?}", set["name"]);
            compare(&Reference { x: &x, y: &y, x_star: &x_star, kernel, hyper, answer, label });
            compared += 1;
        }
    }
    compared
}

/// A smooth function of random points, with noise; standardised.
pub fn regression(seed: u64, n: usize, d: usize, noise: f64) -> (Array2<f64>, Array1<f64>) {
    let x = normal_matrix(seed, n, d);
    let mut rng = generator(seed + 1_000_000);
    let y = Array1::from_shape_fn(n, |i| {
        let row = x.row(i);
        (1.5 * row[0]).sin() + 0.5 * row.sum() / (d as f64).sqrt() + noise * standard_normal(&mut rng)
    });
    let mean = y.sum() / n as f64;
    let std = (y.mapv(|v| (v - mean).powi(2)).sum() / n as f64).sqrt();
    (x, y.mapv(|v| (v - mean) / std))
}

/// Runs `work` in a pool of so many threads.
pub fn with_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

/// The largest difference, relative to the largest entry of `expected`.
pub fn relative_error<'a>(
    found: impl IntoIterator<Item = &'a f64>,
    expected: impl IntoIterator<Item = &'a f64>,
) -> f64 {
    let (mut worst, mut scale) = (0.0_f64, 0.0_f64);
    let mut expected = expected.into_iter();
    for f in found {
        let e = expected.next().expect("same length");
        assert!(f.is_finite(), "{f} where {e} was expected");
        worst = worst.max((f - e).abs());
        scale = scale.max(e.abs());
    }
    assert!(expected.next().is_none(), "same length");
    worst / scale.max(f64::MIN_POSITIVE)
}

/// A list of reference figures.
pub fn numbers(value: &serde_json::Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

/// These options, and everything else as it is by default.
pub fn options(kernel: Kernel, ard: bool) -> StationaryOptions {
    StationaryOptions { kernel, ard, ..StationaryOptions::default() }
}

/// A list of lists of reference figures.
pub fn matrix(value: &serde_json::Value) -> Array2<f64> {
    let rows: Vec<Vec<f64>> = value.as_array().unwrap().iter().map(numbers).collect();
    Array2::from_shape_fn((rows.len(), rows[0].len()), |(i, j)| rows[i][j])
}
