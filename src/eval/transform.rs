//! Targets that are modelled on another scale: there, a prediction is normal; here, it is what the change of variables makes
//! of that.
//!
//! With z = T(y), T increasing, and z ~ N(μ, σ²): quantiles of y are T⁻¹ of those of z, the density of y is that of z times
//! T′(y), and moments of y are integrals over z. Those of logarithms are known; others are computed by a Gauss–Legendre rule
//! on both sides of the place where T changes its form.

use super::normal::normal_density;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// The scale on which a target is modelled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TransformName {
    /// Its own.
    #[default]
    None,
    /// The logarithm, for positive targets.
    Log,
    /// The logarithm of one more, for targets above −1, such as counts.
    Log1p,
    /// A power that makes targets as normal as it can (Yeo and Johnson), chosen by the training rows; for any targets.
    YeoJohnson,
}

impl TransformName {
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// The word in the language.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Log => "log",
            Self::Log1p => "log1p",
            Self::YeoJohnson => "yeo_johnson",
        }
    }

    /// What values have to be above, if not all of them will do.
    pub const fn above(self) -> Option<f64> {
        match self {
            Self::Log => Some(0.0),
            Self::Log1p => Some(-1.0),
            Self::None | Self::YeoJohnson => None,
        }
    }

    /// The scale that these targets of training rows define.
    pub fn fit(self, targets: &[f64]) -> Option<Transform> {
        match self {
            Self::None => None,
            Self::Log => Some(Transform::Log),
            Self::Log1p => Some(Transform::Log1p),
            Self::YeoJohnson => Some(Transform::YeoJohnson { lambda: best_power(targets) }),
        }
    }
}

/// A scale, with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transform {
    Log,
    Log1p,
    YeoJohnson {
        /// From 0 to 2: beyond, a normal variable has no counterpart in places, and no mean.
        lambda: f64,
    },
}

/// Mean and standard deviation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TargetMoments {
    pub mean: f64,
    pub std: f64,
}

impl Transform {
    /// The target on its scale; −∞ for values that have no place there.
    pub fn forward(self, y: f64) -> f64 {
        match self {
            Self::Log if y <= 0.0 => f64::NEG_INFINITY,
            Self::Log1p if y <= -1.0 => f64::NEG_INFINITY,
            Self::Log => y.ln(),
            Self::Log1p => y.ln_1p(),
            Self::YeoJohnson { lambda } if y >= 0.0 => power(y, lambda),
            Self::YeoJohnson { lambda } => -power(-y, 2.0 - lambda),
        }
    }

    /// Back to the target's own units.
    pub fn inverse(self, z: f64) -> f64 {
        match self {
            Self::Log => z.exp(),
            Self::Log1p => z.exp_m1(),
            Self::YeoJohnson { lambda } if z >= 0.0 => root(z, lambda),
            Self::YeoJohnson { lambda } => -root(-z, 2.0 - lambda),
        }
    }

    /// log T′(y).
    pub fn log_slope(self, y: f64) -> f64 {
        match self {
            Self::Log => -y.ln(),
            Self::Log1p => -y.ln_1p(),
            Self::YeoJohnson { lambda } => (lambda - 1.0) * y.signum() * y.abs().ln_1p(),
        }
    }

    /// Mean and standard deviation of T⁻¹(z) for z ~ N(μ, σ²).
    pub fn moments(self, mean: f64, std: f64) -> TargetMoments {
        let log_normal = |shift: f64| {
            let variance = std * std;
            let centre = (0.5 * variance + mean).exp();
            TargetMoments { mean: centre - shift, std: centre * variance.exp_m1().sqrt() }
        };
        match self {
            Self::Log => log_normal(0.0),
            Self::Log1p => log_normal(1.0),
            Self::YeoJohnson { .. } => {
                // About the median, so that the difference of squares is of numbers of its own size.
                let centre = self.inverse(mean);
                let [first, second] = self.integrate(mean, std, |y| [y - centre, (y - centre).powi(2)]);
                TargetMoments { mean: centre + first, std: (second - first * first).max(0.0).sqrt() }
            }
        }
    }

    /// The continuous ranked probability score of N(μ, σ²) on this scale: ∫ (F(x) − 1(x ≥ y))² dx, in the target's units.
    pub fn crps(self, y: f64, mean: f64, std: f64) -> f64 {
        if std == 0.0 {
            return (y - self.inverse(mean)).abs();
        }
        let exact = (self.forward(y) - mean) / std;
        let at = exact.clamp(-REACH, REACH);
        // Beyond, the distribution function is 0 or 1.
        #[expect(clippy::float_cmp, reason = "the same unless it was clamped")]
        let beyond = if at == exact { 0.0 } else { (y - self.inverse(std.mul_add(at, mean))).abs() };
        let kink = -mean / std;
        let below = |u: f64| super::normal::normal_cdf(u).powi(2);
        let above = |u: f64| super::normal::normal_cdf(-u).powi(2);
        // dx = (T⁻¹)′ du, by 1/T′ at x.
        let slope = |u: f64| {
            let z = std.mul_add(u, mean);
            std * (-self.log_slope(self.inverse(z))).exp()
        };
        let far = REACH + 2.0 * std;
        let low = panels(-far, at, kink, &mut |u| below(u) * slope(u));
        let high = panels(at, far, kink, &mut |u| above(u) * slope(u));
        low + high + beyond
    }

    /// Integrals of functions of y under the normal distribution of z.
    fn integrate(self, mean: f64, std: f64, of: impl Fn(f64) -> [f64; 2]) -> [f64; 2] {
        if std == 0.0 {
            return of(self.inverse(mean));
        }
        let far = REACH + 2.0 * std;
        let mut total = [0.0; 2];
        for_nodes(-far, far, -mean / std, &mut |u, weight| {
            let values = of(self.inverse(std.mul_add(u, mean)));
            let weight = weight * normal_density(u);
            total.iter_mut().zip(values).for_each(|(total, value)| *total += weight * value);
        });
        total
    }
}

/// Standard deviations that integrals reach out to; exponentials of a wide distribution have their weight farther out.
const REACH: f64 = 9.0;
/// Nodes of the rule, and how many standard deviations a panel of it spans at most.
const NODES: usize = 16;
const PANEL: f64 = 3.0;

/// Nodes in (−1, 1) and weights of the Gauss–Legendre rule.
static RULE: LazyLock<Vec<(f64, f64)>> = LazyLock::new(|| {
    let n = NODES as f64;
    let node = |place: usize| {
        let mut x = (std::f64::consts::PI * (place as f64 + 0.75) / (n + 0.5)).cos();
        let mut slope = 1.0;
        // Newton's method on the polynomial; the start is close.
        for _ in 0..50 {
            let (mut value, mut before) = (1.0, 0.0);
            for k in 1..=NODES {
                let k = k as f64;
                (value, before) = (((2.0 * k - 1.0) * x * value - (k - 1.0) * before) / k, value);
            }
            slope = n * (x * value - before) / (x * x - 1.0);
            let step = value / slope;
            x -= step;
            if step.abs() < 1e-16 {
                break;
            }
        }
        (x, 2.0 / ((1.0 - x * x) * slope * slope))
    };
    (0..NODES).map(node).collect()
});

/// Calls `each` with nodes and weights between two ends, in panels that stop at the kink.
fn for_nodes(low: f64, high: f64, kink: f64, each: &mut dyn FnMut(f64, f64)) {
    let kink = kink.clamp(low, high);
    for (low, high) in [(low, kink), (kink, high)] {
        let count = ((high - low) / PANEL).ceil() as usize;
        let half = 0.5 * (high - low) / count.max(1) as f64;
        for panel in 0..count {
            let centre = (2.0 * panel as f64 + 1.0).mul_add(half, low);
            RULE.iter().for_each(|(node, weight)| each(half.mul_add(*node, centre), half * weight));
        }
    }
}

fn panels(low: f64, high: f64, kink: f64, value: &mut dyn FnMut(f64) -> f64) -> f64 {
    let mut total = 0.0;
    for_nodes(low, high, kink, &mut |u, weight| total += weight * value(u));
    total
}

/// ((y + 1)^λ − 1)/λ for y ≥ 0.
fn power(y: f64, lambda: f64) -> f64 {
    let log = y.ln_1p();
    if lambda.abs() < 1e-12 { log } else { (lambda * log).exp_m1() / lambda }
}

/// The inverse of [`power`].
fn root(z: f64, lambda: f64) -> f64 {
    if lambda.abs() < 1e-12 { z.exp_m1() } else { ((lambda * z).ln_1p() / lambda).exp_m1() }
}

/// The power of the largest likelihood, with mean and variance at theirs: by golden sections, because it has one maximum.
fn best_power(targets: &[f64]) -> f64 {
    let golden = 0.5 * (5.0_f64.sqrt() - 1.0);
    let (mut low, mut high) = (0.0, 2.0);
    let mut inner = [high - golden * (high - low), low + golden * (high - low)];
    let mut values = inner.map(|lambda| profile(targets, lambda));
    for _ in 0..60 {
        if values[0] >= values[1] {
            high = inner[1];
            inner = [high - golden * (high - low), inner[0]];
            values = [profile(targets, inner[0]), values[0]];
        } else {
            low = inner[0];
            inner = [inner[1], low + golden * (high - low)];
            values = [values[1], profile(targets, inner[1])];
        }
    }
    // An end of the range is reached from inside only.
    let found = f64::midpoint(low, high);
    let best = |a: f64, b: f64| if profile(targets, b) > profile(targets, a) { b } else { a };
    best(best(found, 0.0), 2.0)
}

/// Log-likelihood of the targets at a power, less what does not depend on it.
fn profile(targets: &[f64], lambda: f64) -> f64 {
    let transform = Transform::YeoJohnson { lambda };
    let n = targets.len().max(1) as f64;
    let mean = targets.iter().map(|y| transform.forward(*y)).sum::<f64>() / n;
    let variance = targets.iter().map(|y| (transform.forward(*y) - mean).powi(2)).sum::<f64>() / n;
    let slopes: f64 = targets.iter().map(|y| transform.log_slope(*y)).sum();
    if variance > 0.0 { (-0.5 * n).mul_add(variance.ln(), slopes) } else { f64::NEG_INFINITY }
}
