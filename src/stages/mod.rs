//! One file per stage kind: thin adapters between the engine and the mathematics.

pub mod evaluate;
pub mod ingest;
pub mod predict;
pub mod report;
pub mod score;
pub mod split;
pub mod train;

use crate::eval::EvalError;
use crate::gp::GpError;
use crate::store::StoreError;
use thiserror::Error;

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
        /// What to do.
        hint: String,
    },
    /// The mathematics gave up.
    #[error("{source}; {hint}")]
    Maths {
        /// Why.
        source: GpError,
        /// What to do.
        hint: &'static str,
    },
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl From<GpError> for StageError {
    fn from(source: GpError) -> Self {
        let hint = match &source {
            GpError::Interrupted => return Self::Interrupted,
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
