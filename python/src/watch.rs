//! What goes on in a run, gathered for whoever shows it: Python asks for it between waits.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use stride_pipe::cli::embedded::briefly;
use stride_pipe::stages::job::{Course, Finished, Listener, Progress, Task, Workload};

/// How far a run is.
#[derive(Debug, Default)]
pub struct RunWatch(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    course: Course,
    task: String,
    text: String,
    /// What was said since it was last asked for: whether it is a warning, and the text.
    said: Vec<(bool, String)>,
}

/// Share done, time left in seconds, task, what it is at, what was said: whether it is a warning, and the text.
pub type Snapshot = (f64, Option<f64>, String, String, Vec<(bool, String)>);

impl RunWatch {
    /// How far it is now, and what was said since this was last asked for.
    pub fn snapshot(&self) -> Snapshot {
        let (now, mut state) = (Instant::now(), self.state());
        let left = state.course.left(now).map(|left| left.as_secs_f64());
        let said = std::mem::take(&mut state.said);
        (state.course.share(now), left, state.task.clone(), state.text.clone(), said)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, warning: bool, text: String) {
        self.state().said.push((warning, text));
    }
}

impl Listener for RunWatch {
    fn run_started(&self, run_id: &str, tasks: u64) {
        self.say(false, format!("run {run_id}: {tasks} task(s)"));
    }

    fn planned(&self, work: Workload) {
        self.state().course = Course::new(work);
    }

    fn task_started(&self, task: &Task) {
        let mut state = self.state();
        state.course.begin(task, Instant::now());
        (state.task, state.text) = (task.to_string(), String::new());
    }

    fn task_resumed(&self, task: &Task, iteration: u64) {
        self.say(false, format!("{task}: going on after EM iteration {iteration}"));
    }

    fn progress(&self, _: &Task, progress: &Progress, left: Option<Duration>) {
        let (now, mut state) = (Instant::now(), self.state());
        if let Some(left) = left {
            state.course.correct(now, left);
        }
        state.text = briefly(progress, None);
    }

    fn task_finished(&self, task: &Task, finished: &Finished) {
        let Finished { seconds, cached, reason, outcome } = finished;
        let verb = if *cached { "skipped" } else { "done" };
        let mut state = self.state();
        state.course.finish(*cached, Instant::now());
        state.said.push((false, format!("{task}: {verb} in {seconds:.2} s ({reason}): {outcome}")));
    }

    fn note(&self, text: &str) {
        self.say(false, text.to_owned());
    }

    fn warning(&self, text: &str) {
        self.say(true, text.to_owned());
    }
}
