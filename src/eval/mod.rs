//! Which rows train and which test, and how good a prediction is: pure functions of numbers.

pub mod chains;
pub mod conformal;
mod distribution;
pub mod folds;
pub mod metrics;
pub mod normal;
pub mod paired;
pub mod sensitivity;
pub mod sketch;
pub mod transform;

use thiserror::Error;

/// What can go wrong in an evaluation.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum EvalError {
    /// The rows cannot be divided as asked.
    #[error("cannot split {rows} rows: {why}")]
    CannotSplit {
        rows: usize,
        /// What is wrong, and what to do.
        why: String,
    },
    /// Columns of different length.
    #[error("{what}: {found} values for {rows} rows")]
    LengthMismatch {
        what: &'static str,
        found: usize,
        /// The length of the targets.
        rows: usize,
    },
}
