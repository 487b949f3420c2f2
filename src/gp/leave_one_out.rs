//! What a model says of training rows that it has not seen: in closed form, without training again.

use ndarray::ArrayView1;

use super::random::{StreamKey, sample_without_replacement};

/// Rows that are left out in turn, drawn at random where there are more: the share of them inside an interval is known to
/// half a percent.
const ROWS: usize = 10_000;
/// 1 − h is positive, but for rounding.
const LEAST_UNSEEN: f64 = 1e-9;

/// What a model says of training rows that it has not seen.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LeaveOneOut {
    /// Targets less means, `[n]`.
    pub residuals: Vec<f64>,
    /// Variances of the targets, noise included, `[n]`.
    pub variances: Vec<f64>,
}

impl LeaveOneOut {
    /// Without a global model, standardised targets y: `[n]` are their own residuals.
    pub(crate) fn of_nothing(y: ArrayView1<'_, f64>) -> Self {
        Self { residuals: y.to_vec(), variances: vec![1.0; y.len()] }
    }

    /// Adds a row of a sparse model: what its mean leaves over of the target, what the inducing points leave over of its
    /// variance, vᵀB⁻¹v with v = L⁻¹k, and γ².
    ///
    /// With h = vᵀB⁻¹v/γ², a row that had not been seen would be wrong by 1/(1 − h) times as much, and γ²/(1 − h) is the
    /// variance there of what the inducing points explain, noise included. The same holds for every linear smoother whose
    /// posterior variance at the row is vᵀB⁻¹v: an exact process, a ridge.
    pub(crate) fn push(&mut self, residual: f64, remaining: f64, back: f64, noise: f64) {
        let unseen = (1.0 - back / noise).max(LEAST_UNSEEN);
        self.residuals.push(residual / unseen);
        self.variances.push(noise / unseen + remaining.max(0.0));
    }

    /// Adds the rows of another part.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.residuals.append(&mut other.residuals);
        self.variances.append(&mut other.variances);
    }

    /// The mixture of several particles at the same rows: the mean of their means, and the mean of their variances with the
    /// variance of their means.
    ///
    /// Hidden layers have seen all targets. Without that of a row, particles count for as much as it was unlikely under them:
    /// draws given all targets, with weights 1/p(y | particle, other rows), are draws given the others (importance sampling;
    /// no weight exceeds √S times the mean of all, as those of few particles would be too wild).
    pub(crate) fn mixed(particles: &[Self]) -> Self {
        let rows = particles.iter().map(|particle| particle.residuals.len()).min().unwrap_or(0);
        let most = (particles.len() as f64).sqrt();
        let mut mixed = Self::default();
        for row in 0..rows {
            let unlikely: Vec<f64> = particles.iter().map(|particle| -particle.density(row)).collect();
            let largest = unlikely.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut weights: Vec<f64> = unlikely.iter().map(|value| (value - largest).exp()).collect();
            let limit = most * weights.iter().sum::<f64>() / particles.len() as f64;
            for weight in &mut weights {
                *weight = weight.min(limit);
            }
            let all: f64 = weights.iter().sum();
            let over = |value: &dyn Fn(&Self) -> f64| {
                particles.iter().zip(&weights).map(|(particle, weight)| value(particle) * weight / all).sum::<f64>()
            };
            let mean = over(&|particle| particle.residuals[row]);
            let variance = over(&|particle| particle.variances[row] + (particle.residuals[row] - mean).powi(2));
            mixed.residuals.push(mean);
            mixed.variances.push(variance);
        }
        mixed
    }

    pub(crate) fn density(&self, row: usize) -> f64 {
        let (residual, variance) = (self.residuals[row], self.variances[row]);
        -0.5 * ((std::f64::consts::TAU * variance).ln() + residual * residual / variance)
    }

    /// Residuals in units of their standard deviations, `[n]`.
    pub fn scores(&self) -> Vec<f64> {
        self.residuals.iter().zip(&self.variances).map(|(residual, variance)| residual / variance.sqrt()).collect()
    }
}

/// The rows, of n, that are left out in turn.
pub(crate) fn left_out_rows(n: usize, key: &StreamKey) -> Vec<usize> {
    if n <= ROWS {
        (0..n).collect()
    } else {
        sample_without_replacement(&mut key.with("left_out").generator(), n, ROWS)
    }
}

/// The same as the numbers that lists of neighbours have.
pub(crate) fn left_out_places(n: usize, key: &StreamKey) -> Vec<u32> {
    left_out_rows(n, key).into_iter().map(|row| row as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(residual: f64, variance: f64) -> LeaveOneOut {
        LeaveOneOut { residuals: vec![residual], variances: vec![variance] }
    }

    #[test]
    fn particles_that_did_not_expect_a_row_count_for_more() {
        let close = |mixed: LeaveOneOut, (mean, variance): (f64, f64)| {
            assert!((mixed.residuals[0] - mean).abs() < 1e-12, "{mixed:?}");
            assert!((mixed.variances[0] - variance).abs() < 1e-12, "{mixed:?}");
        };
        close(LeaveOneOut::mixed(&[one(0.3, 2.0)]), (0.3, 2.0));
        // As likely as each other: plain means.
        close(LeaveOneOut::mixed(&[one(1.0, 1.0), one(-1.0, 1.0)]), (0.0, 2.0));
        // e^½ times as unlikely under the second.
        let weight = 0.5_f64.exp() / (1.0 + 0.5_f64.exp());
        let found = LeaveOneOut::mixed(&[one(0.0, 1.0), one(1.0, 1.0)]);
        close(found, (weight, 1.0 + weight * (1.0 - weight)));
        // Never all of it: √2 times the mean of the weights, which is one half.
        let share = 0.5_f64.sqrt() / (0.5_f64.sqrt() + (-50.0_f64).exp());
        let found = LeaveOneOut::mixed(&[one(0.0, 1.0), one(10.0, 1.0)]);
        assert!((found.residuals[0] - 10.0 * share).abs() < 1e-9 && found.variances[0].is_finite());
    }
}
