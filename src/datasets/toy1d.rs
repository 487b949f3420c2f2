//! The paper's one-dimensional problem: a smooth wave, then three flat pieces with jumps between them.

use std::f64::consts::PI;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use super::random::normal;

/// Standard deviation of the smoothing kernel: the paper's 2·10⁻⁴ is twice its variance.
const SMOOTHING: f64 = 0.01;
/// The wave lives on this interval.
const WAVE: (f64, f64) = (0.1, 0.4);
/// The kernel is below 10⁻³¹ beyond this many standard deviations.
const REACH: f64 = 12.0;

/// Nodes in (0, 1) and weights of the eight-point Gauss–Legendre rule on [-1, 1]; it is symmetric.
const GAUSS_LEGENDRE: [(f64, f64); 4] = [
    (0.183_434_642_495_649_8, 0.362_683_783_378_362),
    (0.525_532_409_916_329, 0.313_706_645_877_887_3),
    (0.796_666_477_413_626_7, 0.222_381_034_453_374_48),
    (0.960_289_856_497_536_2, 0.101_228_536_290_376_26),
];

/// The paper's f†, defined on [0, 1]: a smoothed sine up to 0.6, then -1, 1 and 0.
pub fn ground_truth(x: f64) -> f64 {
    if x <= 0.6 {
        wave(x)
    } else if x <= 0.75 {
        -1.0
    } else if x <= 0.9 {
        1.0
    } else {
        0.0
    }
}

/// ∫ φ(x - y) sin(π (y - 0.25) / 0.15) dy over [`WAVE`], φ the normal density of width [`SMOOTHING`].
///
/// Panels of at most one standard deviation make the eight-point rule exact to rounding.
fn wave(x: f64) -> f64 {
    let low = WAVE.0.max(x - REACH * SMOOTHING);
    let high = WAVE.1.min(x + REACH * SMOOTHING);
    if high <= low {
        return 0.0;
    }
    let density = 1.0 / (SMOOTHING * (2.0 * PI).sqrt());
    let integrand = |y: f64| {
        let z = (x - y) / SMOOTHING;
        density * (-0.5 * z * z).exp() * (PI * (y - 0.25) / 0.15).sin()
    };
    let panels = ((high - low) / SMOOTHING).ceil().max(1.0) as usize;
    let half = (high - low) / panels as f64 / 2.0;
    let panel = |index: usize| {
        let middle = low + (2 * index + 1) as f64 * half;
        let pair =
            |(node, weight): (f64, f64)| weight * (integrand(middle - half * node) + integrand(middle + half * node));
        half * GAUSS_LEGENDRE.into_iter().map(pair).sum::<f64>()
    };
    (0..panels).map(panel).sum()
}

/// How much of it to sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    pub train: usize,
    pub test: usize,
    /// Standard deviation of the noise.
    pub noise_sd: f64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { train: 200, test: 1000, noise_sd: 0.02 }
    }
}

/// A sample: training rows, then test rows, each on a uniform grid over [0, 1].
#[derive(Debug, Clone, PartialEq)]
pub struct Toy1d {
    /// 0, 1, 2, …
    pub row_id: Vec<i64>,
    pub x: Vec<f64>,
    /// Noisy observation in training rows, the truth in test rows.
    pub y: Vec<f64>,
    /// `train` or `test`.
    pub split: Vec<&'static str>,
}

/// Draws the noise of `seed`; the same seed gives the same bits.
pub fn sample(seed: u64, sampling: &Sampling) -> Toy1d {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let rows = sampling.train + sampling.test;
    let train = grid(sampling.train).map(|x| (x, ground_truth(x) + sampling.noise_sd * normal(&mut rng)));
    let (mut x, mut y): (Vec<f64>, Vec<f64>) = train.unzip();
    x.extend(grid(sampling.test));
    y.extend(grid(sampling.test).map(ground_truth));
    let split = (0..rows).map(|row| if row < sampling.train { "train" } else { "test" }).collect();
    Toy1d { row_id: (0..rows as i64).collect(), x, y, split }
}

impl Toy1d {
    /// The sample as columns to write: `row_id`, `x`, `y`, `split`.
    pub fn columns(&self) -> Vec<(&'static str, ArrayRef)> {
        vec![
            ("row_id", Arc::new(Int64Array::from(self.row_id.clone()))),
            ("x", Arc::new(Float64Array::from(self.x.clone()))),
            ("y", Arc::new(Float64Array::from(self.y.clone()))),
            ("split", Arc::new(StringArray::from(self.split.clone()))),
        ]
    }
}

/// `points` values from 0 to 1, both included.
fn grid(points: usize) -> impl Iterator<Item = f64> {
    let last = points.saturating_sub(1).max(1) as f64;
    (0..points).map(move |index| index as f64 / last)
}
