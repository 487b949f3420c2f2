//! Parquet input: find the files, look at their columns, read numbers.
//!
//! [`discover`] turns a path into files, [`peek`] reads their footers only, [`open`] reads the selected columns.
//! Rows are numbered from 0 over all files, in the order of [`discover`].

mod batches;
mod cipher;
mod column;
mod discover;
mod features;
mod hash;
mod keys;
mod local;
mod object;
mod progress;
mod quality;
mod read;
mod schema;
mod select;
mod source;
mod stream;

pub use batches::rows_together;
pub(crate) use column::{inferred_kind, is_key, is_number, text};
pub use discover::{InputFile, discover, mirrored};
pub use hash::sha256_file;
pub use keys::{KeyColumn, KeyForm, KeyValues, TimeScale, key_hash};
pub use progress::ReadProgress;
pub use quality::{ColumnQuality, InvalidPolicy, check_quality, check_unique_keys};
pub use read::{InputTable, Keep, SourceFile, open, open_parts};
pub use schema::{ColumnInfo, FileSummary, InputSchema, peek};
pub use select::{DeclaredColumn, Resolved, Selection};
pub use stream::{BatchChunks, Chunk, Columns, LARGEST, ParquetChunks, SMALLEST, UnusableValue, Wanted};
