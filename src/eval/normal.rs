//! The normal distribution: density, distribution function and quantiles, to nearly full precision.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// φ(z), the standard normal density.
pub fn normal_density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / (2.0 * PI).sqrt()
}

/// Φ(z), the standard normal distribution function; small values keep their relative precision.
pub fn normal_cdf(z: f64) -> f64 {
    0.5 * erfc(-z * FRAC_1_SQRT_2)
}

/// Φ⁻¹(p); infinite at 0 and 1, NaN outside of [0, 1].
///
/// A rough approximation (Abramowitz & Stegun 26.2.23, error below 5e-4), then Halley's method, which triples
/// the number of correct digits in each step.
pub fn normal_quantile(p: f64) -> f64 {
    if p.is_nan() || !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    if p == 0.0 {
        return f64::NEG_INFINITY;
    }
    #[expect(clippy::float_cmp, reason = "the median is exact")]
    if p == 0.5 {
        return 0.0;
    }
    if p > 0.5 {
        // 1 − p is exact here, and the lower tail keeps its relative precision.
        return -normal_quantile(1.0 - p);
    }
    let t = (-2.0 * p.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let mut z = above / below - t;
    for _ in 0..3 {
        let step = (normal_cdf(z) - p) / normal_density(z);
        if step.is_finite() {
            z -= step / (1.0 + 0.5 * z * step);
        }
    }
    z
}

// The complement of the error function. Ours, because that of `libm` rounds differently: half of all quantiles would
// change in their last digits, and they stand in tables of predictions that must stay the same.
fn erfc(x: f64) -> f64 {
    const SPLIT: f64 = 1.0;
    if x.is_nan() {
        x
    } else if x < -SPLIT {
        2.0 - erfc_tail(-x)
    } else if x <= SPLIT {
        1.0 - erf_series(x)
    } else {
        erfc_tail(x)
    }
}

// erf(x) = 2/√π e^{−x²} Σ 2ᵏ x^{2k+1}/(2k+1)!!: all terms have one sign, so that nothing cancels.
fn erf_series(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    let mut k = 1.0;
    while term.abs() > 1e-17 * sum.abs() {
        term *= 2.0 * x * x / (2.0 * k + 1.0);
        sum += term;
        k += 1.0;
    }
    2.0 / PI.sqrt() * (-x * x).exp() * sum
}

// erfc(x) = e^{−x²}/√π · 1/(x + (1/2)/(x + (2/2)/(x + …))). What is cut off at depth k is of the order of
// e^{−2x√2k}, which gives the depth for 1e-17.
fn erfc_tail(x: f64) -> f64 {
    let depth = (190.0 / (x * x)) as u32 + 10;
    let mut tail = x;
    for k in (1..=depth).rev() {
        tail = x + 0.5 * f64::from(k) / tail;
    }
    (-x * x).exp() / (PI.sqrt() * tail)
}
