//! `train`: trains one model per fold, and publishes it.

mod baseline;
mod calibration;
mod check;
pub mod checkpoint;
mod deep;
mod encoding;
mod file;
mod fit;
mod fold_rows;
pub mod gate;
mod local;
mod memory;
mod model;
mod observer;
mod options;
mod prediction;
mod predictor;
mod publish;
mod rows;
mod seen;
mod share;
mod tensors;
mod together;
mod warm;
mod warnings;

pub use calibration::{Calibrate, FOLDS as CALIBRATION_FOLDS};
pub use model::TrainedModel;
pub use options::{Method, Train};
pub use prediction::{OnScale, TargetPrediction};
pub use together::{TeamOrder, decline, follow};
pub use warm::StartModel;

use super::cost;
use super::job::{Key, Record};
use super::split::{Division, Split};
use super::{
    Collecting, Context, Demand, Footprint, Frequency, Job, Model, Models, Output, Placement, Preparation, RowCheck,
    Said, Stage, StageError, StageKind, Work, loops,
};
use crate::pipeline::{Diagnostic, Diagnostics, FilePath, Kind, Link};
use crate::store::model::model_path;
use crate::store::object::is_file;
use crate::store::{CacheEntry, MODEL_FILE};
use serde_json::{Value as Json, json};
use std::any::Any;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The declaration of the kind.
pub static KIND: StageKind = StageKind {
    language: Kind {
        links: &[Link::to("input", &["split"])],
        presets: options::PRESETS,
        used_by: options::USED_BY,
        check: check::check,
        ..Kind::new::<Train>("train", "Trains one model per fold.")
    },
    version: 10,
    read: super::read::<Train>,
};

/// The shares of the rows of the source that train and that test, behind this stage. Training rows may be divided again.
pub fn shares(split: &str, stages: &[(&str, &dyn Stage)]) -> (f64, f64) {
    let Some(place) = stages.iter().position(|(id, _)| *id == split) else { return (1.0, 1.0) };
    let Some(split) = as_split(stages[place].1) else { return (1.0, 1.0) };
    // A stage takes earlier ones only.
    let (above, share) = (shares(&split.input, &stages[..place]).0, split.training_share());
    (above * share, above * (1.0 - share))
}

fn as_split(stage: &dyn Stage) -> Option<&Split> {
    (stage as &dyn Any).downcast_ref()
}

impl Train {
    /// The share of the rows of the source that it trains on.
    pub fn training_share(&self, stages: &[(&str, &dyn Stage)]) -> f64 {
        shares(&self.input, stages).0
    }

    /// What the work of each fold depends on, with these options.
    fn keys(&self, context: &Context<'_>, options: &Json) -> Result<Vec<Key>, StageError> {
        let folds = context.folds_of(&self.input)?;
        let key = |fold: u32| {
            let (input, fold, seed) = (json!(folds.key.hash), json!(fold), json!(context.seed));
            let parts = [("options", options.clone()), ("input", input), ("fold", fold), ("seed", seed)];
            // Rounding decides where a chain goes: that of other loops is another one.
            if self.method.is_deep() {
                let [options, input, fold, seed] = parts;
                return Key::new(&KIND, [options, input, fold, seed, ("openblas", json!(loops()))]);
            }
            Key::new(&KIND, parts)
        };
        Ok((0..context.folds).map(key).collect())
    }
}

impl Stage for Train {
    fn kind(&self) -> &'static StageKind {
        &KIND
    }

    fn locate(&mut self, base: &Path) {
        self.publish.iter_mut().chain(&mut self.start_from).for_each(|path| path.locate(base));
    }

    fn inputs(&self) -> Vec<&str> {
        vec![&self.input]
    }

    fn title(&self) -> String {
        format!("train {}", self.method.name())
    }

    fn key_options(&self) -> Json {
        let mut options = self.stream_options();
        if let Some(local) = self.local() {
            options["local"] = json!(local);
        }
        // Models from before there was a calibration are those without.
        if self.calibrate != Calibrate::None {
            options["calibrate"] = json!(self.calibrate);
        }
        options
    }

    fn frequency(&self) -> Frequency {
        Frequency::PerFold
    }

    fn folds(&self, of: &dyn Fn(&str) -> u32) -> u32 {
        of(&self.input)
    }

    fn demand(&self, _: &Demand) -> Demand {
        Demand { trains: true, ..Demand::default() }
    }

    fn takes_published(&self) -> Option<&Path> {
        self.start_from.as_ref().filter(|_| self.can_start()).map(FilePath::path)
    }

    fn targets(&self) -> Vec<(&Path, bool)> {
        self.publish.iter().map(|publish| (publish.path(), false)).collect()
    }

    fn alone(&self) -> Option<String> {
        together::refusal(self)
    }

    fn memory(&self, _: &Demand, size: (u64, u64), memory: u64) -> Option<Footprint> {
        Some(memory::training(self, share::held(self, size), memory))
    }

    fn effort(&self, (rows, features): cost::WorkSize, stages: &[(&str, &dyn Stage)]) -> f64 {
        let size = (rows * self.training_share(stages), features);
        if !self.can_start() || !warm::is_there(self) {
            return cost::training(self, size);
        }
        // Hidden layers say themselves how little is left to do; other fits begin close to where they end.
        let share = if self.method.is_deep() { 1.0 } else { cost::STARTED };
        share * cost::training(&self.started(), size)
    }

    /// With a condition it may rightly be absent.
    fn missing(&self, _: &Context<'_>) -> Option<PathBuf> {
        let published = self.publish.iter().filter(|_| self.publish_if.is_none());
        published.map(|directory| model_path(directory.path())).find(|file| !is_file(file))
    }

    /// A published model is one model: several cases or folds would overwrite each other.
    fn check_placement(&self, placement: &mut Placement<'_>, problems: &mut Diagnostics) {
        let Some(publish) = &self.publish else { return };
        // A condition looks at the metrics of its case.
        let same = placement.same && self.publish_if.is_none();
        let (cases, folds) = (if same { 1 } else { placement.cases }, placement.folds);
        let origin = placement.node.origin_of(&["train", "publish"]);
        if cases > 1 || folds > 1 {
            let message =
                format!("`publish` with {cases} case(s) and {folds} fold(s): only one model can be published");
            let help = "train it in a pipeline without matrix and with `all: {}`";
            problems.push(Diagnostic::new(origin, message).help(help));
        } else if let Some(other) = placement.claim(publish.path(), true) {
            let message = format!("`{}` is also where `{other}` publishes", publish.written());
            problems.push(Diagnostic::new(origin, message).help("give each model its own directory"));
        }
    }

    fn row_checks(&self, stages: &[(&str, &dyn Stage)]) -> Vec<RowCheck> {
        let split = stages.iter().find(|(id, _)| *id == self.input).and_then(|(_, stage)| as_split(*stage));
        let mut checks: Vec<RowCheck> =
            split.map(|split| rows::check(Division::of(split, stages))).into_iter().collect();
        if self.takes_one_feature() {
            let (identity, train) = (self.used().to_string(), self.clone());
            let look = move |table: &crate::store::InputTable, _| {
                model::check_features(&train, &encoding::columns_of(table)).map(|()| Said::default())
            };
            checks.push(RowCheck { identity, look: Box::new(look) });
        }
        if self.can_start() && self.start_from.is_some() {
            let (identity, train) = (format!("start of {}", self.used()), self.clone());
            let look = move |table: &crate::store::InputTable, _| warm::look(&train, table);
            checks.push(RowCheck { identity, look: Box::new(look) });
        }
        checks
    }

    fn prepare(&self, context: &Context<'_>) -> Result<Preparation, StageError> {
        let without = self.keys(context, &self.key_options())?;
        let with = |sha256: &str| {
            let mut options = self.started().key_options();
            options["start_from"] = json!(sha256);
            self.keys(context, &options)
        };
        let start = if self.can_start() { warm::find(self, &without, &with, context.cache)? } else { None };
        let keys = match &start {
            Some(start) => with(&start.sha256)?,
            None => without,
        };
        let model =
            |key: &Key| Model { hash: key.hash.clone(), path: context.cache.file(&key.hash, MODEL_FILE), file: None };
        let reads = start.iter().map(|start| (start.path.clone(), start.sha256.clone())).collect();
        let (method, models) = (self.method.name().to_owned(), keys.iter().map(model).collect());
        Ok(Preparation { output: Output::Models(Rc::new(Models { method, models, start })), keys, reads })
    }

    fn perform(&self, context: &Context<'_>, job: &mut Job<'_, '_>) -> Result<Work, StageError> {
        fit::fit(self, context, job)
    }

    fn collect(&self, context: &Context<'_>, done: &mut Collecting<'_, '_>) -> Result<(), StageError> {
        fit::collect(self, context, done)
    }

    fn complete(&self, context: &Context<'_>, parts: &[CacheEntry], record: &mut Record<'_>) -> Result<(), StageError> {
        warnings::say(context, KIND.language.name, parts, record)?;
        fit::chain_metrics(self, context, parts, record)
    }

    fn conclude(&self, context: &Context<'_>, record: &mut Record<'_>) -> Result<(), StageError> {
        publish::if_good_enough(self, context, record)
    }
}
