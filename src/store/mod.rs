//! Parquet in and out, atomic files, run directories, model files.

mod atomic;
mod cache;
pub mod checkpoint;
mod container;
mod error;
mod guard;
pub mod history;
pub mod input;
pub mod ipc;
pub mod lock;
pub mod model;
pub mod object;
mod parquet_out;
pub mod record;
pub mod results;
mod run_id;
mod seal;
mod tensor;
mod views;

pub(crate) use atomic::hex;
pub use atomic::{AtomicFile, Written, copy_atomic, host, link_or_copy, sweep, write_atomic};
pub use cache::{Cache, CacheEntry, Draft};
pub use checkpoint::{CheckpointFile, PhaseTiming};
pub use container::Tensors;
pub use error::StoreError;
pub use input::{InputFile, InputSchema, InputTable, InvalidPolicy, Selection, discover, open, peek};
pub use model::{MODEL_FILE, ModelFile, ModelMeta};
pub use parquet_out::{
    ParquetSink, footer_value, open_batches, open_columns, read_known, read_measurable, read_predictions, read_table,
    write_columns, write_parquet, write_predictions, write_rows,
};
pub use record::{EventLog, Manifest};
pub use results::{Footer, ResultsDir, WrittenTable, escape};
pub use run_id::RunId;
pub use tensor::Tensor;
pub use views::{live_views, write_views};
