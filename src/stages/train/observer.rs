//! Listens to a fit: keeps its traces and checkpoints, times its phases, passes on its progress and the wish to stop.

use super::checkpoint::to_tensors;
use super::memory::TrainingMemory;
use crate::gp::deep::Checkpoint;
use crate::gp::observer::{Observer, Phase, Progress, TracePoint};
use crate::stages::Job;
use crate::stages::job::{Cancel, Listener, Pace, Spans, Task};
use crate::store::{CheckpointFile, StoreError};
use crate::tables::TraceRow;
use serde_json::Value as Json;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// More progress than this is noise.
const BETWEEN_REPORTS: Duration = Duration::from_millis(100);

/// The phase that the others are parts of.
const WHOLE: &str = "offline";

/// Where checkpoints of a fit go, and what they say of themselves.
pub struct Checkpoints {
    pub path: PathBuf,
    /// Hash of what the fit depends on.
    pub key: String,
    /// The run and the piece of work.
    pub origin: Json,
}

/// Observes one fit.
pub struct FitObserver<'a> {
    task: &'a Task,
    cancel: &'a Cancel,
    listener: &'a dyn Listener,
    pub spans: &'a mut Spans,
    checkpoints: Checkpoints,
    begun: Instant,
    last_report: Option<Instant>,
    pace: Pace,
    pub traces: Vec<TraceRow>,
    /// The iteration of the latest checkpoint.
    pub kept: Option<u64>,
    /// Why a checkpoint could not be written: then the fit is asked to stop.
    pub failure: Option<StoreError>,
    /// Bytes for what could be computed again.
    memory: u64,
}

impl<'a> FitObserver<'a> {
    /// Observes a job from the beginning, or from where an earlier attempt was interrupted.
    pub fn new(
        job: &'a mut Job<'_, '_>,
        checkpoints: Checkpoints,
        earlier: Option<CheckpointFile>,
        needs: TrainingMemory,
    ) -> Self {
        let kept = earlier.as_ref().map(|file| file.iteration);
        let (timings, traces) = earlier.map_or_else(Default::default, |file| (file.timings, file.traces));
        job.spans.go_on(timings);
        job.spans.phase(WHOLE);
        Self {
            task: job.task,
            cancel: job.cancel,
            listener: job.record.listener,
            spans: job.spans,
            checkpoints,
            begun: Instant::now(),
            last_report: None,
            pace: Pace::default(),
            traces,
            kept,
            failure: None,
            memory: needs.left(job.memory),
        }
    }
}

impl Observer for FitObserver<'_> {
    fn trace(&mut self, point: &TracePoint) {
        self.traces.push(trace_row(self.task, point));
    }

    fn progress(&mut self, progress: Progress) {
        let now = Instant::now();
        let left = match (progress.chains, progress.total) {
            (Some(_), Some(total)) => self.pace.left(now, progress.done, total),
            _ => None,
        };
        if self.last_report.is_none_or(|last| now - last >= BETWEEN_REPORTS) {
            self.last_report = Some(now);
            self.listener.progress(self.task, &progress, left);
        }
    }

    fn phase(&mut self, phase: Phase) {
        self.spans.phase(phase.name());
    }

    fn checkpoint(&mut self, state: &Checkpoint) {
        let file = CheckpointFile {
            key: self.checkpoints.key.clone(),
            origin: self.checkpoints.origin.clone(),
            iteration: state.iteration as u64,
            timings: self.spans.spent(),
            traces: std::mem::take(&mut self.traces),
            state: to_tensors(state),
        };
        match file.save(&self.checkpoints.path) {
            Ok(_) => self.kept = Some(file.iteration),
            Err(error) => drop(self.failure.get_or_insert(error)),
        }
        self.traces = file.traces;
    }

    fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn memory(&self) -> u64 {
        self.memory
    }

    fn interrupted(&self) -> bool {
        self.cancel.is_set() || self.failure.is_some()
    }
}

/// A row without its run, stage and case, which it gets when it is recorded.
fn trace_row(task: &Task, point: &TracePoint) -> TraceRow {
    TraceRow {
        run_id: String::new(),
        stage: String::new(),
        case: String::new(),
        fold: task.fold_number().unwrap_or(0),
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
