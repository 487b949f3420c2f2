//! What the footers say: columns and row counts, without reading any data.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use arrow::datatypes::DataType;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::Length as _;

use super::InputFile;
use super::cipher::has_encrypted_columns;
use super::column::{same_as, same_kind};
use super::source::{Contents, source_of};
use crate::features::ColumnKind;
use crate::store::StoreError;
use crate::store::guard::guarded;

const DAMAGED: &str = "the file is damaged or incomplete: write or copy it again";

/// A column as the first file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnInfo {
    pub name: String,
    /// Arrow type; text for a partition column.
    pub data_type: DataType,
    /// From a `key=value` directory rather than from the file.
    pub partition: bool,
}

/// A file's footer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSummary {
    pub path: PathBuf,
    pub rows: u64,
    pub bytes: u64,
    /// Its columns, in order, then its partition columns.
    pub columns: Vec<ColumnInfo>,
}

/// What is known of an input before its data are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputSchema {
    /// One summary per file, in reading order.
    pub files: Vec<FileSummary>,
}

impl InputSchema {
    /// The columns of the first file.
    pub fn columns(&self) -> &[ColumnInfo] {
        self.files.first().map_or(&[], |file| &file.columns)
    }

    pub fn rows(&self) -> u64 {
        self.files.iter().map(|file| file.rows).sum()
    }
}

impl InputSchema {
    /// Refuses a column to pass through that is not in every file, of the same kind, once.
    pub(super) fn check_kept(&self, name: &str) -> Result<(), StoreError> {
        let Some(first) = self.files.first() else { return Ok(()) };
        if first.column(name).is_none() {
            let hint = "check `keep`: it names columns of the input";
            return Err(StoreError::invalid_column(&first.path, name, "there is no such column to keep", hint));
        }
        for file in &self.files {
            file.check_like(first, name)?;
            if file.columns.iter().filter(|column| column.name == name).count() > 1 {
                let hint = "write the file again with different names";
                let detail = "there are several columns of this name";
                return Err(StoreError::invalid_column(&file.path, name, detail, hint));
            }
        }
        Ok(())
    }
}

impl FileSummary {
    /// A column by name; a column in the file hides a partition of the same name.
    pub fn column(&self, name: &str) -> Option<&ColumnInfo> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Refuses a column that is not what it is in the `first` file.
    pub(super) fn check_like(&self, first: &Self, name: &str) -> Result<(), StoreError> {
        self.check_alike(first, name, same_kind)
    }

    /// The same for a column that is read as this kind, whatever its type in either file.
    pub(super) fn check_kind(&self, first: &Self, name: &str, kind: ColumnKind) -> Result<(), StoreError> {
        let is_empty = |file: &Self| file.column(name).is_some_and(|column| column.data_type == DataType::Null);
        if is_empty(self) || (is_empty(first) && self.column(name).is_some()) {
            return Ok(());
        }
        self.check_alike(first, name, same_as(kind))
    }

    fn check_alike(&self, first: &Self, name: &str, alike: fn(&DataType, &DataType) -> bool) -> Result<(), StoreError> {
        let like = format!("the first file, {}", first.path.display());
        let hint = "give every file of an input the same columns, or read them as separate inputs";
        let Some(expected) = first.column(name) else { return Ok(()) };
        let Some(found) = self.column(name) else {
            let detail = format!("this file lacks a column that is in {like}");
            return Err(StoreError::invalid_column(&self.path, name, detail, hint));
        };
        if found.partition != expected.partition || !alike(&found.data_type, &expected.data_type) {
            let describe = |column: &ColumnInfo| {
                if column.partition { "a partition".to_owned() } else { column.data_type.to_string() }
            };
            let detail = format!("is {} here and {} in {like}", describe(found), describe(expected));
            return Err(StoreError::invalid_column(&self.path, name, detail, hint));
        }
        Ok(())
    }
}

/// Reads the footers of these files, which were found just now.
pub fn peek(files: &[InputFile]) -> Result<InputSchema, StoreError> {
    let files = files
        .iter()
        .map(|file| reader(&file.path).map_err(StoreError::vanished).and_then(|reader| summary(file, &reader)));
    Ok(InputSchema { files: files.collect::<Result<_, _>>()? })
}

/// A file opened for reading, footer parsed.
pub(super) struct OpenFile {
    pub builder: ParquetRecordBatchReaderBuilder<Contents>,
    pub bytes: u64,
}

/// Opens a file and parses its footer.
pub(super) fn reader(path: &Path) -> Result<OpenFile, StoreError> {
    let contents = source_of(path).open(path)?;
    let bytes = contents.len();
    check_magic(path, &contents)?;
    let builder =
        guarded(|| ParquetRecordBatchReaderBuilder::try_new(contents)).map_err(|error| damaged(path, &error))?;
    check_codecs(path, builder.metadata())?;
    Ok(OpenFile { builder, bytes })
}

/// Refuses what is whole and only compressed in a way that is not read here.
fn check_codecs(path: &Path, metadata: &ParquetMetaData) -> Result<(), StoreError> {
    let columns = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    let unknown = columns.map(ColumnChunkMetaData::compression).find_map(|codec| match codec {
        Compression::BROTLI(_) => Some("Brotli"),
        Compression::LZO => Some("LZO"),
        _ => None,
    });
    unknown.map_or(Ok(()), |codec| {
        let hint = "write it again with zstd, snappy, gzip, lz4 or without compression";
        Err(StoreError::invalid(path, format!("compressed with {codec}, which is not read here"), hint))
    })
}

/// The error for contents that the Parquet reader refuses.
pub(super) fn damaged(path: &Path, error: &dyn std::fmt::Display) -> StoreError {
    let text = error.to_string();
    StoreError::while_reading(path, &text, || {
        if text.to_lowercase().contains("encrypt") || has_encrypted_columns(path) {
            return encrypted(path);
        }
        StoreError::invalid(path, format!("not readable as Parquet: {text}"), DAMAGED)
    })
}

fn encrypted(path: &Path) -> StoreError {
    StoreError::invalid(path, "an encrypted Parquet file", "decrypt it first")
}

/// Tells other files and unfinished ones apart, before a parser gives a message about bytes.
fn check_magic(path: &Path, contents: &Contents) -> Result<(), StoreError> {
    let bytes = contents.len();
    let four_at = |start| {
        let mut four = [0_u8; 4];
        contents.reader_at(start).and_then(|mut reader| reader.read_exact(&mut four)).map(|()| four)
    };
    let (head, tail) = match bytes.checked_sub(4).filter(|_| bytes >= 12) {
        Some(last) => four_at(0).and_then(|head| Ok((head, four_at(last)?))).map_err(|e| StoreError::read(path, e))?,
        None => Default::default(),
    };
    match (&head, &tail) {
        (b"PAR1", b"PAR1") => Ok(()),
        (b"PAR1", _) => Err(StoreError::invalid(
            path,
            "an incomplete Parquet file: its end is missing",
            "write or copy it again, and wait until that is done",
        )),
        (b"PARE", _) => Err(encrypted(path)),
        _ if bytes == 0 => Err(StoreError::invalid(path, "not a Parquet file: it is empty (0 bytes)", DAMAGED)),
        _ => Err(StoreError::invalid(path, "not a Parquet file", "convert it, for instance with `stride-pipe import`")),
    }
}

pub(super) fn summary(file: &InputFile, reader: &OpenFile) -> Result<FileSummary, StoreError> {
    let rows = reader.builder.metadata().file_metadata().num_rows();
    let rows = u64::try_from(rows)
        .map_err(|_| StoreError::invalid(&file.path, format!("not readable as Parquet: {rows} rows"), DAMAGED))?;
    let mut columns: Vec<ColumnInfo> = Vec::new();
    for field in reader.builder.schema().fields() {
        columns.push(ColumnInfo { name: field.name().clone(), data_type: field.data_type().clone(), partition: false });
    }
    for (key, _) in &file.hive {
        if !columns.iter().any(|column| column.name == *key) {
            columns.push(ColumnInfo { name: key.clone(), data_type: DataType::Utf8, partition: true });
        }
    }
    Ok(FileSummary { path: file.path.clone(), rows, bytes: reader.bytes, columns })
}
