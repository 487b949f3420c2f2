//! Spans of work: a task and its phases. Log lines say in which they were written, and the `timings` table says what they
//! cost.
//!
//! A span measures itself. A layer of `tracing_subscriber` could do it from outside, but it only sees what the subscriber
//! of the process lets through: there would be no timings where nobody logs, under the filter of another program, or on a
//! thread without the subscriber.

use super::task::Task;
use crate::store::PhaseTiming;
use crate::tables::{Timestamp, TimingRow};
use std::time::{Duration, Instant};
use tracing::span::EnteredSpan;

/// The span of a task, with those of its phases. They are left when it is dropped.
pub struct Spans {
    task: Task,
    /// What phases cost, but for what is still open, in order of first appearance; repeated ones are added up.
    spent: Vec<PhaseTiming>,
    /// Open phases, the innermost last.
    open: Vec<OpenPhase>,
    started: Instant,
    _within: EnteredSpan,
}

struct OpenPhase {
    name: &'static str,
    /// Its place among all phases of the task.
    place: usize,
    started: Instant,
    cpu: Duration,
    _within: EnteredSpan,
}

impl Spans {
    /// Opens the span of a task.
    pub fn open(task: &Task) -> Self {
        let (task, within) = (task.clone(), task.span(None).entered());
        Self { task, spent: Vec::new(), open: Vec::new(), started: Instant::now(), _within: within }
    }

    /// Adds to what earlier attempts at the same task cost; before the first phase.
    pub fn go_on(&mut self, earlier: Vec<PhaseTiming>) {
        self.spent = earlier;
    }

    /// Opens a phase. The one before ends, unless this is a part of it, as `offline.hyper` is of `offline`.
    pub fn phase(&mut self, name: &'static str) {
        let is_part = |whole: &str| name.strip_prefix(whole).is_some_and(|rest| rest.starts_with('.'));
        while let Some(ended) = self.open.pop_if(|phase| !is_part(phase.name)) {
            ended.add_to(&mut self.spent);
        }
        let known = self.spent.iter().position(|timing| timing.phase == name);
        let place = known.unwrap_or_else(|| {
            let (phase, started_at) = (name.to_owned(), Timestamp::now());
            self.spent.push(PhaseTiming { phase, started_at, wall_s: 0.0, cpu_s: 0.0, peak_rss_bytes: 0 });
            self.spent.len() - 1
        });
        let within = self.task.span(Some(name)).entered();
        self.open.push(OpenPhase { name, place, started: Instant::now(), cpu: cpu_time(), _within: within });
    }

    /// Ends all phases: what follows is not timed.
    pub fn end_phases(&mut self) {
        while let Some(ended) = self.open.pop() {
            ended.add_to(&mut self.spent);
        }
    }

    /// What the phases cost up to now.
    pub fn spent(&self) -> Vec<PhaseTiming> {
        let mut spent = self.spent.clone();
        // The innermost first, so that the parts are never more than the whole.
        self.open.iter().rev().for_each(|phase| phase.add_to(&mut spent));
        spent
    }

    /// What the phases cost, once they have ended, for a task of so many rows. Run, stage and case are written to it when
    /// it is recorded.
    pub fn timings(&mut self, rows: usize) -> Vec<TimingRow> {
        self.end_phases();
        let fold = self.task.fold_number();
        let row = |timing: &PhaseTiming| TimingRow {
            run_id: String::new(),
            stage: String::new(),
            case: String::new(),
            fold,
            phase: timing.phase.clone(),
            started_at: timing.started_at,
            wall_s: timing.wall_s,
            cpu_s: timing.cpu_s,
            peak_rss_bytes: timing.peak_rss_bytes,
            rows: rows as i64,
            cached: false,
        };
        self.spent.iter().map(row).collect()
    }

    /// How long the task has taken up to now.
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

impl OpenPhase {
    /// Adds what has passed since it was opened.
    fn add_to(&self, spent: &mut [PhaseTiming]) {
        let total = &mut spent[self.place];
        total.wall_s += self.started.elapsed().as_secs_f64();
        total.cpu_s += cpu_time().saturating_sub(self.cpu).as_secs_f64();
        total.peak_rss_bytes = total.peak_rss_bytes.max(peak_rss_bytes());
    }
}

/// Processor time of all threads.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Largest memory of the process so far, by the kernel's high-water mark; 0 where it does not tell.
fn peak_rss_bytes() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse::<i64>().unwrap_or(0) * 1024
}
