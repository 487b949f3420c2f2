//! Plain regression methods that every other one has to beat: the mean, a line, the neighbours.
//!
//! All of them take the training scale, predict a mean with its variance, and choose what there is to choose by
//! themselves.

mod knn;
mod mean;
mod options;
mod ridge;

pub use knn::{KnnParts, NearestRows};
pub use mean::TargetMean;
pub use options::KnnOptions;
pub use ridge::{Ridge, RidgeParts};

use ndarray::ArrayView2;

use super::GpError;
use super::predict::Prediction;

/// The least noise variance, on the training scale: a target that is predicted to the last digit, or is constant, is not
/// certain for ever.
const LEAST_NOISE: f64 = 1e-8;

/// A trained baseline.
#[derive(Debug, Clone)]
pub enum Baseline {
    Mean(TargetMean),
    Ridge(Ridge),
    Knn(NearestRows),
}

impl Baseline {
    /// Predicts `x_star`: `[p, d]`; `variance` asks for the variances too.
    pub fn predict(&self, x_star: ArrayView2<'_, f64>, variance: bool) -> Result<Prediction, GpError> {
        match self {
            Self::Mean(mean) => Ok(mean.predict(x_star, variance)),
            Self::Ridge(ridge) => ridge.predict(x_star, variance),
            Self::Knn(knn) => knn.predict(x_star, variance),
        }
    }

    /// Noise variance of a target.
    pub fn noise(&self) -> f64 {
        match self {
            Self::Mean(mean) => mean.noise,
            Self::Ridge(ridge) => ridge.parts().noise,
            Self::Knn(knn) => knn.noise(),
        }
    }
}

impl From<TargetMean> for Baseline {
    fn from(mean: TargetMean) -> Self {
        Self::Mean(mean)
    }
}

impl From<Ridge> for Baseline {
    fn from(ridge: Ridge) -> Self {
        Self::Ridge(ridge)
    }
}

impl From<NearestRows> for Baseline {
    fn from(knn: NearestRows) -> Self {
        Self::Knn(knn)
    }
}
