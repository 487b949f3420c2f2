//! Writes Parquet files in one step, and reads our own tables back.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchReader as _, new_null_array};
use arrow::datatypes::{Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use super::atomic::{AtomicFile, Written};
use super::error::StoreError;
use super::guard::{guarded, next_batch};
use crate::tables::predictions::{self, PredictionBlock};
use crate::tables::{TableError, TableRow};

/// Writes batches to one zstd-compressed Parquet file with these footer entries; it appears whole or not at all.
pub fn write_parquet<'a>(
    path: &Path,
    schema: &SchemaRef,
    footer: &[(String, String)],
    batches: impl IntoIterator<Item = &'a RecordBatch>,
) -> Result<Written, StoreError> {
    let mut sink = ParquetSink::create(path, schema, footer)?;
    for batch in batches {
        sink.write(batch)?;
    }
    sink.finish()
}

/// Bytes that a row group may take in memory before it is written.
const ROW_GROUP_BYTES: usize = 32 << 20;

/// A Parquet file that is written batch by batch, and appears when it is finished.
pub struct ParquetSink {
    writer: ArrowWriter<AtomicFile>,
    path: PathBuf,
    rows: u64,
}

impl ParquetSink {
    /// Starts a zstd-compressed file with these footer entries.
    pub fn create(path: &Path, schema: &SchemaRef, footer: &[(String, String)]) -> Result<Self, StoreError> {
        let entries = footer.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone())).collect();
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by(format!("stride-pipe {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(entries))
            .build();
        let file = AtomicFile::create(path)?;
        let writer = ArrowWriter::try_new(file, Arc::clone(schema), Some(properties))
            .map_err(|error| write_error(path, error))?;
        Ok(Self { writer, path: path.to_owned(), rows: 0 })
    }

    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), StoreError> {
        let fail = |error: ParquetError| write_error(&self.path, error);
        self.writer.write(batch).map_err(fail)?;
        self.rows += batch.num_rows() as u64;
        if self.writer.in_progress_size() > ROW_GROUP_BYTES {
            self.writer.flush().map_err(fail)?;
        }
        Ok(())
    }

    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Puts the file into its place.
    pub fn finish(self) -> Result<Written, StoreError> {
        self.writer.into_inner().map_err(|error| write_error(&self.path, error))?.commit()
    }
}

/// Writes named columns of equal length to a Parquet file, in one step.
pub fn write_columns(path: &Path, columns: Vec<(&str, ArrayRef)>) -> Result<Written, StoreError> {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, column)| Field::new(*name, column.data_type().clone(), column.is_nullable()))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let arrays = columns.into_iter().map(|(_, column)| column).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)
        .map_err(|source| TableError::Arrow { table: "columns", source })?;
    write_parquet(path, &schema, &[], [&batch])
}

/// Writes the rows of one of our small tables to a file of its own.
pub fn write_rows<R: TableRow>(path: &Path, rows: &[R]) -> Result<Written, StoreError> {
    write_parquet(path, &R::schema(), &[], [&R::batch(rows)?])
}

/// Reads all rows of one of our small tables.
pub fn read_table<R: TableRow>(path: &Path) -> Result<Vec<R>, StoreError> {
    let mut rows = Vec::new();
    for batch in read_batches(path)? {
        rows.extend(R::rows(&batch).map_err(|error| damaged(path, &error))?);
    }
    Ok(rows)
}

/// Reads the rows of a small table that another version may have written: further columns are passed over, and columns
/// that may be null are null where they are missing.
pub fn read_known<R: TableRow>(path: &Path) -> Result<Vec<R>, StoreError> {
    let fields = R::fields();
    let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
    let mut rows = Vec::new();
    for batch in open_columns(path, &names)? {
        let batch = batch?;
        let column = |field: &Field| match batch.column_by_name(field.name()) {
            Some(column) if column.data_type() == field.data_type() => Ok(Arc::clone(column)),
            _ if field.is_nullable() => Ok(new_null_array(field.data_type(), batch.num_rows())),
            _ => Err(damaged(path, &format!("the column `{}` is missing or of another type", field.name()))),
        };
        let columns = fields.iter().map(column).collect::<Result<Vec<_>, _>>()?;
        rows.extend(R::from_columns(&columns).ok_or_else(|| damaged(path, &"unexpected nulls"))?);
    }
    Ok(rows)
}

/// Writes one block of predictions to a file of its own.
pub fn write_predictions(path: &Path, block: &PredictionBlock) -> Result<Written, StoreError> {
    let (schema, batches) = predictions::batches("", std::slice::from_ref(block))?;
    write_parquet(path, &schema, &[], &batches)
}

/// Reads a block of predictions back.
pub fn read_predictions(path: &Path) -> Result<PredictionBlock, StoreError> {
    PredictionBlock::from_batches(&read_batches(path)?)
        .ok_or_else(|| damaged(path, &"not the columns of a predictions table"))
}

/// The numbers of predictions that have a true value, read a batch at a time.
pub fn read_measurable(path: &Path) -> Result<PredictionBlock, StoreError> {
    let mut block = PredictionBlock::default();
    for batch in open_batches(path)?.1 {
        block.extend_known(&batch?).ok_or_else(|| damaged(path, &"not the columns of a predictions table"))?;
    }
    Ok(block)
}

/// An entry of the footer of a Parquet file; none where there is no such entry, or no such file.
pub fn footer_value(path: &Path, key: &str) -> Option<String> {
    let file = File::open(path).ok()?;
    let reader = guarded(|| ParquetRecordBatchReaderBuilder::try_new(file)).ok()?;
    let entries = reader.metadata().file_metadata().key_value_metadata()?;
    entries.iter().find(|entry| entry.key == key)?.value.clone()
}

fn read_batches(path: &Path) -> Result<Vec<RecordBatch>, StoreError> {
    open_batches(path)?.1.collect()
}

/// The columns of a file of ours, and its rows a batch at a time.
pub fn open_batches(
    path: &Path,
) -> Result<(SchemaRef, impl Iterator<Item = Result<RecordBatch, StoreError>> + use<>), StoreError> {
    let file = File::open(path).map_err(|source| StoreError::read(path, source))?;
    let open = || ParquetRecordBatchReaderBuilder::try_new(file)?.with_batch_size(1 << 14).build();
    let mut reader = guarded(open).map_err(|error| damaged(path, &error))?;
    let (schema, path) = (reader.schema(), path.to_owned());
    let batches =
        std::iter::from_fn(move || next_batch(&mut reader).map_err(|error| damaged(&path, &error)).transpose());
    Ok((schema, batches))
}

/// Some columns of a file, a batch of rows at a time; those that it does not have are left out.
pub fn open_columns(
    path: &Path,
    names: &[&str],
) -> Result<impl Iterator<Item = Result<RecordBatch, StoreError>> + use<>, StoreError> {
    let file = File::open(path).map_err(|source| StoreError::read(path, source))?;
    let open = || {
        let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
        let columns = ProjectionMask::columns(builder.parquet_schema(), names.iter().copied());
        builder.with_projection(columns).with_batch_size(1 << 14).build()
    };
    let mut reader = guarded(open).map_err(|error| damaged(path, &error))?;
    let path = path.to_owned();
    Ok(std::iter::from_fn(move || next_batch(&mut reader).map_err(|error| damaged(&path, &error)).transpose()))
}

fn damaged(path: &Path, detail: &dyn std::fmt::Display) -> StoreError {
    let detail = detail.to_string();
    StoreError::while_reading(path, &detail, || {
        StoreError::invalid(path, format!("cannot be read: {detail}"), "the file is damaged: remove it and run again")
    })
}

/// A full disk arrives wrapped by the Parquet crate; users and exit codes need what the system said.
fn write_error(path: &Path, error: ParquetError) -> StoreError {
    let source = match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(source) => *source,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    };
    StoreError::write(path, source)
}
