//! The mean of the training targets, whatever the features are.

use ndarray::{Array1, ArrayView1, ArrayView2};

use super::LEAST_NOISE;
use crate::gp::GpError;
use crate::gp::exact::check_training;
use crate::gp::leave_one_out::LeaveOneOut;
use crate::gp::predict::Prediction;
use crate::gp::row_noise::RowNoise;

/// Mean and variance of the training targets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TargetMean {
    pub mean: f64,
    /// Their population variance.
    pub noise: f64,
}

impl TargetMean {
    /// Of x: `[n, d]`, y: `[n]`.
    pub fn fit(x: ArrayView2<'_, f64>, y: ArrayView1<'_, f64>) -> Result<Self, GpError> {
        Self::fit_with(x, y, &RowNoise::default())
    }

    /// The same where rows have weights.
    pub fn fit_with(x: ArrayView2<'_, f64>, y: ArrayView1<'_, f64>, noise: &RowNoise) -> Result<Self, GpError> {
        check_training(x, y)?;
        noise.check(x.nrows())?;
        let n = y.len() as f64;
        let each = || y.iter().enumerate().map(|(row, value)| (noise.weight(row), value));
        let mean = each().map(|(weight, value)| weight * value).sum::<f64>() / n;
        let variance = each().map(|(weight, value)| weight * (value - mean).powi(2)).sum::<f64>() / n;
        Ok(Self { mean, noise: variance.max(LEAST_NOISE) })
    }

    /// The targets y: `[n]`, each by mean and variance of the others.
    pub(super) fn left_out(&self, y: ArrayView1<'_, f64>, noise: &RowNoise) -> LeaveOneOut {
        let n = y.len() as f64;
        // One row has no others.
        let others = (n - 1.0).max(1.0);
        let each = || y.iter().enumerate().map(|(row, value)| (noise.weight(row), value - self.mean));
        let squares: f64 = each().map(|(weight, own)| weight * own.powi(2)).sum();
        let mut found = LeaveOneOut::default();
        for (weight, own) in each() {
            // What the others weigh; their weights are 1 on average but for that of this row.
            let left = if noise.is_uniform() { others } else { (n - weight).max(f64::MIN_POSITIVE) };
            found.residuals.push(own * n / left);
            let variance = ((squares - weight * own * own * n / left) / others).max(LEAST_NOISE);
            found.variances.push(variance / weight);
        }
        found
    }

    pub(super) fn predict(&self, x_star: ArrayView2<'_, f64>, variance: bool) -> Prediction {
        let p = x_star.nrows();
        let latent_variance = variance.then(|| Array1::zeros(p));
        Prediction { mean: Array1::from_elem(p, self.mean), latent_variance, nearest: None, global_mean: None }
    }
}
