//! Trains a model on the training rows of a fold, and turns it into a model file and back.

use super::StageError;
use crate::eval::folds::Fold;
use crate::gp::exact::{self, ExactOptions};
use crate::gp::inducing::Candidates;
use crate::gp::kernel::{Free, Kernel};
use crate::gp::observer::Observer;
use crate::gp::random::StreamKey;
use crate::gp::scaling::{FeatureScaling, Scaling};
use crate::gp::sparse::{self, SparseOptions};
use crate::plan::{self, GpStep, InducingStep, Method, SparseStep, TrainStep};
use crate::store::InputTable;
use ndarray::{Array2, Axis};

mod file;
mod predictor;

pub use file::Provenance;
use predictor::Predictor;

/// A model that can predict, with everything needed to take rows in their own units.
#[derive(Debug, Clone)]
pub struct TrainedModel {
    feature_names: Vec<String>,
    scaling: Scaling,
    predictor: Predictor,
}

/// Predictions in the target's own units.
pub struct Prediction {
    /// Means.
    pub mean: Vec<f64>,
    /// Standard deviations of observations.
    pub y_std: Option<Vec<f64>>,
    /// Standard deviations of the function.
    pub f_std: Option<Vec<f64>>,
}

/// Trains on the training rows of the fold.
pub fn run(
    step: &TrainStep,
    table: &InputTable,
    fold: &Fold,
    key: &StreamKey,
    observer: &mut dyn Observer,
) -> Result<TrainedModel, StageError> {
    let Some(target) = &table.target else {
        return Err(StageError::Data {
            what: "no target".to_owned(),
            hint: "add `target` to the ingest stage".to_owned(),
        });
    };
    let x = table.features.select(Axis(0), &fold.train);
    let y = target.select(Axis(0), &fold.train);
    let how = match step.features {
        plan::Features::None => FeatureScaling::None,
        plan::Features::Global => FeatureScaling::Global,
        plan::Features::Column => FeatureScaling::Column,
    };
    let scaling = Scaling::fit(x.view(), y.view(), how);
    let (x, y) = (scaling.features(x.view()), scaling.target(y.view()));
    let predictor = match &step.method {
        Method::Gp(options) => {
            let gp = exact::fit(x.view(), y.view(), &exact_options(options), key, observer)?;
            Predictor::Gp { gp: Box::new(gp), y }
        }
        Method::SparseGp(options) => {
            let gp = sparse::fit(x.view(), y.view(), &sparse_options(options, fold)?, key, observer)?;
            let source_rows = gp.rows().iter().map(|row| fold.train[*row] as i64).collect();
            Predictor::Sparse { gp: Box::new(gp), source_rows }
        }
    };
    Ok(TrainedModel { feature_names: table.feature_names.clone(), scaling, predictor })
}

fn exact_options(options: &GpStep) -> ExactOptions {
    ExactOptions {
        kernel: kernel(options.kernel),
        ard: options.ard,
        variance: options.variance,
        length: options.length,
        noise: options.noise,
        free: free(options.optimise),
        ..ExactOptions::default()
    }
}

fn sparse_options(options: &SparseStep, fold: &Fold) -> Result<SparseOptions, StageError> {
    let (count, candidates, rows) = match &options.inducing {
        InducingStep::Chosen { count, candidates } => (*count as usize, *candidates, None),
        InducingStep::Given { rows } => (rows.len(), None, Some(training_positions(rows, fold)?)),
    };
    let GpStep { kernel: kind, ard, variance, length, noise, optimise } = options.gp;
    Ok(SparseOptions {
        kernel: kernel(kind),
        ard,
        variance,
        length,
        noise,
        free: free(optimise),
        count,
        candidates: candidates.map_or(Candidates::All, |count| Candidates::Count(count as usize)),
        rows,
        ..SparseOptions::default()
    })
}

/// Rows of the source as positions among the training rows, which are in increasing order.
fn training_positions(rows: &[u64], fold: &Fold) -> Result<Vec<usize>, StageError> {
    let position = |row: &u64| {
        fold.train.binary_search(&(*row as usize)).map_err(|_| StageError::Data {
            what: format!("`inducing.rows` names row {row}, which is not a training row of this fold"),
            hint: "name rows that every fold trains on, or let `count` choose".to_owned(),
        })
    };
    rows.iter().map(position).collect()
}

const fn free(optimise: plan::FreeHyperparameters) -> Free {
    Free { variance: optimise.variance, length: optimise.length, noise: optimise.noise }
}

const fn kernel(kernel: plan::Kernel) -> Kernel {
    match kernel {
        plan::Kernel::Rbf => Kernel::Rbf,
        plan::Kernel::Matern12 => Kernel::Matern12,
        plan::Kernel::Matern32 => Kernel::Matern32,
        plan::Kernel::Matern52 => Kernel::Matern52,
    }
}

impl TrainedModel {
    /// The column of the table for each of the model's features, by name.
    pub fn match_features(&self, table: &InputTable) -> Result<Vec<usize>, StageError> {
        let position = |name: &String| table.feature_names.iter().position(|known| known == name);
        let missing: Vec<&str> =
            self.feature_names.iter().filter(|name| position(name).is_none()).map(String::as_str).collect();
        if !missing.is_empty() {
            let input = table.files.first().map_or_else(String::new, |file| format!("{}: ", file.path.display()));
            return Err(StageError::Data {
                what: format!(
                    "{input}the model needs the feature(s) {}, which the input does not have",
                    missing.join(", ")
                ),
                hint: "add them to `features` of the ingest stage".to_owned(),
            });
        }
        Ok(self.feature_names.iter().filter_map(position).collect())
    }

    /// Predicts x: `[p, d]`, columns in the model's order, values in their own units.
    pub fn predict(&self, x: &Array2<f64>, variance: bool) -> Result<Prediction, StageError> {
        let x = self.scaling.features(x.view());
        let prediction = self.predictor.predict(&x, variance)?;
        let noise = self.noise_variance();
        let std = |extra: f64| {
            let back = |latent: &f64| self.scaling.std_back(latent + extra);
            prediction.latent_variance.as_ref().map(|latent| latent.iter().map(back).collect())
        };
        Ok(Prediction {
            mean: prediction.mean.iter().map(|mean| self.scaling.mean_back(*mean)).collect(),
            y_std: std(noise),
            f_std: std(0.0),
        })
    }

    /// γ², on the training scale.
    fn noise_variance(&self) -> f64 {
        self.predictor.hyper().noise
    }

    /// γ in the target's own units.
    pub fn noise_std(&self) -> f64 {
        self.scaling.std_back(self.noise_variance())
    }

    /// What the user should know about how training went.
    pub fn warnings(&self) -> Vec<String> {
        self.predictor.warnings()
    }
}
