//! What long reading says of how far it is. A run that reads for minutes before its first task would look dead otherwise.

use std::time::{Duration, Instant};

use crate::text::roughly;

/// How often it is said.
const BETWEEN: Duration = Duration::from_secs(10);

/// How much of something has been read.
pub struct ReadProgress {
    what: &'static str,
    /// An amount as people say it.
    amount: fn(u64) -> String,
    done: u64,
    /// Zero where it is not known.
    total: u64,
    begun: Instant,
    said: Instant,
}

impl ReadProgress {
    pub fn new(what: &'static str, amount: fn(u64) -> String, total: u64) -> Self {
        let now = Instant::now();
        Self { what, amount, done: 0, total, begun: now, said: now }
    }

    /// So much more was read.
    pub fn advance(&mut self, more: u64) {
        if let Some(text) = self.due(more, Instant::now()) {
            let Self { done, total, .. } = self;
            tracing::info!(done, total, "{text}");
        }
    }

    /// What is to be said, if that is due.
    fn due(&mut self, more: u64, now: Instant) -> Option<String> {
        self.done += more;
        if now.duration_since(self.said) < BETWEEN {
            return None;
        }
        self.said = now;
        let Self { what, amount, done, total, .. } = *self;
        if done == 0 || total < done {
            return Some(format!("{what}: {}", amount(done)));
        }
        let left = now.duration_since(self.begun).mul_f64((total - done) as f64 / done as f64);
        Some(format!("{what}: {} of {}, about {} left", amount(done), amount(total), roughly(left)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_is_said_every_ten_seconds() {
        let mut progress = ReadProgress::new("reading", |rows| format!("{rows} rows"), 1000);
        let at = |seconds| progress_start() + Duration::from_secs(seconds);
        (progress.begun, progress.said) = (at(0), at(0));
        assert_eq!(progress.due(100, at(9)), None);
        assert_eq!(progress.due(150, at(10)).as_deref(), Some("reading: 250 rows of 1000 rows, about 30 s left"));
        assert_eq!(progress.due(50, at(19)), None);
        assert_eq!(progress.due(200, at(20)).as_deref(), Some("reading: 500 rows of 1000 rows, about 20 s left"));
        // A file that grows, or of unknown size.
        assert_eq!(progress.due(600, at(30)).as_deref(), Some("reading: 1100 rows"));
    }

    fn progress_start() -> Instant {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *START.get_or_init(Instant::now)
    }
}
