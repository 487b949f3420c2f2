//! One model per fold: fits it, or goes on with a fit that was interrupted, and keeps what it leaves.

use super::file::Provenance;
use super::file::RowSummary;
use super::fold_rows::{FoldRows, FoldTable};
use super::memory::TrainingMemory;
use super::model::TrainedModel;
use super::observer::{Checkpoints, FitObserver};
use super::{StartModel, Train, checkpoint, deep, model, publish, rows, seen, share, together, warm};
use crate::eval::folds::Fold;
use crate::eval::transform::TransformName;
use crate::gp::deep::Checkpoint;
use crate::gp::linalg::Span;
use crate::gp::observer::Observer;
use crate::gp::random::StreamKey;
use crate::stages::evaluate::{self, ChainFigures};
use crate::stages::ingest::TargetOption;
use crate::stages::job::{Record, Task};
use crate::stages::{Collecting, Context, Job, Models, Output, Stage as _, StageError, Work, lost};
use crate::store::input::{SourceFile, sha256_file};
use crate::store::model::{InputDigest, TrainingSummary};
use crate::store::{
    CacheEntry, CheckpointFile, InputTable, MODEL_FILE, ModelFile, link_or_copy, read_known, write_rows,
};
use crate::tables::{Timestamp, TraceRow};
use serde_json::{Map, Value as Json, json};
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

const TRACES: &str = "traces.parquet";

/// Fits the model of a fold.
pub fn fit(stage: &Train, context: &Context<'_>, job: &mut Job<'_, '_>) -> Result<Work, StageError> {
    context.folds_of(&stage.input)?.source.load_outline(job.record)?;
    let number = job.task.fold.map_or(0, |(fold, _)| fold);
    let inputs = FoldInputs::new(stage, context, number)?;
    let FoldInputs { own, start, table, effective, span, .. } = &inputs;
    let start = *start;
    say_start(stage, own.start.as_ref(), job)?;
    let options = effective.key_options();
    let fold = inputs.fold();
    let path = CheckpointFile::path(&job.record.results, &job.key.hash);
    let earlier = if stage.method.is_deep() { earlier(job, &path)? } else { None };
    let checkpoints = Checkpoints { path, key: job.key.hash.clone(), origin: job.origin.clone() };
    let (file, resume) = earlier.unzip();
    let needs = TrainingMemory::new(effective, span.widest() as u64, table.features.ncols() as u64);
    let key = job.key.hash.clone();
    let mut observer = FitObserver::new(job, checkpoints, file.clone(), needs);
    let outcome = together::lead((number, &inputs), context, (resume, file), &key, &mut observer);
    observer.spans.end_phases();
    let FitObserver { traces, kept, failure, .. } = observer;
    if let Some(error) = failure {
        return Err(error.into());
    }
    let ((model, rows_seen), shared) = outcome.map_err(|error| match error {
        StageError::Interrupted { .. } => StageError::Interrupted { kept },
        error => error,
    })?;
    let (record, train) = (&*job.record, &fold.train);
    if let Some(shared) = shared {
        record.note(&format!("{}: {shared}", job.task))?;
    }
    let summary = summary(context, record, job.task, table, train.len());
    let mut file = model.to_file(Provenance { rows: &rows_seen, summary, options });
    file.meta.seen = Some(seen::sketch(table, train));
    if stage.can_start() {
        let work = stage.keys(context, &stage.key_options())?;
        file.meta.started = work.get(number as usize).and_then(|key| warm::started(stage, key, own.start.as_ref()));
    }
    file.save(&job.draft.file(MODEL_FILE))?;
    write_rows(&job.draft.file(TRACES), &traces)?;
    let likelihood = file.meta.metrics.get("log_likelihood").copied().flatten();
    let likelihood = likelihood.map_or_else(String::new, |likelihood| format!(", log-likelihood {likelihood:.2}"));
    let ended = if stage.method.is_deep() { deep::ended(&effective.em, &traces) } else { String::new() };
    let outcome = format!("{} rows{likelihood}{ended}", train.len());
    let mut warnings = match &table.outline {
        Some(_) => rows::warnings_of(table, &rows_seen.constant()),
        None => rows::warnings(table, train),
    };
    warnings.extend(model.warnings());
    if let Some((file, path)) = start
        && !warm::begin(stage, file, path)?.fits(&model.feature_names, model.transform)
    {
        warnings.push(warm::FROM_SCRATCH.to_owned());
    }
    warnings.extend(deep::skipped_warning(traces.iter().map(|row| row.phase.as_str())));
    let sampling = model.sampling_warnings(effective);
    let chains: Map<String, Json> =
        model.chain_metrics().into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    let chains = if chains.is_empty() { Json::Null } else { json!({ "rows": train.len(), "metrics": chains }) };
    Ok(Work {
        rows: train.len(),
        outcome,
        notes: json!({ "warnings": warnings, "sampling": sampling, "chains": chains }),
    })
}

/// A model, and what its file says of its rows.
pub type FittedFold = (TrainedModel, RowSummary);

/// What the model of a fold is fitted to.
pub struct FoldInputs<'a> {
    pub stage: &'a Train,
    own: &'a Models,
    start: Option<(&'a ModelFile, &'a Path)>,
    // All rows, or their outline.
    table: Rc<InputTable>,
    // The rows that are held, where that is an outline.
    held: RefCell<Option<InputTable>>,
    /// Which of the training rows those are.
    pub span: Span,
    folds: Rc<Vec<Fold>>,
    number: usize,
    // What the options come to after a start, for the streams and for the reader.
    effective: Train,
    stream: StreamKey,
    transform: TransformName,
}

impl<'a> FoldInputs<'a> {
    pub fn new(stage: &'a Train, context: &'a Context<'_>, number: u32) -> Result<Self, StageError> {
        let Output::Models(own) = context.output(context.id)? else { return Err(lost(context.id)) };
        let start = own.start.as_ref().and_then(|start| Some((start.file.as_ref()?, start.path.as_path())));
        let folds = context.folds_of(&stage.input)?;
        let table = match start {
            Some((file, path)) => Rc::new(warm::in_order(&*folds.source.table()?, file, path)?),
            None => folds.source.outline()?,
        };
        if let Some(StartModel { file: None, path, .. }) = &own.start {
            return Err(warm::gone(path));
        }
        let effective = if start.is_some() { stage.started() } else { stage.clone() };
        // Keyed by the options that matter, not by the case's name: cases that differ in nothing share their model.
        let stream =
            StreamKey::new(context.seed).with(&effective.stream_options().to_string()).with_index(u64::from(number));
        let transform = folds.source.stage.target.as_ref().map(TargetOption::transform).unwrap_or_default();
        let (source, folds, number) = (Rc::clone(&folds.source), folds.all()?, number as usize);
        let Some(Fold { train, .. }) = folds.get(number) else { return Err(lost(&stage.input)) };
        let mut span = Span::whole(train.len());
        let mut held = None;
        if table.outline.is_some() {
            let features = table.features.ncols();
            if let Some(comm) = together::comm_of(stage)
                && share::whole_because(stage, (features, start.is_some())).is_none()
            {
                span = share::span(stage, (train.len(), features), &**comm);
            }
            held = Some(source.read_some(&train[span.held()])?);
        }
        let held = RefCell::new(held);
        Ok(Self { stage, own, start, table, held, span, folds, number, effective, stream, transform })
    }

    /// Which rows each of so many processes holds.
    pub fn held_rows(&self, processes: usize) -> String {
        let (all, held) = (self.span.all(), self.span.held().len());
        if self.span.is_shared() {
            return format!("{processes} processes, this one with {held} of {all} rows");
        }
        let features = self.table.features.ncols();
        let because = share::whole_because(self.stage, (features, self.start.is_some()));
        let because = because.unwrap_or("columns, weights or targets are not plain numbers");
        format!("{processes} processes, each with all {all} rows: {because}")
    }

    fn fold(&self) -> &Fold {
        &self.folds[self.number]
    }

    /// Trains the model.
    pub fn fit(&self, resume: Option<Checkpoint>, observer: &mut dyn Observer) -> Result<FittedFold, StageError> {
        let beginning = self.start.map(|(file, path)| warm::begin(self.stage, file, path)).transpose()?;
        let stage = (self.stage, beginning);
        let rows = match self.held.take() {
            Some(table) => FoldTable::Held(Box::new(table)),
            None => FoldTable::All(&self.table),
        };
        let rows = FoldRows { table: rows, source: &self.fold().train, span: self.span.clone() };
        model::fit(stage, (rows, self.transform), &self.stream, resume, observer)
    }
}

/// Says what training starts from, where that was asked for.
fn say_start(stage: &Train, start: Option<&StartModel>, job: &Job<'_, '_>) -> Result<(), StageError> {
    let Some(directory) = stage.start_from.as_ref().filter(|_| stage.can_start()) else { return Ok(()) };
    let text = match start {
        Some(start) => format!("training starts from {}", start.path.display()),
        None => format!("no model in {} to start from yet: training starts from scratch", directory.path().display()),
    };
    Ok(job.record.note(&format!("{}: {text}", job.task))?)
}

/// Where an earlier attempt at the same work left off. Work that is asked for again begins again, unless this very
/// run was interrupted in it.
fn earlier(job: &Job<'_, '_>, path: &Path) -> Result<Option<(CheckpointFile, Checkpoint)>, StageError> {
    let (record, task) = (&job.record, job.task);
    let found = match CheckpointFile::load(path, &job.key.hash) {
        Ok(found) => found,
        Err(error) => {
            record.warn(&format!("{task}: {error}"))?;
            return Ok(None);
        }
    };
    let Some(file) = found.filter(|file| !job.forced || file.origin == *job.origin) else { return Ok(None) };
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

fn summary(
    context: &Context<'_>,
    record: &Record<'_>,
    task: &Task,
    table: &InputTable,
    rows: usize,
) -> TrainingSummary {
    let digest = |file: &SourceFile| InputDigest {
        path: record.redactor.clean(&file.path.display().to_string()),
        sha256: file.sha256.clone(),
        rows: file.rows,
    };
    TrainingSummary {
        rows: rows as u64,
        inputs: table.files.iter().map(digest).collect(),
        seed: context.seed,
        case: task.case.clone(),
        fold: task.fold_number().unwrap_or(0),
        run_id: record.run_id.to_string(),
        version: crate::VERSION.to_owned(),
        created: Timestamp::now(),
    }
}

/// Puts the model of a fold where the run's models are, and publishes it if nothing has to be waited for.
pub fn collect(stage: &Train, context: &Context<'_>, done: &mut Collecting<'_, '_>) -> Result<(), StageError> {
    CheckpointFile::remove(&CheckpointFile::path(&done.record.results, &done.key.hash));
    let fold = done.task.fold_number().unwrap_or(0);
    // Rows that come from a checkpoint do not know their fold.
    let traces: Vec<TraceRow> = read_known(&done.entry.file(TRACES))?;
    let traces: Vec<TraceRow> = traces.into_iter().map(|row| TraceRow { fold, ..row }).collect();
    done.record.add_rows(done.task, &traces)?;
    let trained = context.stages.iter().filter(|(_, other)| std::ptr::eq(other.kind(), stage.kind())).count();
    let between = (trained > 1).then_some(context.id);
    let path = done.record.results.model_path(context.pipeline, &done.record.run_id, context.case, between, fold);
    link_or_copy(&done.entry.file(MODEL_FILE), &path)?;
    done.record.add_file(&path, sha256_file(&path)?);
    // With a condition it has to wait for the metrics.
    if let (Some(directory), None) = (&stage.publish, &stage.publish_if) {
        publish::put(&ModelFile::load(&path)?, (directory.path(), stage.publish_keep), context.id, done.record)?;
    }
    Ok(())
}

/// What the chains of all folds say about themselves.
pub fn chain_metrics(
    stage: &Train,
    context: &Context<'_>,
    parts: &[CacheEntry],
    record: &mut Record<'_>,
) -> Result<(), StageError> {
    let figures = |(fold, part): (i32, &CacheEntry)| figures(fold, &part.notes["more"]["chains"]);
    let chains: Vec<ChainFigures> = (0..).zip(parts).filter_map(figures).collect();
    if chains.is_empty() {
        return Ok(());
    }
    let task = context.task(stage.kind().language.name, None);
    let run_id = record.run_id.to_string();
    let (stage, case, method) = (context.id, context.case, stage.method.name());
    let place = evaluate::MetricContext { run_id: &run_id, stage, case, method };
    let rows = evaluate::chains(&place, &chains)?;
    Ok(record.add_rows(&task, &rows)?)
}

fn figures(fold: i32, noted: &Json) -> Option<ChainFigures> {
    let metrics = noted["metrics"].as_object()?;
    Some(ChainFigures {
        fold,
        rows: noted["rows"].as_i64()?,
        metrics: metrics.iter().map(|(name, value)| (name.clone(), value.as_f64())).collect(),
    })
}
