//! `explain`: what a model makes of its features.

mod check;
mod options;
mod work;

pub use options::Explain;

use super::job::Key;
use super::predict::{PredictedRows, models};
use super::split::Split;
use super::train::Train;
use super::{
    Collecting, Context, Demand, Frequency, Job, Model, Models, Output, Preparation, Stage, StageError, StageKind,
    Work, cost, lost,
};
use crate::pipeline::{Kind, Link, is_path};
use crate::store::read_known;
use crate::tables::ExplanationRow;
use serde_json::{Value as Json, json};
use std::any::Any;
use std::path::Path;
use std::rc::Rc;

/// The declaration of the kind.
pub static KIND: StageKind = StageKind {
    language: Kind {
        links: &[Link { key: "model", targets: &["train"], or_path: true }, Link::to("input", &["split", "ingest"])],
        check: check::check,
        ..Kind::new::<Explain>("explain", "Says what a model makes of its features.")
    },
    version: 1,
    read: super::read::<Explain>,
};

const EXPLANATIONS: &str = "explanations.parquet";

impl Stage for Explain {
    fn kind(&self) -> &'static StageKind {
        &KIND
    }

    fn locate(&mut self, base: &Path) {
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
        Demand { in_memory: true, only_valid: true, ..Demand::default() }
    }

    fn effort(&self, (rows, features): cost::WorkSize, stages: &[(&str, &dyn Stage)]) -> f64 {
        let find = |wanted: &str| stages.iter().find(|(id, _)| *id == wanted).map(|(_, stage)| *stage as &dyn Any);
        let train = find(&self.model).and_then(|stage| stage.downcast_ref::<Train>());
        let share = train.map_or(0.0, |train| train.training_share(stages));
        let tested = if find(&self.input).is_some_and(<dyn Any>::is::<Split>) { 1.0 - share } else { 1.0 };
        let size = (self.predictions(rows * tested, features), features);
        train.map_or_else(|| cost::passing(size), |train| cost::predicting(train, rows * share, size))
    }

    fn prepare(&self, context: &Context<'_>) -> Result<Preparation, StageError> {
        let mut reads = Vec::new();
        let models = models((&self.model, self.published.as_ref()), context, &mut reads)?;
        let rows = PredictedRows::of(context, &self.input)?;
        let key = |(fold, model): (u32, &Model)| {
            let (model, input, fold) = (json!(model.hash), json!(rows.hash()), json!(fold));
            let test_rows = json!(matches!(rows, PredictedRows::Test(_)));
            let parts = [("options", json!(self.counted())), ("model", model), ("input", input), ("fold", fold)];
            let [options, model, input, fold] = parts;
            Key::new(&KIND, [options, model, input, fold, ("test_rows", test_rows), ("seed", json!(context.seed))])
        };
        let keys: Vec<Key> = (0..).zip(&models.models).map(key).collect();
        // Nothing takes its output, but its work needs the models that it was planned with.
        Ok(Preparation { output: Output::Models(models), keys, reads })
    }

    fn perform(&self, context: &Context<'_>, job: &mut Job<'_, '_>) -> Result<Work, StageError> {
        let Output::Models(models) = context.output(context.id)? else { return Err(lost(context.id)) };
        let models: &Rc<Models> = models;
        let fold = job.task.fold.map_or(0, |(fold, _)| fold as usize);
        let model = models.models.get(fold).ok_or_else(|| lost(&self.model))?;
        let (table, rows) = match PredictedRows::of(context, &self.input)? {
            PredictedRows::All(source) => {
                let table = source.load(job.record)?;
                let rows = (0..table.row_count).collect();
                (table, rows)
            }
            PredictedRows::Test(folds) => (folds.source.load(job.record)?, folds.all()?[fold].test.clone()),
        };
        work::explain(self, model, (&table, rows), context.seed, job)
    }

    fn collect(&self, _: &Context<'_>, done: &mut Collecting<'_, '_>) -> Result<(), StageError> {
        let notes = done.entry.notes["more"]["notes"].as_array().into_iter().flatten();
        for note in notes.filter_map(Json::as_str) {
            done.record.note(&format!("{}: {note}", done.task))?;
        }
        Ok(done.record.add_rows::<ExplanationRow>(done.task, &read_known(&done.entry.file(EXPLANATIONS))?)?)
    }
}
