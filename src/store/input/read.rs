//! Reads the selected columns into one matrix, a batch of rows at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use arrow::array::{ArrayRef, Float64Array, RecordBatch};
use ndarray::{Array1, Array2};
use parquet::arrow::ProjectionMask;

use super::column::{numbers, text};
use super::quality::{ColumnQuality, InvalidPolicy, check_quality};
use super::schema::{InputSchema, Reader, damaged, peek, reader, summary};
use super::select::{Resolved, Selection};
use super::{InputFile, sha256_file};
use crate::store::StoreError;
use crate::store::guard::{guarded, next_batch};

/// Values in a batch, about: bounds the memory beside the matrix whatever the number of columns.
const BATCH_VALUES: usize = 1 << 20;

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Where.
    pub path: PathBuf,
    /// Rows.
    pub rows: u64,
    /// SHA-256, in hexadecimal.
    pub sha256: String,
    /// Partition columns from `key=value` directories; none = null.
    pub hive: Vec<(String, Option<String>)>,
}

/// The selected columns of an input, in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct InputTable {
    /// The files, in order of their rows.
    pub files: Vec<SourceFile>,
    /// Names of the features.
    pub feature_names: Vec<String>,
    /// Features: [n, d].
    pub features: Array2<f64>,
    /// Target: [n].
    pub target: Option<Array1<f64>>,
    /// Name of the key column.
    pub key_name: Option<String>,
    /// Key of each row, as text.
    pub key: Option<Vec<String>>,
    /// Further columns, as text.
    pub extra: BTreeMap<String, Vec<Option<String>>>,
    /// n.
    pub row_count: usize,
    /// What the numeric columns hold: features in order, then the target.
    pub quality: Vec<ColumnQuality>,
}

impl InputTable {
    /// The file and the row in it (from 0) of a row of the table.
    pub fn locate(&self, row: usize) -> (&Path, u64) {
        let mut rest = row as u64;
        for file in &self.files {
            if rest < file.rows {
                return (&file.path, rest);
            }
            rest -= file.rows;
        }
        (Path::new(""), rest)
    }

    /// The key of a row: its own, or its number when the input has no key column.
    pub fn key_text(&self, row: usize) -> String {
        self.key.as_ref().and_then(|keys| keys.get(row).cloned()).unwrap_or_else(|| row.to_string())
    }
}

/// Reads the selected columns of these files.
pub fn open(files: &[InputFile], selection: &Selection, policy: InvalidPolicy) -> Result<InputTable, StoreError> {
    // Footers first, each file closed again: an input may have more files than a process may hold open.
    let schema = peek(files)?;
    let resolved = schema.resolve(selection)?;
    let mut columns = Columns::with_room(&schema, &resolved)?;
    let mut sources = Vec::with_capacity(files.len());
    for (file, known) in files.iter().zip(&schema.files) {
        let reader = reader(&file.path)?;
        if summary(file, &reader)? != *known {
            let hint = "wait until its writer is done; replace files by renaming rather than in place";
            return Err(StoreError::invalid(&file.path, "the file changed while it was read", hint));
        }
        columns.read_file(file, reader, known.rows, &resolved)?;
        let sha256 = sha256_file(&file.path)?;
        sources.push(SourceFile { path: file.path.clone(), rows: known.rows, sha256, hive: file.hive.clone() });
    }
    if policy == InvalidPolicy::Error {
        check_quality(&columns.quality)?;
    }
    columns.into_table(sources, resolved)
}

/// The table while it grows.
struct Columns {
    rows: usize,
    /// Row by row, d values each.
    features: Vec<f64>,
    target: Vec<f64>,
    key: Vec<String>,
    extra: Vec<Vec<Option<String>>>,
    quality: Vec<ColumnQuality>,
}

impl Columns {
    /// Memory for all rows at once; a footer may claim more rows than there can be.
    fn with_room(schema: &InputSchema, resolved: &Resolved) -> Result<Self, StoreError> {
        let width = resolved.features.len();
        let rows = usize::try_from(schema.rows()).unwrap_or(usize::MAX);
        let mut features = Vec::new();
        let reserved = rows.checked_mul(width).is_some_and(|values| features.try_reserve_exact(values).is_ok());
        if !reserved {
            let path = schema.files.first().map_or(Path::new(""), |file| &file.path);
            let detail = format!("{rows} rows of {width} features do not fit into memory");
            return Err(StoreError::invalid(path, detail, "read fewer rows or columns, or use a larger machine"));
        }
        let names = resolved.features.iter().chain(&resolved.target);
        let quality = names.map(|name| ColumnQuality::new(name)).collect();
        let extra = vec![Vec::new(); resolved.extra.len()];
        Ok(Self { rows: 0, features, target: Vec::new(), key: Vec::new(), extra, quality })
    }

    fn read_file(
        &mut self,
        file: &InputFile,
        reader: Reader,
        rows: u64,
        resolved: &Resolved,
    ) -> Result<(), StoreError> {
        let wanted = resolved.names();
        let indices: Vec<usize> = {
            let fields = reader.builder.schema().fields().iter().enumerate();
            fields.filter(|(_, field)| wanted.contains(field.name().as_str())).map(|(index, _)| index).collect()
        };
        let mask = ProjectionMask::roots(reader.builder.parquet_schema(), indices.iter().copied());
        let batch_rows = (BATCH_VALUES / indices.len().max(1)).clamp(256, 1 << 14);
        let builder = reader.builder.with_projection(mask).with_batch_size(batch_rows);
        let mut batches = guarded(|| builder.build()).map_err(|error| damaged(&file.path, &error))?;
        let mut read = 0;
        while let Some(batch) = next_batch(&mut batches).map_err(|error| damaged(&file.path, &error))? {
            self.add_batch(&Part { file, batch: &batch, offset: read }, resolved)?;
            read += batch.num_rows() as u64;
        }
        if read != rows {
            let detail = format!("its footer promises {rows} rows, but it has {read}");
            return Err(StoreError::invalid(&file.path, detail, "the file is damaged: write or copy it again"));
        }
        Ok(())
    }

    fn add_batch(&mut self, part: &Part, resolved: &Resolved) -> Result<(), StoreError> {
        let rows = part.batch.num_rows();
        if rows == 0 {
            return Ok(());
        }
        let width = resolved.features.len();
        let start = self.features.len();
        self.features.resize(start + rows * width, f64::NAN);
        for (index, name) in resolved.features.iter().enumerate() {
            let values = part.numbers(name)?;
            let cells = self.features[start + index..].iter_mut().step_by(width);
            for (row, (cell, value)) in cells.zip(values.iter()).enumerate() {
                *cell = value.unwrap_or(f64::NAN);
                self.quality[index].note(value, part, row);
            }
        }
        if let Some(name) = &resolved.target {
            for (row, value) in part.numbers(name)?.iter().enumerate() {
                self.target.push(value.unwrap_or(f64::NAN));
                self.quality[width].note(value, part, row);
            }
        }
        if let Some(name) = &resolved.key {
            part.keys(name, &mut self.key)?;
        }
        for (name, values) in resolved.extra.iter().zip(&mut self.extra) {
            values.extend(part.text(name)?);
        }
        self.rows += rows;
        Ok(())
    }

    fn into_table(self, files: Vec<SourceFile>, resolved: Resolved) -> Result<InputTable, StoreError> {
        let shape = (self.rows, resolved.features.len());
        let features = Array2::from_shape_vec(shape, self.features).map_err(|error| {
            let path = files.first().map_or(Path::new(""), |file| &file.path);
            damaged(path, &error)
        })?;
        Ok(InputTable {
            files,
            feature_names: resolved.features,
            features,
            target: resolved.target.is_some().then(|| Array1::from_vec(self.target)),
            key: resolved.key.is_some().then_some(self.key),
            key_name: resolved.key,
            extra: resolved.extra.into_iter().zip(self.extra).collect(),
            row_count: self.rows,
            quality: self.quality,
        })
    }
}

impl ColumnQuality {
    fn note(&mut self, value: Option<f64>, part: &Part, row: usize) {
        if self.count(value) && self.first_invalid.is_none() {
            self.first_invalid = Some((part.file.path.clone(), part.offset + row as u64));
        }
    }
}

/// A batch of a file, with its place in it.
struct Part<'a> {
    file: &'a InputFile,
    batch: &'a RecordBatch,
    /// Row of the file with which the batch begins.
    offset: u64,
}

impl Part<'_> {
    /// A column of the file, or a partition's value in its stead.
    fn column(&self, name: &str) -> Result<&ArrayRef, Option<&str>> {
        self.batch.column_by_name(name).ok_or_else(|| {
            let partition = self.file.hive.iter().find(|(key, _)| key == name);
            partition.and_then(|(_, value)| value.as_deref())
        })
    }

    fn fail(&self, name: &str, detail: impl std::fmt::Display) -> StoreError {
        let hint = "the file is damaged, or this value is beyond what can be represented: check it";
        StoreError::invalid_column(&self.file.path, name, detail.to_string(), hint)
    }

    fn numbers(&self, name: &str) -> Result<Float64Array, StoreError> {
        let rows = self.batch.num_rows();
        match self.column(name) {
            Ok(column) => numbers(column).map_err(|error| self.fail(name, error)),
            Err(None) => Ok(Float64Array::new_null(rows)),
            Err(Some(value)) => {
                let number: f64 = value.trim().parse().map_err(|_| {
                    let hint = "use numbers in the directory names, or leave this partition out of features and target";
                    let detail = format!("the partition value `{value}` is not a number");
                    StoreError::invalid_column(&self.file.path, name, detail, hint)
                })?;
                Ok(Float64Array::from_value(number, rows))
            }
        }
    }

    fn text(&self, name: &str) -> Result<Vec<Option<String>>, StoreError> {
        match self.column(name) {
            Ok(column) => {
                let text = text(column).map_err(|error| self.fail(name, error))?;
                Ok(text.iter().map(|value| value.map(str::to_owned)).collect())
            }
            Err(value) => Ok(vec![value.map(str::to_owned); self.batch.num_rows()]),
        }
    }

    fn keys(&self, name: &str, keys: &mut Vec<String>) -> Result<(), StoreError> {
        for (row, key) in self.text(name)?.into_iter().enumerate() {
            let Some(key) = key else {
                return Err(StoreError::Invalid {
                    path: self.file.path.clone(),
                    detail: "the key is null".to_owned(),
                    column: Some(name.to_owned()),
                    row: Some(self.offset + row as u64),
                    hint: "give every row a key, or leave `key` out to use row numbers".to_owned(),
                });
            };
            keys.push(key);
        }
        Ok(())
    }
}
