//! Locks that vanish with the process: the operating system's own, on files that stay.

use super::{StoreError, escape};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

/// A lock that is held until dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// What came of trying.
#[derive(Debug)]
pub enum Locking {
    /// We have it.
    Held(Lock),
    /// Somebody else has it, and this is what they wrote about themselves.
    Taken(String),
}

/// The lock of a pipeline in a results directory.
pub fn pipeline_lock(results: &Path, pipeline: &str) -> PathBuf {
    results.join("locks").join(format!("{}.lock", escape(pipeline)))
}

/// The lock of something that is replaced in place: a published model, a file of scores.
pub fn target_lock(target: &Path) -> PathBuf {
    let name = target.file_name().map_or_else(|| "target".into(), |name| name.to_string_lossy().into_owned());
    target.with_file_name(format!(".{name}.lock"))
}

/// Tries to take a lock, once; `owner` is what others are told while it is held.
pub fn try_lock(path: &Path, owner: &str) -> Result<Locking, StoreError> {
    let fail = |source| StoreError::write(path, source);
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(|source| StoreError::write(directory, source))?;
    }
    // Not truncated on opening: it may be somebody else's, and say whose.
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(fail)?;
    match file.try_lock() {
        Ok(()) => {
            file.set_len(0).map_err(fail)?;
            file.write_all(owner.as_bytes()).map_err(fail)?;
            Ok(Locking::Held(Lock { _file: file }))
        }
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let _ = file.rewind().and_then(|()| file.read_to_string(&mut text));
            Ok(Locking::Taken(text))
        }
        Err(TryLockError::Error(source)) => Err(fail(source)),
    }
}
