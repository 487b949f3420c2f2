//! The top layer: how it is integrated out while hidden layers are sampled, and how it predicts.
//!
//! A kind of top layer is one file that implements [`TopLayer`] and [`Posterior`], and its places in [`Start`] and
//! [`restore`].

mod exact;
mod inducing;
mod linear_back;
mod neighbours;

use std::fmt::Debug;

use ndarray::{Array1, Array2, ArrayView1, Axis};

use super::hidden::{Adjoints, Prepared};
use super::m_step::Held;
use super::model::PartsReader;
use super::target::{DensityAt, Target};
use super::warped::Warped;
use crate::gp::GpError;
use crate::gp::exact::ExactOptions;
use crate::gp::fit_rows::FitRows;
use crate::gp::hyper::Evaluation;
use crate::gp::inducing::Candidates;
use crate::gp::kernel::{Covariance, Free, Hyper, Hyperparameters, Kernel};
use crate::gp::leave_one_out::LeaveOneOut;
use crate::gp::linalg::Triangle;
use crate::gp::linalg::panels::{Lane, squares, weighted};
use crate::gp::neighbours::LocalKernel;
use crate::gp::observer::Observer;
use crate::gp::predict::not_negative;
use crate::gp::random::StreamKey;
use crate::gp::row_noise::RowNoise;
use crate::gp::sparse::{JITTER, Penalty, SparseOptions};

pub(super) use exact::{NOISE as ROW_NOISE, WEIGHTS as ROW_WEIGHTS};
pub(super) use neighbours::TopNeighbours;
pub use neighbours::{NeighbourStart, TopOptions};

/// The stationary fit that comes first, and with it the kind of top layer.
#[derive(Debug, Clone, PartialEq)]
pub enum Start {
    /// STRIDE: a sparse fit; the top layer has its inducing points.
    Sparse(SparseOptions),
    /// Standard deep regression: an exact fit; the top layer is marginalised exactly.
    Exact(ExactOptions),
    /// STRIDE without inducing points: an exact fit on some rows; the top layer conditions rows on their neighbours.
    Neighbours(NeighbourStart),
}

impl Start {
    /// The covariance function of all layers.
    pub fn kernel(&self) -> Kernel {
        match self {
            Self::Sparse(options) => options.stationary.kernel,
            Self::Exact(options) => options.stationary.kernel,
            Self::Neighbours(options) => options.stationary.kernel,
        }
    }

    /// The covariance function of the top layer, as far as it is not to be chosen.
    pub(super) fn top_kernel(&self) -> Kernel {
        match self {
            Self::Neighbours(NeighbourStart { top: TopOptions { kernel: LocalKernel::Given(kernel), .. }, .. }) => {
                *kernel
            }
            _ => self.kernel(),
        }
    }

    /// Starting values, and which hyper-parameters may move.
    pub(super) fn hyperparameters(&self) -> &Hyperparameters {
        match self {
            Self::Sparse(options) => &options.stationary.hyperparameters,
            Self::Exact(options) => &options.stationary.hyperparameters,
            Self::Neighbours(options) => &options.stationary.hyperparameters,
        }
    }

    /// Which hyper-parameters may move.
    pub fn free(&self) -> Free {
        self.hyperparameters().optimise
    }

    /// The rows that are tried when inducing points move; `None` where none do.
    pub(super) fn candidates(&self) -> Option<Candidates> {
        match self {
            Self::Sparse(options) if options.inducing.rows.is_none() => Some(options.inducing.candidates),
            Self::Sparse(_) | Self::Exact(_) | Self::Neighbours(_) => None,
        }
    }

    /// The options of a top layer by neighbours.
    pub(super) fn neighbours(&self) -> Option<&NeighbourStart> {
        if let Self::Neighbours(options) = self { Some(options) } else { None }
    }

    pub(super) fn top(&self) -> &'static dyn TopLayer {
        match self {
            Self::Sparse(_) => &inducing::InducingTop,
            Self::Exact(_) => &exact::ExactTop,
            Self::Neighbours(_) => &neighbours::NeighbourTop,
        }
    }

    /// Hyper-parameters, inducing points and relative jitter of the stationary model that all chains start from.
    pub(super) fn fit(
        &self,
        data: &FitRows<'_>,
        penalty: Penalty,
        key: &StreamKey,
        observer: &mut dyn Observer,
    ) -> Result<(Hyper, Vec<usize>, f64), GpError> {
        let FitRows { x, y, noise, .. } = data.clone();
        match self {
            Self::Sparse(options) => {
                let options = SparseOptions { penalty, ..options.clone() };
                let gp = crate::gp::sparse::fit_held(data, &options, key, observer)?;
                Ok((gp.hyper().clone(), gp.rows().to_vec(), gp.jitter() / gp.hyper().variance))
            }
            Self::Exact(options) => {
                let gp = crate::gp::exact::fit_with(x, y, noise, options, key, observer)?;
                Ok((gp.hyper().clone(), Vec::new(), JITTER))
            }
            Self::Neighbours(options) => Ok((options.fit((x, y, noise), key, observer)?, Vec::new(), JITTER)),
        }
    }
}

/// NamedNumbers by name, as model files hold them.
pub(super) type NamedNumbers = Vec<(&'static str, Array2<f64>)>;

/// How the top layer is integrated out.
pub(super) trait TopLayer: Debug + Send + Sync {
    /// The name in model files.
    fn name(&self) -> &'static str;
    /// Whether there is a bound, which the M step maximises then.
    fn has_bound(&self) -> bool {
        false
    }
    /// ℓ.
    fn value(&self, target: &Target<'_>, prepared: &Prepared) -> Result<DensityAt, GpError>;
    /// ℓ, and its derivatives on their way back to ξ.
    fn value_and_adjoints(&self, target: &Target<'_>, prepared: &Prepared) -> Result<(DensityAt, Adjoints), GpError>;
    /// The posterior means at some training rows; empty where there are none.
    fn means(&self, target: &Target<'_>, prepared: &Prepared, rows: &[usize]) -> Result<Vec<f64>, GpError> {
        let _ = (target, prepared, rows);
        Ok(Vec::new())
    }
    /// What the M step maximises, for a particle: the bound or ℓ with its derivatives by log σ², log λ and log γ²; and ℓ.
    fn objective(
        &self,
        held: &Held<'_>,
        particle: usize,
        hyper: &Hyper,
        inducing: &[usize],
    ) -> Result<(Evaluation, f64), GpError>;
    /// The training rows, of n, that a model keeps the inputs of.
    fn rows(&self, n: usize, inducing: &[usize]) -> Vec<usize>;
    /// Whether a model keeps them for the top layer, and not for a local layer that stands in its place.
    fn keeps_rows(&self) -> bool {
        true
    }
    /// What else a model keeps, for all particles.
    fn shared_numbers(&self, y: ArrayView1<'_, f64>, noise: &RowNoise) -> NamedNumbers {
        let _ = (y, noise);
        NamedNumbers::new()
    }
    /// What else a model keeps, for this one.
    fn numbers(&self, target: &Target<'_>, prepared: &Prepared) -> Result<NamedNumbers, GpError> {
        let _ = (target, prepared);
        Ok(NamedNumbers::new())
    }
}

/// A top layer that is conditioned on the training targets.
pub(super) trait Posterior: Debug + Send + Sync {
    /// Mean and (when asked for) latent variance of the first `count` of some rows.
    fn predict(
        &self,
        rows: &Warped,
        hyper: &Hyper,
        count: usize,
        variance: bool,
    ) -> Result<(Vec<f64>, Vec<f64>), GpError>;
    /// Whether there is no global model: everything is left to the local layer.
    fn is_nothing(&self) -> bool {
        false
    }
    /// What the targets y of training rows, with the variances of their noise, would be if their own row had not been seen;
    /// `None` where that is not known.
    fn leave_one_out(
        &self,
        rows: &Warped,
        hyper: &Hyper,
        (y, noise): (&[f64], &[f64]),
    ) -> Result<Option<LeaveOneOut>, GpError> {
        let _ = (rows, hyper, y, noise);
        Ok(None)
    }
}

/// The top layer of a particle in a model; `name` adds the particle to the name of a part, and `covariance` gives that of the
/// top layer at the rows that the model keeps.
pub(super) fn restore(
    reader: &PartsReader<'_>,
    name: impl Fn(&str) -> String,
    covariance: impl FnOnce() -> Result<Warped, GpError>,
    hyper: &Hyper,
) -> Result<Box<dyn Posterior>, GpError> {
    match reader.word("top")? {
        inducing::NAME => inducing::restore(reader, name, covariance()?),
        exact::NAME => exact::restore(reader, covariance()?, hyper),
        neighbours::NAME => Ok(Box::new(neighbours::NoMean)),
        other => Err(GpError::value(format!("top layer `{other}`"))),
    }
}

// Regression on the inducing points, or on all training rows.
#[derive(Debug)]
struct RegressionPosterior {
    // What the covariance knows of them.
    anchors: Warped,
    // The posterior mean is k(·, anchors) alpha.
    alpha: Array1<f64>,
    // The factor of K_mm, or of K and the noise.
    lower: Triangle,
    // The factor of B; none for all training rows.
    lower_b: Option<Triangle>,
}

impl Posterior for RegressionPosterior {
    fn predict(
        &self,
        rows: &Warped,
        hyper: &Hyper,
        count: usize,
        variance: bool,
    ) -> Result<(Vec<f64>, Vec<f64>), GpError> {
        let alpha = self.alpha.as_slice().unwrap_or_default();
        let (mut mean, mut remaining) = (vec![0.0; count], vec![0.0; if variance { count } else { 0 }]);
        rows.for_panels(0..count, &self.anchors, None, &mut |rows, k| {
            let store = |lane: Lane, to: &mut [f64]| to[rows.clone()].copy_from_slice(&lane[..rows.len()]);
            store(weighted(k, alpha), &mut mean);
            if variance {
                self.lower.solve(k);
                let mut left = squares(&k[..alpha.len()]).map(|explained| hyper.variance - explained);
                if let Some(lower_b) = &self.lower_b {
                    lower_b.solve(k);
                    let back = squares(&k[..alpha.len()]);
                    left.iter_mut().zip(back).for_each(|(left, back)| *left += back);
                }
                store(left, &mut remaining);
            }
        })?;
        for value in &mut remaining {
            *value = not_negative(*value);
        }
        Ok((mean, remaining))
    }

    fn leave_one_out(
        &self,
        rows: &Warped,
        hyper: &Hyper,
        (y, noise): (&[f64], &[f64]),
    ) -> Result<Option<LeaveOneOut>, GpError> {
        let (m, mut found) = (self.alpha.len(), LeaveOneOut::default());
        let alpha = self.alpha.as_slice().unwrap_or_default();
        rows.for_panels(0..y.len(), &self.anchors, None, &mut |rows, k| {
            let mean = weighted(k, alpha);
            self.lower.solve(k);
            let remaining = squares(&k[..m]).map(|explained| hyper.variance - explained);
            // Without inducing points nothing is left over, and what remains is the posterior variance itself.
            let (remaining, back) = match &self.lower_b {
                None => (Lane::default(), remaining),
                Some(lower_b) => {
                    lower_b.solve(k);
                    (remaining, squares(&k[..m]))
                }
            };
            for (i, row) in rows.enumerate() {
                found.push(y[row] - mean[i], remaining[i], back[i], noise[row]);
            }
        })?;
        Ok(Some(found))
    }
}

/// A vector as a matrix of one row.
pub(super) fn as_row(values: &[f64]) -> Array2<f64> {
    ArrayView1::from(values).insert_axis(Axis(0)).to_owned()
}
