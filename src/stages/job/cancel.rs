//! The wish to stop, raised by a signal and looked at between steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Shared between signal handlers and the work.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicUsize>);

impl Cancel {
    /// The cell that a signal handler writes the signal's number to.
    pub fn cell(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.0)
    }

    /// The signal received, if any.
    pub fn signal(&self) -> Option<i32> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(signal as i32),
        }
    }

    pub fn is_set(&self) -> bool {
        self.signal().is_some()
    }
}
