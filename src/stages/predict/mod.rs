//! `predict`: the test rows of every fold, or all rows of an input.

pub mod alarm;
mod check;
mod fold;
mod options;
mod predicted;
mod score;
pub mod scorer;

pub use alarm::{ConditionList, HeldCondition, Watch};
pub use check::check_rows;
pub use options::{IntervalLevel, OnInvalid, Predict};
pub use predicted::{Predicted, write_predictions_of_run};
pub use score::check_apart;

use super::cost;
use super::ingest::Source;
use super::job::Key;
use super::split::Folds;
use super::train::{Train, shares};
use super::{
    Collecting, Context, Demand, Frequency, Job, Model, Models, Output, Placement, PredictionFiles, Preparation,
    RowCheck, Said, Stage, StageError, StageKind, Work, lost,
};
use crate::eval::conformal::Calibration;
use crate::eval::metrics::score_quantile;
use crate::pipeline::{Diagnostic, Diagnostics, FilePath, Kind, Link, is_path};
use crate::store::input::InputTable;
use crate::store::model::model_path;
use crate::store::object::is_file;
use crate::store::{ModelFile, StoreError, read_known};
use crate::tables::MetricRow;
use crate::tables::predictions::{self, interval_columns, interval_quantiles};
use serde_json::json;
use std::any::Any;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The declaration of the kind.
pub static KIND: StageKind = StageKind {
    language: Kind {
        links: &[Link { key: "model", targets: &["train"], or_path: true }, Link::to("input", &["split", "ingest"])],
        null_words: &["on_invalid"],
        check: check::check,
        ..Kind::new::<Predict>("predict", "Predicts the test rows of every fold, or all rows of an input.")
    },
    version: 4,
    read: super::read::<Predict>,
};

const PREDICTIONS: &str = "predictions.parquet";
/// What the model's intervals are calibrated by, beside the predictions; models without calibration have none.
const CALIBRATION: &str = "calibration.parquet";
/// The scale on which the target is modelled, beside the predictions, where it is not its own.
const TRANSFORM: &str = "transform.json";
/// How far the rows are from those of training, as rows of the table `metrics`.
const DRIFT: &str = "drift.parquet";

impl Stage for Predict {
    fn kind(&self) -> &'static StageKind {
        &KIND
    }

    fn locate(&mut self, base: &Path) {
        self.output.iter_mut().for_each(|output| output.locate(base));
        if is_path(&self.model) {
            self.published.get_or_insert_with(|| self.model.clone().into()).locate(base);
        }
    }

    fn inputs(&self) -> Vec<&str> {
        if self.published.is_some() { vec![&self.input] } else { vec![&self.model, &self.input] }
    }

    fn frequency(&self) -> Frequency {
        Frequency::PerFold
    }

    fn folds(&self, of: &dyn Fn(&str) -> u32) -> u32 {
        if self.published.is_some() { 1 } else { of(&self.model) }
    }

    fn demand(&self, _: &Demand) -> Demand {
        Demand { only_valid: self.on_invalid == OnInvalid::Error, ..Demand::default() }
    }

    fn takes_published(&self) -> Option<&Path> {
        self.published.as_ref().map(FilePath::path)
    }

    fn targets(&self) -> Vec<(&Path, bool)> {
        self.output.iter().map(|output| (output.path(), self.writes_directory())).collect()
    }

    fn effort(&self, (rows, features): cost::WorkSize, stages: &[(&str, &dyn Stage)]) -> f64 {
        let find = |wanted: &str| stages.iter().find(|(id, _)| *id == wanted).map(|(_, stage)| *stage as &dyn Any);
        let train = find(&self.model).and_then(|stage| stage.downcast_ref::<Train>());
        let Some(train) = train else { return cost::passing((rows, features)) };
        // Of rows that are divided, the test rows; of others, all.
        let tested = shares(&self.input, stages).1;
        cost::predicting(train, rows * train.training_share(stages), (rows * tested, features))
    }

    fn missing(&self, context: &Context<'_>) -> Option<PathBuf> {
        let source = context.rows_of(&self.input).ok()?;
        score::targets(self, &source).into_iter().find(|file| !is_file(file))
    }

    /// A file of scores has one writer: several folds, cases or stages would overwrite each other.
    fn check_placement(&self, placement: &mut Placement<'_>, problems: &mut Diagnostics) {
        let Some(output) = &self.output else { return };
        let folds = placement.folds;
        let origin = placement.node.origin_of(&["predict", "output"]);
        if folds > 1 {
            let message = format!("`output` with {folds} folds: only one model can write it");
            let help = "score with one model: split with `all: {}`, or use a published one";
            problems.push(Diagnostic::new(origin, message).help(help));
        }
        if let Some(other) = placement.claim(output.path(), self.writes_directory()) {
            let message = format!("`{}` is also the output of `{other}`", output.written());
            let help = "give each its own, for instance with `${matrix.…}` in the path";
            problems.push(Diagnostic::new(origin, message).help(help));
        }
    }

    fn row_checks(&self, stages: &[(&str, &dyn Stage)]) -> Vec<RowCheck> {
        let Some(model) = self.published.as_ref().map(|model| model.path().to_owned()) else { return Vec::new() };
        // A model that this very case is going to publish cannot be looked at yet.
        if stages.iter().any(|(_, other)| other.targets().iter().any(|(target, _)| *target == model)) {
            return Vec::new();
        }
        let identity = model.display().to_string();
        let look = move |table: &InputTable, _| check_model(&model, table).map(|()| Said::default());
        vec![RowCheck { identity, look: Box::new(look) }]
    }

    fn prepare(&self, context: &Context<'_>) -> Result<Preparation, StageError> {
        let mut reads = Vec::new();
        let models = models((&self.model, self.published.as_ref()), context, &mut reads)?;
        let rows = PredictedRows::of(context, &self.input)?;
        let key = |(fold, model): (u32, &Model)| {
            let (model, input, fold) = (json!(model.hash), json!(rows.hash()), json!(fold));
            Key::new(&KIND, [("options", self.options_for(&rows)), ("model", model), ("input", input), ("fold", fold)])
        };
        let keys: Vec<Key> = (0..).zip(&models.models).map(key).collect();
        let part = |key: &Key| Predicted {
            path: context.cache.file(&key.hash, PREDICTIONS),
            stage: context.id.to_owned(),
            case: context.case.to_owned(),
            scores: matches!(rows, PredictedRows::All(_)),
        };
        let predictions = PredictionFiles {
            method: models.method.clone(),
            hashes: keys.iter().map(|key| key.hash.clone()).collect(),
            parts: keys.iter().map(part).collect(),
            models,
        };
        Ok(Preparation { output: Output::Predictions(Rc::new(predictions)), keys, reads })
    }

    fn perform(&self, context: &Context<'_>, job: &mut Job<'_, '_>) -> Result<Work, StageError> {
        let Output::Predictions(own) = context.output(context.id)? else { return Err(lost(context.id)) };
        let fold = job.task.fold.map_or(0, |(fold, _)| fold as usize);
        let model = own.models.models.get(fold).ok_or_else(|| lost(&self.model))?;
        match PredictedRows::of(context, &self.input)? {
            PredictedRows::All(source) => score::score(self, model, &source, job),
            PredictedRows::Test(folds) => fold::predict(self, model, &folds, job),
        }
    }

    fn collect(&self, context: &Context<'_>, done: &mut Collecting<'_, '_>) -> Result<(), StageError> {
        match PredictedRows::of(context, &self.input)? {
            PredictedRows::All(source) => score::collect(self, &source, done)?,
            PredictedRows::Test(_) => fold::collect(self, done)?,
        }
        let (stage, case) = (context.id.to_owned(), context.case.to_owned());
        let scores = matches!(context.output(&self.input)?, Output::Rows(_));
        done.record.predictions.push(Predicted { path: done.entry.file(PREDICTIONS), stage, case, scores });
        Ok(())
    }
}

/// Hands drift to the run, and says which conditions on it hold.
fn watch(stage: &Predict, test_rows: bool, done: &mut Collecting<'_, '_>) -> Result<(), StageError> {
    let drift: Vec<MetricRow> = read_known(&done.entry.file(DRIFT))?;
    done.record.add_rows(done.task, &drift)?;
    done.warn()?;
    let watch = stage.watch(test_rows);
    for text in watch.unknown(&drift) {
        done.record.warn(&format!("{}: {text}", done.task))?;
    }
    for held in watch.held(&drift) {
        let HeldCondition { fails, condition, text } = held;
        done.record.alarm(done.task, fails, &condition, &text)?;
    }
    Ok(())
}

/// The rows to predict.
pub enum PredictedRows {
    All(Rc<Source>),
    /// Those that each fold keeps for testing.
    Test(Rc<Folds>),
}

impl PredictedRows {
    pub fn of(context: &Context<'_>, id: &str) -> Result<Self, StageError> {
        match context.output(id)? {
            Output::Rows(source) => Ok(Self::All(Rc::clone(source))),
            Output::Folds(folds) => Ok(Self::Test(Rc::clone(folds))),
            _ => Err(lost(id)),
        }
    }

    pub fn hash(&self) -> &str {
        match self {
            Self::All(source) => &source.key.hash,
            Self::Test(folds) => &folds.key.hash,
        }
    }
}

/// The models of a train stage, or one that is published, which is read now because it may be replaced at any time.
pub fn models(
    (stage, published): (&str, Option<&FilePath>),
    context: &Context<'_>,
    reads: &mut Vec<(PathBuf, String)>,
) -> Result<Rc<Models>, StageError> {
    let Some(directory) = published else {
        return match context.output(stage)? {
            Output::Models(models) => Ok(Rc::clone(models)),
            _ => Err(lost(stage)),
        };
    };
    let (file, hash) = ModelFile::load_hashed(directory.path())?;
    let path = model_path(directory.path());
    reads.push((path.clone(), hash.clone()));
    let (method, models) = (file.meta.method.clone(), vec![Model { hash, path, file: Some(Rc::new(file)) }]);
    Ok(Rc::new(Models { method, models, start: None }))
}

impl Predict {
    /// The options that matter to the predictions.
    fn options_for(&self, rows: &PredictedRows) -> serde_json::Value {
        let test_rows = matches!(rows, PredictedRows::Test(_));
        let (intervals, variance) = (self.levels(), self.variance);
        let mut options = json!({ "intervals": intervals, "variance": variance, "test_rows": test_rows });
        if self.hidden {
            options["hidden"] = json!(true);
        }
        if !self.local {
            options["local"] = json!(false);
        }
        if test_rows {
            // So that predictions from before a column was there are made again, unlike scores, which may be very many.
            options["table"] = json!(predictions::SCHEMA_VERSION);
            // Test rows are compared with those of training only where a condition asks for it.
            if !self.watch(true).is_empty() {
                options["drift"] = json!(true);
            }
        } else {
            options["on_invalid"] = json!(self.on_invalid);
            options["keep"] = json!(self.keep);
            if self.origin {
                options["origin"] = json!(true);
            }
            options["one_file_per_input"] = json!(self.output.as_ref().map(|_| self.writes_directory()));
        }
        options
    }
}

/// Names of the quantile columns of these intervals, and how many standard deviations they lie above the mean.
pub fn quantiles(intervals: &[f64], calibration: Option<&Calibration>) -> Result<Vec<(String, f64)>, StageError> {
    let mut quantiles = Vec::with_capacity(2 * intervals.len());
    for level in intervals {
        let (low, high) = interval_columns(*level).map_err(StoreError::from)?;
        let (lower, upper) = interval_quantiles(*level);
        quantiles.extend([(low, score_quantile(calibration, lower)), (high, score_quantile(calibration, upper))]);
    }
    Ok(quantiles)
}

/// A published model can be read, and its features are there.
fn check_model(path: &Path, table: &InputTable) -> Result<(), StageError> {
    let model = ModelFile::load(path)?;
    let inputs = model.meta.inputs();
    let names = inputs.iter().map(|column| &column.name);
    let missing: Vec<&str> = names.filter(|name| !table.feature_names.contains(name)).map(String::as_str).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(StageError::Data {
        what: format!("the model {} needs the feature(s) {}", path.display(), missing.join(", ")),
        hint: "add them to `features` of the ingest stage".to_owned(),
    })
}
