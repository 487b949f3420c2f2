//! A piecewise-constant function of two features, to see what hidden layers make of jumps (the paper's figure 2).

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::random::{normal, uniform};

/// Noisy training rows, drawn uniformly.
const TRAIN: usize = 400;
/// Points of the grid of noise-free test rows, in each direction.
const GRID: usize = 33;
/// Standard deviation of the noise.
const NOISE: f64 = 0.02;

/// 1 on a rectangle, −1 on a strip at the right, 0 elsewhere; defined on [0, 1]².
pub fn ground_truth(x1: f64, x2: f64) -> f64 {
    if x1 > 0.75 {
        -1.0
    } else if (0.2..=0.55).contains(&x1) && (0.25..=0.8).contains(&x2) {
        1.0
    } else {
        0.0
    }
}

/// A sample: training rows anywhere in the square, then test rows on a grid.
#[derive(Debug, Clone, PartialEq)]
pub struct Steps2d {
    pub x: Vec<(f64, f64)>,
    /// Noisy observation in training rows, the truth in test rows.
    pub y: Vec<f64>,
}

/// Draws places and noise of `seed`; the same seed gives the same bits.
pub fn sample(seed: u64) -> Steps2d {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut x: Vec<(f64, f64)> = (0..TRAIN).map(|_| (uniform(rng.next_u64()), uniform(rng.next_u64()))).collect();
    let mut y: Vec<f64> = x.iter().map(|(x1, x2)| ground_truth(*x1, *x2) + NOISE * normal(&mut rng)).collect();
    let at = |index: usize| index as f64 / (GRID - 1) as f64;
    x.extend((0..GRID * GRID).map(|point| (at(point % GRID), at(point / GRID))));
    y.extend(x[TRAIN..].iter().map(|(x1, x2)| ground_truth(*x1, *x2)));
    Steps2d { x, y }
}

impl Steps2d {
    /// The sample as columns to write: `row_id`, `x1`, `x2`, `y`, `split`.
    pub fn columns(&self) -> Vec<(&'static str, ArrayRef)> {
        let rows = self.y.len();
        let split = (0..rows).map(|row| if row < TRAIN { "train" } else { "test" });
        vec![
            ("row_id", Arc::new((0..rows as i64).collect::<Int64Array>())),
            ("x1", Arc::new(self.x.iter().map(|(x1, _)| *x1).collect::<Float64Array>())),
            ("x2", Arc::new(self.x.iter().map(|(_, x2)| *x2).collect::<Float64Array>())),
            ("y", Arc::new(Float64Array::from(self.y.clone()))),
            ("split", Arc::new(StringArray::from_iter_values(split))),
        ]
    }
}
