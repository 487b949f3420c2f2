//! `stride-pipe`: deep Gaussian-process regression as declarative pipelines over Parquet.
//!
//! Data flow, and the order in which to read the code:
//!
//! ```text
//! fashion.yaml ─▶ pipeline ─▶ engine ◀──▶ stages ─▶ gp, eval, features
//!                                │          └────▶ report
//!                                └─▶ tables ─▶ store ─▶ results/
//! ```
//!
//! `gp`, `eval` and `features` are pure mathematics: `eval` and `features` use nothing else of the crate, `gp` only `eval`; `tests/` checks who uses whom.

pub mod cli;
pub mod datasets;
pub mod engine;
pub mod eval;
pub mod features;
pub mod fit;
pub mod gp;
pub mod import;
pub mod pipeline;
pub mod ranks;
pub mod report;
pub mod stages;
pub mod startup;
pub mod store;
pub mod tables;
pub mod text;
pub mod tune;

/// The version that results are marked with.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit that this is built from; empty where that is not known.
pub const COMMIT: &str = env!("STRIDE_PIPE_COMMIT");
