//! The covariance functions: one is declared here, and nowhere else.
//!
//! A new one is a variant of [`Kernel`] with its documentation, an entry of [`Kernel::ALL`], a line in `for_kernel` and an
//! `impl Shape`. One with parameters holds them in a structure of its own, `Variant(Parameters)`, that derives `Clone`,
//! `Copy`, `Debug`, `PartialEq`, `Serialize`, `Deserialize` and `JsonSchema`, says `#[serde(default, deny_unknown_fields)]`
//! and implements `Default`. Pipelines, their schema, cache keys and model files follow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::gp::linalg::{decay_with_distance, scaled_exp_in_place};

/// The covariance function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", remote = "Self")]
#[schemars(!remote, transform = super::text::names_alone)]
pub enum Kernel {
    /// Squared exponential.
    #[default]
    Rbf,
    /// Matérn, smoothness 1/2.
    Matern12,
    /// Matérn, smoothness 3/2.
    Matern32,
    /// Matérn, smoothness 5/2.
    Matern52,
    /// Rational quadratic: squared exponentials of many lengths.
    RationalQuadratic(RationalQuadratic),
}

impl Kernel {
    /// Every kernel, with the default parameters.
    pub const ALL: [Self; 5] = [
        Self::Rbf,
        Self::Matern12,
        Self::Matern32,
        Self::Matern52,
        Self::RationalQuadratic(RationalQuadratic { alpha: ALPHA }),
    ];
}

/// Evaluates an expression with the [`Shape`] of a kernel, compiled for each: loops inside do not ask which it is.
macro_rules! for_kernel {
    ($kernel:expr, $shape:ident => $work:expr) => {{
        use crate::gp::kernel::shape::{Kernel, Matern12, Matern32, Matern52, Rbf};
        match $kernel {
            Kernel::Rbf => {
                let $shape = Rbf;
                $work
            }
            Kernel::Matern12 => {
                let $shape = Matern12;
                $work
            }
            Kernel::Matern32 => {
                let $shape = Matern32;
                $work
            }
            Kernel::Matern52 => {
                let $shape = Matern52;
                $work
            }
            Kernel::RationalQuadratic($shape) => $work,
        }
    }};
}

pub(crate) use for_kernel;

/// The shape ρ of a covariance function k = σ²ρ.
///
/// It must be valid for any number of features. Then it is a mixture of squared exponentials (Schoenberg), and so valid
/// with local lengths too.
pub(crate) trait Shape: Copy + Sync {
    /// ρ, from the squared distance in units of the length; exactly 1 at 0.
    fn correlation(self, r2: f64) -> f64;

    /// σ²ρ in place of many squared distances: [`Shape::correlation`] with vector instructions.
    fn covariances(self, variance: f64, r2: &mut [f64]);

    /// w such that ∂k/∂log λⱼ = w (Δⱼ/λⱼ)², and so ∂k/∂log λ = w r² with a common length.
    ///
    /// `k` is the covariance at `r2`: every derivative is a multiple of it, which saves a second exponential.
    fn length_weight(self, k: f64, r2: f64) -> f64;
}

/// exp(−r²/2)
#[derive(Clone, Copy)]
pub(crate) struct Rbf;

impl Shape for Rbf {
    #[inline]
    fn correlation(self, r2: f64) -> f64 {
        (-0.5 * r2).exp()
    }

    fn covariances(self, variance: f64, r2: &mut [f64]) {
        scaled_exp_in_place(r2, -0.5, variance);
    }

    #[inline]
    fn length_weight(self, k: f64, _r2: f64) -> f64 {
        k
    }
}

/// exp(−r)
#[derive(Clone, Copy)]
pub(crate) struct Matern12;

/// Points whose squared distance, in units of the length, is smaller than this are the same but for rounding.
const SAME_POINT: f64 = 1e-16;

impl Shape for Matern12 {
    #[inline]
    fn correlation(self, r2: f64) -> f64 {
        (-r2.sqrt()).exp()
    }

    fn covariances(self, variance: f64, r2: &mut [f64]) {
        decay_with_distance(r2, 1.0, variance, 0);
    }

    /// There is no derivative at 0, but its limit times r² is 0; so it is for points that are the same but for rounding, as a
    /// row and the inducing point that it is may be: there k/r would be large and meaningless.
    #[inline]
    fn length_weight(self, k: f64, r2: f64) -> f64 {
        if r2 > SAME_POINT { k / r2.sqrt() } else { 0.0 }
    }
}

/// (1 + s) exp(−s), s = √3 r
#[derive(Clone, Copy)]
pub(crate) struct Matern32;

const SQRT_3: f64 = 1.732_050_807_568_877_2;

impl Shape for Matern32 {
    #[inline]
    fn correlation(self, r2: f64) -> f64 {
        let s = SQRT_3 * r2.sqrt();
        (1.0 + s) * (-s).exp()
    }

    fn covariances(self, variance: f64, r2: &mut [f64]) {
        decay_with_distance(r2, SQRT_3, variance, 1);
    }

    #[inline]
    fn length_weight(self, k: f64, r2: f64) -> f64 {
        3.0 * k / (1.0 + SQRT_3 * r2.sqrt())
    }
}

/// (1 + s + s²/3) exp(−s), s = √5 r
#[derive(Clone, Copy)]
pub(crate) struct Matern52;

const SQRT_5: f64 = 2.236_067_977_499_79;

impl Shape for Matern52 {
    #[inline]
    fn correlation(self, r2: f64) -> f64 {
        let s = SQRT_5 * r2.sqrt();
        (1.0 + s + s * s / 3.0) * (-s).exp()
    }

    fn covariances(self, variance: f64, r2: &mut [f64]) {
        decay_with_distance(r2, SQRT_5, variance, 2);
    }

    #[inline]
    fn length_weight(self, k: f64, r2: f64) -> f64 {
        let s = SQRT_5 * r2.sqrt();
        5.0 / 3.0 * k * (1.0 + s) / (1.0 + s + s * s / 3.0)
    }
}

/// (1 + r²/2α)^−α
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RationalQuadratic {
    /// Shape: small values mix lengths of many sizes, large ones are the squared exponential.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub alpha: f64,
}

const ALPHA: f64 = 1.0;

impl Default for RationalQuadratic {
    fn default() -> Self {
        Self { alpha: ALPHA }
    }
}

impl Shape for RationalQuadratic {
    #[inline]
    fn correlation(self, r2: f64) -> f64 {
        (-self.alpha * (0.5 * r2 / self.alpha).ln_1p()).exp()
    }

    fn covariances(self, variance: f64, r2: &mut [f64]) {
        for value in &mut *r2 {
            *value = (0.5 * *value / self.alpha).ln_1p();
        }
        scaled_exp_in_place(r2, -self.alpha, variance);
    }

    #[inline]
    fn length_weight(self, k: f64, r2: f64) -> f64 {
        k / (1.0 + 0.5 * r2 / self.alpha)
    }
}

impl Kernel {
    /// ρ, from the squared distance in units of the length; exactly 1 at 0.
    pub fn correlation(self, r2: f64) -> f64 {
        for_kernel!(self, shape => shape.correlation(r2))
    }

    /// σ²ρ in place of many squared distances.
    pub(crate) fn covariances(self, variance: f64, r2: &mut [f64]) {
        for_kernel!(self, shape => shape.covariances(variance, r2));
    }

    /// What `combine` makes of [`Shape::length_weight`] and r², in place of many r²; k are their covariances.
    pub(crate) fn length_weights(self, k: &[f64], r2: &mut [f64], combine: impl Fn(f64, f64) -> f64) {
        for_kernel!(self, shape => {
            r2.iter_mut().zip(k).for_each(|(r2, k)| *r2 = combine(shape.length_weight(*k, *r2), *r2));
        });
    }
}
