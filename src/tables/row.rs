//! What every table can do.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};

use super::predictions::constant;

use super::{TableError, TableKind};

impl TableKind {
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

/// A row of one of the small tables; implemented by the `tables!` declarations.
pub trait TableRow: Sized {
    const KIND: TableKind;

    /// Its fields, in order.
    fn fields() -> Vec<Field>;

    /// The columns of these rows, in the order of [`TableRow::fields`].
    fn columns(rows: &[Self]) -> Vec<ArrayRef>;

    /// The rows of these columns; `None` when a column does not fit its field.
    fn from_columns(columns: &[ArrayRef]) -> Option<Vec<Self>>;

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
