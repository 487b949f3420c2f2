//! What the log of a run tells, as far as it was written.

use std::collections::BTreeSet;
use std::fs;

use crate::store::record::event;
use crate::store::{ResultsDir, RunId};

/// Excerpt of `events.jsonl`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventNotes {
    pub pipeline: Option<String>,
    /// Every warning once, in order.
    pub warnings: Vec<String>,
    /// Keys of the work that was begun: cache entries and checkpoints have their names.
    pub keys: BTreeSet<String>,
    /// Whether some work was begun by a version that did not write keys.
    pub lacks_keys: bool,
    /// Lines that are no events; the last one may have been cut off.
    pub damaged_lines: usize,
}

/// Reads a run's log; one that is not there has nothing to tell.
pub fn read_events(results: &ResultsDir, id: &RunId) -> EventNotes {
    let bytes = fs::read(results.events_path(id)).unwrap_or_default();
    let mut notes = EventNotes::default();
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let Some(event) = event(line) else {
            notes.damaged_lines += 1;
            continue;
        };
        let text = |name: &str| event[name].as_str().map(str::to_owned);
        match event["event"].as_str() {
            Some("run_started") => notes.pipeline = text("pipeline"),
            Some("task_started") => match text("key") {
                Some(key) => drop(notes.keys.insert(key)),
                None => notes.lacks_keys = true,
            },
            Some("warning") => {
                notes.warnings.extend(text("text").filter(|warning| !notes.warnings.contains(warning)));
            }
            _ => {}
        }
    }
    notes
}
