//! The train stage of a case: one model per fold.

use super::{CaseRun, Model, Output, Work, failed, lost};
use crate::engine::error::RunError;
use crate::engine::key::{self, Key};
use crate::engine::listener::Task;
use crate::engine::observer::{Checkpoints, FitObserver};
use crate::engine::record::{VERSION, fold_number};
use crate::engine::source::Folds;
use crate::gp::deep::Checkpoint;
use crate::gp::random::StreamKey;
use crate::plan::{Stage, TrainStep};
use crate::stages::train::{self, Provenance, TrainedModel, checkpoint};
use crate::stages::{StageError, evaluate};
use crate::store::input::{SourceFile, sha256_file};
use crate::store::model::{InputDigest, TrainingSummary, publish};
use crate::store::{
    CacheEntry, CheckpointFile, Draft, InputTable, MODEL_FILE, ModelFile, link_or_copy, read_table, write_rows,
};
use crate::tables::Timestamp;
use serde_json::{Map, Value as Json, json};
use std::path::{Path, PathBuf};
use std::rc::Rc;

const TRACES: &str = "traces.parquet";

impl<'a> CaseRun<'a, '_> {
    pub(super) fn train(&mut self, stage: &'a Stage, step: &TrainStep) -> Result<Output, RunError> {
        let Some(Output::Folds(folds)) = self.outputs.get(step.input.as_str()) else { return Err(lost(&step.input)) };
        let folds = Rc::clone(folds);
        let (mut models, mut chains) = (Vec::with_capacity(stage.folds as usize), Vec::new());
        for fold in 0..stage.folds {
            self.shared.check_cancel()?;
            let task = self.task(stage, Some((fold, stage.folds)));
            let (model, of_chains) = self.train_fold(&task, step, &folds, fold)?;
            models.push(model);
            chains.extend(of_chains);
        }
        let method = step.method.name();
        if !chains.is_empty() {
            let task = self.task(stage, None);
            let run_id = self.shared.record.run_id.to_string();
            let context = evaluate::Context { run_id: &run_id, stage: &task.stage, case: &task.case, method };
            let rows = evaluate::chains(&context, &chains).map_err(failed(&task))?;
            self.shared.record.add_metrics(&task, rows);
        }
        Ok(Output::Models { method, models })
    }

    /// The model of a fold, and what its chains say, if it has any.
    fn train_fold(
        &mut self,
        task: &Task,
        step: &TrainStep,
        folds: &Folds,
        fold: u32,
    ) -> Result<(Model, Option<evaluate::Chains>), RunError> {
        let key = key::train(step, &folds.key.hash, fold, self.shared.plan.seed);
        let entry = self.perform(task, &key, |run, draft| run.fit(task, step, folds, &key, draft))?;
        CheckpointFile::remove(&CheckpointFile::path(&self.shared.record.results, &key.hash));
        self.shared.record.add_traces(task, read_table(&entry.file(TRACES))?);
        let more = &entry.notes["more"];
        for warning in more["warnings"].as_array().into_iter().flatten().filter_map(Json::as_str) {
            self.shared.record.warn(&format!("{task}: {warning}"))?;
        }
        let path = self.keep_model(task, &entry)?;
        // With a condition it has to wait for the metrics.
        if let (Some(directory), None) = (&step.publish, &step.gate) {
            publish(&ModelFile::load(&path)?, directory)?;
        }
        Ok((Model { hash: key.hash, path, file: None }, chains(fold, &more["chains"])))
    }

    fn fit(
        &mut self,
        task: &Task,
        step: &TrainStep,
        folds: &Folds,
        key: &Key,
        draft: &Draft,
    ) -> Result<Work, RunError> {
        let options = key::train_options(step);
        let table = self.load(task, &folds.source)?;
        let number = task.fold.map_or(0, |(fold, _)| fold);
        let all_folds = folds.folds().map_err(failed(task))?;
        let fold = &all_folds[number as usize];
        let path = CheckpointFile::path(&self.shared.record.results, &key.hash);
        let earlier = if step.method.deep().is_some() { self.earlier(task, &path, &key.hash)? } else { None };
        let checkpoints = Checkpoints { path, key: key.hash.clone(), origin: self.origin(task) };
        let mut observer = FitObserver::new(task, self.shared.cancel, self.shared.listener, checkpoints);
        let resume = earlier.map(|(file, state)| {
            observer.go_on(file);
            state
        });
        // Keyed by the options that matter, not by the case's name: cases that differ in nothing share their model.
        let stream = StreamKey::new(self.shared.plan.seed).with(&options.to_string()).with_index(u64::from(number));
        let outcome = train::run(step, &table, fold, &stream, resume, &mut observer);
        if let Some(error) = observer.failure.take() {
            return Err(error.into());
        }
        let model = outcome.map_err(|error| match (error, self.shared.cancel.signal()) {
            (StageError::Interrupted, Some(signal)) => RunError::Interrupted { signal, kept: observer.kept },
            (error, _) => failed(task)(error),
        })?;
        let (record, rows) = (&self.shared.record, &fold.train);
        let timings = observer.timings();
        let timings = timings.iter().map(|(name, time)| record.timing(task, name, *time, rows.len())).collect();
        let summary = self.summary(task, &table, rows.len());
        let file = model.to_file(Provenance { table: &table, rows, summary, options });
        file.save(&draft.file(MODEL_FILE))?;
        write_rows(&draft.file(TRACES), &observer.traces)?;
        let likelihood = file.meta.metrics.get("log_likelihood").copied().flatten().unwrap_or(f64::NAN);
        let outcome = format!("{} rows, log-likelihood {likelihood:.2}", rows.len());
        let mut warnings = model.warnings(&step.method);
        warnings.extend(train::skipped_warning(observer.traces.iter().map(|row| row.phase.as_str())));
        Ok(Work { timings, outcome, notes: json!({ "warnings": warnings, "chains": noted(&model, rows.len()) }) })
    }

    /// Where an earlier attempt at the same work left off. Work that is asked for again begins again, unless this very
    /// run was interrupted in it.
    fn earlier(&self, task: &Task, path: &Path, key: &str) -> Result<Option<(CheckpointFile, Checkpoint)>, RunError> {
        let record = &self.shared.record;
        let found = match CheckpointFile::load(path, key) {
            Ok(found) => found,
            Err(error) => {
                record.warn(&format!("{task}: {error}"))?;
                return Ok(None);
            }
        };
        let Some(file) = found.filter(|file| self.forced(task).is_none() || file.origin == self.origin(task)) else {
            return Ok(None);
        };
        match checkpoint::from_tensors(&file.state) {
            Ok(state) => {
                record.task_resumed(task, file.iteration)?;
                Ok(Some((file, state)))
            }
            Err(detail) => {
                let hint = "training starts from the beginning";
                record.warn(&format!("{task}: {}: a damaged checkpoint file: {detail}; {hint}", path.display()))?;
                Ok(None)
            }
        }
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

    /// Puts the model where the run's models are.
    fn keep_model(&mut self, task: &Task, entry: &CacheEntry) -> Result<PathBuf, RunError> {
        let record = &mut self.shared.record;
        let fold = fold_number(task).unwrap_or(0);
        let trained = self.case.stages.iter().filter(|stage| stage.step.kind() == "train").count();
        let stage = (trained > 1).then_some(task.stage.as_str());
        let path = record.results.model_path(&self.shared.plan.name, &record.run_id, &task.case, stage, fold);
        let source = entry.file(MODEL_FILE);
        link_or_copy(&source, &path)?;
        record.add_file(&path, sha256_file(&path)?);
        Ok(path)
    }
}

/// What the chains of a model say, for its cache entry; null if it has none.
fn noted(model: &TrainedModel, rows: usize) -> Json {
    let metrics: Map<String, Json> =
        model.chain_metrics().into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    if metrics.is_empty() { Json::Null } else { json!({ "rows": rows, "metrics": metrics }) }
}

/// The same, taken from a cache entry.
fn chains(fold: u32, noted: &Json) -> Option<evaluate::Chains> {
    let metrics = noted["metrics"].as_object()?;
    Some(evaluate::Chains {
        fold: fold as i32,
        rows: noted["rows"].as_i64()?,
        metrics: metrics.iter().map(|(name, value)| (name.clone(), value.as_f64())).collect(),
    })
}
