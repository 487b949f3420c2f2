//! Arrow's stream format on pipes, for Spark, Ray and shells.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;

use super::StoreError;
use super::guard::guarded;

const HINT: &str = "send Arrow's IPC stream format (not the file format, not Parquet), whole";

/// A stream being read.
pub struct IpcReader<R: Read> {
    reader: StreamReader<R>,
    name: PathBuf,
}

impl<R: Read> IpcReader<R> {
    /// Reads the schema; `name` is for messages.
    pub fn open(input: R, name: &Path) -> Result<Self, StoreError> {
        let reader = guarded(|| StreamReader::try_new(input, None))
            .map_err(|error| StoreError::invalid(name, format!("not an Arrow stream: {error}"), HINT))?;
        Ok(Self { reader, name: name.to_owned() })
    }

    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        self.reader.schema()
    }
}

impl<R: Read> Iterator for IpcReader<R> {
    type Item = Result<RecordBatch, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = guarded(|| self.reader.next().transpose());
        let failed = |error| StoreError::invalid(&self.name, format!("the Arrow stream breaks off: {error}"), HINT);
        next.map_err(failed).transpose()
    }
}

/// A stream being written. It has an end only if it is finished: readers see that one which broke off is not whole.
pub struct IpcWriter<W: Write> {
    writer: StreamWriter<W>,
    name: PathBuf,
}

impl<W: Write> IpcWriter<W> {
    /// Writes the schema; `name` is for messages.
    pub fn open(output: W, schema: &SchemaRef, name: &Path) -> Result<Self, StoreError> {
        let writer = StreamWriter::try_new(output, schema).map_err(|error| write_error(name, error))?;
        Ok(Self { writer, name: name.to_owned() })
    }

    /// Writes a batch, and passes it on at once.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), StoreError> {
        let written = self.writer.write(batch).and_then(|()| self.writer.flush());
        written.map_err(|error| write_error(&self.name, error))
    }

    /// Writes the end.
    pub fn finish(mut self) -> Result<(), StoreError> {
        let written = self.writer.finish().and_then(|()| self.writer.flush());
        written.map_err(|error| write_error(&self.name, error))
    }
}

fn write_error(path: &Path, error: ArrowError) -> StoreError {
    let source = match error {
        ArrowError::IoError(_, source) => source,
        other => io::Error::other(other),
    };
    StoreError::write(path, source)
}
