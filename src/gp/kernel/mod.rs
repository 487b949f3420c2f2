//! Stationary covariance functions k(x, x') = σ² ρ(‖x − x'‖/λ).

mod hyper;
mod matrix;
mod options;
mod panels;
mod stationary;

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::gp::GpError;
use crate::gp::linalg::{exp_in_place, scaled_exp_in_place};

pub use hyper::Hyper;
pub use matrix::{Points, covariance, cross_covariance};
pub(crate) use matrix::{ROW_TILE, column_means, covariance_lower};
pub(crate) use options::null_is_default;
pub use options::{Free, Hyperparameters, StationaryOptions};
pub(crate) use panels::{Against, PointRows};
pub use stationary::{Covariance, Stationary};
pub(crate) use stationary::{panels_of_tiles, square, square_lower};

/// The covariance function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
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
}

/// Points whose squared distance, in units of the length, is smaller than this are the same but for rounding.
const SAME_POINT: f64 = 1e-16;

const SQRT_3: f64 = 1.732_050_807_568_877_2;
const SQRT_5: f64 = 2.236_067_977_499_79;

impl Kernel {
    /// Every kernel.
    pub const ALL: [Self; 4] = [Self::Rbf, Self::Matern12, Self::Matern32, Self::Matern52];

    /// The name in pipelines and model files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rbf => "rbf",
            Self::Matern12 => "matern12",
            Self::Matern32 => "matern32",
            Self::Matern52 => "matern52",
        }
    }

    /// ρ, from the squared distance in units of the length; exactly 1 at 0.
    #[inline]
    pub fn correlation(self, r2: f64) -> f64 {
        match self {
            Self::Rbf => (-0.5 * r2).exp(),
            Self::Matern12 => (-r2.sqrt()).exp(),
            Self::Matern32 => {
                let s = SQRT_3 * r2.sqrt();
                (1.0 + s) * (-s).exp()
            }
            Self::Matern52 => {
                let s = SQRT_5 * r2.sqrt();
                (1.0 + s + s * s / 3.0) * (-s).exp()
            }
        }
    }

    /// σ²ρ in place of many squared distances: [`Kernel::correlation`] with vector instructions.
    pub(crate) fn covariances(self, variance: f64, r2: &mut [f64]) {
        // As many as the first cache holds twice.
        const PIECE: usize = 256;
        if self == Self::Rbf {
            return scaled_exp_in_place(r2, -0.5, variance);
        }
        let mut distances = [0.0; PIECE];
        for values in r2.chunks_mut(PIECE) {
            let s = &mut distances[..values.len()];
            let scale = match self {
                Self::Rbf | Self::Matern12 => 1.0,
                Self::Matern32 => SQRT_3,
                Self::Matern52 => SQRT_5,
            };
            for (s, value) in s.iter_mut().zip(values.iter_mut()) {
                *s = scale * value.sqrt();
                *value = -*s;
            }
            exp_in_place(values);
            for (value, s) in values.iter_mut().zip(&*s) {
                let factor = match self {
                    Self::Rbf | Self::Matern12 => 1.0,
                    Self::Matern32 => 1.0 + s,
                    Self::Matern52 => 1.0 + s + s * s / 3.0,
                };
                *value *= variance * factor;
            }
        }
    }

    /// w such that ∂k/∂log λⱼ = w (Δⱼ/λⱼ)², and so ∂k/∂log λ = w r² with a common length.
    ///
    /// `k` is the covariance at `r2`: every derivative is a simple multiple of it, which saves a second
    /// exponential. Matérn 1/2 has no derivative at 0, but its limit times r² is 0; so it is for points that are the same
    /// but for rounding, as a row and the inducing point that it is may be: there k/r would be large and meaningless.
    #[inline]
    pub(crate) fn length_weight(self, k: f64, r2: f64) -> f64 {
        match self {
            Self::Rbf => k,
            Self::Matern12 => {
                if r2 > SAME_POINT {
                    k / r2.sqrt()
                } else {
                    0.0
                }
            }
            Self::Matern32 => 3.0 * k / (1.0 + SQRT_3 * r2.sqrt()),
            Self::Matern52 => {
                let s = SQRT_5 * r2.sqrt();
                5.0 / 3.0 * k * (1.0 + s) / (1.0 + s + s * s / 3.0)
            }
        }
    }
}

impl Kernel {
    /// What `combine` makes of [`Kernel::length_weight`] and r², in place of many r²; k are their covariances.
    pub(crate) fn length_weights(self, k: &[f64], r2: &mut [f64], combine: impl Fn(f64, f64) -> f64) {
        // Inside `match`, so that the loop is compiled for one kernel at a time.
        macro_rules! weigh {
            ($($kernel:ident),*) => { match self { $(Self::$kernel => {
                r2.iter_mut().zip(k).for_each(|(r2, k)| *r2 = combine(Self::$kernel.length_weight(*k, *r2), *r2));
            })* } };
        }
        weigh!(Rbf, Matern12, Matern32, Matern52);
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kernel {
    type Err = GpError;

    fn from_str(name: &str) -> Result<Self, GpError> {
        Self::ALL.into_iter().find(|kernel| kernel.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            GpError::value(format!("kernel `{name}`; known: {names}"))
        })
    }
}
