//! Hyper-parameters σ², λ, γ² and their logarithms.

use crate::gp::GpError;

/// Hyper-parameters of a Gaussian process, in the units of its (scaled) data.
#[derive(Debug, Clone, PartialEq)]
pub struct Hyper {
    /// Kernel variance σ².
    pub variance: f64,
    /// Correlation lengths λ: one, or one per feature.
    pub lengths: Vec<f64>,
    /// Noise variance γ².
    pub noise: f64,
}

impl Hyper {
    /// Hyper-parameters with one length for all features.
    pub fn isotropic(variance: f64, length: f64, noise: f64) -> Self {
        Self { variance, lengths: vec![length], noise }
    }

    /// log σ², log λ…, log γ².
    pub fn to_log(&self) -> Vec<f64> {
        let mut theta = Vec::with_capacity(self.lengths.len() + 2);
        theta.push(self.variance.ln());
        theta.extend(self.lengths.iter().map(|length| length.ln()));
        theta.push(self.noise.ln());
        theta
    }

    /// The inverse of [`Hyper::to_log`].
    pub fn from_log(theta: &[f64]) -> Result<Self, GpError> {
        match theta {
            [variance, lengths @ .., noise] if !lengths.is_empty() => Ok(Self {
                variance: variance.exp(),
                lengths: lengths.iter().map(|length| length.exp()).collect(),
                noise: noise.exp(),
            }),
            _ => Err(GpError::shape(format!("{} logarithms of hyper-parameters; at least 3 are needed", theta.len()))),
        }
    }

    /// The common length; `None` when every feature has its own.
    pub fn length(&self) -> Option<f64> {
        match self.lengths[..] {
            [length] => Some(length),
            _ => None,
        }
    }

    /// Checks signs, and the number of lengths against `d` features.
    pub fn check(&self, d: usize) -> Result<(), GpError> {
        let positive = |v: f64| v.is_finite() && v > 0.0;
        if self.lengths.len() != 1 && self.lengths.len() != d {
            return Err(GpError::shape(format!("{} lengths for {d} features", self.lengths.len())));
        }
        if !positive(self.variance) || !self.lengths.iter().copied().all(positive) {
            return Err(GpError::value("variance and length must be positive"));
        }
        // Exact interpolation (no noise) is legitimate for given hyper-parameters.
        if !self.noise.is_finite() || self.noise < 0.0 {
            return Err(GpError::value("noise must not be negative"));
        }
        Ok(())
    }
}
