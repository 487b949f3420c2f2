//! Reads the selected columns into one matrix, a batch of rows at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use arrow::array::{AsArray as _, UInt64Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::DataType;
use ndarray::{Array1, Array2};

use super::InputFile;
use super::batches::{Batches, FilePart};
use super::features::FeatureReader;
use super::keys::{KeyBuilder, KeyColumn, KeyForm, KeyValues};
use super::progress::ReadProgress;
use super::quality::{ColumnQuality, InvalidPolicy, check_quality};
use super::schema::{FileSummary, InputSchema, damaged, peek};
use super::select::{Resolved, Selection};
use crate::eval::sketch::{number_hash, row_hash};
use crate::features::{FeatureColumn, RawRows};
use crate::store::StoreError;

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    pub path: PathBuf,
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
    pub feature_names: Vec<String>,
    /// What each of them is.
    pub columns: Vec<FeatureColumn>,
    /// The levels of each feature that is a category, by number.
    pub levels: Vec<Vec<String>>,
    /// Features as they are read, see [`crate::features`]: [n, d].
    pub features: Array2<f64>,
    /// Target: [n].
    pub target: Option<Array1<f64>>,
    /// The weight of each row: [n].
    pub weight: Option<Array1<f64>>,
    /// The known noise of each row's target: [n].
    pub noise_std: Option<Array1<f64>>,
    /// Name of the key column.
    pub key_name: Option<String>,
    /// Key of each row, as text.
    pub key: Option<Vec<String>>,
    /// Further columns, as text.
    pub extra: BTreeMap<String, Vec<Option<String>>>,
    /// Columns that divide rows, each in the forms that were asked for.
    pub keys: Vec<(KeyColumn, KeyValues)>,
    pub row_count: usize,
    /// Which rows of the input these are, in increasing order; none where they are all.
    pub numbers: Option<Vec<usize>>,
    /// Of an outline: a number for the features of each row, which are not kept.
    pub outline: Option<Vec<u64>>,
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

    /// The features as they are read.
    pub fn raw(&self) -> RawRows<'_> {
        RawRows { values: self.features.view(), levels: &self.levels }
    }

    /// The values of a column that divides rows.
    pub fn key_values(&self, name: &str, form: KeyForm) -> Option<&KeyValues> {
        let found = self.keys.iter().find(|(column, _)| column.name == name && column.form == form);
        found.map(|(_, values)| values)
    }

    /// The key of a row: its own, or its number when the input has no key column.
    pub fn key_text(&self, row: usize) -> String {
        self.key.as_ref().and_then(|keys| keys.get(row).cloned()).unwrap_or_else(|| self.number(row).to_string())
    }

    /// The number of a row in the input.
    pub fn number(&self, row: usize) -> usize {
        self.numbers.as_ref().map_or(row, |numbers| numbers[row])
    }

    /// A number for the features of each row; that of other features is another one, as good as always.
    pub fn identities(&self) -> Vec<u64> {
        let all = || self.features.rows().into_iter().map(|row| identity(row.iter().copied())).collect();
        self.outline.clone().unwrap_or_else(all)
    }
}

fn identity(features: impl Iterator<Item = f64>) -> u64 {
    row_hash(features.map(number_hash))
}

/// What is kept of what is read.
#[derive(Debug, Clone, Copy)]
pub enum Keep<'a> {
    All,
    /// Everything but features and target, of which the quality is known then: what it takes to divide rows.
    Outline,
    /// These rows, in increasing order; what they lie between is not looked at.
    Rows(&'a [usize]),
}

/// Reads the selected columns of these files.
pub fn open(files: &[InputFile], selection: &Selection, policy: InvalidPolicy) -> Result<InputTable, StoreError> {
    open_parts(files, selection, policy, Keep::All)
}

/// The same of a part of them.
pub fn open_parts(
    files: &[InputFile],
    selection: &Selection,
    policy: InvalidPolicy,
    keep: Keep<'_>,
) -> Result<InputTable, StoreError> {
    // Footers first, each file closed again: an input may have more files than a process may hold open.
    let schema = peek(files)?;
    let resolved = schema.resolve(selection)?;
    let mut table = TableBuilder::with_room(&schema, &resolved, keep)?;
    let starts: Vec<u64> =
        schema.files.iter().scan(0, |sum, file| Some(std::mem::replace(sum, *sum + file.rows))).collect();
    let schema_rows = schema.rows();
    let names = resolved.names().into_iter().map(str::to_owned).collect();
    let mut batches = Batches::new(files.to_vec(), schema, names, "leave this partition out of features and target")?;
    let mut total = schema_rows;
    if let Keep::Rows(rows) = keep {
        batches.look_at(rows);
        total = rows.len() as u64;
    }
    let mut progress = ReadProgress::new("reading", |rows| format!("{rows} rows"), total);
    while let Some(part) = batches.next_part()? {
        let first = (starts[part.index] + part.offset) as usize;
        if let Some(part) = TableBuilder::chosen(part, first, keep)? {
            table.add(&part, &resolved)?;
            progress.advance(part.batch.num_rows() as u64);
        }
    }
    if policy == InvalidPolicy::Error && !matches!(keep, Keep::Rows(_)) {
        check_quality(&table.quality)?;
    }
    let source = |(file, known): (&InputFile, &FileSummary)| {
        let (path, hive, sha256) = (file.path.clone(), file.hive.clone(), file.sha256()?);
        Ok(SourceFile { path, rows: known.rows, sha256, hive })
    };
    let sources = files.iter().zip(batches.known()).map(source).collect::<Result<_, StoreError>>()?;
    table.finish(sources, resolved, keep)
}

/// The table while it grows.
struct TableBuilder {
    rows: usize,
    /// Row by row, d values each.
    features: Vec<f64>,
    readers: Vec<FeatureReader>,
    target: Vec<f64>,
    weight: Vec<f64>,
    noise_std: Vec<f64>,
    key: Vec<String>,
    extra: Vec<Vec<Option<String>>>,
    keys: Vec<KeyBuilder>,
    quality: Vec<ColumnQuality>,
    outline: Option<Vec<u64>>,
}

impl TableBuilder {
    /// Memory for all rows at once; a footer may claim more rows than there can be.
    fn with_room(schema: &InputSchema, resolved: &Resolved, keep: Keep<'_>) -> Result<Self, StoreError> {
        let width = resolved.features.len();
        let rows = match keep {
            Keep::All => usize::try_from(schema.rows()).unwrap_or(usize::MAX),
            Keep::Outline => 0,
            Keep::Rows(rows) => rows.len(),
        };
        let outline = matches!(keep, Keep::Outline).then(Vec::new);
        let mut features = Vec::new();
        let reserved = rows.checked_mul(width).is_some_and(|values| features.try_reserve_exact(values).is_ok());
        if !reserved {
            let path = schema.files.first().map_or(Path::new(""), |file| &file.path);
            let detail = format!("{rows} rows of {width} features do not fit into memory");
            return Err(StoreError::invalid(path, detail, "read fewer rows or columns, or use a larger machine"));
        }
        let of_feature = |column: &FeatureColumn| ColumnQuality::new(&column.name, true, !column.missing.is_error());
        let of_target = resolved.target.iter().map(|name| ColumnQuality::new(name, false, false));
        let quality = resolved.columns.iter().map(of_feature).chain(of_target).collect();
        let readers = resolved.columns.iter().map(FeatureReader::new).collect();
        let extra = vec![Vec::new(); resolved.extra.len()];
        let keys = resolved.keys.iter().map(KeyBuilder::new).collect();
        let (target, weight, noise_std, key) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Ok(Self { rows: 0, features, readers, target, weight, noise_std, key, extra, keys, quality, outline })
    }

    /// The wanted rows of a part that begins with this row; none if there are none.
    fn chosen<'p>(part: FilePart<'p>, first: usize, keep: Keep<'_>) -> Result<Option<FilePart<'p>>, StoreError> {
        let Keep::Rows(rows) = keep else { return Ok(Some(part)) };
        let end = first + part.batch.num_rows();
        let of_part = &rows[rows.partition_point(|row| *row < first)..rows.partition_point(|row| *row < end)];
        if of_part.len() == part.batch.num_rows() {
            return Ok(Some(part).filter(|part| part.batch.num_rows() > 0));
        }
        let places = UInt64Array::from_iter_values(of_part.iter().map(|row| (row - first) as u64));
        let batch = take_record_batch(&part.batch, &places).map_err(|error| damaged(&part.file.path, &error))?;
        Ok((!of_part.is_empty()).then_some(FilePart { batch, ..part }))
    }

    fn add(&mut self, part: &FilePart<'_>, resolved: &Resolved) -> Result<(), StoreError> {
        let rows = part.batch.num_rows();
        let width = resolved.features.len();
        let start = if self.outline.is_some() { 0 } else { self.features.len() };
        self.features.resize(start + rows * width, f64::NAN);
        for (index, reader) in self.readers.iter_mut().enumerate() {
            let values = reader.read(part)?;
            let cells = self.features.get_mut(start + index..).unwrap_or_default().iter_mut().step_by(width);
            for (row, (cell, value)) in cells.zip(values.iter()).enumerate() {
                *cell = value.unwrap_or(f64::NAN);
                self.quality[index].note(value, part, row);
            }
        }
        if let Some(outline) = &mut self.outline {
            outline.extend(self.features.chunks_exact(width.max(1)).map(|row| identity(row.iter().copied())));
        }
        if let Some(name) = &resolved.target {
            for (row, value) in part.numbers(name)?.iter().enumerate() {
                if self.outline.is_none() {
                    self.target.push(value.unwrap_or(f64::NAN));
                }
                self.quality[width].note(value, part, row);
            }
        }
        if let Some(name) = &resolved.weight {
            self.weight.extend(part.positive(name, "a weight", |value| value > 0.0)?);
        }
        if let Some(name) = &resolved.noise_std {
            self.noise_std.extend(part.positive(name, "a standard deviation", |value| value >= 0.0)?);
        }
        if let Some(name) = &resolved.key {
            let keys = part.key(name, &DataType::Utf8)?;
            self.key.extend(keys.as_string::<i32>().iter().flatten().map(str::to_owned));
        }
        for (name, values) in resolved.extra.iter().zip(&mut self.extra) {
            let column = part.column(name, &DataType::Utf8)?;
            values.extend(column.as_string::<i32>().iter().map(|value| value.map(str::to_owned)));
        }
        for key in &mut self.keys {
            key.add(part)?;
        }
        self.rows += rows;
        Ok(())
    }

    fn finish(self, files: Vec<SourceFile>, resolved: Resolved, keep: Keep<'_>) -> Result<InputTable, StoreError> {
        let (shape, features) = match keep {
            Keep::Outline => ((0, resolved.features.len()), Vec::new()),
            Keep::All | Keep::Rows(_) => ((self.rows, resolved.features.len()), self.features),
        };
        let features = Array2::from_shape_vec(shape, features).map_err(|error| {
            let path = files.first().map_or(Path::new(""), |file| &file.path);
            damaged(path, &error)
        })?;
        Ok(InputTable {
            files,
            feature_names: resolved.features,
            columns: resolved.columns,
            levels: self.readers.into_iter().map(FeatureReader::finish).collect(),
            features,
            target: resolved.target.is_some().then(|| Array1::from_vec(self.target)),
            weight: resolved.weight.is_some().then(|| Array1::from_vec(self.weight)),
            noise_std: resolved.noise_std.is_some().then(|| Array1::from_vec(self.noise_std)),
            key: resolved.key.is_some().then_some(self.key),
            key_name: resolved.key,
            extra: resolved.extra.into_iter().zip(self.extra).collect(),
            keys: self.keys.into_iter().map(KeyBuilder::finish).collect(),
            row_count: self.rows,
            numbers: if let Keep::Rows(rows) = keep { Some(rows.to_vec()) } else { None },
            outline: self.outline,
            quality: self.quality,
        })
    }
}

impl ColumnQuality {
    fn note(&mut self, value: Option<f64>, part: &FilePart<'_>, row: usize) {
        if self.count(value) && self.first_invalid.is_none() {
            self.first_invalid = Some((part.file.path.clone(), part.offset + row as u64));
        }
    }
}
