//! Where scores go: one file, a directory that mirrors the input, a stream, batches in memory, the predictions table.

use super::columns::{Layout, Scored};
use crate::stages::StageError;
use crate::store::ParquetSink;
use crate::store::ipc::IpcWriter;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Takes scores, chunk by chunk, in the order of the rows.
pub trait Sink: Send {
    fn write(&mut self, scored: &Scored) -> Result<(), StageError>;

    /// Puts everything into its place.
    fn finish(self: Box<Self>) -> Result<(), StageError>;
}

/// One file.
pub struct FileSink {
    layout: Layout,
    file: ParquetSink,
}

impl FileSink {
    /// A file that appears when it is finished.
    pub fn create(path: &Path, layout: Layout) -> Result<Self, StageError> {
        Ok(Self { file: ParquetSink::create(path, &layout.schema, &layout.footer())?, layout })
    }
}

impl Sink for FileSink {
    fn write(&mut self, scored: &Scored) -> Result<(), StageError> {
        Ok(self.file.write(&self.layout.batch(scored, 0)?)?)
    }

    fn finish(self: Box<Self>) -> Result<(), StageError> {
        self.file.finish()?;
        Ok(())
    }
}

/// A directory with one file per input file; rows are numbered within each.
pub struct MirrorSink {
    layout: Layout,
    /// Where the scores of each input file go.
    targets: Vec<PathBuf>,
    open: Option<(usize, ParquetSink, i64)>,
}

impl MirrorSink {
    /// Files that appear one by one, each when it is whole.
    pub const fn new(targets: Vec<PathBuf>, layout: Layout) -> Self {
        Self { layout, targets, open: None }
    }

    fn close(&mut self) -> Result<(), StageError> {
        if let Some((_, file, _)) = self.open.take() {
            file.finish()?;
        }
        Ok(())
    }
}

impl Sink for MirrorSink {
    fn write(&mut self, scored: &Scored) -> Result<(), StageError> {
        if self.open.as_ref().is_none_or(|(file, ..)| *file != scored.file) {
            self.close()?;
            let target = self.targets.get(scored.file).map_or(Path::new("scores.parquet"), PathBuf::as_path);
            let file = ParquetSink::create(target, &self.layout.schema, &self.layout.footer())?;
            self.open = Some((scored.file, file, scored.first_of_file));
        }
        let Some((_, file, first)) = &mut self.open else { return Ok(()) };
        Ok(file.write(&self.layout.batch(scored, *first)?)?)
    }

    fn finish(mut self: Box<Self>) -> Result<(), StageError> {
        self.close()
    }
}

/// A stream.
pub struct IpcSink<W: Write + Send> {
    layout: Layout,
    stream: IpcWriter<W>,
}

impl<W: Write + Send> IpcSink<W> {
    /// Writes the schema at once; `name` is for messages.
    pub fn open(output: W, name: &Path, layout: Layout) -> Result<Self, StageError> {
        Ok(Self { stream: IpcWriter::open(output, &layout.schema, name)?, layout })
    }
}

impl<W: Write + Send> Sink for IpcSink<W> {
    fn write(&mut self, scored: &Scored) -> Result<(), StageError> {
        if scored.is_empty() {
            return Ok(());
        }
        Ok(self.stream.write(&self.layout.batch(scored, 0)?)?)
    }

    fn finish(self: Box<Self>) -> Result<(), StageError> {
        Ok(self.stream.finish()?)
    }
}

/// Batches in memory.
pub struct BatchSink {
    layout: Layout,
    batches: Arc<Mutex<Vec<RecordBatch>>>,
}

impl BatchSink {
    /// Puts batches where their owner finds them.
    pub const fn new(layout: Layout, batches: Arc<Mutex<Vec<RecordBatch>>>) -> Self {
        Self { layout, batches }
    }
}

impl Sink for BatchSink {
    fn write(&mut self, scored: &Scored) -> Result<(), StageError> {
        if !scored.is_empty() {
            let batch = self.layout.batch(scored, 0)?;
            self.batches.lock().unwrap_or_else(PoisonError::into_inner).push(batch);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), StageError> {
        Ok(())
    }
}

/// A file with the columns of the predictions table.
pub struct PredictionsSink {
    layout: Layout,
    schema: SchemaRef,
    file: ParquetSink,
    fold: i32,
}

impl PredictionsSink {
    /// A file that appears when it is finished; run, stage and case are filled in later.
    pub fn create(path: &Path, layout: Layout, fold: i32) -> Result<Self, StageError> {
        let schema = layout.table_schema()?;
        Ok(Self { file: ParquetSink::create(path, &schema, &[])?, layout, schema, fold })
    }
}

impl Sink for PredictionsSink {
    fn write(&mut self, scored: &Scored) -> Result<(), StageError> {
        Ok(self.file.write(&self.layout.table_batch(scored, self.fold, &self.schema)?)?)
    }

    fn finish(self: Box<Self>) -> Result<(), StageError> {
        self.file.finish()?;
        Ok(())
    }
}
