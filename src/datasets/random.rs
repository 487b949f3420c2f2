//! Uniform and normal values from random bits.

use std::f64::consts::PI;

use rand_chacha::rand_core::Rng;

/// A value in (0, 1), both excluded.
pub(super) fn uniform(bits: u64) -> f64 {
    ((bits >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

/// A standard normal value (Box–Muller; the second of each pair is not used, which keeps one value per draw).
pub(super) fn normal(rng: &mut impl Rng) -> f64 {
    let (first, second) = (uniform(rng.next_u64()), uniform(rng.next_u64()));
    (-2.0 * first.ln()).sqrt() * (2.0 * PI * second).cos()
}
