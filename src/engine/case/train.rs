//! The train stage of a case: one model per fold.

use super::{CaseRun, Model, Output, Work, failed, lost};
use crate::engine::clock::Stopwatch;
use crate::engine::error::RunError;
use crate::engine::key;
use crate::engine::listener::Task;
use crate::engine::observer::FitObserver;
use crate::engine::record::{VERSION, fold_number};
use crate::engine::source::Folds;
use crate::gp::observer::TracePoint;
use crate::gp::random::StreamKey;
use crate::plan::{Stage, TrainStep};
use crate::stages::train::{self, Provenance};
use crate::store::input::{SourceFile, sha256_file};
use crate::store::model::{InputDigest, TrainingSummary};
use crate::store::{CacheEntry, Draft, InputTable, MODEL_FILE, copy_atomic, link_or_copy, read_table, write_rows};
use crate::tables::{Timestamp, TraceRow};
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use std::rc::Rc;

const TRACES: &str = "traces.parquet";

impl<'a> CaseRun<'a, '_> {
    pub(super) fn train(&mut self, stage: &'a Stage, step: &TrainStep) -> Result<Output, RunError> {
        let Some(Output::Folds(folds)) = self.outputs.get(step.input.as_str()) else { return Err(lost(&step.input)) };
        let folds = Rc::clone(folds);
        let mut models = Vec::with_capacity(stage.folds as usize);
        for fold in 0..stage.folds {
            self.shared.check_cancel()?;
            let task = self.task(stage, Some((fold, stage.folds)));
            models.push(self.train_fold(&task, step, &folds, fold)?);
        }
        Ok(Output::Models { method: step.method.name(), models })
    }

    fn train_fold(&mut self, task: &Task, step: &TrainStep, folds: &Folds, fold: u32) -> Result<Model, RunError> {
        let key = key::train(step, &folds.key.hash, fold, self.shared.plan.seed);
        let entry = self.perform(task, &key, |run, draft| run.fit(task, step, folds, fold, draft))?;
        self.shared.record.add_traces(task, read_table(&entry.file(TRACES))?);
        for warning in entry.notes["more"]["warnings"].as_array().into_iter().flatten().filter_map(Json::as_str) {
            self.shared.record.warn(&format!("{task}: {warning}"))?;
        }
        let path = self.keep_model(task, &entry, step.publish.as_deref())?;
        Ok(Model { hash: key.hash, path })
    }

    fn fit(
        &mut self,
        task: &Task,
        step: &TrainStep,
        folds: &Folds,
        fold: u32,
        draft: &Draft,
    ) -> Result<Work, RunError> {
        let options = key::train_options(step);
        let table = self.load(task, &folds.source)?;
        let all_folds = folds.folds().map_err(failed(task))?;
        let rows = &all_folds[fold as usize].train;
        let watch = Stopwatch::start();
        let mut observer = FitObserver::new(task, self.shared.cancel, self.shared.listener);
        // Keyed by the options that matter, not by the case's name: cases that differ in nothing share their model.
        let stream = StreamKey::new(self.shared.plan.seed).with(&options.to_string()).with_index(u64::from(fold));
        let model =
            train::run(step, &table, &all_folds[fold as usize], &stream, &mut observer).map_err(failed(task))?;
        observer.finish();
        let record = &self.shared.record;
        let mut timings = vec![record.timing(task, "offline", watch.read(), rows.len())];
        timings.extend(observer.phases.iter().map(|(name, time)| record.timing(task, name, *time, rows.len())));
        let traces: Vec<TraceRow> = observer.traces.iter().map(trace_row).collect();
        let summary = self.summary(task, &table, rows.len());
        let file = model.to_file(Provenance { table: &table, rows, summary, options });
        file.save(&draft.file(MODEL_FILE))?;
        write_rows(&draft.file(TRACES), &traces)?;
        let likelihood = file.meta.metrics.get("log_likelihood").copied().flatten().unwrap_or(f64::NAN);
        let outcome = format!("{} rows, log-likelihood {likelihood:.2}", rows.len());
        Ok(Work { timings, outcome, notes: json!({ "warnings": model.warnings() }) })
    }

    fn summary(&self, task: &Task, table: &InputTable, rows: usize) -> TrainingSummary {
        let digest = |file: &SourceFile| InputDigest {
            path: self.shared.plan.redactor.clean(&file.path.display().to_string()),
            sha256: file.sha256.clone(),
            rows: file.rows,
        };
        TrainingSummary {
            rows: rows as u64,
            inputs: table.files.iter().map(digest).collect(),
            seed: self.shared.plan.seed,
            case: task.case.clone(),
            fold: fold_number(task).unwrap_or(0),
            run_id: self.shared.record.run_id.to_string(),
            version: VERSION.to_owned(),
            created: Timestamp::now(),
        }
    }

    /// Puts the model where the run's models are, and where it is published.
    fn keep_model(&mut self, task: &Task, entry: &CacheEntry, publish: Option<&Path>) -> Result<PathBuf, RunError> {
        let record = &mut self.shared.record;
        let fold = fold_number(task).unwrap_or(0);
        let path = record.results.model_path(&self.shared.plan.name, &record.run_id, &task.case, fold);
        let source = entry.file(MODEL_FILE);
        link_or_copy(&source, &path)?;
        record.add_file(&path, sha256_file(&path)?);
        if let Some(directory) = publish {
            copy_atomic(&source, &directory.join(MODEL_FILE))?;
        }
        Ok(path)
    }
}

/// A row without its place, which is added when it is recorded.
fn trace_row(point: &TracePoint) -> TraceRow {
    TraceRow {
        run_id: String::new(),
        stage: String::new(),
        case: String::new(),
        fold: 0,
        particle: point.particle,
        iteration: point.iteration,
        phase: point.phase.to_owned(),
        step: point.step,
        log_likelihood: point.log_likelihood,
        bound: point.bound,
        acceptance: point.acceptance,
        step_size: point.step_size,
        variance: point.variance,
        length: point.length,
        noise: point.noise,
        jitter: point.jitter,
        inducing: point.inducing,
    }
}
