//! One case, stage by stage: decide by key whether there is work, do it or take it from the cache, note it.

mod evaluate;
mod predict;
mod publish;
mod score;
mod train;

use super::clock::Stopwatch;
use super::error::RunError;
use super::key::{self, Key};
use super::listener::{Finished, Task};
use super::predicted::Predicted;
use super::record::fold_number;
use super::run::Shared;
use super::source::{Folds, Source};
use crate::plan::{Case, SplitStep, Stage, Step};
use crate::stages::{StageError, ingest};
use crate::store::{CacheEntry, Draft, InputTable, ModelFile, read_table, write_rows};
use crate::tables::{MetricRow, TimingRow};
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;

/// Every cache entry says what it cost.
const TIMINGS: &str = "timings.parquet";

/// What a stage hands to later ones.
enum Output {
    Source(Rc<Source>),
    Folds(Rc<Folds>),
    Models { method: &'static str, models: Vec<Model> },
    Predictions { method: String, keys: Vec<String>, parts: Vec<Predicted> },
    Metrics(Vec<MetricRow>),
    Report,
}

/// A trained model on disk.
#[derive(Clone)]
struct Model {
    hash: String,
    path: PathBuf,
    /// What was read when its hash was taken, of a published model, which may be replaced at any time.
    file: Option<Rc<ModelFile>>,
}

/// What was done: its cost, its result in a few words, and whatever else its cache entry should say.
struct Work {
    timings: Vec<TimingRow>,
    outcome: String,
    notes: Json,
}

/// A case being run.
pub struct CaseRun<'a, 'b> {
    case: &'a Case,
    shared: &'b mut Shared<'a>,
    outputs: HashMap<&'a str, Output>,
}

impl<'a, 'b> CaseRun<'a, 'b> {
    /// A case before its first stage.
    pub fn new(case: &'a Case, shared: &'b mut Shared<'a>) -> Self {
        Self { case, shared, outputs: HashMap::new() }
    }

    /// Runs all stages in order.
    pub fn run(mut self) -> Result<(), RunError> {
        for stage in &self.case.stages {
            self.shared.check_cancel()?;
            let output = match &stage.step {
                Step::Ingest(step) => {
                    let task = self.task(stage, None);
                    let source = self.shared.source(step).map_err(failed(&task))?;
                    for (path, sha256) in source.contents() {
                        self.shared.record.add_input_file(path, sha256);
                    }
                    self.ingest(&task, &source)?;
                    Output::Source(source)
                }
                Step::Split(step) => Output::Folds(self.split(stage, step)?),
                Step::Train(step) => self.train(stage, step)?,
                Step::Predict(step) => self.predict(stage, step)?,
                Step::Evaluate(step) => self.evaluate(stage, step)?,
                Step::Report(step) => {
                    self.shared.record.want_report(&stage.id, &step.inputs);
                    Output::Report
                }
            };
            self.outputs.insert(&stage.id, output);
            if self.shared.options.selected.to.as_ref() == Some(&stage.id) {
                break;
            }
        }
        self.publish_gated()
    }

    fn task(&self, stage: &Stage, fold: Option<(u32, u32)>) -> Task {
        Task { case: self.case.label.clone(), stage: stage.id.clone(), kind: stage.step.kind(), fold }
    }

    /// The run and the piece of work, by which the run knows again what it did before it was interrupted.
    fn origin(&self, task: &Task) -> Json {
        json!([self.shared.record.run_id, place(&self.shared.plan.name, task)])
    }

    /// Why a task is to be done again although nothing changed, if it is.
    fn forced(&self, task: &Task) -> Option<&'static str> {
        self.shared.options.selected.forced(&self.case.stages, &task.stage)
    }

    /// Does a piece of work, or takes it from the cache; tells, times and remembers it either way.
    fn perform(
        &mut self,
        task: &Task,
        key: &Key,
        work: impl FnOnce(&mut Self, &Draft) -> Result<Work, RunError>,
    ) -> Result<CacheEntry, RunError> {
        let place = place(&self.shared.plan.name, task);
        let place: Vec<&str> = place.iter().map(String::as_str).collect();
        let forced = self.forced(task);
        // Work that this run itself did here before it was interrupted is neither done again nor somebody else's.
        let origin = self.origin(task);
        let own = |entry: &CacheEntry| entry.notes["origin"] == origin;
        let found = self.shared.cache.look_up(&key.hash).filter(|entry| forced.is_none() || own(entry));
        let cached = found.as_ref().is_some_and(|entry| !own(entry));
        let reason = match (&found, forced) {
            (Some(entry), _) if own(entry) => "done before the interruption".to_owned(),
            (Some(_), _) => "unchanged".to_owned(),
            (None, Some(asked)) => asked.to_owned(),
            (None, None) => key::reason(self.shared.cache.recall(&place).as_ref(), &key.parts),
        };
        self.shared.record.task_started(task, &key.hash)?;
        let watch = Stopwatch::start();
        let entry = if let Some(entry) = found {
            entry
        } else {
            let draft = self.shared.cache.begin(&key.hash)?;
            let Work { timings, outcome, notes } = work(self, &draft)?;
            write_rows(&draft.file(TIMINGS), &timings)?;
            draft.commit(json!({ "origin": origin, "outcome": outcome, "more": notes }))?
        };
        self.shared.record.use_cache(&key.hash);
        self.shared.cache.remember(&place, &key.parts)?;
        self.shared.record.add_timings(task, read_table(&entry.file(TIMINGS))?, cached);
        *(if cached { &mut self.shared.cached } else { &mut self.shared.done }) += 1;
        let outcome = entry.notes["outcome"].as_str().unwrap_or_default().to_owned();
        let finished = Finished { seconds: watch.read().wall_s, cached, reason, outcome };
        self.shared.record.task_finished(task, &finished)?;
        Ok(entry)
    }

    fn ingest(&mut self, task: &Task, source: &Source) -> Result<(), RunError> {
        self.perform(task, &source.key, |run, _| {
            let watch = Stopwatch::start();
            if source.step.streams {
                let rows = ingest::rows(&source.step, source.files()).map_err(failed(task))?;
                let timings = vec![run.shared.record.timing(task, "ingest", watch.read(), rows as usize)];
                return Ok(Work { timings, outcome: format!("{rows} rows"), notes: Json::Null });
            }
            let table = run.load(task, source)?;
            let outcome = format!("{} rows × {} features", table.row_count, table.feature_names.len());
            let timings = vec![run.shared.record.timing(task, "ingest", watch.read(), table.row_count)];
            Ok(Work { timings, outcome, notes: Json::Null })
        })?;
        Ok(())
    }

    /// The rows of an input, with what is worth saying about them said once.
    fn load(&mut self, task: &Task, source: &Source) -> Result<Rc<InputTable>, RunError> {
        let fresh = !source.is_loaded();
        let table = source.table().map_err(failed(task))?;
        if fresh {
            self.shared.record.add_input(&table);
            for warning in ingest::warnings(&source.step, &table) {
                self.shared.record.warn(&warning)?;
            }
        }
        Ok(table)
    }

    fn split(&mut self, stage: &'a Stage, step: &SplitStep) -> Result<Rc<Folds>, RunError> {
        let task = self.task(stage, None);
        let Some(Output::Source(source)) = self.outputs.get(step.input.as_str()) else { return Err(lost(&step.input)) };
        let source = Rc::clone(source);
        let folds = Rc::new(Folds::new(step, &source, self.shared.plan.seed));
        self.perform(&task, &folds.key, |run, _| {
            let table = run.load(&task, &source)?;
            let watch = Stopwatch::start();
            let count = folds.folds().map_err(failed(&task))?.len();
            let timings = vec![run.shared.record.timing(&task, "split", watch.read(), table.row_count)];
            Ok(Work { timings, outcome: format!("{count} fold(s)"), notes: Json::Null })
        })?;
        Ok(folds)
    }
}

/// Where the cache remembers what a task depended on.
fn place(pipeline: &str, task: &Task) -> Vec<String> {
    let last = fold_number(task).map_or_else(|| "all".to_owned(), |fold| format!("fold{fold}"));
    vec![pipeline.to_owned(), task.case.clone(), task.stage.clone(), last]
}

fn failed(task: &Task) -> impl Fn(StageError) -> RunError + use<> {
    let task = task.clone();
    move |source| RunError::Stage { task: Box::new(task.clone()), source }
}

/// An output that the plan says is there.
fn lost(stage: &str) -> RunError {
    RunError::Bug(format!("the output of stage `{stage}` is not there"))
}
