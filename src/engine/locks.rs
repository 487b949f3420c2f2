//! Keeps runs out of each other's way: one lock per pipeline, one per target that is replaced in place.

use super::error::RunError;
use super::plan::Plan;
use super::run::RunOptions;
use crate::pipeline::Redactor;
use crate::stages::job::{Cancel, Listener};
use crate::store::host;
use crate::store::lock::{Claims, Lock, pipeline_lock};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often a lock that is taken is tried again.
const BETWEEN_TRIES: Duration = Duration::from_millis(100);
/// How long a directory's job looks again at files below before it believes that they are being written: a job that only
/// tried to begin, and saw the directory's, gives them back at once.
const GRACE: Duration = Duration::from_millis(500);

/// Takes every lock that the plan needs, waiting for all of them together. Shards have the pipeline together, and replace
/// nothing in place.
pub fn acquire(
    plan: &Plan,
    options: &RunOptions,
    cancel: &Cancel,
    listener: &dyn Listener,
) -> Result<Vec<Lock>, RunError> {
    let (mut claims, timeout) = (Claims::default(), options.lock_timeout);
    let pipeline = pipeline_lock(&plan.results, &plan.name);
    if options.shard.is_some() {
        claims.add_shared(pipeline);
        return acquire_all(&claims, timeout, cancel, listener, &plan.redactor);
    }
    claims.add_lock(pipeline);
    for stage in plan.cases.iter().flat_map(|case| &case.stages) {
        for (target, below) in stage.stage.targets() {
            claims.add_target(target, below)?;
        }
    }
    acquire_all(&claims, timeout, cancel, listener, &plan.redactor)
}

/// Clocks end somewhere; nobody waits longer than a century.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);

/// Takes all of these locks, waiting up to `timeout`.
pub fn acquire_all(
    claims: &Claims,
    timeout: Duration,
    cancel: &Cancel,
    listener: &dyn Listener,
    redactor: &Redactor,
) -> Result<Vec<Lock>, RunError> {
    let (process, since) = (std::process::id(), crate::tables::Timestamp::now());
    let owner = format!("process {process} on {} since {since}", host());
    let mut patience =
        Patience { deadline: Instant::now() + timeout.min(LONGEST), told: None, cancel, listener, redactor };
    let locks = loop {
        match claims.try_take(&owner)? {
            Ok(locks) => break locks,
            Err(taken) => patience.wait(taken)?,
        }
    };
    // From here on nobody begins below our directories: it is enough to wait for those who have begun.
    patience.deadline = patience.deadline.max(Instant::now() + GRACE);
    while let Some(taken) = claims.busy_below() {
        patience.wait(taken)?;
    }
    Ok(locks)
}

/// How long to wait, and who is told.
struct Patience<'a> {
    deadline: Instant,
    /// The lock that was waited for last.
    told: Option<PathBuf>,
    cancel: &'a Cancel,
    listener: &'a dyn Listener,
    redactor: &'a Redactor,
}

impl Patience<'_> {
    /// Waits a little, or gives up.
    fn wait(&mut self, (path, holder): (PathBuf, String)) -> Result<(), RunError> {
        if Instant::now() >= self.deadline {
            return Err(RunError::Locked { path, holder });
        }
        if let Some(signal) = self.cancel.signal() {
            return Err(RunError::Interrupted { signal, kept: None });
        }
        if self.told.as_ref() != Some(&path) {
            let text = format!("waiting for {}, held by {holder}", path.display());
            self.listener.warning(&self.redactor.clean(&text));
            self.told = Some(path);
        }
        std::thread::sleep(BETWEEN_TRIES);
        Ok(())
    }
}
