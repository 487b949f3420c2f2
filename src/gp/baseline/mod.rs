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

use ndarray::{ArrayView1, ArrayView2, Axis};

use super::GpError;
use super::leave_one_out::{LeaveOneOut, left_out_places, left_out_rows};
use super::predict::Prediction;
use super::random::StreamKey;
use super::row_noise::RowNoise;

/// The least noise variance, on the training scale: a target that is predicted to the last digit, or is constant, is not
/// certain for ever.
const LEAST_NOISE: f64 = 1e-8;

/// A trained baseline.
#[derive(Debug, Clone)]
pub enum Baseline {
    Mean(TargetMean),
    Ridge(Ridge),
    Knn(Box<NearestRows>),
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

    /// What is said of some of the training rows x: `[n, d]`, y: `[n]`, each left out in its turn. The strength of a ridge and
    /// the number of neighbours stay.
    pub fn left_out(
        &self,
        x: ArrayView2<'_, f64>,
        y: ArrayView1<'_, f64>,
        noise: &RowNoise,
        key: &StreamKey,
    ) -> Result<LeaveOneOut, GpError> {
        match self {
            Self::Mean(mean) => Ok(mean.left_out(y, noise)),
            Self::Ridge(ridge) => {
                let rows = left_out_rows(x.nrows(), key);
                let (x, y) = (x.select(Axis(0), &rows), y.select(Axis(0), &rows));
                ridge.left_out(x.view(), y.view(), &noise.select(&rows))
            }
            Self::Knn(knn) => Ok(knn.left_out(&left_out_places(x.nrows(), key))),
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
        Self::Knn(Box::new(knn))
    }
}
