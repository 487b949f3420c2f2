//! Other formats to Parquet: CSV, `NumPy` arrays, IDX.
//!
//! Every input becomes one or more [`Piece`]s: named columns of equal length. [`assemble`] puts pieces side by side and
//! below one another and gives the rows a key; the result is written in one step.

mod array;
mod assemble;
mod csv;
mod idx;
mod key;
mod npy;
mod npz;
mod source;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Schema};

use crate::store::{StoreError, Written, write_parquet};
use crate::tables::TableError;
use assemble::{RowBlock, assemble};
pub use csv::{CsvOptions, DateOrder};
pub use key::{PANDAS_INDEX, is_called_key};
pub use source::FileFormat;

/// Columns beyond this number are a mistake in a header sooner than data for a model.
const MOST_COLUMNS: usize = 20_000;

/// How to import.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// The format; default: by the name and contents of each file.
    pub format: Option<FileFormat>,
    /// Key column: used if it is there, otherwise added, counted from 0.
    pub key: String,
    /// The NPZ arrays or CSV columns to take, in this order; all of them when empty.
    pub only: Vec<String>,
    /// Names of NPZ arrays and CSV columns, or parts of the names of IDX and NPY files, and what they are to be called.
    pub names: Vec<(String, String)>,
    /// A text column that says for every row which block it is from: its name, and a value for each block.
    pub parts: Option<(String, Vec<String>)>,
    pub csv: CsvOptions,
    /// Entries of the footer of what is written.
    pub footer: Vec<(String, String)>,
}

/// What was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    pub rows: u64,
    /// Rows of each block, in order.
    pub blocks: Vec<u64>,
    /// Columns, in order.
    pub columns: Vec<ImportedColumn>,
    /// Whether the key is none of the input, and counts the rows.
    pub adds_key: bool,
    /// What the user may want to change.
    pub notes: Vec<String>,
    pub written: Written,
}

/// A column that was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedColumn {
    pub name: String,
    /// Type, as Arrow calls it.
    pub data_type: DataType,
    pub nulls: u64,
    pub not_finite: u64,
}

/// Columns of equal length that came together.
struct Piece {
    /// File, and array in it.
    origin: String,
    path: PathBuf,
    rows: usize,
    columns: Vec<(String, ArrayRef)>,
    notes: Vec<String>,
    /// Which of the given names were used.
    named_by: Vec<String>,
}

impl Piece {
    fn of_array(path: &Path, origin: String, rows: usize, columns: Vec<(String, ArrayRef)>) -> Self {
        Self { origin, path: path.to_owned(), rows, columns, notes: Vec::new(), named_by: Vec::new() }
    }

    fn named(self, given: Option<&(String, String)>) -> Self {
        Self { named_by: given.map(|(old, _)| old.clone()).into_iter().collect(), ..self }
    }
}

impl ImportOptions {
    /// The name given for the only array of a file, by a part of the file's name.
    fn name_by_file(&self, path: &Path) -> Option<&(String, String)> {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        self.names.iter().find(|(old, _)| file.contains(old.as_str()))
    }

    /// A name that fits nothing is a slip of the pen that would otherwise go unnoticed.
    fn check_names_used(&self, inputs: &[PathBuf], pieces: &[Piece]) -> Result<(), StoreError> {
        let used = |old: &String| pieces.iter().any(|piece| piece.named_by.contains(old));
        let Some((old, _)) = self.names.iter().find(|(old, _)| !used(old)) else { return Ok(()) };
        let path = inputs.first().map_or(Path::new(""), PathBuf::as_path);
        let detail = format!("no array or column is called `{old}`, and no IDX or NPY file has it in its name");
        Err(StoreError::invalid(path, detail, "check `--columns`"))
    }
}

/// Why contents are refused.
struct Refusal {
    detail: String,
    hint: String,
}

impl Refusal {
    fn new(detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { detail: detail.into(), hint: hint.into() }
    }

    fn at(self, path: &Path) -> StoreError {
        StoreError::invalid(path, self.detail, self.hint)
    }
}

/// What to do about a file whose contents do not fit together.
const COPY_AGAIN: &str = "the file is damaged or incomplete: write or copy it again";

/// Reads the inputs, combines them, and writes one Parquet file.
///
/// Inputs stand side by side; one whose columns are there already begins a new block of rows below.
pub fn import(inputs: &[PathBuf], output: &Path, options: &ImportOptions) -> Result<Imported, StoreError> {
    let mut pieces = Vec::new();
    for path in inputs {
        pieces.extend(read(path, options)?);
    }
    options.check_names_used(inputs, &pieces)?;
    let notes = pieces.iter().flat_map(|piece| piece.notes.clone()).collect();
    let adds_key = !pieces.iter().flat_map(|piece| &piece.columns).any(|(name, _)| *name == options.key);
    let blocks = assemble(pieces, options)?;
    let columns = summarise(&blocks);
    let written = write(output, &columns, &blocks, &options.footer)?;
    let lengths: Vec<u64> = blocks.iter().map(|block| block.rows as u64).collect();
    Ok(Imported { rows: lengths.iter().sum(), blocks: lengths, columns, adds_key, notes, written })
}

fn read(path: &Path, options: &ImportOptions) -> Result<Vec<Piece>, StoreError> {
    let bytes = source::read(path)?;
    let format = match options.format {
        Some(format) => format,
        None => source::recognise(path, &bytes)?,
    };
    let single = format == FileFormat::Idx || bytes.starts_with(npy::MAGIC);
    if single && !options.only.is_empty() {
        let hint = "`--only` chooses CSV columns and NPZ arrays: leave it out";
        return Err(StoreError::invalid(path, "this file is a single array", hint));
    }
    match format {
        FileFormat::Csv => csv::read(path, &bytes, options).map(|piece| vec![piece]),
        FileFormat::Numpy if bytes.starts_with(npy::MAGIC) => {
            npy::read_file(path, &bytes, options).map(|piece| vec![piece])
        }
        FileFormat::Numpy => npz::read(path, &bytes, options),
        FileFormat::Idx => idx::read(path, &bytes, options).map(|piece| vec![piece]),
    }
}

/// What the columns of all blocks hold together.
fn summarise(blocks: &[RowBlock]) -> Vec<ImportedColumn> {
    let Some(first) = blocks.first() else { return Vec::new() };
    let describe = |(index, (name, column)): (usize, &(String, ArrayRef))| {
        let all = blocks.iter().filter_map(|block| block.columns.get(index)).map(|(_, column)| column);
        ImportedColumn {
            name: name.clone(),
            data_type: column.data_type().clone(),
            nulls: all.clone().map(|column| column.logical_null_count() as u64).sum(),
            not_finite: all.map(not_finite).sum(),
        }
    };
    first.columns.iter().enumerate().map(describe).collect()
}

fn not_finite(column: &ArrayRef) -> u64 {
    let count = match column.data_type() {
        DataType::Float32 => column.as_primitive::<Float32Type>().iter().flatten().filter(|x| !x.is_finite()).count(),
        DataType::Float64 => column.as_primitive::<Float64Type>().iter().flatten().filter(|x| !x.is_finite()).count(),
        _ => 0,
    };
    count as u64
}

fn write(
    output: &Path,
    columns: &[ImportedColumn],
    blocks: &[RowBlock],
    footer: &[(String, String)],
) -> Result<Written, StoreError> {
    let field = |column: &ImportedColumn| {
        Field::new(&column.name, column.data_type.clone(), column.nulls > 0 || column.data_type == DataType::Null)
    };
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let mut batches = Vec::with_capacity(blocks.len());
    for block in blocks {
        let arrays = block.columns.iter().map(|(_, column)| Arc::clone(column)).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)
            .map_err(|source| TableError::Arrow { table: "import", source })?;
        batches.push(batch);
    }
    write_parquet(output, &schema, footer, &batches)
}
