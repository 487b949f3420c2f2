//! The predicted distribution of a row: normal, on the target's own scale or on another.

use super::normal::{normal_cdf, normal_density};
use super::transform::Transform;

/// Predictions on the scale on which the target is modelled.
#[derive(Debug, Clone, Copy)]
pub struct ScaledPredictions<'a> {
    pub transform: Transform,
    pub mean: &'a [f64],
    pub std: &'a [f64],
    /// Standard deviation of the noise.
    pub noise_std: f64,
}

/// The target of a row and its distribution, which is normal on the scale of `at`, `mean` and `std`.
pub(super) struct RowPrediction {
    pub y: f64,
    /// The target on that scale.
    pub at: f64,
    pub mean: f64,
    pub std: f64,
    pub transform: Option<Transform>,
}

impl RowPrediction {
    /// The value so many standard deviations above the mean, in the target's own units.
    pub fn quantile(&self, z: f64) -> f64 {
        let value = z.mul_add(self.std, self.mean);
        self.transform.map_or(value, |transform| transform.inverse(value))
    }

    // With another scale, the density of the target is that on it times the slope of the transform.
    pub fn nlpd(&self, std: f64) -> f64 {
        let density = nlpd(self.at, self.mean, std);
        self.transform.map_or(density, |transform| density - transform.log_slope(self.y))
    }

    pub fn crps(&self) -> f64 {
        match self.transform {
            Some(transform) => transform.crps(self.y, self.mean, self.std),
            None => crps(self.y, self.mean, self.std),
        }
    }
}

fn nlpd(y: f64, mean: f64, std: f64) -> f64 {
    let z = (y - mean) / std;
    0.5 * std::f64::consts::TAU.ln() + std.ln() + 0.5 * z * z
}

// σ [z(2Φ(z) − 1) + 2φ(z) − 1/√π]; its limit for a certain prediction is the absolute error.
fn crps(y: f64, mean: f64, std: f64) -> f64 {
    if std == 0.0 {
        return (y - mean).abs();
    }
    let z = (y - mean) / std;
    std * (z * (2.0 * normal_cdf(z) - 1.0) + 2.0 * normal_density(z) - 1.0 / std::f64::consts::PI.sqrt())
}
