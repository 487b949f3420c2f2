//! How long a piece of work will take, from how fast it went so far.

use std::time::{Duration, Instant};

/// Measures from the first report on: what was done before, by an earlier attempt, took no time of this one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    first: Option<(Instant, usize)>,
}

impl Pace {
    /// The time left; none before there is anything to tell it from.
    pub fn left(&mut self, now: Instant, done: usize, total: usize) -> Option<Duration> {
        let (since, before) = *self.first.get_or_insert((now, done));
        if done <= before {
            return None;
        }
        let share = total.saturating_sub(done) as f64 / (done - before) as f64;
        Duration::try_from_secs_f64(now.duration_since(since).as_secs_f64() * share).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_from_the_first_report() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        // Resumed after 40 of 100: ten more in five seconds make 25 seconds for the other fifty.
        assert_eq!(pace.left(start, 40, 100), None);
        assert_eq!(pace.left(after(5), 50, 100), Some(Duration::from_secs(25)));
        assert_eq!(pace.left(after(30), 100, 100), Some(Duration::ZERO));
        assert_eq!(pace.left(after(31), 101, 100), Some(Duration::ZERO));
    }
}
