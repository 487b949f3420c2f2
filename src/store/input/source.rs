//! The places that inputs are read from. A new one is a file with its [`InputSource`], and a line in [`SOURCES`].

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use parquet::errors::Result as ParquetResult;
use parquet::file::reader::{ChunkReader, Length};

use super::hash::sha256;
use super::local::LocalFiles;
use super::object::ObjectFiles;
use crate::store::StoreError;

/// A place that inputs are read from.
pub(super) trait InputSource: Sync {
    /// Whether a path is one of this place.
    fn has(&self, path: &Path) -> bool;

    /// The files that a path stands for, sorted; at least one.
    fn list(&self, path: &Path) -> Result<Vec<PathBuf>, StoreError>;

    /// A file, to be read from any position.
    fn open(&self, path: &Path) -> Result<Contents, StoreError>;

    /// What tells, without reading a file, that it has changed.
    fn identity(&self, path: &Path) -> Result<String, StoreError>;

    /// SHA-256 of the contents, in hexadecimal; every number of bytes that was read is said.
    fn sha256(&self, path: &Path, seen: &mut dyn FnMut(u64)) -> Result<String, StoreError> {
        let contents = self.open(path)?.reader_at(0);
        contents.and_then(|reader| sha256(reader, seen)).map_err(|source| StoreError::read(path, source))
    }
}

/// All places. The first that a path belongs to is taken; every path may be a local file, so they are the last.
const SOURCES: [&dyn InputSource; 2] = [&ObjectFiles, &LocalFiles];

/// The place that a path belongs to.
pub(super) fn source_of(path: &Path) -> &'static dyn InputSource {
    SOURCES.into_iter().find(|source| source.has(path)).unwrap_or(&LocalFiles)
}

/// The bytes of a file, wherever it is.
pub(super) struct Contents(Box<dyn ReadAnywhere>);

impl Contents {
    pub(super) fn new(reader: impl ChunkReader + 'static) -> Self {
        Self(Box::new(reader))
    }

    /// The bytes from a position on.
    pub(super) fn reader_at(&self, start: u64) -> io::Result<Box<dyn Read>> {
        self.0.reader_at(start).map_err(io::Error::other)
    }
}

impl Length for Contents {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl ChunkReader for Contents {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        self.0.reader_at(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        self.0.bytes_at(start, length)
    }
}

/// [`ChunkReader`] without its associated type, so that files of different places are one type.
trait ReadAnywhere: Length + Send + Sync {
    fn reader_at(&self, start: u64) -> ParquetResult<Box<dyn Read>>;
    fn bytes_at(&self, start: u64, length: usize) -> ParquetResult<Bytes>;
}

impl<C: ChunkReader + 'static> ReadAnywhere for C {
    fn reader_at(&self, start: u64) -> ParquetResult<Box<dyn Read>> {
        Ok(Box::new(self.get_read(start)?))
    }

    fn bytes_at(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        self.get_bytes(start, length)
    }
}
