//! The mean of the training targets, whatever the features are.

use ndarray::{Array1, ArrayView1, ArrayView2};

use super::LEAST_NOISE;
use crate::gp::GpError;
use crate::gp::exact::check_training;
use crate::gp::leave_one_out::LeaveOneOut;
use crate::gp::predict::Prediction;

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
        check_training(x, y)?;
        let n = y.len() as f64;
        let mean = y.iter().sum::<f64>() / n;
        let variance = y.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n;
        Ok(Self { mean, noise: variance.max(LEAST_NOISE) })
    }

    /// The targets y: `[n]`, each by mean and variance of the others.
    pub(super) fn left_out(&self, y: ArrayView1<'_, f64>) -> LeaveOneOut {
        let n = y.len() as f64;
        // One row has no others.
        let others = (n - 1.0).max(1.0);
        let squares: f64 = y.iter().map(|value| (value - self.mean).powi(2)).sum();
        let mut found = LeaveOneOut::default();
        for value in y {
            let own = value - self.mean;
            found.residuals.push(own * n / others);
            found.variances.push(((squares - own * own * n / others) / others).max(LEAST_NOISE));
        }
        found
    }

    pub(super) fn predict(&self, x_star: ArrayView2<'_, f64>, variance: bool) -> Prediction {
        let p = x_star.nrows();
        let latent_variance = variance.then(|| Array1::zeros(p));
        Prediction { mean: Array1::from_elem(p, self.mean), latent_variance, nearest: None, global_mean: None }
    }
}
