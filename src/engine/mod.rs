//! Makes it happen: order, cache, events, clock, interruption.
//!
//! [`run`] walks the cases and stages of a [`Plan`] and does the work; [`forecast`] walks the same way and only looks. Every
//! finished piece of work is put into the cache under a hash of what it depends on, and taken from there when nothing of
//! that has changed. No stage is known by name here: `stages` declares what each kind does.

mod deadline;
mod error;
mod follow;
mod forecast;
mod inspect;
mod locks;
mod models;
pub mod plan;
mod record;
mod resume;
mod run;
mod scoring;
mod scoring_record;
mod scoring_table;
mod shard;
mod walk;

pub use deadline::run_until;
pub use error::RunError;
pub use follow::follow;
pub use forecast::forecast;
pub use inspect::inspect;
pub use models::roll_back;
pub use plan::Plan;
pub use resume::Resume;
pub use run::{RunFailure, RunOptions, Selected, Summary, run};
pub use scoring::{ScoreInput, ScoreOutput, ScoreRequest, ScoreSummary, score};
pub use scoring_record::ScoringRecord;
pub use scoring_table::{TableRequest, TableScores, score_table};
pub use shard::{NotAShard, Shard};
