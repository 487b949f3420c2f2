//! Listens to a fit: keeps its traces, times its phases, passes on its progress and the wish to stop.

use super::cancel::Cancel;
use super::clock::{Measured, Stopwatch};
use super::listener::{Listener, Task};
use crate::gp::observer::{Observer, Phase, Progress, TracePoint};
use std::time::{Duration, Instant};

/// More progress than this is noise.
const BETWEEN_REPORTS: Duration = Duration::from_millis(100);

/// Observes one fit.
pub struct FitObserver<'a> {
    task: &'a Task,
    cancel: &'a Cancel,
    listener: &'a dyn Listener,
    current: Option<(Phase, Stopwatch)>,
    last_report: Option<Instant>,
    /// The steps taken.
    pub traces: Vec<TracePoint>,
    /// The phases finished, in order of their first appearance; repeated ones are added up.
    pub phases: Vec<(&'static str, Measured)>,
}

impl<'a> FitObserver<'a> {
    /// Observes this task.
    pub const fn new(task: &'a Task, cancel: &'a Cancel, listener: &'a dyn Listener) -> Self {
        Self { task, cancel, listener, current: None, last_report: None, traces: Vec::new(), phases: Vec::new() }
    }

    /// Ends the phase that is running.
    pub fn finish(&mut self) {
        let Some((phase, watch)) = self.current.take() else { return };
        let measured = watch.read();
        match self.phases.iter_mut().find(|(name, _)| *name == phase.name()) {
            Some((_, total)) => {
                total.wall_s += measured.wall_s;
                total.cpu_s += measured.cpu_s;
                total.peak_rss_bytes = measured.peak_rss_bytes;
            }
            None => self.phases.push((phase.name(), measured)),
        }
    }
}

impl Observer for FitObserver<'_> {
    fn trace(&mut self, point: &TracePoint) {
        self.traces.push(point.clone());
    }

    fn progress(&mut self, progress: Progress) {
        let now = Instant::now();
        if self.last_report.is_none_or(|last| now - last >= BETWEEN_REPORTS) {
            self.last_report = Some(now);
            self.listener.progress(self.task, progress.what, progress.done, progress.total);
        }
    }

    fn phase(&mut self, phase: Phase) {
        self.finish();
        self.current = Some((phase, Stopwatch::start()));
    }

    fn interrupted(&self) -> bool {
        self.cancel.is_set()
    }
}
