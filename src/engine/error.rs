//! Why a run ended early.

use crate::stages::StageError;
use crate::stages::job::Task;
use crate::store::StoreError;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a run ended early.
#[derive(Debug, Error)]
pub enum RunError {
    #[error("{task}: {source}")]
    Stage { task: Box<Task>, source: StageError },
    /// The run's own files could not be written or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A signal asked to stop.
    #[error("interrupted by signal {signal}{}", kept_text(*kept))]
    Interrupted {
        signal: i32,
        /// The EM iteration after which the work can go on, if there is a checkpoint of it.
        kept: Option<u64>,
    },
    /// Another run holds a lock.
    #[error("{} is held by {holder}; try again later, or wait for it with `--lock-timeout 10m`", path.display())]
    Locked {
        path: PathBuf,
        /// What the other run says of itself.
        holder: String,
    },
    /// `--resume` without anything to go on with.
    #[error("no unfinished run of `{pipeline}` to resume: nothing to do")]
    NothingToResume { pipeline: String },
    /// `--resume` of a run of something else.
    #[error(
        "run {run_id} was of another pipeline, or with other options; run without `--resume`: what is unchanged is not done again"
    )]
    Changed { run_id: String },
    /// Work that does not fit into memory.
    #[error("{}", listed(what))]
    TooLarge { what: Vec<String> },
}

// So many are said.
const SHOWN: usize = 5;

fn listed(what: &[String]) -> String {
    let more = what.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{}{more}", what[..what.len().min(SHOWN)].join("; "))
}

impl RunError {
    /// The file that could not be read, if that is what it is about.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Store(error) | Self::Stage { source: StageError::Store(error), .. } => error.unreadable(),
            _ => None,
        }
    }

    /// What went wrong where a stage's results become files of the run: those are not the fault of the stage.
    pub fn of_own_files(task: &Task, error: StageError) -> Self {
        match error {
            StageError::Store(error) => Self::Store(error),
            source => Self::Stage { task: Box::new(task.clone()), source },
        }
    }
}

fn kept_text(kept: Option<u64>) -> String {
    kept.map_or_else(String::new, |iteration| format!("; the checkpoint after EM iteration {iteration} is kept"))
}
