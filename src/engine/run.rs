//! A run from beginning to end.

use super::cancel::Cancel;
use super::case::CaseRun;
use super::error::RunError;
use super::listener::Listener;
use super::locks;
use super::record::Record;
use super::resume::Resume;
use super::source::Source;
use crate::plan::{IngestStep, Plan, Stage};
use crate::stages::StageError;
use crate::store::{Cache, StoreError};
use crate::tables::MetricRow;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// What is not in the plan.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Threads in use.
    pub threads: usize,
    /// The command line, for the record.
    pub command: String,
    /// Whether an earlier run goes on.
    pub resume: Resume,
    /// Which stages.
    pub selected: Selected,
    /// Finish the other cases when one fails.
    pub keep_going: bool,
    /// How long to wait for locks.
    pub lock_timeout: Duration,
}

/// Which stages run, and which of them even if nothing changed.
#[derive(Clone, Debug, Default)]
pub struct Selected {
    /// Do everything again.
    pub force: bool,
    /// Do this stage and all later ones again.
    pub from: Option<String>,
    /// Stop after this stage.
    pub to: Option<String>,
}

impl Selected {
    /// Why a stage is to be done again although nothing changed, if it is.
    pub fn forced(&self, stages: &[Stage], id: &str) -> Option<&'static str> {
        let position = |id: &str| stages.iter().position(|stage| stage.id == id);
        let from = self.from.as_deref().and_then(position);
        match (from, position(id)) {
            _ if self.force => Some("asked for by --force"),
            (Some(from), Some(here)) if here >= from => Some("asked for by --from or --only"),
            _ => None,
        }
    }
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The run's name.
    pub run_id: String,
    /// Its metrics.
    pub metrics: Vec<MetricRow>,
    /// How many pieces of work were done.
    pub done: u64,
    /// How many were taken from the cache.
    pub cached: u64,
    /// What went wrong in cases that failed, with `keep_going`.
    pub failures: Vec<String>,
    /// Where the report is, if there is one.
    pub report: Option<PathBuf>,
}

/// A run that ended early.
#[derive(Debug)]
pub struct RunFailure {
    /// The run, if it came to be one: then it can be resumed.
    pub run_id: Option<String>,
    /// Why.
    pub error: Box<RunError>,
}

/// What the stages of a run share.
pub struct Shared<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// How it is run.
    pub options: &'a RunOptions,
    /// Finished work.
    pub cache: Cache,
    /// The wish to stop.
    pub cancel: &'a Cancel,
    /// Who is told.
    pub listener: &'a dyn Listener,
    /// What the run leaves behind.
    pub record: Record<'a>,
    /// Pieces of work done.
    pub done: u64,
    /// Pieces of work skipped.
    pub cached: u64,
    sources: Vec<Rc<Source>>,
}

impl Shared<'_> {
    /// The rows of an ingest stage, shared by all stages that read the same.
    pub fn source(&mut self, step: &IngestStep) -> Result<Rc<Source>, StageError> {
        if let Some(known) = self.sources.iter().find(|source| source.step == *step) {
            return Ok(Rc::clone(known));
        }
        let source = Rc::new(Source::new(step)?);
        self.sources.push(Rc::clone(&source));
        Ok(source)
    }

    /// Ends early when a signal asked for it.
    pub fn check_cancel(&self) -> Result<(), RunError> {
        self.cancel.signal().map_or(Ok(()), |signal| Err(RunError::Interrupted { signal, kept: None }))
    }
}

/// Runs the plan. Tables and manifest are written at the end, or not at all.
pub fn run(plan: &Plan, options: &RunOptions, cancel: &Cancel, listener: &dyn Listener) -> Result<Summary, RunFailure> {
    let before = |error| RunFailure { run_id: None, error: Box::new(error) };
    let _locks = locks::acquire(plan, options.lock_timeout, cancel, listener).map_err(before)?;
    let record = Record::open(plan, options, listener).map_err(before)?;
    let run_id = record.run_id.to_string();
    let cache = Cache::new(&record.results);
    cache.sweep();
    let _in_use = cache.hold().map_err(|error| before(error.into()))?;
    let mut shared = Shared { plan, options, cache, cancel, listener, record, done: 0, cached: 0, sources: Vec::new() };
    let failures = match run_cases(&mut shared) {
        Ok(failures) => failures,
        Err(error) => {
            let status = if matches!(error, RunError::Interrupted { .. }) { "interrupted" } else { "failed" };
            // The first error is the one to report; a full disk may well prevent the record of it.
            let _ = shared.record.end(status);
            return Err(RunFailure { run_id: Some(run_id), error: Box::new(error) });
        }
    };
    let (done, cached) = (shared.done, shared.cached);
    let status = if failures.is_empty() { "succeeded" } else { "failed" };
    match shared.record.complete(status) {
        Ok(record) => {
            let report = record.report();
            let done = done + u64::from(report.is_some());
            Ok(Summary { run_id, metrics: record.metrics, done, cached, failures, report })
        }
        Err(error) => Err(RunFailure { run_id: Some(run_id), error: Box::new(error) }),
    }
}

/// Runs all cases; with `keep_going`, what failed is returned, else the first failure ends it.
fn run_cases<'a>(shared: &mut Shared<'a>) -> Result<Vec<String>, RunError> {
    let mut failures = Vec::new();
    let plan: &'a Plan = shared.plan;
    for case in &plan.cases {
        let Err(error) = CaseRun::new(case, shared).run() else { continue };
        let error = interruption(error, shared.cancel);
        // A disk that is full for one case is full for all.
        let of_this_case = matches!(&error, RunError::Stage { source, .. } if !is_write(source));
        if !(shared.options.keep_going && of_this_case) {
            return Err(error);
        }
        let text = shared.plan.redactor.clean(&error.to_string());
        shared.record.warn(&format!("{text}; going on with the other cases"))?;
        failures.push(text);
    }
    Ok(failures)
}

fn is_write(error: &StageError) -> bool {
    matches!(error, StageError::Store(StoreError::Write { .. }))
}

/// A stage that stopped because it was told to did not fail.
fn interruption(error: RunError, cancel: &Cancel) -> RunError {
    match (&error, cancel.signal()) {
        (RunError::Stage { source: StageError::Interrupted, .. }, Some(signal)) => {
            RunError::Interrupted { signal, kept: None }
        }
        _ => error,
    }
}
