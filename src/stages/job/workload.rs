//! How much work a run has, by what it is expected to cost, and from that how far it is and how long it will take.

use super::task::Task;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The work of a run, in seconds that it is expected to take.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// Of a piece of work, by case and stage.
    pieces: HashMap<(String, String), f64>,
    total: f64,
}

impl Workload {
    /// Adds so many pieces of work of a stage; it may be a share of them.
    pub fn add(&mut self, case: &str, stage: &str, count: f64, seconds: f64) {
        self.pieces.insert((case.to_owned(), stage.to_owned()), seconds);
        self.total += count * seconds;
    }

    /// What all of it is expected to take.
    pub fn total(&self) -> Duration {
        Duration::try_from_secs_f64(self.total).unwrap_or_default()
    }

    fn of(&self, task: &Task) -> f64 {
        self.pieces.get(&(task.case.clone(), task.stage.clone())).copied().unwrap_or(0.0)
    }
}

/// How much expected work has to be done before its speed counts more than the expectation, in seconds.
const TRUST: f64 = 5.0;
/// Work that takes longer than expected takes at least this share of its time longer.
const LATE: f64 = 0.1;

/// How far a run is. What it has done corrects what is expected of the rest.
#[derive(Debug, Default)]
pub struct Course {
    work: Workload,
    /// Expected of what is done, and what it took.
    done: f64,
    spent: f64,
    current: Option<Current>,
}

#[derive(Clone, Debug)]
struct Current {
    expected: f64,
    since: Instant,
    /// What its own progress says.
    left: Option<(Instant, Duration)>,
}

impl Course {
    /// A run begins with so much work.
    pub fn new(work: Workload) -> Self {
        Self { work, ..Self::default() }
    }

    /// A piece of work begins.
    pub fn begin(&mut self, task: &Task, now: Instant) {
        self.current = Some(Current { expected: self.work.of(task), since: now, left: None });
    }

    /// The current piece of work knows how long it will take.
    pub fn correct(&mut self, now: Instant, left: Duration) {
        self.current.iter_mut().for_each(|current| current.left = Some((now, left)));
    }

    /// The current piece of work is done, or was not needed.
    pub fn finish(&mut self, cached: bool, now: Instant) {
        if let Some(current) = self.current.take().filter(|_| !cached) {
            self.done += current.expected;
            self.spent += now.duration_since(current.since).as_secs_f64();
        }
    }

    /// How long the current piece of work has taken.
    pub fn elapsed(&self, now: Instant) -> Option<Duration> {
        self.current.as_ref().map(|current| now.duration_since(current.since))
    }

    /// The time that the run will still take; nothing where nothing is known of it.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        if self.work.total <= 0.0 {
            return None;
        }
        let expected = self.current.as_ref().map_or(0.0, |current| current.expected);
        let others = (self.work.total - self.done - expected).max(0.0);
        Duration::try_from_secs_f64(others * self.slowness() + self.current_left(now)).ok()
    }

    /// The share of the run that is done, between 0 and 1.
    pub fn share(&self, now: Instant) -> f64 {
        let Some(current) = &self.current else { return ratio(self.done, self.work.total) };
        let elapsed = now.duration_since(current.since).as_secs_f64();
        ratio(self.done + current.expected * ratio(elapsed, elapsed + self.current_left(now)), self.work.total)
    }

    fn current_left(&self, now: Instant) -> f64 {
        let Some(current) = &self.current else { return 0.0 };
        let elapsed = now.duration_since(current.since).as_secs_f64();
        match current.left {
            Some((at, left)) => left.saturating_sub(now.duration_since(at)).as_secs_f64(),
            None => (current.expected * self.slowness() - elapsed).max(LATE * elapsed),
        }
    }

    /// How much longer work took than expected.
    fn slowness(&self) -> f64 {
        (self.spent + TRUST) / (self.done + TRUST)
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(stage: &str) -> Task {
        Task { case: "default".to_owned(), stage: stage.to_owned(), kind: "train", fold: Some((0, 2)) }
    }

    #[test]
    fn weighs_work_by_its_cost_and_learns_its_speed() {
        let mut work = Workload::default();
        work.add("default", "quick", 2.0, 1.0);
        work.add("default", "slow", 2.0, 99.0);
        assert_eq!(work.total(), Duration::from_secs(200));
        let start = Instant::now();
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let mut course = Course::new(work);
        assert_eq!(course.left(start), Some(Duration::from_secs(200)));
        // Half of the pieces are a hundredth of the work.
        for second in [0.0, 1.0] {
            course.begin(&task("quick"), at(second));
            course.finish(false, at(second + 1.0));
        }
        assert!((course.share(at(2.0)) - 0.01).abs() < 1e-9);
        // Twice as slow as expected: so will the other one be, nearly.
        course.begin(&task("slow"), at(2.0));
        course.correct(at(2.0), Duration::from_secs(198));
        assert!((course.share(at(101.0)) - (2.0 + 99.0 * 0.5) / 200.0).abs() < 1e-9);
        course.finish(false, at(200.0));
        let left = course.left(at(200.0)).map_or(0.0, |left| left.as_secs_f64());
        assert!((180.0..198.0).contains(&left), "{left}");
        // What is in the cache costs nothing.
        course.begin(&task("quick"), at(200.0));
        course.finish(true, at(200.0));
        assert_eq!(course.left(at(200.0)).map(|left| left.as_secs_f64()), Some(left));
    }

    #[test]
    fn late_work_is_never_about_to_end_at_once() {
        let mut work = Workload::default();
        work.add("default", "slow", 1.0, 10.0);
        let start = Instant::now();
        let mut course = Course::new(work);
        course.begin(&task("slow"), start);
        let now = start + Duration::from_secs(100);
        assert_eq!(course.left(now), Some(Duration::from_secs(10)));
        assert!((course.share(now) - 100.0 / 110.0).abs() < 1e-9);
        assert_eq!(Course::default().left(now), None);
    }
}
