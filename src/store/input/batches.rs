//! Parquet files as batches of rows, and the columns of a batch in the types they are wanted in.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _, Float64Array, RecordBatch, RecordBatchReader as _, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int64Type};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use super::InputFile;
use super::column::{numbers, text};
use super::schema::{FileSummary, InputSchema, damaged, reader, summary};
use crate::store::StoreError;
use crate::store::guard::{guarded, next_batch};

/// Values in a batch, about: bounds memory whatever the number of columns.
const BATCH_VALUES: usize = 1 << 20;
/// Rows of a batch are a multiple of this: whole tiles of the models.
const TILE: usize = 96;
/// The most rows of a batch, in tiles.
const TILES: usize = 340;

/// How many rows of so many columns are handled together.
pub fn rows_together(columns: usize) -> usize {
    TILE * (BATCH_VALUES / columns.max(1) / TILE).clamp(1, TILES)
}

/// Rows of a file, one after the other.
pub(super) struct FilePart<'a> {
    /// The file, whose directories may hold further columns.
    pub file: &'a InputFile,
    /// Which one, counted from 0.
    pub index: usize,
    /// Number of the first row, in its file.
    pub offset: u64,
    pub batch: RecordBatch,
    /// What to do about a partition that is not a number.
    pub advice: &'static str,
}

impl FilePart<'_> {
    /// A column in this type, or a partition's value in its stead.
    pub(super) fn column(&self, name: &str, wanted: &DataType) -> Result<ArrayRef, StoreError> {
        let Some(column) = self.batch.column_by_name(name) else {
            let partition = self.file.hive.iter().find(|(key, _)| key == name);
            return self.partition(name, partition.and_then(|(_, value)| value.as_deref()), wanted);
        };
        let converted: Result<ArrayRef, _> = match (column.data_type(), wanted) {
            (same, wanted) if same == wanted => return Ok(Arc::clone(column)),
            // The usual types are converted here, where it is quick.
            (DataType::Float32, DataType::Float64) => {
                Ok(Arc::new(column.as_primitive::<Float32Type>().unary::<_, Float64Type>(f64::from)))
            }
            (DataType::Int64, DataType::Float64) => {
                Ok(Arc::new(column.as_primitive::<Int64Type>().unary::<_, Float64Type>(|value| value as f64)))
            }
            (_, DataType::Float64) => numbers(column).map(|values| Arc::new(values) as ArrayRef),
            (_, DataType::Utf8) => text(column).map(|values| Arc::new(values) as ArrayRef),
            _ => cast(column, wanted),
        };
        converted.map_err(|error| {
            let hint = "the file is damaged, or this value is beyond what can be represented: check it";
            StoreError::invalid_column(&self.file.path, name, error.to_string(), hint)
        })
    }

    /// A column as numbers; null where there is none.
    pub(super) fn numbers(&self, name: &str) -> Result<Float64Array, StoreError> {
        Ok(self.column(name, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
    }

    /// A column of numbers that fit, one for every row; `what` they are is for messages.
    pub(super) fn positive(&self, name: &str, what: &str, fits: fn(f64) -> bool) -> Result<Vec<f64>, StoreError> {
        let values = self.numbers(name)?;
        let value = |(row, value): (usize, Option<f64>)| {
            value.filter(|value| value.is_finite() && fits(*value)).ok_or_else(|| StoreError::Invalid {
                path: self.file.path.clone(),
                detail: match value {
                    Some(value) => format!("{value} is not {what}"),
                    None => format!("null is not {what}"),
                },
                column: Some(name.to_owned()),
                row: Some(self.offset + row as u64),
                hint: "give every row a finite positive number, or remove the row".to_owned(),
            })
        };
        values.iter().enumerate().map(value).collect()
    }

    /// The column that identifies rows, in this type; every row has one.
    pub(super) fn key(&self, name: &str, wanted: &DataType) -> Result<ArrayRef, StoreError> {
        let key = self.column(name, wanted)?;
        let Some(row) = (0..key.len()).find(|row| key.is_null(*row)) else { return Ok(key) };
        Err(StoreError::Invalid {
            path: self.file.path.clone(),
            detail: "the key is null".to_owned(),
            column: Some(name.to_owned()),
            row: Some(self.offset + row as u64),
            hint: "give every row a key, or leave `key` out to use row numbers".to_owned(),
        })
    }

    fn partition(&self, name: &str, value: Option<&str>, wanted: &DataType) -> Result<ArrayRef, StoreError> {
        let rows = self.batch.num_rows();
        if *wanted != DataType::Float64 {
            return Ok(match value {
                Some(value) => Arc::new(StringArray::from_iter_values(std::iter::repeat_n(value, rows))),
                None => Arc::new(StringArray::new_null(rows)),
            });
        }
        let Some(value) = value.filter(|_| rows > 0) else { return Ok(Arc::new(Float64Array::new_null(rows))) };
        let number: f64 = value.trim().parse().map_err(|_| {
            let hint = format!("use numbers in the directory names, or {}", self.advice);
            let detail = format!("the partition value `{value}` is not a number");
            StoreError::invalid_column(&self.file.path, name, detail, hint)
        })?;
        Ok(Arc::new(Float64Array::from_value(number, rows)))
    }
}

fn changed(file: &InputFile) -> StoreError {
    let hint = "wait until its writer is done; replace files by renaming rather than in place";
    StoreError::invalid(&file.path, "the file changed while it was read", hint)
}

/// Parquet files, read one after the other.
pub(super) struct Batches {
    files: Vec<InputFile>,
    known: Vec<FileSummary>,
    /// What the files were when reading began.
    identities: Vec<String>,
    wanted: BTreeSet<String>,
    advice: &'static str,
    next: usize,
    open: Option<(ParquetRecordBatchReader, u64)>,
    /// Rows that are looked at, by file: from the first to the last that is wanted. None: all of them.
    looks: Option<Vec<Range<u64>>>,
    /// Where the rows of the open file end that are looked at.
    end: u64,
}

impl Batches {
    /// The wanted columns of files whose footers are known; nothing is read yet.
    pub(super) fn new(
        files: Vec<InputFile>,
        schema: InputSchema,
        wanted: BTreeSet<String>,
        advice: &'static str,
    ) -> Result<Self, StoreError> {
        let identities = files.iter().map(InputFile::identity).collect::<Result<_, _>>()?;
        Ok(Self { files, known: schema.files, identities, wanted, advice, next: 0, open: None, looks: None, end: 0 })
    }

    /// Looks only at row groups from the first of these rows of all files, in increasing order, to the last of each file.
    pub(super) fn look_at(&mut self, rows: &[usize]) {
        let mut first = 0;
        let look = |file: &FileSummary| {
            let end = first + file.rows;
            let own = &rows
                [rows.partition_point(|row| (*row as u64) < first)..rows.partition_point(|row| (*row as u64) < end)];
            let look = match (own.first(), own.last()) {
                (Some(low), Some(high)) => *low as u64 - first..*high as u64 + 1 - first,
                _ => 0..0,
            };
            first = end;
            look
        };
        self.looks = Some(self.known.iter().map(look).collect());
    }

    pub(super) fn known(&self) -> &[FileSummary] {
        &self.known
    }

    // Whether a file is what it was when reading began.
    fn is_same(&self, index: usize) -> bool {
        self.files[index].identity().is_ok_and(|identity| identity == self.identities[index])
    }

    /// The rows of the next file, and the numbers of the first of them and of what comes after the last.
    fn open_next(&self) -> Result<(ParquetRecordBatchReader, Range<u64>), StoreError> {
        let (file, known) = (&self.files[self.next], &self.known[self.next]);
        let reader = reader(&file.path).map_err(StoreError::vanished)?;
        if summary(file, &reader)? != *known {
            return Err(changed(file));
        }
        let fields = reader.builder.schema().fields().iter().enumerate();
        let wanted = fields.filter(|(_, field)| self.wanted.contains(field.name()));
        let indices: Vec<usize> = wanted.map(|(index, _)| index).collect();
        let rows = rows_together(indices.len());
        let mask = ProjectionMask::roots(reader.builder.parquet_schema(), indices);
        let mut builder = reader.builder.with_projection(mask).with_batch_size(rows);
        let mut range = 0..known.rows;
        if let Some(look) = self.looks.as_ref().map(|looks| &looks[self.next]) {
            let counts: Vec<u64> =
                builder.metadata().row_groups().iter().map(|group| group.num_rows() as u64).collect();
            let (mut groups, mut begin) = (Vec::new(), 0);
            range = 0..0;
            for (index, count) in counts.into_iter().enumerate() {
                let end = begin + count;
                if begin < look.end && end > look.start {
                    range = if groups.is_empty() { begin..end } else { range.start..end };
                    groups.push(index);
                }
                begin = end;
            }
            builder = builder.with_row_groups(groups);
        }
        Ok((guarded(|| builder.build()).map_err(|error| damaged(&file.path, &error))?, range))
    }

    /// The next rows; a file without rows gives a part without rows.
    pub(super) fn next_part(&mut self) -> Result<Option<FilePart<'_>>, StoreError> {
        while self.next < self.files.len() {
            let index = self.next;
            let (mut batches, offset) = if let Some(open) = self.open.take() {
                open
            } else {
                let (batches, range) = self.open_next()?;
                self.end = range.end;
                (batches, range.start)
            };
            let path = &self.files[index].path;
            // Half of a file that is being written looks damaged: what it is has to be said first.
            let unreadable =
                |error| if self.is_same(index) { damaged(path, &error) } else { changed(&self.files[index]) };
            let batch = next_batch(&mut batches).map_err(unreadable)?;
            let batch = if let Some(batch) = batch {
                self.open = Some((batches, offset + batch.num_rows() as u64));
                batch
            } else {
                self.next += 1;
                // Rows of before and rows of after are those of no file: one that is written in place shows now at the latest.
                if !self.is_same(index) {
                    return Err(changed(&self.files[index]));
                }
                let promised = self.end;
                if offset != promised {
                    let detail = format!("its footer promises {promised} rows, but it has {offset}");
                    return Err(StoreError::invalid(path, detail, "the file is damaged: write or copy it again"));
                }
                if offset > 0 {
                    continue;
                }
                RecordBatch::new_empty(batches.schema())
            };
            return Ok(Some(FilePart { file: &self.files[index], index, offset, batch, advice: self.advice }));
        }
        Ok(None)
    }
}
