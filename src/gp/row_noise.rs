//! Noise that differs from row to row: γ²/wᵢ + sᵢ², with weights w and known variances s².

use ndarray::{Array1, Axis};

use super::GpError;

/// What is known of the noise of each training row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RowNoise {
    /// Weights w, `[n]`, positive, 1 on average; none where all are 1.
    pub weights: Option<Array1<f64>>,
    /// Known variances s², `[n]`, on the scale of the target; none where nothing is known.
    pub known: Option<Array1<f64>>,
}

impl RowNoise {
    /// Weights that are 1 on average, and variances.
    pub fn new(weights: Option<Array1<f64>>, known: Option<Array1<f64>>) -> Self {
        let relative = |weights: Array1<f64>| {
            let mean = weights.mean().unwrap_or(1.0);
            weights / mean
        };
        Self { weights: weights.map(relative), known }
    }

    /// Whether all rows have the same noise.
    pub fn is_uniform(&self) -> bool {
        self.weights.is_none() && self.known.is_none()
    }

    /// wᵢ.
    pub fn weight(&self, row: usize) -> f64 {
        self.weights.as_ref().map_or(1.0, |weights| weights[row])
    }

    /// The noise variance of a row where that of a row of weight 1 is γ².
    pub fn variance(&self, row: usize, noise: f64) -> f64 {
        let own = self.weights.as_ref().map_or(noise, |weights| noise / weights[row]);
        self.known.as_ref().map_or(own, |known| own + known[row])
    }

    /// The mean known variance, 0 where nothing is known.
    pub fn mean_known(&self) -> f64 {
        self.known.as_ref().and_then(|known| known.mean()).unwrap_or(0.0)
    }

    /// That of some rows.
    #[must_use]
    pub fn select(&self, rows: &[usize]) -> Self {
        let of = |all: &Option<Array1<f64>>| all.as_ref().map(|all| all.select(Axis(0), rows));
        Self { weights: of(&self.weights), known: of(&self.known) }
    }

    /// √wᵢ, `[n]`, where there are weights.
    pub(crate) fn roots(&self) -> Option<Array1<f64>> {
        self.weights.as_ref().map(|weights| weights.mapv(f64::sqrt))
    }

    /// ½ Σ log wᵢ: what the density of targets has beside that of targets times √w.
    pub(crate) fn log_density(&self) -> f64 {
        self.weights.as_ref().map_or(0.0, |weights| 0.5 * weights.iter().map(|weight| weight.ln()).sum::<f64>())
    }

    /// Refuses what does not fit n rows.
    pub(crate) fn check(&self, n: usize) -> Result<(), GpError> {
        for values in [&self.weights, &self.known].into_iter().flatten() {
            if values.len() != n {
                return Err(GpError::shape(format!("{n} rows, and the noise of {}", values.len())));
            }
        }
        let positive = |weight: &f64| *weight > 0.0 && weight.is_finite();
        let variance = |variance: &f64| *variance >= 0.0 && variance.is_finite();
        let fits = self.weights.iter().flatten().all(positive) && self.known.iter().flatten().all(variance);
        if fits { Ok(()) } else { Err(GpError::value("weights must be positive, and variances not negative")) }
    }
}
