//! Keeps a damaged Parquet file from ending the program.
//!
//! The Parquet crate checks most of what it reads but not all: a flipped bit in a page header or a footer can end in a
//! panic (`tests/it/store_fuzz.rs` finds some). Every call into its reader goes through here and comes back as an error.

use std::any::Any;
use std::cell::Cell;
use std::fmt::Display;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use arrow::array::RecordBatch;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

thread_local! {
    /// Whether a panic of this thread is expected, and will be reported as an error.
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a call into the Parquet reader; its errors and its panics both become text.
///
/// What the call was working on is dropped after a panic, so nothing half-changed is seen by anyone.
pub(super) fn guarded<T, E: Display>(call: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    quiet_expected_panics();
    let before = EXPECTED.replace(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(call));
    EXPECTED.set(before);
    match outcome {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(payload) => Err(text(payload.as_ref())),
    }
}

/// The next batch of a file, or `None` at its end.
pub(super) fn next_batch(reader: &mut ParquetRecordBatchReader) -> Result<Option<RecordBatch>, String> {
    guarded(|| reader.next().transpose())
}

/// Expected panics are reported as errors: printing them as well would read like a crash.
fn quiet_expected_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !EXPECTED.get() {
                others(info);
            }
        }));
    });
}

fn text(payload: &(dyn Any + Send)) -> String {
    let literal = payload.downcast_ref::<&str>().map(|&text| text.to_owned());
    literal.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it is inconsistent".to_owned())
}
