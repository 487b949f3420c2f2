//! The result schemas as code.
//!
//! Every table of the results directory is declared once, in [`schemas`].
//! The partition keys (`pipeline`, `run_date`) live in the directory names and never inside the files.

mod cell;
pub mod predictions;
mod row;
mod schemas;
mod timestamp;

pub use cell::Cell;
pub use predictions::PredictionBlock;
pub use row::{TableRow, relabel};
pub use schemas::*;
pub use timestamp::Timestamp;

use arrow::error::ArrowError;

/// Why rows could not become (or come from) a table. Each of these is a mistake of the program, not of its user.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// Arrow refused the columns.
    #[error("table {table}: {source}")]
    Arrow {
        /// Name of the table.
        table: &'static str,
        source: ArrowError,
    },
    /// A column has another length than its table.
    #[error("table {table}: column `{column}` has {found} values, expected {expected}")]
    Ragged {
        /// Name of the table.
        table: &'static str,
        column: String,
        /// Rows of the table.
        expected: usize,
        /// Values of the column.
        found: usize,
    },
    /// An additional column has the name of another one, or two types in one file.
    #[error("table {table}: the additional column `{column}` {detail}")]
    Column {
        /// Name of the table.
        table: &'static str,
        column: String,
        /// What is wrong with it.
        detail: String,
    },
    /// A batch read back, or about to be written, does not have the columns of the table.
    #[error("table {table}: expected column {position} to be `{expected}`, found {found}")]
    Schema {
        /// Name of the table.
        table: &'static str,
        /// Position of the column, from 0.
        position: usize,
        expected: String,
        /// Field found, or "nothing".
        found: String,
    },
    /// An interval that has no column name: not strictly between 0 and 1, or with more than six decimals.
    #[error("an interval of {level} has no quantile columns: choose a level between 0 and 1 with at most six decimals")]
    Level {
        /// The level asked for.
        level: f64,
    },
}
