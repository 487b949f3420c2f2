//! Reads rows to score a chunk at a time: memory does not grow with the input.

use std::path::{Path, PathBuf};

use arrow::array::{Array as _, ArrayRef, Float64Array, RecordBatch};
use arrow::datatypes::{Field, SchemaRef};

use super::InputFile;
use super::batches::{Batches, FilePart};
use super::features::FeatureReader;
use super::schema::{ColumnInfo, FileSummary, InputSchema};
use super::select::{DeclaredColumn, Selection};
use crate::features::FeatureColumn;
use crate::store::StoreError;

/// Larger numbers have squares, or sums of squares, beyond floating point.
pub const LARGEST: f64 = 1e150;
/// Smaller numbers have squares that vanish.
pub const SMALLEST: f64 = 1e-160;

/// The columns to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Features, as the model takes them, in its order.
    pub features: Vec<FeatureColumn>,
    pub key: Option<String>,
    pub target: Option<String>,
    pub keep: Vec<String>,
}

/// Rows of one file, one after the other.
#[derive(Debug)]
pub struct Chunk {
    /// The file, counted from 0.
    pub file: usize,
    /// Number of the first row, in its file.
    pub offset: u64,
    pub rows: usize,
    /// Features as they are read, row by row, `[rows, d]`; NaN where there is none.
    pub features: Vec<f64>,
    /// The levels of each feature that is a category, by number.
    pub levels: Vec<Vec<String>>,
    /// For each row, whether a model can use it.
    pub valid: Vec<bool>,
    /// The first value that a model cannot use.
    pub problem: Option<UnusableValue>,
    /// Key, in its own type.
    pub key: Option<ArrayRef>,
    /// Target; null where it is not known.
    pub target: Option<Float64Array>,
    /// Columns passed through, in their own types.
    pub keep: Vec<ArrayRef>,
}

/// A value that a model cannot use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableValue {
    pub row: usize,
    pub feature: usize,
    pub what: String,
}

/// The columns as the first file has them, checked in all files.
#[derive(Debug, Clone)]
pub struct Columns {
    wanted: Wanted,
    pub key: Option<Field>,
    pub keep: Vec<Field>,
}

impl Columns {
    /// Finds the columns, and checks them in every file.
    pub fn find(schema: &InputSchema, wanted: &Wanted) -> Result<Self, StoreError> {
        let Wanted { features, key, target, .. } = wanted.clone();
        let declared = features.iter().map(|FeatureColumn { name, kind, missing, .. }| DeclaredColumn {
            name: name.clone(),
            kind: Some(*kind),
            missing: *missing,
            one_hot: None,
        });
        let declared = declared.collect();
        let features = features.into_iter().map(|column| column.name).collect();
        schema.resolve(&Selection { key, features, declared, target, ..Selection::default() })?;
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

    /// Rows as numbers and columns.
    fn chunk(&self, part: &FilePart<'_>) -> Result<Chunk, StoreError> {
        let (rows, width) = (part.batch.num_rows(), self.wanted.features.len());
        let column = |field: &Field| part.column(field.name(), field.data_type());
        let mut chunk = Chunk {
            file: part.index,
            offset: part.offset,
            rows,
            features: vec![f64::NAN; rows * width],
            levels: Vec::with_capacity(width),
            valid: vec![true; rows],
            problem: None,
            key: self.key.as_ref().map(|key| part.key(key.name(), key.data_type())).transpose()?,
            target: self.wanted.target.as_ref().map(|target| part.numbers(target)).transpose()?,
            keep: self.keep.iter().map(column).collect::<Result<_, _>>()?,
        };
        for (position, column) in self.wanted.features.iter().enumerate() {
            let mut reader = FeatureReader::new(column);
            chunk.fill(position, width, &reader.read(part)?, !column.missing.is_error());
            chunk.levels.push(reader.finish());
        }
        Ok(chunk)
    }
}

impl Chunk {
    /// Puts a feature into its place, and notes values that cannot be used.
    fn fill(&mut self, position: usize, width: usize, column: &Float64Array, fills_gaps: bool) {
        let has_nulls = column.null_count() > 0;
        let cells = self.features.iter_mut().skip(position).step_by(width);
        for (row, (cell, value)) in cells.zip(column.values()).enumerate() {
            let missing = has_nulls && column.is_null(row);
            if !missing && value.abs() <= LARGEST {
                *cell = *value;
                continue;
            }
            if fills_gaps && (missing || value.is_nan()) {
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
                self.problem = Some(UnusableValue { row, feature: position, what });
            }
        }
    }
}

/// What to do about a feature that is not a number.
const ADVICE: &str = "train a model without this feature";

/// The chunks of Parquet files.
pub struct ParquetChunks {
    batches: Batches,
    columns: Columns,
}

impl ParquetChunks {
    /// Checks the columns of files whose footers are known; nothing is read yet.
    pub fn open(files: Vec<InputFile>, schema: InputSchema, wanted: &Wanted) -> Result<Self, StoreError> {
        let columns = Columns::find(&schema, wanted)?;
        let Wanted { features, key, target, keep } = wanted;
        let features = features.iter().map(|column| &column.name);
        let names = features.chain(key).chain(target).chain(keep).cloned().collect();
        Ok(Self { batches: Batches::new(files, schema, names, ADVICE)?, columns })
    }

    pub const fn columns(&self) -> &Columns {
        &self.columns
    }

    pub fn rows(&self) -> u64 {
        self.batches.known().iter().map(|file| file.rows).sum()
    }

    /// The files with their rows.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        self.batches.known().iter().map(|file| (file.path.clone(), file.rows)).collect()
    }
}

impl Iterator for ParquetChunks {
    type Item = Result<Chunk, StoreError>;

    /// The next chunk; a file without rows gives one without rows.
    fn next(&mut self) -> Option<Self::Item> {
        self.batches.next_part().and_then(|part| part.map(|part| self.columns.chunk(&part)).transpose()).transpose()
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
    pub fn new(name: &Path, schema: &SchemaRef, batches: I, wanted: &Wanted) -> Result<Self, StoreError> {
        let columns = schema.fields().iter().map(|field| ColumnInfo {
            name: field.name().clone(),
            data_type: field.data_type().clone(),
            partition: false,
        });
        let only = FileSummary { path: name.to_owned(), rows: 0, bytes: 0, columns: columns.collect() };
        let columns = Columns::find(&InputSchema { files: vec![only] }, wanted)?;
        Ok(Self { batches, file: InputFile::new(name.to_owned()), columns, read: 0 })
    }

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
        Some(self.columns.chunk(&FilePart { file: &self.file, index: 0, offset, batch, advice: ADVICE }))
    }
}
