//! Shows a run as it goes: a bar on a terminal, lines everywhere.

use super::logging::LogFormat;
use crate::stages::job::{ChainProgress, Finished, Listener, Progress, Task};
use crate::text::{printable, roughly};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A bar for the whole run, hidden where nobody could see it move.
pub struct ProgressBars {
    bars: MultiProgress,
    whole: OnceLock<ProgressBar>,
    visible: bool,
    last_line: Mutex<Instant>,
}

/// Where there is no bar, long work says this often how far it is.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

impl ProgressBars {
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

    pub fn finish(&self) {
        if let Some(bar) = self.whole.get() {
            bar.finish_and_clear();
        }
    }

    fn show(&self, task: &Task, text: &str) {
        if let Some(bar) = self.whole.get() {
            bar.set_prefix(printable(&task.to_string()));
            bar.set_message(printable(text));
        }
    }
}

impl Listener for ProgressBars {
    fn run_started(&self, run_id: &str, tasks: u64) {
        tracing::info!(run_id, tasks, "run {run_id}: {tasks} task(s)");
        let bar = self.whole.get_or_init(|| self.bars.add(ProgressBar::new(tasks)));
        // A command may run several pipelines.
        bar.set_length(tasks);
        bar.reset();
        // A template that indicatif refuses leaves its plain default.
        if let Ok(style) = ProgressStyle::with_template("{bar:20} {pos}/{len} {elapsed} {prefix}\n{wide_msg}") {
            bar.set_style(style);
        }
        if self.visible {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
    }

    fn task_started(&self, task: &Task) {
        self.show(task, "");
        tracing::debug!(case = task.case, stage = task.stage, fold = fold(task), "{task}: started");
    }

    fn task_resumed(&self, task: &Task, iteration: u64) {
        tracing::info!(
            case = task.case,
            stage = task.stage,
            fold = fold(task),
            iteration,
            "{task}: going on after EM iteration {iteration}"
        );
    }

    fn progress(&self, task: &Task, progress: &Progress, left: Option<Duration>) {
        let text = format!("{task}: {}", describe(progress, left));
        let mut last = self.last_line.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.visible && last.elapsed() >= BETWEEN_LINES {
            *last = Instant::now();
            let Progress { what, done, total, chains } = *progress;
            tracing::info!(
                case = task.case,
                stage = task.stage,
                fold = fold(task),
                what,
                done,
                total,
                em_iteration = chains.map(|chains| chains.iteration),
                em_iterations = chains.map(|chains| chains.iterations),
                log_likelihood = chains.map(|chains| chains.log_likelihood),
                acceptance = chains.map(|chains| chains.acceptance),
                seconds_left = left.map(|left| left.as_secs_f64()),
                "{text}"
            );
        }
        self.show(task, &briefly(progress, left));
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

    fn note(&self, text: &str) {
        tracing::info!("{text}");
    }

    fn warning(&self, text: &str) {
        tracing::warn!("{text}");
    }
}

fn fold(task: &Task) -> Option<u32> {
    task.fold.map(|(fold, _)| fold)
}

/// "EM 3 of 10, transitions 36 of 170, log-likelihood -6543.21, acceptance 0.81, about 2 min left".
fn describe(progress: &Progress, left: Option<Duration>) -> String {
    let Progress { what, done, total, chains } = *progress;
    let total = total.map_or_else(String::new, |total| format!(" of {total}"));
    let mut parts = vec![format!("{what} {done}{total}")];
    if let Some(ChainProgress { iteration, iterations, log_likelihood, acceptance }) = chains {
        parts.insert(0, format!("EM {iteration} of {iterations}"));
        parts.push(format!("log-likelihood {log_likelihood:.2}, acceptance {acceptance:.2}"));
    }
    parts.extend(left.map(|left| format!("about {} left", roughly(left))));
    parts.join(", ")
}

/// The same in less than the 80 columns of a terminal, which shows the task beside the bar.
fn briefly(progress: &Progress, left: Option<Duration>) -> String {
    let Progress { what, done, total, chains } = *progress;
    let total = total.map_or_else(String::new, |total| format!("/{total}"));
    let mut parts = vec![format!("{what} {done}{total}")];
    if let Some(ChainProgress { iteration, iterations, log_likelihood, acceptance }) = chains {
        parts.insert(0, format!("EM {iteration}/{iterations}"));
        parts.push(format!("ℓ {log_likelihood:.1}"));
        parts.push(format!("accepted {acceptance:.2}"));
    }
    parts.extend(left.map(|left| format!("{} left", roughly(left))));
    parts.join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_how_far_it_is() {
        let mut progress = Progress { what: "starts", done: 3, total: Some(5), chains: None };
        assert_eq!(describe(&progress, None), "starts 3 of 5");
        progress.total = None;
        assert_eq!(describe(&progress, None), "starts 3");
        let chains = ChainProgress { iteration: 3, iterations: 10, log_likelihood: -6543.214, acceptance: 0.812 };
        let left = Some(Duration::from_secs(130));
        progress = Progress { what: "transitions", done: 36, total: Some(170), chains: Some(chains) };
        assert_eq!(
            describe(&progress, left),
            "EM 3 of 10, transitions 36 of 170, log-likelihood -6543.21, acceptance 0.81, about 2 min left"
        );
        let brief = briefly(&progress, left);
        assert_eq!(brief, "EM 3/10  transitions 36/170  ℓ -6543.2  accepted 0.81  2 min left");
        assert!(brief.chars().count() < 80);
    }
}
