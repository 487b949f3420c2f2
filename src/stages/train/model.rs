//! A model that can predict: trained on the training rows of a fold, or read from a file.

use super::calibration::{Calibrated, TrainingRows, calibrate};
use super::file::RowSummary;
use super::fold_rows::{EncodedRows, FoldRows};
use super::options::{Method, Train};
use super::prediction::{OnScale, TargetPrediction};
use super::predictor::Predictor;
use super::warm::Beginning;
use super::{deep, encoding, local};
use crate::eval::conformal::Calibration;
use crate::eval::transform::{Transform, TransformName};
use crate::features::{ColumnKind, Encoding, RawRows, SeenValues};
use crate::gp::baseline::{NearestRows, Ridge, TargetMean};
use crate::gp::deep::{self as deep_gp, Checkpoint, HiddenLayer};
use crate::gp::exact;
use crate::gp::fit_rows::FitRows;
use crate::gp::linalg::{Interrupt, go_on};
use crate::gp::neighbours::LocalFit;
use crate::gp::observer::Observer;
use crate::gp::random::StreamKey;
use crate::gp::relevance;
use crate::gp::scaling::Scaling;
use crate::gp::sparse;
use crate::gp::warm::WarmStart;
use crate::stages::StageError;
use crate::store::InputTable;
use ndarray::{Array1, Array2, Axis};

/// A model that can predict, with everything needed to take rows in their own units.
#[derive(Debug, Clone)]
pub struct TrainedModel {
    /// What the columns become, by name.
    pub(super) feature_names: Vec<String>,
    /// The columns that it takes, and what they become.
    pub(super) encoding: Encoding,
    /// The scale on which the target is modelled, if it is not its own.
    pub(super) transform: Option<Transform>,
    pub(super) scaling: Scaling,
    /// What features were multiplied by for their relevance, which is in `scaling`; empty where all count the same.
    pub(super) relevance: Vec<f64>,
    pub(super) predictor: Predictor,
    /// How good a local layer is, if one was fitted.
    pub(super) local_fit: Option<LocalFit>,
    pub(super) calibrated: Calibrated,
}

/// Trains on the training rows of the fold; a deep fit goes on from its checkpoint. With the model comes what its file says of
/// the rows.
pub fn fit(
    (stage, beginning): (&Train, Option<Beginning>),
    (rows, transform): (FoldRows<'_>, TransformName),
    key: &StreamKey,
    resume: Option<Checkpoint>,
    observer: &mut dyn Observer,
) -> Result<(TrainedModel, RowSummary), StageError> {
    let FoldRows { table, source, span } = rows;
    let EncodedRows { y, transform, encoding, own, noise } = table.encoded(source, transform, key)?;
    let feature_names = encoding.names();
    check_features(stage, &feature_names)?;
    let mut scaling = Scaling::fit_over((own.view(), y.view()), &span, stage.scale.features)?;
    let summary = RowSummary::new(&own, &span)?;
    let stage = &Train { hyperparameters: stage.hyperparameters.scaled(scaling.target_std), ..stage.clone() };
    let noise = noise.on(&scaling);
    let beginning = beginning.filter(|beginning| beginning.fits(&feature_names, transform));
    let mut relevance = Vec::new();
    if stage.ard && stage.method.is_deep() {
        let known = beginning.as_ref().map(Beginning::relevance).filter(|known| !known.is_empty());
        relevance = if let Some(known) = known {
            known.to_vec()
        } else {
            let rows = FitRows { x: own.view(), y: y.view(), noise: &noise, span: span.clone(), kept: None };
            relevance::fit(&rows, &scaling, stage.stationary(), &key.with("relevance"), observer)?
        };
        scaling.weigh(&relevance);
    }
    // In place: there may be many rows.
    let (x, y) = (scaling.scaled(own), scaling.target(y.view()));
    // The layers keep the same rows, and no copy.
    let x = x.into_shared();
    let warm = beginning.and_then(|beginning| beginning.in_units_of(&scaling));
    let effective = if warm.is_some() { stage.started() } else { stage.clone() };
    let (start, rows) =
        ((&effective, warm.as_ref()), FitRows { x: x.view(), y: y.view(), noise: &noise, span, kept: Some(&x) });
    let (predictor, local_fit) = predictor(start, &rows, source, key, resume, observer)?;
    let rows = &TrainingRows { of: rows, source };
    let calibrated = calibrate(stage, &predictor, rows, &key.with("calibrate"), observer)?;
    let model =
        TrainedModel { feature_names, encoding, transform, scaling, relevance, predictor, local_fit, calibrated };
    Ok((model, summary))
}

/// Trains on rows x: `[n, d]`, y: `[n]` on the training scale, which are these of the source.
pub(super) fn predictor(
    (stage, warm): (&Train, Option<&WarmStart>),
    rows: &FitRows<'_>,
    source: &[usize],
    key: &StreamKey,
    resume: Option<Checkpoint>,
    observer: &mut dyn Observer,
) -> Result<(Predictor, Option<LocalFit>), StageError> {
    let FitRows { x: x_view, y: y_view, noise, .. } = rows.clone();
    let mut local_fit = None;
    let earlier = warm.and_then(|warm| warm.local.as_ref());
    let predictor = match stage.method {
        Method::Mean => Predictor::baseline(TargetMean::fit_with(x_view, y_view, noise)?),
        Method::Ridge => Predictor::baseline(Ridge::fit_with(x_view, y_view, noise, observer)?),
        Method::Knn => Predictor::baseline(NearestRows::fit_with(x_view, y_view, noise, stage.knn, observer)?),
        Method::Gp => {
            let gp = match warm {
                Some(warm) => exact::fit_from((x_view, y_view, noise), &stage.exact(), warm, key, observer)?,
                None => exact::fit_with(x_view, y_view, noise, &stage.exact(), key, observer)?,
            };
            Predictor::Gp { gp: Box::new(gp), y: y_view.to_owned(), noise: noise.clone() }
        }
        Method::SparseGp => {
            let options = stage.sparse(source)?;
            let mut gp = match warm {
                Some(warm) => sparse::fit_from((x_view, y_view, noise), &options, warm, key, observer)?,
                None => sparse::fit_held(rows, &options, key, observer)?,
            };
            if let Some(options) = stage.local() {
                let key = key.with("local");
                let (with, fit) = gp.with_local_from(rows.clone(), &options, earlier, &key, observer)?;
                (gp, local_fit) = (with, Some(fit));
            }
            let source_rows = source_rows(gp.rows(), source);
            Predictor::Sparse { gp: Box::new(gp), source_rows, known_noise: noise.mean_known() }
        }
        Method::DeepGp | Method::Stride => {
            let options = stage.layered(stage.start(source)?);
            let mut gp = deep_gp::fit_from(rows.clone(), &options, warm, key, resume, observer)?;
            if let Some(options) = stage.local() {
                let (with, fit) = gp.with_local_from(rows.clone(), &options, earlier, &key.with("local"), observer)?;
                (gp, local_fit) = (with, Some(fit));
            }
            let source_rows = source_rows(&gp.parts().inducing, source);
            let known_noise = noise.mean_known();
            Predictor::Deep { gp: Box::new(gp), method: stage.method.name(), source_rows, known_noise }
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

/// Names in a message.
const SHOWN_FEATURES: usize = 8;

impl TrainedModel {
    /// Rows of the table as the model takes them, encoded, in their own units; and what was found in them.
    pub fn encode(&self, table: &InputTable, rows: &[usize]) -> Result<(Array2<f64>, SeenValues), StageError> {
        encoding::apply(&self.encoding, table, rows)
    }

    /// The same of rows whose columns are those of the model.
    pub fn encode_raw(&self, rows: RawRows<'_>) -> (Array2<f64>, SeenValues) {
        self.encoding.apply(rows)
    }

    /// The same before they are encoded: values, in the order of the model's columns, and the levels of categories.
    pub fn raw_rows(&self, table: &InputTable, rows: &[usize]) -> Result<(Array2<f64>, Vec<Vec<String>>), StageError> {
        encoding::raw(&self.encoding, table, rows)
    }

    /// What a column that is a number is divided by, whatever its relevance; none for columns of other kinds.
    pub fn number_scale(&self, column: usize) -> Option<f64> {
        let relevance = |place: usize| self.relevance.get(place).copied().unwrap_or(1.0);
        self.encoding.place_of_number(column).map(|place| self.scaling.feature_scale[place] * relevance(place))
    }

    /// Whether a column has levels, not values in an order.
    pub fn is_category(&self, column: usize) -> bool {
        self.encoding.columns[column].kind == ColumnKind::Category
    }

    /// The columns that it takes, by name.
    pub fn input_names(&self) -> Vec<String> {
        self.encoding.columns.iter().map(|column| column.name.clone()).collect()
    }

    /// Predicts x: `[p, d]`, encoded, columns in the model's order, values in their own units.
    pub fn predict(&self, x: &Array2<f64>, variance: bool) -> Result<TargetPrediction, StageError> {
        let x = self.scaling.features(x.view());
        // On another scale, means depend on variances.
        let prediction = self.predictor.predict(&x, variance || self.transform.is_some())?;
        let noise = self.noise_variance();
        let std = |extra: f64| {
            let back = |latent: &f64| self.scaling.std_back(latent + extra);
            prediction.latent_variance.as_ref().map(|latent| latent.iter().map(back).collect::<Vec<f64>>())
        };
        let back = |means: &Array1<f64>| means.iter().map(|mean| self.scaling.mean_back(*mean)).collect::<Vec<f64>>();
        let predicted = TargetPrediction {
            mean: back(&prediction.mean),
            y_std: std(noise),
            f_std: std(0.0),
            noise_std: vec![self.scaling.std_back(noise); prediction.mean.len()],
            nearest: prediction.nearest.map(|nearest| nearest.to_vec()),
            global_mean: prediction.global_mean.as_ref().map(back),
            on_scale: None,
        };
        Ok(match self.transform {
            Some(transform) => predicted.in_own_units(transform, variance),
            None => predicted,
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

    /// The scale on which the target is modelled, without rows; none where it is its own.
    pub fn scale(&self) -> Option<OnScale> {
        let noise_std = self.scaling.std_back(self.noise_variance());
        self.transform.map(|transform| OnScale { transform, mean: Vec::new(), std: Vec::new(), noise_std })
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
