//! A model that can predict: trained on the training rows of a fold, or read from a file.

use super::calibration::{Calibrated, TrainingRows, calibrate};
use super::options::{Method, Train};
use super::predictor::Predictor;
use super::warm::Beginning;
use super::{deep, local};
use crate::eval::conformal::Calibration;
use crate::eval::folds::Fold;
use crate::gp::baseline::{NearestRows, Ridge, TargetMean};
use crate::gp::deep::{self as deep_gp, Checkpoint, HiddenLayer};
use crate::gp::exact;
use crate::gp::linalg::{Interrupt, go_on};
use crate::gp::neighbours::LocalFit;
use crate::gp::observer::Observer;
use crate::gp::random::StreamKey;
use crate::gp::scaling::Scaling;
use crate::gp::sparse;
use crate::gp::warm::WarmStart;
use crate::stages::StageError;
use crate::store::InputTable;
use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis};

/// A model that can predict, with everything needed to take rows in their own units.
#[derive(Debug, Clone)]
pub struct TrainedModel {
    pub(super) feature_names: Vec<String>,
    pub(super) scaling: Scaling,
    pub(super) predictor: Predictor,
    /// How good a local layer is, if one was fitted.
    pub(super) local_fit: Option<LocalFit>,
    pub(super) calibrated: Calibrated,
}

/// Predictions in the target's own units.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TargetPrediction {
    pub mean: Vec<f64>,
    pub y_std: Option<Vec<f64>>,
    /// Standard deviations of the function.
    pub f_std: Option<Vec<f64>>,
    /// Distance to the nearest training row, where 1 is usual among training rows; models with a local layer only.
    pub nearest: Option<Vec<f64>>,
    /// Means without the local layer; models that have one above something else only.
    pub global_mean: Option<Vec<f64>>,
}

/// Trains on the training rows of the fold; a deep fit goes on from its checkpoint.
pub fn fit(
    (stage, beginning): (&Train, Option<Beginning>),
    table: &InputTable,
    fold: &Fold,
    key: &StreamKey,
    resume: Option<Checkpoint>,
    observer: &mut dyn Observer,
) -> Result<TrainedModel, StageError> {
    check_features(stage, &table.feature_names)?;
    let Some(target) = &table.target else {
        return Err(StageError::Data {
            what: "no target".to_owned(),
            hint: "add `target` to the ingest stage".to_owned(),
        });
    };
    let x = table.features.select(Axis(0), &fold.train);
    let y = target.select(Axis(0), &fold.train);
    let scaling = Scaling::fit(x.view(), y.view(), stage.scale.features);
    let (x, y) = (scaling.features(x.view()), scaling.target(y.view()));
    let stage = &Train { hyperparameters: stage.hyperparameters.scaled(scaling.target_std), ..stage.clone() };
    let warm = beginning.and_then(|beginning| beginning.in_units_of(&scaling));
    let effective = if warm.is_some() { stage.started() } else { stage.clone() };
    let start = (&effective, warm.as_ref());
    let (predictor, local_fit) = predictor(start, (x.view(), y.view()), &fold.train, key, resume, observer)?;
    let rows = TrainingRows { x: x.view(), y: y.view(), source: &fold.train };
    let calibrated = calibrate(stage, &predictor, rows, &key.with("calibrate"), observer)?;
    Ok(TrainedModel { feature_names: table.feature_names.clone(), scaling, predictor, local_fit, calibrated })
}

/// Trains on rows x: `[n, d]`, y: `[n]` on the training scale, which are these of the source.
pub(super) fn predictor(
    (stage, warm): (&Train, Option<&WarmStart>),
    (x_view, y_view): (ArrayView2<'_, f64>, ArrayView1<'_, f64>),
    source: &[usize],
    key: &StreamKey,
    resume: Option<Checkpoint>,
    observer: &mut dyn Observer,
) -> Result<(Predictor, Option<LocalFit>), StageError> {
    let mut local_fit = None;
    let earlier = warm.and_then(|warm| warm.local.as_ref());
    let predictor = match stage.method {
        Method::Mean => Predictor::baseline(TargetMean::fit(x_view, y_view)?),
        Method::Ridge => Predictor::baseline(Ridge::fit(x_view, y_view, observer)?),
        Method::Knn => Predictor::baseline(NearestRows::fit(x_view, y_view, stage.knn, observer)?),
        Method::Gp => {
            let gp = match warm {
                Some(warm) => exact::fit_from(x_view, y_view, &stage.exact(), warm, key, observer)?,
                None => exact::fit(x_view, y_view, &stage.exact(), key, observer)?,
            };
            Predictor::Gp { gp: Box::new(gp), y: y_view.to_owned() }
        }
        Method::SparseGp => {
            let options = stage.sparse(source)?;
            let mut gp = match warm {
                Some(warm) => sparse::fit_from(x_view, y_view, &options, warm, key, observer)?,
                None => sparse::fit(x_view, y_view, &options, key, observer)?,
            };
            if let Some(options) = stage.local() {
                let (rows, key) = ((x_view, y_view), key.with("local"));
                let (with, fit) = gp.with_local_from(rows, &options, earlier, &key, observer)?;
                (gp, local_fit) = (with, Some(fit));
            }
            let source_rows = source_rows(gp.rows(), source);
            Predictor::Sparse { gp: Box::new(gp), source_rows }
        }
        Method::DeepGp | Method::Stride => {
            let options = stage.layered(stage.start(source)?);
            let rows = (x_view, y_view);
            let mut gp = deep_gp::fit_from(rows, &options, warm, key, resume, observer)?;
            if let Some(options) = stage.local() {
                let (with, fit) = gp.with_local_from(rows, &options, earlier, &key.with("local"), observer)?;
                (gp, local_fit) = (with, Some(fit));
            }
            let source_rows = source_rows(&gp.parts().inducing, source);
            Predictor::Deep { gp: Box::new(gp), method: stage.method.name(), source_rows }
        }
    };
    Ok((predictor, local_fit))
}

/// Training rows as rows of the source.
fn source_rows(rows: &[usize], source: &[usize]) -> Vec<i64> {
    rows.iter().map(|row| source[*row] as i64).collect()
}

/// What the method cannot do with these features.
pub fn check_features(stage: &Train, names: &[String]) -> Result<(), StageError> {
    if !stage.takes_one_feature() || names.len() == 1 {
        return Ok(());
    }
    let shown = names.iter().take(SHOWN_FEATURES).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if names.len() > SHOWN_FEATURES { ", …" } else { "" };
    Err(StageError::Data {
        what: format!("`architecture: injective` takes one feature, and there are {}: {shown}{more}", names.len()),
        hint: "choose one in `features` of the ingest stage, or use `architecture: composition`".to_owned(),
    })
}

/// Rows that a thread predicts between two looks at whether to stop: two tiles.
const PREDICTED_TOGETHER: usize = 2 * 96;

impl TargetPrediction {
    /// Adds further rows.
    fn extend(&mut self, next: Self) {
        let more = |own: &mut Option<Vec<f64>>, next: Option<Vec<f64>>| {
            if let (Some(own), Some(next)) = (own, next) {
                own.extend(next);
            }
        };
        self.mean.extend(next.mean);
        more(&mut self.y_std, next.y_std);
        more(&mut self.f_std, next.f_std);
        more(&mut self.nearest, next.nearest);
        more(&mut self.global_mean, next.global_mean);
    }
}

/// Names in a message.
const SHOWN_FEATURES: usize = 8;

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
    pub fn predict(&self, x: &Array2<f64>, variance: bool) -> Result<TargetPrediction, StageError> {
        let x = self.scaling.features(x.view());
        let prediction = self.predictor.predict(&x, variance)?;
        let noise = self.noise_variance();
        let std = |extra: f64| {
            let back = |latent: &f64| self.scaling.std_back(latent + extra);
            prediction.latent_variance.as_ref().map(|latent| latent.iter().map(back).collect())
        };
        let back = |means: &Array1<f64>| means.iter().map(|mean| self.scaling.mean_back(*mean)).collect();
        Ok(TargetPrediction {
            mean: back(&prediction.mean),
            y_std: std(noise),
            f_std: std(0.0),
            nearest: prediction.nearest.map(|nearest| nearest.to_vec()),
            global_mean: prediction.global_mean.as_ref().map(back),
        })
    }

    /// The same, part by part, given up between them when that is asked for.
    pub fn predict_unless(
        &self,
        interrupted: Interrupt<'_>,
        x: &Array2<f64>,
        variance: bool,
    ) -> Result<TargetPrediction, StageError> {
        // Only an exact model takes long enough; a row's result does not depend on the rows beside it.
        if !matches!(self.predictor, Predictor::Gp { .. }) {
            return self.predict(x, variance);
        }
        let part = PREDICTED_TOGETHER * rayon::current_num_threads().max(1);
        let mut all: Option<TargetPrediction> = None;
        for rows in x.axis_chunks_iter(Axis(0), part) {
            go_on(interrupted)?;
            let next = self.predict(&rows.to_owned(), variance)?;
            match &mut all {
                Some(all) => all.extend(next),
                None => all = Some(next),
            }
        }
        all.map_or_else(|| self.predict(x, variance), Ok)
    }

    /// The same model without its local layer, if it has one.
    #[must_use]
    pub fn without_local(mut self) -> Self {
        let had = self.predictor.local().is_some();
        self.predictor = self.predictor.without_local();
        if had && self.predictor.local().is_none() {
            self.calibrated = self.calibrated.without_local();
        }
        self
    }

    /// What intervals are calibrated by; none for those of the normal distribution.
    pub fn calibration(&self) -> Option<&Calibration> {
        self.calibrated.whole.as_ref()
    }

    /// The hidden layers at x: `[p, d]`, columns in the model's order, values in their own units.
    pub fn hidden_layers(&self, x: &Array2<f64>) -> Result<Vec<HiddenLayer>, StageError> {
        Ok(self.predictor.hidden_layers(&self.scaling.features(x.view()))?)
    }

    /// γ², on the training scale.
    fn noise_variance(&self) -> f64 {
        self.predictor.noise()
    }

    /// γ in the target's own units.
    pub fn noise_std(&self) -> f64 {
        self.scaling.std_back(self.noise_variance())
    }

    /// What the user should know about how the chains did.
    pub fn sampling_warnings(&self, stage: &Train) -> Vec<String> {
        self.predictor.sampling_warnings(stage)
    }

    /// What else the user should know about how training with these options went.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.predictor.warnings();
        warnings.extend(self.local_fit.as_ref().and_then(local::warning));
        warnings
    }

    /// What the chains of a deep method say about themselves, as metrics; nothing for other methods.
    pub fn chain_metrics(&self) -> Vec<(&'static str, Option<f64>)> {
        match &self.predictor {
            Predictor::Deep { gp, .. } => deep::chain_metrics(gp),
            Predictor::Gp { .. } | Predictor::Sparse { .. } | Predictor::Baseline(_) => Vec::new(),
        }
    }
}
