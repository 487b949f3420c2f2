//! Object storage: `s3://`, `gs://`, `az://`, `abfs://` and `https://` as places of inputs, outputs, models and results.
//!
//! Everything else in the program deals in paths. A path with such a beginning is an [`Address`]; [`is_address`] tells.
//! Calls block: one small runtime performs the requests of all threads.

mod address;
mod client;
mod copies;
mod fault;
mod listing;
mod mirror;
mod profile;
mod ranges;
mod settings;
mod upload;

pub(crate) use address::refuse_secrets;
pub use address::{Address, is_address};
pub(super) use client::{exists, get, head, remove, remove_all, tag_of};
pub(super) use copies::Copies;
pub(super) use fault::take_failure;
pub(super) use listing::{children, list};
pub(super) use mirror::{Mirror, StoredFile};
pub(super) use ranges::RangeReader;
pub use settings::home;
pub(super) use upload::{Upload, put_small};

use std::path::Path;

use super::StoreError;

/// Refuses an address in object storage that may not be written down, as one with credentials; any other path will do.
pub fn check_address(path: &Path) -> Result<(), StoreError> {
    if is_address(path) { Address::parse(path).map(drop) } else { Ok(()) }
}

/// Whether there is a file or an object of this name; what cannot be asked counts as not there.
pub fn is_file(path: &Path) -> bool {
    if is_address(path) { exists(path).unwrap_or(false) } else { path.is_file() }
}

/// The bytes that a file or an object has.
pub fn size_of(path: &Path) -> Result<u64, StoreError> {
    if is_address(path) {
        return head(path).map(|known| known.size);
    }
    std::fs::metadata(path).map(|found| found.len()).map_err(|source| StoreError::read(path, source))
}
