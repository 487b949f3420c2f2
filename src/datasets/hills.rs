//! A small smooth problem to start with: two features, a target with a little noise.

use std::f64::consts::PI;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::random::{normal, uniform};

/// Standard deviation of the noise.
const NOISE: f64 = 0.05;

/// sin(π u) · cos(π v / 2) + u v / 2: hills that no straight line follows.
pub fn ground_truth(u: f64, v: f64) -> f64 {
    (PI * u).sin() * (PI * v / 2.0).cos() + u * v / 2.0
}

/// `rows` points, uniform on [-1, 1]², as columns to write: `row_id`, `u`, `v`, `height`. The same seed gives the same bits.
pub fn columns(seed: u64, rows: usize) -> Vec<(&'static str, ArrayRef)> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let (mut u, mut v, mut height) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rows {
        let mut side = || 2.0 * uniform(rng.next_u64()) - 1.0;
        let (across, along) = (side(), side());
        u.push(across);
        v.push(along);
        height.push(ground_truth(across, along) + NOISE * normal(&mut rng));
    }
    vec![
        ("row_id", Arc::new(Int64Array::from_iter_values(0..rows as i64))),
        ("u", Arc::new(Float64Array::from(u))),
        ("v", Arc::new(Float64Array::from(v))),
        ("height", Arc::new(Float64Array::from(height))),
    ]
}
