//! What the processes of a team have to agree on: when to stop, and what time it is.

use std::sync::Arc;

use super::Team;
use crate::gp::deep::Checkpoint;
use crate::gp::observer::{Observer, Phase, Progress, TracePoint};

/// Listens for a team: rank 0 hands on what happens, and all stop together.
pub struct TeamObserver<'a> {
    team: Arc<Team>,
    // Of rank 0.
    inner: Option<&'a mut dyn Observer>,
    memory: u64,
}

impl<'a> TeamObserver<'a> {
    /// With the observer of rank 0, and the bytes for what could be computed again.
    pub fn new(team: &Arc<Team>, inner: Option<&'a mut dyn Observer>, memory: u64) -> Self {
        Self { team: Arc::clone(team), inner, memory }
    }
}

impl Observer for TeamObserver<'_> {
    fn trace(&mut self, point: &TracePoint) {
        if let Some(inner) = &mut self.inner {
            inner.trace(point);
        }
    }

    fn progress(&mut self, progress: Progress) {
        if let Some(inner) = &mut self.inner {
            inner.progress(progress);
        }
    }

    fn phase(&mut self, phase: Phase) {
        if let Some(inner) = &mut self.inner {
            inner.phase(phase);
        }
    }

    fn checkpoint(&mut self, state: &Checkpoint) {
        if let Some(inner) = &mut self.inner {
            inner.checkpoint(state);
        }
    }

    fn seconds(&self) -> f64 {
        self.team.seconds()
    }

    fn memory(&self) -> u64 {
        self.memory
    }

    // What all know since the last exchange: a process that stopped alone would be waited for.
    fn interrupted(&self) -> bool {
        if self.inner.as_ref().is_some_and(|inner| inner.interrupted()) {
            self.team.ask_to_stop();
        }
        self.team.stops()
    }
}
