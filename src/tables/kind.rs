//! Which tables there are, and what every table of rows can do.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};

use super::predictions::constant;

use super::{
    CaseRow, HiddenRow, MetricRow, RunRow, TableError, TimingRow, TraceRow, cases, hidden, metrics, predictions, runs,
    timings, traces,
};

/// The tables of a results directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableKind {
    /// One row per predicted row.
    Predictions,
    /// One row per metric, fold and case.
    Metrics,
    /// One row per phase of work.
    Timings,
    /// One row per step of a Markov chain.
    Traces,
    /// One row per output of a hidden layer and row; only where it was asked for.
    Hidden,
    /// One row: the run itself.
    Runs,
    /// One row per matrix entry of a case.
    Cases,
}

impl TableKind {
    /// All tables, in the order of the documentation.
    pub const ALL: [Self; 7] =
        [Self::Predictions, Self::Metrics, Self::Timings, Self::Traces, Self::Hidden, Self::Runs, Self::Cases];

    /// The name: also that of its directory.
    pub fn name(self) -> &'static str {
        match self {
            Self::Predictions => "predictions",
            Self::Metrics => "metrics",
            Self::Timings => "timings",
            Self::Traces => "traces",
            Self::Hidden => "hidden",
            Self::Runs => "runs",
            Self::Cases => "cases",
        }
    }

    /// Whether every run has it; the others are there where they have rows.
    pub fn is_always_written(self) -> bool {
        self != Self::Hidden
    }

    /// Version of the columns, written to every file's footer.
    pub fn schema_version(self) -> u32 {
        match self {
            Self::Predictions => predictions::SCHEMA_VERSION,
            Self::Metrics => metrics::SCHEMA_VERSION,
            Self::Timings => timings::SCHEMA_VERSION,
            Self::Traces => traces::SCHEMA_VERSION,
            Self::Hidden => hidden::SCHEMA_VERSION,
            Self::Runs => runs::SCHEMA_VERSION,
            Self::Cases => cases::SCHEMA_VERSION,
        }
    }

    /// The columns every file of this table has; predictions may have more after them.
    pub fn schema(self) -> SchemaRef {
        match self {
            Self::Predictions => predictions::schema(),
            Self::Metrics => MetricRow::schema(),
            Self::Timings => TimingRow::schema(),
            Self::Traces => TraceRow::schema(),
            Self::Hidden => HiddenRow::schema(),
            Self::Runs => RunRow::schema(),
            Self::Cases => CaseRow::schema(),
        }
    }

    /// Checks that `found` starts with this table's columns (and, but for predictions, has no others).
    pub fn check(self, found: &Schema) -> Result<(), TableError> {
        let expected = self.schema();
        let wanted = expected.fields().len();
        let columns = if self == Self::Predictions { wanted } else { wanted.max(found.fields().len()) };
        for position in 0..columns {
            let (left, right) = (expected.fields().get(position), found.fields().get(position));
            let same = left.zip(right).is_some_and(|(left, right)| {
                left.name() == right.name()
                    && left.data_type() == right.data_type()
                    && left.is_nullable() == right.is_nullable()
            });
            if !same {
                let describe =
                    |field: Option<&Arc<Field>>| field.map_or_else(|| "nothing".to_owned(), ToString::to_string);
                let (expected, found) = (describe(left), describe(right));
                return Err(TableError::Schema { table: self.name(), position, expected, found });
            }
        }
        Ok(())
    }
}

impl fmt::Display for TableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A row of one of the small tables; implemented by the `table!` declarations.
pub trait TableRow: Sized {
    /// The table.
    const KIND: TableKind;

    /// Its fields, in order.
    fn fields() -> Vec<Field>;

    /// The columns of these rows, in the order of [`TableRow::fields`].
    fn columns(rows: &[Self]) -> Vec<ArrayRef>;

    /// The rows of these columns; `None` when a column does not fit its field.
    fn from_columns(columns: &[ArrayRef]) -> Option<Vec<Self>>;

    /// The table's schema.
    fn schema() -> SchemaRef {
        Arc::new(Schema::new(Self::fields()))
    }

    /// One batch with these rows; no rows give an empty batch with all columns.
    fn batch(rows: &[Self]) -> Result<RecordBatch, TableError> {
        RecordBatch::try_new(Self::schema(), Self::columns(rows))
            .map_err(|source| TableError::Arrow { table: Self::KIND.name(), source })
    }

    /// Reads rows back from a batch of this table.
    fn rows(batch: &RecordBatch) -> Result<Vec<Self>, TableError> {
        Self::KIND.check(&batch.schema())?;
        Self::from_columns(batch.columns()).ok_or_else(|| TableError::Schema {
            table: Self::KIND.name(),
            position: 0,
            expected: "columns of the declared types".to_owned(),
            found: "unexpected nulls".to_owned(),
        })
    }
}

/// A batch of a table as one of this run, stage and case, with the columns of `schema`.
pub fn relabel(
    batch: &RecordBatch,
    (run_id, stage, case): (&str, &str, &str),
    schema: &SchemaRef,
    table: &'static str,
) -> Result<RecordBatch, TableError> {
    let rows = batch.num_rows();
    let column = |field: &FieldRef| match (field.name().as_str(), batch.column_by_name(field.name())) {
        ("run_id", _) => constant(run_id, rows),
        ("stage", _) => constant(stage, rows),
        ("case", _) => constant(case, rows),
        (_, Some(column)) => Arc::clone(column),
        (_, None) => new_null_array(field.data_type(), rows),
    };
    let columns = schema.fields().iter().map(column).collect();
    RecordBatch::try_new(Arc::clone(schema), columns).map_err(|source| TableError::Arrow { table, source })
}
