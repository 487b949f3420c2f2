//! Reads an object from any position, a range of bytes at a time.
//!
//! What was read stays in a file that has no name, so that a Parquet reader, which jumps between the columns of a row group,
//! asks for nothing twice, and memory does not grow with the object.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use object_store::ObjectMeta;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};

use super::client::{Object, tag_of};
use super::fault::keep_failure;
use super::settings::home;
use crate::store::StoreError;

/// The smallest piece that is asked for.
const BLOCK: u64 = 1 << 18;
/// What is asked for at once when an object is read from front to back.
const MOST: u64 = 8;

/// How many objects are remembered: their footers are looked at more than once. A process may hold few files open.
const FEW: usize = 8;
static RECENT: Mutex<VecDeque<RangeReader>> = Mutex::new(VecDeque::new());

/// An object that is read piece by piece; it must not change meanwhile.
#[derive(Clone)]
pub struct RangeReader {
    shared: Arc<SharedRanges>,
}

struct SharedRanges {
    object: Object,
    known: ObjectMeta,
    read: Mutex<ReadBlocks>,
}

struct ReadBlocks {
    file: File,
    /// Which blocks the file has.
    has: Vec<bool>,
    /// How many blocks the last request that followed another was for.
    ahead: u64,
}

impl RangeReader {
    /// An object as it is known.
    pub(in crate::store) fn open(path: &Path, known: ObjectMeta) -> Result<Self, StoreError> {
        let mut recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |reader: &&Self| reader.shared.object.path == path && tag_of(&reader.shared.known) == tag_of(&known);
        if let Some(reader) = recent.iter().find(same) {
            return Ok(reader.clone());
        }
        let directory = home().join("staging");
        let fail = |source| StoreError::write(&directory, source);
        std::fs::create_dir_all(&directory).map_err(fail)?;
        let file = unnamed(&directory).map_err(fail)?;
        let blocks = usize::try_from(known.size.div_ceil(BLOCK)).unwrap_or(usize::MAX);
        let read = Mutex::new(ReadBlocks { file, has: vec![false; blocks], ahead: 1 });
        let reader = Self { shared: Arc::new(SharedRanges { object: Object::at(path)?, known, read }) };
        recent.truncate(FEW - 1);
        recent.push_front(reader.clone());
        Ok(reader)
    }

    /// As many bytes from a position on as the buffer takes.
    fn fill(&self, start: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.shared.known.size;
        let wanted = (buffer.len() as u64).min(size.saturating_sub(start)) as usize;
        if wanted == 0 {
            return Ok(0);
        }
        let mut read = self.shared.read.lock().unwrap_or_else(PoisonError::into_inner);
        self.fetch(&mut read, start / BLOCK, (start + wanted as u64).div_ceil(BLOCK))?;
        read.file.read_exact_at(&mut buffer[..wanted], start)?;
        Ok(wanted)
    }

    /// Asks for those of these blocks that are not there yet, each row of them at once.
    fn fetch(&self, read: &mut ReadBlocks, first: u64, end: u64) -> io::Result<()> {
        let SharedRanges { object, known, .. } = &*self.shared;
        let all = read.has.len() as u64;
        let mut block = first;
        while block < end {
            if read.has[block as usize] {
                block += 1;
                continue;
            }
            // What follows something that was read will be followed by more.
            let follows = block > 0 && read.has[block as usize - 1];
            read.ahead = if follows { (read.ahead * 2).min(MOST) } else { 1 };
            let most = end.max(block + read.ahead).min(all).min(block + 4 * MOST);
            let until = (block..most).find(|next| read.has[*next as usize]).unwrap_or(most);
            let range = block * BLOCK..(until * BLOCK).min(known.size);
            let bytes = object.range(known, range.clone()).map_err(|error| keep_failure(&object.path, error))?;
            read.file.write_all_at(&bytes, range.start)?;
            read.has[block as usize..until as usize].fill(true);
            block = until;
        }
        Ok(())
    }
}

/// A file that vanishes with the process.
fn unnamed(directory: &Path) -> io::Result<File> {
    let (path, _held) =
        crate::store::atomic::create_held(|| crate::store::atomic::temporary_name(&directory.join("ranges")))?;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

impl Length for RangeReader {
    fn len(&self) -> u64 {
        self.shared.known.size
    }
}

impl ChunkReader for RangeReader {
    type T = RangeCursor;

    fn get_read(&self, start: u64) -> ParquetResult<RangeCursor> {
        Ok(RangeCursor { reader: self.clone(), at: start })
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        // A damaged footer may promise any length.
        if start.saturating_add(length as u64) > self.len() {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} are beyond its end")));
        }
        let mut bytes = vec![0; length];
        self.fill(start, &mut bytes)?;
        Ok(bytes.into())
    }
}

/// Reads on from a position.
pub struct RangeCursor {
    reader: RangeReader,
    at: u64,
}

impl Read for RangeCursor {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(BLOCK as usize);
        let count = self.reader.fill(self.at, &mut buffer[..most])?;
        self.at += count as u64;
        Ok(count)
    }
}
