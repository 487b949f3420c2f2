//! One folder per kind of stage. A kind is one declaration ([`StageKind`], [`Stage`]); [`KINDS`] is the list of them.
//!
//! The engine walks over the stages of a case and knows none of them by name; a stage calls the mathematics (`gp`, `eval`)
//! and hands tables to the run.

pub mod cost;
pub mod describe;
pub mod evaluate;
pub mod explain;
mod footprint;
pub mod ingest;
pub mod job;
mod placement;
pub mod predict;
pub mod report;
pub mod split;
mod stage;
pub mod train;

pub use footprint::Footprint;
pub use job::FinishedRun;
pub use placement::Placement;
pub use stage::{
    Collecting, Context, Demand, Frequency, Job, Model, Models, Output, PredictionFiles, Preparation, RowCheck, Said,
    Sources, Stage, StageKind, Work, lost,
};

use crate::eval::EvalError;
use crate::gp::{GpError, linalg};
use crate::pipeline::Language;
use crate::store::StoreError;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use std::sync::LazyLock;
use thiserror::Error;

/// Every kind of stage, in the order of the documentation.
pub static KINDS: [&StageKind; 8] = [
    &ingest::KIND,
    &describe::KIND,
    &split::KIND,
    &train::KIND,
    &predict::KIND,
    &evaluate::KIND,
    &explain::KIND,
    &report::KIND,
];

/// The language of pipeline files with these kinds.
pub static LANGUAGE: LazyLock<Language> =
    LazyLock::new(|| Language::new(KINDS.iter().map(|kind| &kind.language).collect()));

/// The stage with these options.
fn read<S: Stage + DeserializeOwned>(options: Json) -> Result<Box<dyn Stage>, serde_json::Error> {
    Ok(Box::new(serde_json::from_value::<S>(options)?))
}

/// Why a stage could not do its work.
#[derive(Debug, Error)]
pub enum StageError {
    /// Files: missing, invalid, or not writable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Data that were read but cannot be used this way.
    #[error("{what}; {hint}")]
    Data {
        /// What is wrong with them.
        what: String,
        hint: String,
    },
    #[error("{source}; {hint}")]
    Maths { source: GpError, hint: &'static str },
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted {
        /// The EM iteration after which the work can go on, if there is a checkpoint of it.
        kept: Option<u64>,
    },
    /// Something that cannot happen did.
    #[error("{0}; this is a bug in stride-pipe, please report it")]
    Bug(String),
}

impl From<GpError> for StageError {
    fn from(source: GpError) -> Self {
        let hint = match &source {
            GpError::Interrupted => return Self::Interrupted { kept: None },
            GpError::NotPositiveDefinite { .. } => {
                "rows may repeat with different targets, or lengths may be too long: give a larger `noise`, \
                 a shorter `length`, or another kernel (matern32)"
            }
            GpError::NonFinite { .. } => "scale the features (`scale: {features: column}`) and look for extreme values",
            _ => "check the options of this stage",
        };
        Self::Maths { source, hint }
    }
}

impl From<EvalError> for StageError {
    fn from(error: EvalError) -> Self {
        Self::Data { what: error.to_string(), hint: "change the split, or bring more rows".to_owned() }
    }
}

/// The version of `OpenBLAS` and the loops that it runs, which results of long chains depend on.
pub fn loops() -> String {
    format!("{} {}", linalg::blas_version(), linalg::kernels()).trim().to_owned()
}
