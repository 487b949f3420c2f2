//! Shows a run as it goes: a bar on a terminal, lines everywhere.

use super::logging::LogFormat;
use crate::stages::job::{ChainProgress, Course, Finished, Listener, Progress, Task, Workload};
use crate::text::{printable, roughly};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A bar for the whole run, hidden where nobody could see it move; there, lines say how far it is.
pub struct ProgressBars {
    bars: MultiProgress,
    whole: OnceLock<ProgressBar>,
    visible: bool,
    quiet: bool,
    started: Arc<OnceLock<String>>,
    state: Arc<Mutex<Shown>>,
    /// Closed when the run ends.
    beats: Mutex<Option<Sender<()>>>,
}

/// What lines and the bar are made of.
struct Shown {
    last_line: Instant,
    course: Course,
    task: Option<Task>,
}

/// Where there is no bar, long work says this often how far it is.
const BETWEEN_LINES: Duration = Duration::from_secs(10);
/// How often it is looked whether that is due.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// The bar's length: it moves with the cost of the work, not with the number of its pieces.
const LENGTH: u64 = 1000;

impl ProgressBars {
    /// Bars on a terminal's stderr only, and not between JSON lines.
    pub fn new(format: LogFormat, quiet: bool) -> Self {
        let visible = std::io::stderr().is_terminal() && format == LogFormat::Text && !quiet;
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let state = Shown { last_line: Instant::now(), course: Course::default(), task: None };
        Self {
            bars: MultiProgress::with_draw_target(target),
            whole: OnceLock::new(),
            visible,
            quiet,
            started: Arc::default(),
            state: Arc::new(Mutex::new(state)),
            beats: Mutex::new(None),
        }
    }

    /// Where log lines find the bars to step around.
    pub const fn bars(&self) -> &MultiProgress {
        &self.bars
    }

    /// The run, once it has begun.
    pub fn started(&self) -> Arc<OnceLock<String>> {
        Arc::clone(&self.started)
    }

    pub fn finish(&self) {
        drop(self.beats.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(bar) = self.whole.get() {
            bar.finish_and_clear();
        }
    }

    fn state(&self) -> MutexGuard<'_, Shown> {
        locked(&self.state)
    }

    fn show(&self, task: &Task, text: &str) {
        if let Some(bar) = self.whole.get() {
            let share = self.state().course.share(Instant::now());
            bar.set_position((share * LENGTH as f64) as u64);
            bar.set_prefix(printable(&task.to_string()));
            bar.set_message(printable(text));
        }
    }

    /// Work that is silent for long says that it goes on.
    fn start_beats(&self) {
        if self.visible || self.quiet {
            return;
        }
        let (sender, closed) = channel();
        *self.beats.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        let state = Arc::clone(&self.state);
        std::thread::spawn(move || {
            while closed.recv_timeout(BETWEEN_LOOKS) == Err(RecvTimeoutError::Timeout) {
                locked(&state).beat(Instant::now());
            }
        });
    }
}

fn locked(state: &Mutex<Shown>) -> MutexGuard<'_, Shown> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shown {
    /// The task that nothing was said of for long, how long it has taken, and how long the run will still take.
    fn due(&mut self, now: Instant) -> Option<(Task, Duration, Option<Duration>)> {
        let (task, elapsed) = (self.task.clone()?, self.course.elapsed(now)?);
        if now.duration_since(self.last_line) < BETWEEN_LINES {
            return None;
        }
        self.last_line = now;
        Some((task, elapsed, self.course.left(now)))
    }

    /// Says that the work goes on, if that is due.
    fn beat(&mut self, now: Instant) {
        let Some((task, elapsed, left)) = self.due(now) else { return };
        let (seconds, text) = (elapsed.as_secs_f64(), still(elapsed, left));
        tracing::info!(
            case = task.case,
            stage = task.stage,
            fold = fold(&task),
            seconds,
            seconds_left = left.map(|left| left.as_secs_f64()),
            "{task}: {text}"
        );
    }
}

/// "at it for 40 s, about 3 min left in all".
fn still(elapsed: Duration, left: Option<Duration>) -> String {
    let left = left.map_or_else(String::new, |left| format!(", about {} left in all", roughly(left)));
    format!("at it for {}{left}", roughly(elapsed))
}

impl Listener for ProgressBars {
    fn run_started(&self, run_id: &str, tasks: u64) {
        let _ = self.started.set(run_id.to_owned());
        tracing::info!(run_id, tasks, "run {run_id}: {tasks} task(s)");
        let bar = self.whole.get_or_init(|| self.bars.add(ProgressBar::new(LENGTH)));
        // A command may run several pipelines.
        bar.reset();
        // A template that indicatif refuses leaves its plain default.
        if let Ok(style) = ProgressStyle::with_template("{bar:20} {percent:>3} % {elapsed} {prefix}\n{wide_msg}") {
            bar.set_style(style);
        }
        if self.visible {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        self.start_beats();
    }

    fn planned(&self, work: Workload) {
        let total = work.total();
        if total >= BETWEEN_LINES {
            tracing::info!(seconds = total.as_secs_f64(), "about {} of work", roughly(total));
        }
        self.state().course = Course::new(work);
    }

    fn task_started(&self, task: &Task) {
        {
            let mut state = self.state();
            state.course.begin(task, Instant::now());
            state.task = Some(task.clone());
        }
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
        let now = Instant::now();
        let (due, left) = {
            let mut state = self.state();
            if let Some(left) = left {
                state.course.correct(now, left);
            }
            let due = !self.visible && now.duration_since(state.last_line) >= BETWEEN_LINES;
            if due {
                state.last_line = now;
            }
            // Rows that are scored without a pipeline are all there is to do.
            (due, state.course.left(now).or(left))
        };
        if due {
            let text = format!("{task}: {}", describe(progress, left));
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
        let now = Instant::now();
        let mut state = self.state();
        state.last_line = now;
        state.course.finish(*cached, now);
        state.task = None;
        if let Some(bar) = self.whole.get() {
            bar.set_position((state.course.share(now) * LENGTH as f64) as u64);
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

/// "EM 3 of 10, transitions 36 of 170, log-likelihood -6543.21, acceptance 0.81, about 2 min left in all".
fn describe(progress: &Progress, left: Option<Duration>) -> String {
    let Progress { what, done, total, chains } = *progress;
    let total = total.map_or_else(String::new, |total| format!(" of {total}"));
    let mut parts = vec![format!("{what} {done}{total}")];
    if let Some(ChainProgress { iteration, iterations, log_likelihood, acceptance }) = chains {
        parts.insert(0, format!("EM {iteration} of {iterations}"));
        parts.push(format!("log-likelihood {log_likelihood:.2}, acceptance {acceptance:.2}"));
    }
    parts.extend(left.map(|left| format!("about {} left in all", roughly(left))));
    parts.join(", ")
}

/// The same in less than the 80 columns of a terminal, which shows the task beside the bar.
pub fn briefly(progress: &Progress, left: Option<Duration>) -> String {
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

    /// An exact fit tells nothing of how far it is.
    #[test]
    fn silent_work_is_spoken_of_every_ten_seconds() {
        let (start, task) = (Instant::now(), Task::of_run("model", "train"));
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut work = Workload::default();
        work.add("default", "model", 2.0, 60.0);
        let mut state = Shown { last_line: start, course: Course::new(work), task: None };
        assert!(state.due(after(30)).is_none(), "nothing goes on");
        state.course.begin(&task, start);
        state.task = Some(task);
        assert!(state.due(after(9)).is_none());
        let (_, elapsed, left) = state.due(after(10)).unwrap_or_else(|| (Task::of_run("", ""), start - start, None));
        assert_eq!(still(elapsed, left), "at it for 10 s, about 2 min left in all");
        assert!(state.due(after(19)).is_none() && state.due(after(20)).is_some());
    }

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
            "EM 3 of 10, transitions 36 of 170, log-likelihood -6543.21, acceptance 0.81, about 2 min left in all"
        );
        let brief = briefly(&progress, left);
        assert_eq!(brief, "EM 3/10  transitions 36/170  ℓ -6543.2  accepted 0.81  2 min left");
        assert!(brief.chars().count() < 80);
        assert_eq!(still(Duration::from_secs(40), left), "at it for 40 s, about 2 min left in all");
    }
}
