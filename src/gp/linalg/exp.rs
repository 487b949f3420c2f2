//! The exponential of many numbers at once: a polynomial that the compiler turns into vector instructions.
//!
//! exp x = 2ᵏ exp r with k = round(x / ln 2) and |r| ≤ ½ ln 2. The polynomial is written without branches, so
//! that a compiler that may use AVX2 and FMA does four numbers at a time; the choice is made at run time.

use super::processor::{for_this_processor, multiply_add};

// 1.5·2⁵²: adding it rounds to an integer, which then stands in the lowest bits.
const ROUND: f64 = 6_755_399_441_055_744.0;
// ln 2 in two parts; the first has its last 11 bits zero, so that k times it is exact.
const LN2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
// Beyond these the result is 0 or infinite anyway, and k stays small enough for two factors of 2ᵏ.
const LEAST: f64 = -800.0;
const MOST: f64 = 800.0;
// (exp r − 1 − r)/r² with the least largest error on |r| ≤ ½ ln 2 (Remez): below 4e-18 of exp r.
const QUOTIENT: [f64; 10] = [
    2.500_006_160_283_566_6e-8,
    2.763_024_837_921_144e-7,
    2.755_758_637_384_016_5e-6,
    2.480_149_309_890_655e-5,
    1.984_126_950_657_868_8e-4,
    1.388_888_894_363_011_4e-3,
    8.333_333_333_494_461e-3,
    4.166_666_666_653_015_5e-2,
    1.666_666_666_666_641_3e-1,
    5.000_000_000_000_011e-1,
];
// ln of the smallest normal number, nearly.
const LEAST_NORMAL: f64 = -708.0;

for_this_processor! {
    /// Replaces every value by its exponential, to within 2 units in the last place; NaN stays NaN.
    ///
    /// A value has the same result in every position.
    pub fn exp_in_place(values: &mut [f64]) {
        for value in values {
            *value = exponential::<FUSED>(*value);
        }
    }
}

for_this_processor! {
    /// Replaces every value by `factor` exp(`rate` value); the exponents must not be positive.
    pub fn scaled_exp_in_place(values: &mut [f64], rate: f64, factor: f64) {
        for value in values {
            let x = rate * *value;
            *value = factor * if FUSED { decay::<FUSED>(x) } else { x.exp() };
        }
    }
}

for_this_processor! {
    /// Replaces every squared distance by `factor` p(s) exp(−s) with s = `scale` times the distance, where p is 1, 1 + s or
    /// 1 + s + s²/3, by its degree.
    pub fn decay_with_distance(values: &mut [f64], scale: f64, factor: f64, degree: u32) {
        // Three loops without a choice inside: roots and exponentials of many numbers are on their way at once.
        match degree {
            0 => values.iter_mut().for_each(|value| {
                let s = scale * value.sqrt();
                *value = exponential::<FUSED>(-s) * factor;
            }),
            1 => values.iter_mut().for_each(|value| {
                let s = scale * value.sqrt();
                *value = exponential::<FUSED>(-s) * (factor * (1.0 + s));
            }),
            _ => values.iter_mut().for_each(|value| {
                let s = scale * value.sqrt();
                *value = exponential::<FUSED>(-s) * (factor * (1.0 + s + s * s / 3.0));
            }),
        }
    }
}

#[expect(clippy::inline_always, reason = "compiled for the instructions of the function it stands in")]
#[inline(always)]
fn exponential<const FUSED: bool>(x: f64) -> f64 {
    if FUSED { polynomial::<FUSED>(x) } else { x.exp() }
}

#[expect(clippy::inline_always, reason = "compiled for the instructions of the function it stands in")]
#[inline(always)]
fn polynomial<const FUSED: bool>(x: f64) -> f64 {
    // Comparisons, not min and max: NaN passes both.
    let x = if x < LEAST { LEAST } else { x };
    let x = if x > MOST { MOST } else { x };
    let (p, k) = reduced::<FUSED>(x);
    // 2ᵏ in two factors: a result below the normal range is reached by a last, correctly rounded step.
    let half = multiply_add::<FUSED>(k, 0.5, ROUND);
    let rest = (k - (half - ROUND)) + ROUND;
    p * power_of_two(half) * power_of_two(rest)
}

// exp r and k, for x between LEAST and MOST.
#[expect(clippy::inline_always, reason = "compiled for the instructions of the function it stands in")]
#[inline(always)]
fn reduced<const FUSED: bool>(x: f64) -> (f64, f64) {
    let k = multiply_add::<FUSED>(x, std::f64::consts::LOG2_E, ROUND) - ROUND;
    let r = multiply_add::<FUSED>(k, -LN2_LOW, multiply_add::<FUSED>(k, -LN2_HIGH, x));
    let mut q = QUOTIENT[0];
    for coefficient in &QUOTIENT[1..] {
        q = multiply_add::<FUSED>(q, r, *coefficient);
    }
    (1.0 + multiply_add::<FUSED>(r * r, q, r), k)
}

// exp x for x ≤ 0; where it would be below the normal range, the smallest normal number.
#[expect(clippy::inline_always, reason = "compiled for the instructions of the function it stands in")]
#[inline(always)]
fn decay<const FUSED: bool>(x: f64) -> f64 {
    let x = if x < LEAST_NORMAL { LEAST_NORMAL } else { x };
    let (p, k) = reduced::<FUSED>(x);
    p * power_of_two(k + ROUND)
}

// 2ᵏ from ROUND + k.
#[inline]
fn power_of_two(rounded: f64) -> f64 {
    f64::from_bits(rounded.to_bits().wrapping_add(1023) << 52)
}
