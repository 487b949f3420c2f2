//! The `runs` table: one row about the run itself.

use super::Timestamp;

super::table! {
    /// Who ran what, when, and how it ended.
    Runs version 1
    pub struct RunRow {
        /// The run.
        pub run_id: String,
        /// The pipeline file, as given on the command line.
        pub pipeline_file: String,
        /// How it ended.
        pub status: String,
        /// Wall clock at the start.
        pub started_at: Timestamp,
        /// Wall clock at the end.
        pub finished_at: Timestamp,
        /// Version of stride-pipe.
        pub version: String,
        /// Seed of the run.
        pub seed: i64,
        /// Machine.
        pub host: String,
        /// Threads used.
        pub threads: i32,
        /// The command line.
        pub command: String,
        /// Hash of the resolved pipeline.
        pub spec_hash: String,
    }
}
