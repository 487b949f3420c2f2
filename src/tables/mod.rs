//! The result schemas as code, one file per table.
//!
//! Every table of the results directory is declared here once: column names, order, types and nullability are
//! what dashboards depend on. Changing one of them means raising that table's `SCHEMA_VERSION`.
//! The partition keys (`pipeline`, `run_date`) live in the directory names and never inside the files.

pub mod cases;
mod cell;
pub mod hidden;
mod kind;
pub mod metrics;
pub mod predictions;
pub mod runs;
mod timestamp;
pub mod timings;
pub mod traces;

pub use cases::CaseRow;
pub use cell::Cell;
pub use hidden::HiddenRow;
pub use kind::{TableKind, TableRow, relabel};
pub use metrics::MetricRow;
pub use predictions::PredictionBlock;
pub use runs::RunRow;
pub use timestamp::Timestamp;
pub use timings::TimingRow;
pub use traces::TraceRow;

use arrow::error::ArrowError;

/// Why rows could not become (or come from) a table. Each of these is a mistake of the program, not of its user.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// Arrow refused the columns.
    #[error("table {table}: {source}")]
    Arrow {
        /// Name of the table.
        table: &'static str,
        /// What Arrow said.
        source: ArrowError,
    },
    /// A column has another length than its table.
    #[error("table {table}: column `{column}` has {found} values, expected {expected}")]
    Ragged {
        /// Name of the table.
        table: &'static str,
        /// The column.
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
        /// The column.
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
        /// Declared field.
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

/// Declares one table: its row type, and from the same lines its columns.
///
/// The order of the fields is the order of the columns; `Option` makes a column nullable.
macro_rules! table {
    (
        $(#[$doc:meta])*
        $kind:ident version $version:literal
        pub struct $row:ident { $( $(#[$field_doc:meta])* pub $field:ident : $type:ty, )+ }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $row { $( $(#[$field_doc])* pub $field: $type, )+ }

        /// Raised with every change of the columns.
        pub const SCHEMA_VERSION: u32 = $version;

        impl $crate::tables::TableRow for $row {
            const KIND: $crate::tables::TableKind = $crate::tables::TableKind::$kind;

            fn fields() -> Vec<arrow::datatypes::Field> {
                vec![ $( $crate::tables::cell::field::<$type>(stringify!($field)), )+ ]
            }

            fn columns(rows: &[Self]) -> Vec<arrow::array::ArrayRef> {
                vec![ $( <$type as $crate::tables::Cell>::column(rows.iter().map(|row| &row.$field)), )+ ]
            }

            fn from_columns(columns: &[arrow::array::ArrayRef]) -> Option<Vec<Self>> {
                let rows = columns.first()?.len();
                let mut column = columns.iter();
                $( let mut $field = <$type as $crate::tables::Cell>::values(column.next()?)?.into_iter(); )+
                (0..rows).map(|_| Some(Self { $( $field: $field.next()?, )+ })).collect()
            }
        }
    };
}
use table;
