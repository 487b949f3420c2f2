//! Keeps runs out of each other's way: one lock per pipeline, one per target that is replaced in place.

use super::cancel::Cancel;
use super::error::RunError;
use super::listener::Listener;
use crate::plan::{OutputStep, Plan, Step};
use crate::store::lock::{Lock, Locking, pipeline_lock, target_lock, try_lock};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often a lock that is taken is tried again.
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// Takes every lock that the plan needs, waiting up to `timeout` for all of them together.
pub fn acquire(
    plan: &Plan,
    timeout: Duration,
    cancel: &Cancel,
    listener: &dyn Listener,
) -> Result<Vec<Lock>, RunError> {
    let paths = targets(plan).map(target_lock).chain([pipeline_lock(&plan.results, &plan.name)]).collect();
    acquire_all(&paths, timeout, cancel, listener)
}

/// Takes these locks, in a fixed order, so that two runs cannot each hold what the other waits for.
pub fn acquire_all(
    paths: &BTreeSet<PathBuf>,
    timeout: Duration,
    cancel: &Cancel,
    listener: &dyn Listener,
) -> Result<Vec<Lock>, RunError> {
    let deadline = Instant::now() + timeout;
    let owner = format!("process {} since {}", std::process::id(), crate::tables::Timestamp::now());
    paths.iter().map(|path| wait(path, &owner, deadline, cancel, listener)).collect()
}

/// What the plan replaces in place.
fn targets(plan: &Plan) -> impl Iterator<Item = &Path> {
    let stages = plan.cases.iter().flat_map(|case| &case.stages);
    stages.filter_map(|stage| match &stage.step {
        Step::Train(train) => train.publish.as_deref(),
        Step::Predict(predict) => predict.output.as_ref().map(OutputStep::path),
        _ => None,
    })
}

fn wait(
    path: &Path,
    owner: &str,
    deadline: Instant,
    cancel: &Cancel,
    listener: &dyn Listener,
) -> Result<Lock, RunError> {
    let mut told = false;
    loop {
        let holder = match try_lock(path, owner)? {
            Locking::Held(lock) => return Ok(lock),
            Locking::Taken(holder) => holder,
        };
        if Instant::now() >= deadline {
            return Err(RunError::Locked { path: path.to_owned(), holder });
        }
        if let Some(signal) = cancel.signal() {
            return Err(RunError::Interrupted { signal, kept: None });
        }
        if !told {
            listener.warning(&format!("waiting for {}, held by {holder}", path.display()));
            told = true;
        }
        std::thread::sleep(BETWEEN_TRIES);
    }
}
