//! Predictions in the target's own units, and on the scale on which it is modelled.

use crate::eval::conformal::Calibration;
use crate::eval::metrics::share_below;
use crate::eval::transform::Transform;

/// Predictions in the target's own units.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TargetPrediction {
    pub mean: Vec<f64>,
    pub y_std: Option<Vec<f64>>,
    /// Standard deviations of the function.
    pub f_std: Option<Vec<f64>>,
    /// Standard deviations of the noise.
    pub noise_std: Vec<f64>,
    /// Distance to the nearest training row, where 1 is usual among training rows; models with a local layer only.
    pub nearest: Option<Vec<f64>>,
    /// Means without the local layer; models that have one above something else only.
    pub global_mean: Option<Vec<f64>>,
    /// Where the target is modelled on another scale: what is normal there.
    pub on_scale: Option<OnScale>,
}

/// Predictions on the scale on which the target is modelled.
#[derive(Debug, Clone, PartialEq)]
pub struct OnScale {
    pub transform: Transform,
    pub mean: Vec<f64>,
    pub std: Vec<f64>,
    /// Standard deviation of the noise, the same for every row.
    pub noise_std: f64,
}

impl TargetPrediction {
    /// What is normal on this scale, in the target's own units; standard deviations only where they are asked for.
    pub(super) fn in_own_units(self, transform: Transform, variance: bool) -> Self {
        let (means, std) = (self.mean, self.y_std.unwrap_or_default());
        let noise_std = self.noise_std.first().copied().unwrap_or(0.0);
        let moments = |place: usize, std: f64| transform.moments(means[place], std);
        let own: Vec<_> = std.iter().enumerate().map(|(place, std)| moments(place, *std)).collect();
        let latent = self.f_std.unwrap_or_default();
        let global = |(mean, std): (&f64, &f64)| transform.moments(*mean, *std).mean;
        Self {
            mean: own.iter().map(|moments| moments.mean).collect(),
            y_std: variance.then(|| own.iter().map(|moments| moments.std).collect()),
            f_std: variance.then(|| latent.iter().enumerate().map(|(place, std)| moments(place, *std).std).collect()),
            noise_std: (0..means.len()).map(|place| moments(place, noise_std).std).collect(),
            nearest: self.nearest,
            global_mean: self.global_mean.map(|means| means.iter().zip(&std).map(global).collect()),
            on_scale: Some(OnScale { transform, mean: means, std, noise_std }),
        }
    }

    /// Standard deviations on the scale on which the target is modelled.
    pub fn spread(&self) -> Option<&[f64]> {
        self.on_scale.as_ref().map(|on| on.std.as_slice()).or(self.y_std.as_deref())
    }

    /// The value so many standard deviations above the mean, on the scale on which the target is modelled.
    pub fn quantile(&self, row: usize, z: f64) -> f64 {
        if let Some(on) = &self.on_scale {
            return on.transform.inverse(z.mul_add(on.std[row], on.mean[row]));
        }
        let std = self.y_std.as_ref().map_or(f64::NAN, |std| std[row]);
        z.mul_add(std, self.mean[row])
    }

    /// The share of the predicted distribution below a target.
    pub fn share_below(&self, row: usize, y: f64, calibration: Option<&Calibration>) -> f64 {
        let score = match (&self.on_scale, &self.y_std) {
            (Some(on), _) => (on.transform.forward(y) - on.mean[row]) / on.std[row],
            (None, Some(std)) => (y - self.mean[row]) / std[row],
            (None, None) => f64::NAN,
        };
        share_below(calibration, score)
    }

    /// Adds further rows.
    pub(super) fn extend(&mut self, next: Self) {
        let more = |own: &mut Option<Vec<f64>>, next: Option<Vec<f64>>| {
            if let (Some(own), Some(next)) = (own, next) {
                own.extend(next);
            }
        };
        self.mean.extend(next.mean);
        self.noise_std.extend(next.noise_std);
        more(&mut self.y_std, next.y_std);
        more(&mut self.f_std, next.f_std);
        more(&mut self.nearest, next.nearest);
        more(&mut self.global_mean, next.global_mean);
        if let (Some(own), Some(next)) = (&mut self.on_scale, next.on_scale) {
            own.mean.extend(next.mean);
            own.std.extend(next.std);
        }
    }
}
