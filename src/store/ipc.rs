//! Arrow's stream format on pipes, for Spark, Ray and shells.
//!
//! Arrow lets a stream end with its end marker or with the pipe, and so a sender that dies between two batches looks like
//! one that is done. Here a stream without the marker is not whole. Buffers may be compressed (lz4, zstd).

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::convert::try_fb_to_schema;
use arrow::ipc::reader::{read_dictionary, read_record_batch};
use arrow::ipc::writer::StreamWriter;
use arrow::ipc::{Message, MessageHeader, RecordBatch as BatchHeader, root_as_message};

use super::StoreError;
use super::guard::guarded;

const HINT: &str = "send Arrow's IPC stream format (not the file format, not Parquet), whole";
/// Begins every message but those of very old writers.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// Room made for a message before its bytes have arrived.
const PREPARED: usize = 1 << 20;
/// The longest that a compressed buffer may become: a damaged length must not ask for all memory.
const LONGEST: i64 = 1 << 31;

/// A stream being read.
pub struct IpcReader<R: Read> {
    input: R,
    schema: SchemaRef,
    dictionaries: HashMap<i64, ArrayRef>,
    name: PathBuf,
    ended: bool,
}

/// One message: what it is about, and the bytes it is about.
struct Parcel {
    header: Vec<u8>,
    body: Buffer,
}

impl<R: Read> IpcReader<R> {
    /// Reads the schema; `name` is for messages.
    pub fn open(mut input: R, name: &Path) -> Result<Self, StoreError> {
        let schema = guarded(|| {
            let parcel = receive(&mut input)?.ok_or("it ends before its columns are described")?;
            let message = parcel.message()?;
            let schema = message.header_as_schema().ok_or("it does not begin with a description of its columns")?;
            try_fb_to_schema(schema).map_err(|error| error.to_string())
        })
        .map_err(|error| StoreError::invalid(name, format!("not an Arrow stream: {error}"), HINT))?;
        let (schema, dictionaries) = (schema.into(), HashMap::new());
        Ok(Self { input, schema, dictionaries, name: name.to_owned(), ended: false })
    }

    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The next batch, or `None` at the end marker.
    fn advance(&mut self) -> Result<Option<RecordBatch>, String> {
        loop {
            let Some(parcel) = receive(&mut self.input)? else { return Ok(None) };
            let message = parcel.message()?;
            let version = message.version();
            match message.header_type() {
                MessageHeader::RecordBatch => {
                    let batch = message.header_as_record_batch().ok_or("a batch that is none")?;
                    parcel.check(batch)?;
                    let schema = self.schema.clone();
                    let batch = read_record_batch(&parcel.body, batch, schema, &self.dictionaries, None, &version);
                    return batch.map(Some).map_err(|error| error.to_string());
                }
                MessageHeader::DictionaryBatch => {
                    let batch = message.header_as_dictionary_batch().ok_or("a dictionary that is none")?;
                    batch.data().map_or(Ok(()), |data| parcel.check(data))?;
                    read_dictionary(&parcel.body, batch, &self.schema, &mut self.dictionaries, &version)
                        .map_err(|error| error.to_string())?;
                }
                other => return Err(format!("a message of the kind {other:?} among the batches")),
            }
        }
    }
}

impl<R: Read> Iterator for IpcReader<R> {
    type Item = Result<RecordBatch, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = guarded(|| self.advance());
        self.ended = !matches!(next, Ok(Some(_)));
        let failed = |error| StoreError::invalid(&self.name, format!("the Arrow stream breaks off: {error}"), HINT);
        next.map_err(failed).transpose()
    }
}

impl Parcel {
    fn message(&self) -> Result<Message<'_>, String> {
        root_as_message(&self.header).map_err(|error| error.to_string())
    }

    /// Refuses lengths that cannot be meant before room is made for them.
    fn check(&self, batch: BatchHeader<'_>) -> Result<(), String> {
        if batch.compression().is_none() {
            return Ok(());
        }
        for buffer in batch.buffers().into_iter().flatten() {
            let first = usize::try_from(buffer.offset()).map_err(|error| error.to_string())?;
            let prefix = self.body.get(first..).and_then(|rest| rest.first_chunk::<8>());
            match prefix.map(|bytes| i64::from_le_bytes(*bytes)) {
                Some(length) if length > LONGEST => {
                    return Err(format!("a compressed buffer claims to hold {length} bytes"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The next message, or `None` at the end marker; an input that ends without it is an error.
fn receive(input: &mut impl Read) -> Result<Option<Parcel>, String> {
    let mut length = [0; 4];
    let marker = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => "its end marker is missing; its sender may have died".to_owned(),
        _ => error.to_string(),
    };
    input.read_exact(&mut length).map_err(marker)?;
    if length == CONTINUATION {
        input.read_exact(&mut length).map_err(marker)?;
    }
    let length = match i32::from_le_bytes(length) {
        0 => return Ok(None),
        length => usize::try_from(length).map_err(|_| format!("a message of {length} bytes"))?,
    };
    let header = take(input, length)?;
    let body = root_as_message(&header).map_err(|error| error.to_string())?.bodyLength();
    let body = usize::try_from(body).map_err(|_| format!("a message with {body} bytes of data"))?;
    let body = Buffer::from_vec(take(input, body)?);
    Ok(Some(Parcel { header, body }))
}

/// So many bytes; memory grows with those that arrive, not with what is promised.
fn take(input: &mut impl Read, length: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(length.min(PREPARED));
    let found = input.take(length as u64).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if found < length {
        return Err(format!("{found} bytes instead of {length}"));
    }
    Ok(bytes)
}

/// A stream being written. Only one that is finished has the end marker; readers that take the end of the pipe for the end
/// of the stream have to look at the exit code.
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
