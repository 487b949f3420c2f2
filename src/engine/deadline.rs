//! A run that ends when its time is up.

use super::RunError;
use super::plan::Plan;
use super::run::{RunFailure, RunOptions, Summary, run};
use crate::stages::job::{Cancel, Listener};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Instant;

/// What stands for a signal when the time is up.
const TIME_IS_UP: usize = 14;

/// Runs a plan until it is done; nothing is returned when the time is up before.
pub fn run_until(
    plan: &Plan,
    options: &RunOptions,
    (cancel, listener): (&Cancel, &dyn Listener),
    deadline: Option<Instant>,
) -> Result<Option<Summary>, RunFailure> {
    let cell = cancel.cell();
    let (done, waits) = channel::<()>();
    let outcome = std::thread::scope(|scope| {
        if let Some(deadline) = deadline {
            let cell = &cell;
            scope.spawn(move || {
                let rest = deadline.saturating_duration_since(Instant::now());
                if waits.recv_timeout(rest) == Err(RecvTimeoutError::Timeout) {
                    // A signal that came first counts more.
                    let _ = cell.compare_exchange(0, TIME_IS_UP, Ordering::Relaxed, Ordering::Relaxed);
                }
            });
        }
        let outcome = run(plan, options, cancel, listener);
        drop(done);
        outcome
    });
    let was_up = cell.compare_exchange(TIME_IS_UP, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    match outcome {
        Ok(summary) => Ok(Some(summary)),
        Err(failure) if was_up && matches!(*failure.error, RunError::Interrupted { .. }) => Ok(None),
        Err(failure) => Err(failure),
    }
}
