//! Pieces of work, and what whoever shows a run is told of them: started, how far, finished, careful.

use super::workload::Workload;
use crate::gp::observer::Progress;
use std::time::Duration;

/// One piece of work: a stage of a case, on one fold where it runs per fold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub case: String,
    pub stage: String,
    pub kind: &'static str,
    /// The fold and how many there are, for stages that run per fold.
    pub fold: Option<(u32, u32)>,
}

impl Task {
    /// A task of the run as a whole.
    pub fn of_run(stage: &str, kind: &'static str) -> Self {
        Self { case: "default".to_owned(), stage: stage.to_owned(), kind, fold: None }
    }

    /// The span of everything that is logged while it, or a phase of it, is done.
    pub fn span(&self, phase: Option<&str>) -> tracing::Span {
        let Self { case, stage, kind, .. } = self;
        // Of the level of errors, so that it is there also where only they are logged.
        tracing::error_span!("task", case, stage, kind, fold = self.fold_number(), phase)
    }

    /// The fold as tables count it.
    pub fn fold_number(&self) -> Option<i32> {
        self.fold.map(|(fold, _)| fold as i32)
    }
}

impl std::fmt::Display for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.case != "default" {
            write!(f, "{} / ", self.case)?;
        }
        write!(f, "{}", self.stage)?;
        match self.fold {
            // Counted from 0, as in the tables.
            Some((fold, folds)) => write!(f, " / fold {fold} (of {folds})"),
            None => Ok(()),
        }
    }
}

/// How a piece of work ended.
#[derive(Clone, Debug)]
pub struct Finished {
    pub seconds: f64,
    pub cached: bool,
    /// Why it ran or was skipped.
    pub reason: String,
    /// What came out, in a few words.
    pub outcome: String,
}

/// Receives what happens. `Sync`, because a fit carries it into threads that only ask whether to stop.
pub trait Listener: Sync {
    fn run_started(&self, run_id: &str, tasks: u64);
    /// What the run has to do is known, and what that will cost about.
    fn planned(&self, _work: Workload) {}
    fn task_started(&self, task: &Task);
    /// Work goes on after an EM iteration that an earlier attempt had finished.
    fn task_resumed(&self, task: &Task, iteration: u64);
    /// Work goes on; this piece of it may take about so long.
    fn progress(&self, task: &Task, progress: &Progress, left: Option<Duration>);
    fn task_finished(&self, task: &Task, finished: &Finished);
    /// Something that is as it should be, and worth a line.
    fn note(&self, text: &str);
    /// Something the user should know.
    fn warning(&self, text: &str);
}
