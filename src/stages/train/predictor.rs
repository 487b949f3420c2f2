//! The trained methods behind one face: predict, describe, and turn into tensors and back.

use crate::gp::GpError;
use crate::gp::exact::{ExactGp, Prediction};
use crate::gp::kernel::{Hyper, Kernel};
use crate::gp::sparse::{SparseGp, SparseParts};
use crate::store::model::{ModelFile, Tensor};
use ndarray::{Array1, Array2, Ix1, Ix2};
use std::collections::BTreeMap;

/// A trained method.
#[derive(Debug, Clone)]
pub enum Predictor {
    /// The exact process keeps its training targets, because a model file holds rows and targets and factors them
    /// again: smaller by far than the factor, and the same bits.
    Gp {
        /// The process.
        gp: Box<ExactGp>,
        /// Its targets, `[n]`.
        y: Array1<f64>,
    },
    /// The sparse process, with its inducing points as rows of the source.
    Sparse {
        /// The process.
        gp: Box<SparseGp>,
        /// The rows of the source that are inducing points, `[m]`.
        source_rows: Vec<i64>,
    },
}

impl Predictor {
    /// The method's name.
    pub const fn method(&self) -> &'static str {
        match self {
            Self::Gp { .. } => "gp",
            Self::Sparse { .. } => "sparse_gp",
        }
    }

    /// The covariance function.
    pub fn kernel(&self) -> Kernel {
        match self {
            Self::Gp { gp, .. } => gp.kernel(),
            Self::Sparse { gp, .. } => gp.kernel(),
        }
    }

    /// The hyper-parameters.
    pub fn hyper(&self) -> &Hyper {
        match self {
            Self::Gp { gp, .. } => gp.hyper(),
            Self::Sparse { gp, .. } => gp.hyper(),
        }
    }

    /// Predicts x: `[p, d]`, on the training scale.
    pub fn predict(&self, x: &Array2<f64>, variance: bool) -> Result<Prediction, GpError> {
        match self {
            Self::Gp { gp, .. } => gp.predict(x.view(), variance),
            Self::Sparse { gp, .. } => gp.predict(x.view(), variance),
        }
    }

    /// What the fit ended at, by name.
    pub fn figures(&self) -> BTreeMap<String, Option<f64>> {
        let named =
            |figures: &[(&str, f64)]| figures.iter().map(|(name, value)| ((*name).to_owned(), Some(*value))).collect();
        match self {
            Self::Gp { gp, .. } => named(&[("log_likelihood", gp.log_likelihood())]),
            Self::Sparse { gp, .. } => named(&[("log_likelihood", gp.log_likelihood()), ("bound", gp.bound())]),
        }
    }

    /// What the user should know about how training went.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let (jitter, expected) = match self {
            Self::Gp { gp, .. } => (gp.jitter(), 0.0),
            Self::Sparse { gp, .. } => (gp.jitter(), crate::gp::sparse::JITTER * gp.hyper().variance),
        };
        if jitter > expected * (1.0 + 1e-9) {
            warnings.push(format!(
                "{jitter:.1e} had to be added to the diagonal of the covariance; rows may be nearly equal: consider a \
                 larger `noise` or another kernel"
            ));
        }
        // On standardised targets the noise variance is the share that the model does not explain.
        if self.hyper().noise > 0.98 {
            warnings.push(
                "the fit explains almost nothing of the target (all noise): check `features`, or try another kernel, \
                 `ard: true` or other starting values"
                    .to_owned(),
            );
        }
        warnings
    }

    /// The numbers that a model file has to hold.
    pub fn tensors(&self) -> BTreeMap<String, Tensor> {
        let hyper = self.hyper();
        let mut tensors = BTreeMap::from([
            ("hyper.lengths", Tensor::from(Array1::from(hyper.lengths.clone()))),
            ("hyper.variance", scalar(hyper.variance)),
            ("hyper.noise", scalar(hyper.noise)),
        ]);
        match self {
            Self::Gp { gp, y } => {
                tensors.extend([("x", Tensor::from(gp.parts().x.clone())), ("y", Tensor::from(y.clone()))]);
            }
            Self::Sparse { gp, source_rows } => {
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
        }
        tensors.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect()
    }

    /// The method in a model file, or what is wrong with it.
    pub fn from_tensors(file: &ModelFile) -> Result<Self, String> {
        let kernel = file.meta.kernel.parse::<Kernel>().map_err(|error| error.to_string())?;
        let hyper = Hyper {
            variance: one(file, "hyper.variance")?,
            lengths: vector(file, "hyper.lengths")?.to_vec(),
            noise: one(file, "hyper.noise")?,
        };
        let features = file.meta.feature_names.len();
        match file.meta.method.as_str() {
            "gp" => {
                let (x, y) = (matrix(file, "x", features)?, vector(file, "y")?);
                let gp = ExactGp::condition(x.view(), y.view(), kernel, &hyper).map_err(|error| error.to_string())?;
                Ok(Self::Gp { gp: Box::new(gp), y })
            }
            "sparse_gp" => {
                let x_m = matrix(file, "inducing.x", features)?;
                let m = x_m.nrows();
                let source_rows: Vec<i64> =
                    file.integers("inducing.rows").ok_or_else(|| missing("inducing.rows"))?.iter().copied().collect();
                let parts = SparseParts {
                    rows: source_rows.iter().map(|row| row.unsigned_abs() as usize).collect(),
                    alpha: vector(file, "alpha")?,
                    lower: matrix(file, "lower", m)?,
                    lower_b: matrix(file, "lower_b", m)?,
                    jitter: one(file, "jitter")?,
                    bound: one(file, "bound")?,
                    log_likelihood: one(file, "log_likelihood")?,
                    x_m,
                    kernel,
                    hyper,
                };
                let gp = SparseGp::from_parts(parts).map_err(|error| error.to_string())?;
                Ok(Self::Sparse { gp: Box::new(gp), source_rows })
            }
            other => Err(format!("method `{other}` is not known to this version")),
        }
    }
}

fn scalar(value: f64) -> Tensor {
    Tensor::from(Array1::from(vec![value]))
}

fn missing(name: &str) -> String {
    format!("the tensor `{name}` is missing")
}

fn shape(name: &str) -> String {
    format!("the tensor `{name}` has the wrong shape")
}

fn vector(file: &ModelFile, name: &str) -> Result<Array1<f64>, String> {
    let values = file.floats(name).ok_or_else(|| missing(name))?;
    values.clone().into_dimensionality::<Ix1>().map_err(|_| shape(name))
}

fn matrix(file: &ModelFile, name: &str, columns: usize) -> Result<Array2<f64>, String> {
    let values = file.floats(name).ok_or_else(|| missing(name))?;
    let values = values.clone().into_dimensionality::<Ix2>().map_err(|_| shape(name))?;
    if values.ncols() == columns { Ok(values) } else { Err(shape(name)) }
}

fn one(file: &ModelFile, name: &str) -> Result<f64, String> {
    let values = vector(file, name)?;
    if values.len() == 1 { Ok(values[0]) } else { Err(shape(name)) }
}
