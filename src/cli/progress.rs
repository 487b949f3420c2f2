//! Shows a run as it goes: a bar on a terminal, lines everywhere.

use super::logging::LogFormat;
use crate::engine::{Finished, Listener, Task};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A bar for the whole run, hidden where nobody could see it move.
pub struct Progress {
    bars: MultiProgress,
    whole: OnceLock<ProgressBar>,
    visible: bool,
    last_line: Mutex<Instant>,
}

/// Where there is no bar, long work says this often how far it is.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

impl Progress {
    /// Bars on a terminal's stderr only, and not between JSON lines.
    pub fn new(format: LogFormat, quiet: bool) -> Self {
        let visible = std::io::stderr().is_terminal() && format == LogFormat::Text && !quiet;
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self {
            bars: MultiProgress::with_draw_target(target),
            whole: OnceLock::new(),
            visible,
            last_line: Mutex::new(Instant::now()),
        }
    }

    /// Where log lines find the bars to step around.
    pub const fn bars(&self) -> &MultiProgress {
        &self.bars
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Some(bar) = self.whole.get() {
            bar.finish_and_clear();
        }
    }

    fn show(&self, text: String) {
        if let Some(bar) = self.whole.get() {
            bar.set_message(text);
        }
    }
}

impl Listener for Progress {
    fn run_started(&self, run_id: &str, tasks: u64) {
        tracing::info!(run_id, tasks, "run {run_id}: {tasks} task(s)");
        let bar = self.whole.get_or_init(|| self.bars.add(ProgressBar::new(tasks)));
        // A template that indicatif refuses leaves its plain default.
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} (about {eta} left) {wide_msg}")
        {
            bar.set_style(style);
        }
        if self.visible {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
    }

    fn task_started(&self, task: &Task) {
        self.show(task.to_string());
        tracing::debug!(case = task.case, stage = task.stage, fold = fold(task), "{task}: started");
    }

    fn progress(&self, task: &Task, what: &str, done: usize, total: Option<usize>) {
        let total = total.map_or_else(String::new, |total| format!(" of {total}"));
        let text = format!("{task}: {what} {done}{total}");
        let mut last = self.last_line.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.visible && last.elapsed() >= BETWEEN_LINES {
            *last = Instant::now();
            tracing::info!(case = task.case, stage = task.stage, fold = fold(task), "{text}");
        }
        self.show(text);
    }

    fn task_finished(&self, task: &Task, finished: &Finished) {
        let Finished { seconds, cached, reason, outcome } = finished;
        let verb = if *cached { "skipped" } else { "done" };
        tracing::info!(
            case = task.case,
            stage = task.stage,
            fold = fold(task),
            seconds,
            cached,
            "{task}: {verb} in {seconds:.2} s ({reason}): {outcome}"
        );
        *self.last_line.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        if let Some(bar) = self.whole.get() {
            bar.inc(1);
        }
    }

    fn warning(&self, text: &str) {
        tracing::warn!("{text}");
    }
}

fn fold(task: &Task) -> Option<u32> {
    task.fold.map(|(fold, _)| fold)
}
