//! Reads rows to score a chunk at a time: memory does not grow with the input.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, Float64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Int64Type, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use super::InputFile;
use super::column::numbers;
use super::schema::{ColumnInfo, FileSummary, InputSchema, damaged, reader, summary};
use super::select::Selection;
use crate::store::StoreError;
use crate::store::guard::{guarded, next_batch};

/// Values in a chunk, about: bounds memory whatever the number of columns.
const CHUNK_VALUES: usize = 1 << 20;
/// Rows of a chunk are a multiple of this: whole tiles of the models.
const TILE: usize = 96;
/// The most rows of a chunk, in tiles.
const TILES: usize = 340;
/// Larger numbers have squares, or sums of squares, beyond floating point.
pub const LARGEST: f64 = 1e150;

/// The columns to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Features, by name, in the order of the model.
    pub features: Vec<String>,
    /// Column that identifies rows.
    pub key: Option<String>,
    /// Observed target.
    pub target: Option<String>,
    /// Columns to pass through.
    pub keep: Vec<String>,
}

/// Rows of one file, one after the other.
#[derive(Debug)]
pub struct Chunk {
    /// The file, counted from 0.
    pub file: usize,
    /// Number of the first row, in its file.
    pub offset: u64,
    /// Rows.
    pub rows: usize,
    /// Features row by row, `[rows, d]`; NaN where there is none.
    pub features: Vec<f64>,
    /// For each row, whether a model can use it.
    pub valid: Vec<bool>,
    /// The first value that a model cannot use.
    pub problem: Option<Problem>,
    /// Key, in its own type.
    pub key: Option<ArrayRef>,
    /// Target; null where it is not known.
    pub target: Option<Float64Array>,
    /// Columns passed through, in their own types.
    pub keep: Vec<ArrayRef>,
}

/// A value that a model cannot use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Row of the chunk.
    pub row: usize,
    /// Position of the feature.
    pub feature: usize,
    /// What it is.
    pub what: String,
}

/// The columns as the first file has them, checked in all files.
#[derive(Debug, Clone)]
pub struct Columns {
    wanted: Wanted,
    /// The key's field.
    pub key: Option<Field>,
    /// The fields passed through.
    pub keep: Vec<Field>,
}

impl Columns {
    /// Finds the columns, and checks them in every file.
    pub fn find(schema: &InputSchema, wanted: &Wanted) -> Result<Self, StoreError> {
        let Wanted { features, key, target, .. } = wanted.clone();
        schema.resolve(&Selection { key, features, target, extra: Vec::new() })?;
        let named = schema.files.first().map_or(&[][..], |file| &file.columns);
        let field = |name: &String| {
            let column = named.iter().find(|column| column.name == *name)?;
            Some(Field::new(name, column.data_type.clone(), true))
        };
        for name in &wanted.keep {
            schema.check_kept(name)?;
        }
        let key = wanted.key.as_ref().and_then(field).map(|field| field.with_nullable(false));
        Ok(Self { wanted: wanted.clone(), key, keep: wanted.keep.iter().filter_map(field).collect() })
    }

    /// A batch of a file as numbers and columns.
    fn chunk(&self, file: &InputFile, index: usize, offset: u64, batch: &RecordBatch) -> Result<Chunk, StoreError> {
        let (rows, width) = (batch.num_rows(), self.wanted.features.len());
        let mut chunk = Chunk {
            file: index,
            offset,
            rows,
            features: vec![f64::NAN; rows * width],
            valid: vec![true; rows],
            problem: None,
            key: None,
            target: None,
            keep: Vec::with_capacity(self.keep.len()),
        };
        let part = Part { file, batch };
        for (position, name) in self.wanted.features.iter().enumerate() {
            chunk.fill(position, width, &part.column(name, &DataType::Float64)?);
        }
        if let Some(name) = &self.wanted.target {
            chunk.target = Some(part.column(name, &DataType::Float64)?.as_primitive::<Float64Type>().clone());
        }
        if let Some(field) = &self.key {
            let key = part.column(field.name(), field.data_type())?;
            if let Some(row) = (0..rows).find(|row| key.is_null(*row)) {
                return Err(StoreError::Invalid {
                    path: file.path.clone(),
                    detail: "the key is null".to_owned(),
                    column: Some(field.name().clone()),
                    row: Some(offset + row as u64),
                    hint: "give every row a key, or leave `key` out to use row numbers".to_owned(),
                });
            }
            chunk.key = Some(key);
        }
        for field in &self.keep {
            chunk.keep.push(part.column(field.name(), field.data_type())?);
        }
        Ok(chunk)
    }
}

impl Chunk {
    /// Puts a feature into its place, and notes values that cannot be used.
    fn fill(&mut self, position: usize, width: usize, column: &ArrayRef) {
        let column = column.as_primitive::<Float64Type>();
        let has_nulls = column.null_count() > 0;
        let cells = self.features.iter_mut().skip(position).step_by(width);
        for (row, (cell, value)) in cells.zip(column.values()).enumerate() {
            let missing = has_nulls && column.is_null(row);
            if !missing && value.abs() <= LARGEST {
                *cell = *value;
                continue;
            }
            self.valid[row] = false;
            // The first by row, whatever the order in which columns are looked at.
            if self.problem.as_ref().is_none_or(|known| row < known.row) {
                let what = match value {
                    _ if missing => "null".to_owned(),
                    value if value.is_finite() => format!("{value:e}, too large to compute with"),
                    value => format!("{value}"),
                };
                self.problem = Some(Problem { row, feature: position, what });
            }
        }
    }
}

/// A batch, and the file whose directories may hold further columns.
struct Part<'a> {
    file: &'a InputFile,
    batch: &'a RecordBatch,
}

impl Part<'_> {
    /// A column in this type, or a partition's value in its stead.
    fn column(&self, name: &str, wanted: &DataType) -> Result<ArrayRef, StoreError> {
        let fail = |detail: String| {
            let hint = "the file is damaged, or this value is beyond what can be represented: check it";
            StoreError::invalid_column(&self.file.path, name, detail, hint)
        };
        let Some(column) = self.batch.column_by_name(name) else {
            let partition = self.file.hive.iter().find(|(key, _)| key == name);
            return self.partition(name, partition.and_then(|(_, value)| value.as_deref()), wanted);
        };
        match column.data_type() {
            same if same == wanted => Ok(Arc::clone(column)),
            // The usual types are converted here, where it is quick.
            DataType::Float32 if *wanted == DataType::Float64 => {
                let values = column.as_primitive::<Float32Type>();
                Ok(Arc::new(values.unary::<_, Float64Type>(f64::from)))
            }
            DataType::Int64 if *wanted == DataType::Float64 => {
                Ok(Arc::new(column.as_primitive::<Int64Type>().unary::<_, Float64Type>(|value| value as f64)))
            }
            _ if *wanted == DataType::Float64 => match numbers(column) {
                Ok(values) => Ok(Arc::new(values)),
                Err(error) => Err(fail(error.to_string())),
            },
            _ => cast(column, wanted).map_err(|error| fail(error.to_string())),
        }
    }

    fn partition(&self, name: &str, value: Option<&str>, wanted: &DataType) -> Result<ArrayRef, StoreError> {
        let rows = self.batch.num_rows();
        if *wanted != DataType::Float64 {
            return Ok(match value {
                Some(value) => Arc::new(StringArray::from_iter_values(std::iter::repeat_n(value, rows))),
                None => Arc::new(StringArray::new_null(rows)),
            });
        }
        let Some(value) = value else { return Ok(Arc::new(Float64Array::new_null(rows))) };
        let number: f64 = value.trim().parse().map_err(|_| {
            let hint = "use numbers in the directory names, or train a model without this feature";
            let detail = format!("the partition value `{value}` is not a number");
            StoreError::invalid_column(&self.file.path, name, detail, hint)
        })?;
        Ok(Arc::new(Float64Array::from_value(number, rows)))
    }
}

/// Parquet files, read one after the other.
pub struct ParquetChunks {
    files: Vec<InputFile>,
    known: Vec<FileSummary>,
    columns: Columns,
    next: usize,
    open: Option<(ParquetRecordBatchReader, u64)>,
}

impl ParquetChunks {
    /// Checks the columns of files whose footers are known; nothing is read yet.
    pub fn open(files: Vec<InputFile>, schema: InputSchema, wanted: &Wanted) -> Result<Self, StoreError> {
        let columns = Columns::find(&schema, wanted)?;
        Ok(Self { files, known: schema.files, columns, next: 0, open: None })
    }

    /// The columns.
    pub const fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Rows of all files.
    pub fn rows(&self) -> u64 {
        self.known.iter().map(|file| file.rows).sum()
    }

    /// The files with their rows.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        self.known.iter().map(|file| (file.path.clone(), file.rows)).collect()
    }

    fn open_next(&mut self) -> Result<(), StoreError> {
        let (file, known) = (&self.files[self.next], &self.known[self.next]);
        let reader = reader(&file.path).map_err(StoreError::vanished)?;
        if summary(file, &reader)? != *known {
            let hint = "wait until its writer is done; replace files by renaming rather than in place";
            return Err(StoreError::invalid(&file.path, "the file changed while it was read", hint));
        }
        let Wanted { features, key, target, keep } = &self.columns.wanted;
        let wanted = |name: &String| {
            features.contains(name)
                || key.as_ref() == Some(name)
                || target.as_ref() == Some(name)
                || keep.contains(name)
        };
        let fields = reader.builder.schema().fields().iter().enumerate();
        let indices: Vec<usize> = fields.filter(|(_, field)| wanted(field.name())).map(|(index, _)| index).collect();
        let tiles = (CHUNK_VALUES / indices.len().max(1) / TILE).clamp(1, TILES);
        let mask = ProjectionMask::roots(reader.builder.parquet_schema(), indices);
        let builder = reader.builder.with_projection(mask).with_batch_size(tiles * TILE);
        let batches = guarded(|| builder.build()).map_err(|error| damaged(&file.path, &error))?;
        self.open = Some((batches, 0));
        Ok(())
    }

    /// The next chunk; a file without rows gives one without rows.
    fn advance(&mut self) -> Result<Option<Chunk>, StoreError> {
        loop {
            if self.next == self.files.len() {
                return Ok(None);
            }
            if self.open.is_none() {
                self.open_next()?;
            }
            let (index, file, known) = (self.next, &self.files[self.next], &self.known[self.next]);
            let Some((batches, read)) = &mut self.open else { continue };
            let Some(batch) = next_batch(batches).map_err(|error| damaged(&file.path, &error))? else {
                let read = *read;
                self.open = None;
                self.next += 1;
                if read != known.rows {
                    let detail = format!("its footer promises {} rows, but it has {read}", known.rows);
                    return Err(StoreError::invalid(&file.path, detail, "the file is damaged: write or copy it again"));
                }
                if read == 0 {
                    return Ok(Some(self.columns.empty(index)));
                }
                continue;
            };
            let offset = *read;
            *read += batch.num_rows() as u64;
            return self.columns.chunk(file, index, offset, &batch).map(Some);
        }
    }
}

impl Iterator for ParquetChunks {
    type Item = Result<Chunk, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}

impl Columns {
    /// A chunk without rows.
    fn empty(&self, file: usize) -> Chunk {
        let column = |field: &Field| arrow::array::new_empty_array(field.data_type());
        Chunk {
            file,
            offset: 0,
            rows: 0,
            features: Vec::new(),
            valid: Vec::new(),
            problem: None,
            key: self.key.as_ref().map(column),
            target: self.wanted.target.as_ref().map(|_| Float64Array::new_null(0)),
            keep: self.keep.iter().map(column).collect(),
        }
    }
}

/// Batches of a stream that has a schema and a name, but no files.
pub struct BatchChunks<I> {
    batches: I,
    file: InputFile,
    columns: Columns,
    read: u64,
}

impl<I: Iterator<Item = Result<RecordBatch, StoreError>>> BatchChunks<I> {
    /// Checks the columns.
    pub fn new(name: &Path, schema: &SchemaRef, batches: I, wanted: &Wanted) -> Result<Self, StoreError> {
        let columns = schema.fields().iter().map(|field| ColumnInfo {
            name: field.name().clone(),
            data_type: field.data_type().clone(),
            partition: false,
        });
        let only = FileSummary { path: name.to_owned(), rows: 0, bytes: 0, columns: columns.collect() };
        let columns = Columns::find(&InputSchema { files: vec![only] }, wanted)?;
        Ok(Self { batches, file: InputFile { path: name.to_owned(), hive: Vec::new() }, columns, read: 0 })
    }

    /// The columns.
    pub const fn columns(&self) -> &Columns {
        &self.columns
    }
}

impl<I: Iterator<Item = Result<RecordBatch, StoreError>>> Iterator for BatchChunks<I> {
    type Item = Result<Chunk, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = match self.batches.next()? {
            Ok(batch) => batch,
            Err(error) => return Some(Err(error)),
        };
        let offset = self.read;
        self.read += batch.num_rows() as u64;
        Some(self.columns.chunk(&self.file, 0, offset, &batch))
    }
}
