//! Clocks: the wall clock says when, the monotonic clock how long, the process clock how much work.

use crate::tables::Timestamp;
use std::time::{Duration, Instant};

/// A running measurement.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    started_at: Timestamp,
    instant: Instant,
    cpu: Duration,
}

/// A finished measurement.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    pub started_at: Timestamp,
    /// How long it took, in seconds.
    pub wall_s: f64,
    /// Processor time of all threads, in seconds.
    pub cpu_s: f64,
    /// Largest memory of the process so far.
    pub peak_rss_bytes: i64,
}

impl Measured {
    #[must_use]
    pub fn and(self, later: Self) -> Self {
        Self {
            started_at: self.started_at,
            wall_s: self.wall_s + later.wall_s,
            cpu_s: self.cpu_s + later.cpu_s,
            peak_rss_bytes: self.peak_rss_bytes.max(later.peak_rss_bytes),
        }
    }
}

impl Stopwatch {
    pub fn start() -> Self {
        Self { started_at: Timestamp::now(), instant: Instant::now(), cpu: cpu_time() }
    }

    /// What has passed so far.
    pub fn read(&self) -> Measured {
        Measured {
            started_at: self.started_at,
            wall_s: self.instant.elapsed().as_secs_f64(),
            cpu_s: cpu_time().saturating_sub(self.cpu).as_secs_f64(),
            peak_rss_bytes: peak_rss_bytes(),
        }
    }
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// The kernel's high-water mark; 0 where it does not tell.
fn peak_rss_bytes() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse::<i64>().unwrap_or(0) * 1024
}
