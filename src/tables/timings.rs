//! The `timings` table: what each phase of a run cost.

use super::Timestamp;

super::table! {
    /// One phase of one stage, case and fold.
    Timings version 1
    pub struct TimingRow {
        /// The run.
        pub run_id: String,
        /// Stage.
        pub stage: String,
        /// Case.
        pub case: String,
        /// Fold; none for work that all folds share.
        pub fold: Option<i32>,
        /// What was done: `ingest`, `offline`, `offline.select`, `online`, `write`, …
        pub phase: String,
        /// Wall clock at the start.
        pub started_at: Timestamp,
        /// Seconds by the monotonic clock.
        pub wall_s: f64,
        /// Processor seconds over all threads.
        pub cpu_s: f64,
        /// Largest resident memory of the process so far.
        pub peak_rss_bytes: i64,
        /// Rows worked on.
        pub rows: i64,
        /// Taken from the cache: the numbers are those of the run that did the work.
        pub cached: bool,
    }
}
