//! Noise that differs from row to row: γ²/wᵢ + sᵢ², with weights w and known variances s².
//!
//! Sparse models see [`ScaledRows`]: rows multiplied such that they all have the same noise.

use ndarray::{Array1, ArrayView1, Axis};

use super::GpError;

/// What is known of the noise of each training row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RowNoise {
    /// Weights w, `[n]`, positive, 1 on average; none where all are 1.
    pub weights: Option<Array1<f64>>,
    /// Known variances s², `[n]`, on the scale of the target; none where nothing is known.
    pub known: Option<Array1<f64>>,
}

/// Rows brought to one noise τ: with K_mn and y multiplied by √(τ/noise) row by row, all sums over rows are weighted ones.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScaledRows {
    /// Targets times their factors, `[n]`.
    pub y: Array1<f64>,
    /// √(τ/noiseᵢ), `[n]`.
    pub factors: Vec<f64>,
}

impl RowNoise {
    /// Weights that are 1 on average, and variances. Weights that are all the same are none, and so are variances of 0.
    pub fn new(weights: Option<Array1<f64>>, known: Option<Array1<f64>>) -> Self {
        let relative = |weights: Array1<f64>| {
            let mean = weights.mean().unwrap_or(1.0);
            weights / mean
        };
        let differ = |weights: &Array1<f64>| weights.iter().any(|weight| weight.to_bits() != weights[0].to_bits());
        let known = known.filter(|known| known.iter().any(|variance| *variance != 0.0));
        Self { weights: weights.filter(differ).map(relative), known }
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

    /// 1/wᵢ and sᵢ²: what multiplies γ², and what is added to it.
    pub(crate) fn parts(&self, row: usize) -> (f64, f64) {
        (1.0 / self.weight(row), self.known.as_ref().map_or(0.0, |known| known[row]))
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

    /// τ, the noise that rows have once they are [scaled](Self::scaled), where that of a row of weight 1 is γ².
    pub(crate) fn level(&self, noise: f64) -> f64 {
        self.known.as_ref().map_or(noise, |_| noise + self.mean_known())
    }

    /// The part γ²/wᵢ of a row's noise variance, as a share of it.
    pub(crate) fn own_share(&self, row: usize, noise: f64) -> f64 {
        noise / self.weight(row) / self.variance(row, noise)
    }

    /// Rows with targets y: `[n]` brought to one noise; none where they have that already.
    pub(crate) fn scaled(&self, y: ArrayView1<'_, f64>, noise: f64) -> Option<ScaledRows> {
        let level = self.level(noise);
        let factors = match (&self.weights, &self.known) {
            (None, None) => return None,
            (Some(weights), None) => weights.iter().map(|weight| weight.sqrt()).collect::<Vec<f64>>(),
            _ => (0..y.len()).map(|row| (level / self.variance(row, noise)).sqrt()).collect(),
        };
        Some(ScaledRows { y: &y * &ArrayView1::from(&factors), factors })
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
