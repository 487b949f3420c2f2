//! The trained methods behind one face: predict, describe, and turn into tensors and back.

use super::baseline;
use super::deep;
use super::local;
use super::options::Train;
use super::tensors::{columns, of_rows, one, optional, row_noise, rows, scalar, vector};
use crate::gp::GpError;
use crate::gp::baseline::Baseline;
use crate::gp::deep::{DeepGp, HiddenLayer};
use crate::gp::exact::ExactGp;
use crate::gp::fit_rows::FitRows;
use crate::gp::kernel::{Hyper, Kernel};
use crate::gp::leave_one_out::LeaveOneOut;
use crate::gp::linalg::Interrupt;
use crate::gp::neighbours::LocalParts;
use crate::gp::predict::Prediction;
use crate::gp::random::StreamKey;
use crate::gp::row_noise::RowNoise;
use crate::gp::sparse::{SparseGp, SparseParts};
use crate::store::{ModelFile, Tensor, Tensors};
use ndarray::{Array1, Array2};
use std::collections::BTreeMap;

/// The tensor that holds the mean of what is known of the noise variance of training rows.
const KNOWN_NOISE: &str = "known_noise";

/// A trained method.
#[derive(Debug, Clone)]
pub enum Predictor {
    /// The exact process keeps its training targets, because a model file holds rows and targets and factors them
    /// again: smaller by far than the factor, and the same bits.
    Gp {
        gp: Box<ExactGp>,
        /// Its targets, `[n]`.
        y: Array1<f64>,
        /// How its noise differs from row to row.
        noise: RowNoise,
    },
    /// The sparse process, with its inducing points as rows of the source.
    Sparse {
        gp: Box<SparseGp>,
        /// The rows of the source that are inducing points, `[m]`.
        source_rows: Vec<i64>,
        /// The mean of what is known of the noise variance of training rows, 0 where nothing is.
        known_noise: f64,
    },
    Deep {
        gp: Box<DeepGp>,
        /// `deep_gp` or `stride`.
        method: &'static str,
        /// The rows of the source that are inducing points, `[m]`; empty without them.
        source_rows: Vec<i64>,
        /// The mean of what is known of the noise variance of training rows, 0 where nothing is.
        known_noise: f64,
    },
    /// A plain method to compare with.
    Baseline(Box<Baseline>),
}

impl Predictor {
    pub fn baseline(baseline: impl Into<Baseline>) -> Self {
        Self::Baseline(Box::new(baseline.into()))
    }

    pub const fn method(&self) -> &'static str {
        match self {
            Self::Gp { .. } => "gp",
            Self::Sparse { .. } => "sparse_gp",
            Self::Deep { method, .. } => method,
            Self::Baseline(baseline) => baseline::method(baseline),
        }
    }

    /// The covariance function, where there is one.
    pub fn kernel(&self) -> Option<Kernel> {
        match self {
            Self::Gp { gp, .. } => Some(gp.kernel()),
            Self::Sparse { gp, .. } => Some(gp.kernel()),
            Self::Deep { gp, .. } => Some(gp.parts().kernel),
            Self::Baseline(_) => None,
        }
    }

    /// The parameters of the covariance function, where there is one.
    fn hyper(&self) -> Option<&Hyper> {
        match self {
            Self::Gp { gp, .. } => Some(gp.hyper()),
            Self::Sparse { gp, .. } => Some(gp.hyper()),
            Self::Deep { gp, .. } => Some(&gp.parts().hyper),
            Self::Baseline(_) => None,
        }
    }

    /// What was fitted, by name, in scaled units; `features` are the names of the features.
    pub fn hyperparameters(&self, features: &[String]) -> BTreeMap<String, f64> {
        if let Self::Baseline(baseline) = self {
            return baseline::hyperparameters(baseline);
        }
        let Some(hyper) = self.hyper() else { return BTreeMap::new() };
        let mut all = BTreeMap::from([("variance".to_owned(), hyper.variance), ("noise".to_owned(), hyper.noise)]);
        match hyper.length() {
            Some(length) => drop(all.insert("length".to_owned(), length)),
            None => all
                .extend(features.iter().zip(&hyper.lengths).map(|(name, length)| (format!("length[{name}]"), *length))),
        }
        all
    }

    /// Noise variance of a prediction's target, on the training scale.
    pub fn noise(&self) -> f64 {
        match self {
            // What is known of the noise of training rows counts with its mean.
            Self::Gp { noise, .. } => self.row_noise() + noise.mean_known(),
            Self::Sparse { known_noise, .. } | Self::Deep { known_noise, .. } => self.row_noise() + known_noise,
            Self::Baseline(_) => self.row_noise(),
        }
    }

    /// That of a row of weight 1 of which nothing else is known.
    pub fn row_noise(&self) -> f64 {
        match self {
            Self::Gp { gp, .. } => gp.hyper().noise,
            Self::Sparse { gp, .. } => gp.noise(),
            Self::Deep { gp, .. } => gp.noise(),
            Self::Baseline(baseline) => baseline.noise(),
        }
    }

    /// The local layer, if there is one.
    pub fn local(&self) -> Option<&LocalParts> {
        match self {
            Self::Gp { .. } | Self::Baseline(_) => None,
            Self::Sparse { gp, .. } => gp.parts().local.as_ref(),
            Self::Deep { gp, .. } => gp.parts().local.as_ref(),
        }
    }

    /// The same without its local layer.
    #[must_use]
    pub fn without_local(self) -> Self {
        match self {
            Self::Gp { .. } | Self::Baseline(_) => self,
            Self::Sparse { gp, source_rows, known_noise } => {
                Self::Sparse { gp: Box::new(gp.without_local()), source_rows, known_noise }
            }
            Self::Deep { gp, method, source_rows, known_noise } => {
                Self::Deep { gp: Box::new(gp.without_local()), method, source_rows, known_noise }
            }
        }
    }

    /// Predicts x: `[p, d]`, on the training scale.
    pub fn predict(&self, x: &Array2<f64>, variance: bool) -> Result<Prediction, GpError> {
        match self {
            Self::Gp { gp, .. } => gp.predict(x.view(), variance),
            Self::Sparse { gp, .. } => gp.predict(x.view(), variance),
            Self::Deep { gp, .. } => gp.predict(x.view(), variance),
            Self::Baseline(baseline) => baseline.predict(x.view(), variance),
        }
    }

    /// What is said of some of the rows that it was trained on, each left out in its turn.
    pub fn left_out(
        &self,
        rows: &FitRows<'_>,
        key: &StreamKey,
        interrupted: Interrupt<'_>,
    ) -> Result<LeaveOneOut, GpError> {
        match self {
            Self::Gp { gp, .. } => gp.left_out(interrupted),
            Self::Sparse { gp, .. } => gp.left_out_with(rows.clone(), key),
            Self::Deep { gp, .. } => gp.left_out_with(rows.clone(), key),
            Self::Baseline(baseline) => baseline.left_out(rows.x, rows.y, rows.noise, key),
        }
    }

    /// The hidden layers at x: `[p, d]`, on the training scale; none for methods without.
    pub fn hidden_layers(&self, x: &Array2<f64>) -> Result<Vec<HiddenLayer>, GpError> {
        match self {
            Self::Gp { .. } | Self::Sparse { .. } | Self::Baseline(_) => Ok(Vec::new()),
            Self::Deep { gp, .. } => gp.hidden_layers(x.view()),
        }
    }

    /// What the fit ended at, by name.
    pub fn figures(&self) -> BTreeMap<String, Option<f64>> {
        let named =
            |figures: &[(&str, f64)]| figures.iter().map(|(name, value)| ((*name).to_owned(), Some(*value))).collect();
        match self {
            Self::Gp { gp, .. } => named(&[("log_likelihood", gp.log_likelihood())]),
            Self::Sparse { gp, .. } => named(&[("log_likelihood", gp.log_likelihood()), ("bound", gp.bound())]),
            Self::Deep { gp, .. } => deep::figures(gp),
            Self::Baseline(baseline) => baseline::figures(baseline),
        }
    }

    /// What the user should know about how the chains did.
    pub fn sampling_warnings(&self, stage: &Train) -> Vec<String> {
        match self {
            Self::Deep { gp, .. } => deep::warnings(&gp.parts().diagnostics, &stage.em),
            Self::Gp { .. } | Self::Sparse { .. } | Self::Baseline(_) => Vec::new(),
        }
    }

    /// What else the user should know about how training with these options went.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let (jitter, expected) = match self {
            Self::Gp { gp, .. } => (gp.jitter(), 0.0),
            Self::Sparse { gp, .. } => (gp.jitter(), crate::gp::sparse::JITTER * gp.hyper().variance),
            Self::Deep { .. } => (0.0, 0.0),
            // They are there to be compared with, good or bad.
            Self::Baseline(_) => return warnings,
        };
        if jitter > expected * (1.0 + 1e-9) {
            warnings.push(format!(
                "{jitter:.1e} had to be added to the diagonal of the covariance; rows may be nearly equal: consider a \
                 larger `noise` or another kernel"
            ));
        }
        // On standardised targets the noise variance is the share that the model does not explain.
        if self.hyper().is_some_and(|hyper| hyper.noise > 0.98) {
            let other = match self {
                Self::Deep { .. } => "other starting values or more inducing points",
                _ => "`ard: true` or other starting values",
            };
            warnings.push(format!(
                "the fit explains almost nothing of the target (all noise): check `features`, or try another kernel, \
                 {other}"
            ));
        }
        warnings
    }

    /// The numbers that a model file has to hold.
    pub fn tensors(&self) -> Tensors {
        let mut tensors = BTreeMap::new();
        if let Some(hyper) = self.hyper() {
            tensors.extend([
                ("hyper.lengths", Tensor::from(Array1::from(hyper.lengths.clone()))),
                ("hyper.variance", scalar(hyper.variance)),
                ("hyper.noise", scalar(hyper.noise)),
            ]);
        }
        match self {
            Self::Gp { gp, y, noise } => {
                tensors.extend([("x", Tensor::from(gp.parts().x.clone())), ("y", Tensor::from(y.clone()))]);
                tensors.extend(of_rows(noise));
            }
            Self::Sparse { gp, source_rows, .. } => {
                let SparseParts { x_m, alpha, lower, lower_b, jitter, bound, log_likelihood, .. } = gp.parts().clone();
                tensors.extend([
                    ("inducing.rows", Tensor::from(Array1::from(source_rows.clone()))),
                    ("inducing.x", Tensor::from(x_m)),
                    ("alpha", Tensor::from(alpha)),
                    ("lower", Tensor::from(lower)),
                    ("lower_b", Tensor::from(lower_b)),
                    ("jitter", scalar(jitter)),
                    ("bound", scalar(bound)),
                    ("log_likelihood", scalar(log_likelihood)),
                ]);
            }
            Self::Deep { .. } | Self::Baseline(_) => {}
        }
        if let Self::Sparse { known_noise, .. } | Self::Deep { known_noise, .. } = self
            && *known_noise > 0.0
        {
            tensors.insert(KNOWN_NOISE, scalar(*known_noise));
        }
        let mut tensors: Tensors = tensors.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect();
        match self {
            Self::Deep { gp, source_rows, .. } => tensors.extend(deep::tensors(gp.parts(), source_rows)),
            Self::Baseline(baseline) => tensors.extend(baseline::tensors(baseline)),
            Self::Gp { .. } | Self::Sparse { .. } => {}
        }
        tensors.extend(self.local().map(local::tensors).unwrap_or_default());
        tensors
    }

    /// The words that a model file has to hold.
    pub fn words(&self) -> BTreeMap<String, String> {
        match self {
            Self::Gp { .. } | Self::Sparse { .. } | Self::Baseline(_) => BTreeMap::new(),
            Self::Deep { gp, .. } => gp.parts().words.clone(),
        }
        .into_iter()
        .chain(self.local().map(local::words).into_iter().flatten())
        .collect()
    }

    /// The method in a model file, or what is wrong with it.
    pub fn from_file(file: &ModelFile) -> Result<Self, String> {
        if let Some(baseline) = baseline::from_file(file)? {
            return Ok(Self::baseline(baseline));
        }
        let tensors = &file.tensors;
        let kernel = file.meta.kernel.parse::<Kernel>().map_err(|error| error.to_string())?;
        let hyper = Hyper {
            variance: one(tensors, "hyper.variance")?,
            lengths: vector(tensors, "hyper.lengths")?.to_vec(),
            noise: one(tensors, "hyper.noise")?,
        };
        let features = file.meta.feature_names.len();
        let known_noise = optional(tensors, KNOWN_NOISE)?.unwrap_or(0.0);
        let deep = |method: &'static str, hyper: Hyper| {
            let (gp, source_rows) = deep::from_file(file, kernel, hyper)?;
            Ok(Self::Deep { gp: Box::new(gp), method, source_rows, known_noise })
        };
        match file.meta.method.as_str() {
            "gp" => {
                let (x, y) = (columns(tensors, "x", features)?, vector(tensors, "y")?);
                let noise = row_noise(tensors, "")?;
                let gp = ExactGp::condition_with(x.view(), y.view(), &noise, kernel, &hyper);
                Ok(Self::Gp { gp: Box::new(gp.map_err(|error| error.to_string())?), y, noise })
            }
            "sparse_gp" => {
                let x_m = columns(tensors, "inducing.x", features)?;
                let m = x_m.nrows();
                let source_rows = rows(tensors, "inducing.rows")?;
                let parts = SparseParts {
                    rows: source_rows.iter().map(|row| row.unsigned_abs() as usize).collect(),
                    alpha: vector(tensors, "alpha")?,
                    lower: columns(tensors, "lower", m)?,
                    lower_b: columns(tensors, "lower_b", m)?,
                    jitter: one(tensors, "jitter")?,
                    bound: one(tensors, "bound")?,
                    log_likelihood: one(tensors, "log_likelihood")?,
                    local: local::from_file(file)?,
                    x_m,
                    kernel,
                    hyper,
                };
                let gp = SparseGp::from_parts(parts).map_err(|error| error.to_string())?;
                Ok(Self::Sparse { gp: Box::new(gp), source_rows, known_noise })
            }
            "deep_gp" => deep("deep_gp", hyper),
            "stride" => deep("stride", hyper),
            other => Err(format!("method `{other}` is not known to this version")),
        }
    }
}
