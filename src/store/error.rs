//! What can go wrong with files, in words a user can act on; the command line maps variants to exit codes.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::object::take_failure;
use crate::tables::TableError;

/// What to do about a path that leads nowhere.
pub(super) const CHECK_PATH: &str =
    "check the path; relative paths start at the pipeline file, on the command line at the current directory";

/// Every error of the store: what is wrong, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An input that is not there (exit 66).
    #[error("{}: {detail}; {hint}", path.display())]
    Missing { path: PathBuf, detail: String, hint: String },
    /// An input that is there but cannot be read: permissions, a failing disk (exit 66).
    #[error("{}: cannot be read: {source}; {}", path.display(), read_hint(source))]
    Read { path: PathBuf, source: io::Error },
    /// An input with wrong contents (exit 65).
    #[error("{}{}: {detail}; {hint}", path.display(), PlaceInFile { column: column.as_deref(), row: *row })]
    Invalid {
        path: PathBuf,
        detail: String,
        /// The column, where it is about one.
        column: Option<String>,
        /// The first offending row, counted from 0 within the file.
        row: Option<u64>,
        hint: String,
    },
    /// A model file that is damaged, of another version, or inconsistent (exit 65).
    #[error("{}: {detail}; {hint}", path.display())]
    Model { path: PathBuf, detail: String, hint: String },
    /// An output that cannot be written: disk full, read-only, no permission (exit 73).
    #[error("{}: cannot be written: {source}; {}", path.display(), write_hint(source))]
    Write { path: PathBuf, source: io::Error },
    /// A store of objects that refuses or does not answer (exit 66 while reading, 73 while writing).
    #[error("{}: {detail}; {hint}", path.display())]
    Remote { path: PathBuf, detail: String, hint: String, writing: bool },
    /// An object that somebody else wrote meanwhile (exit 75).
    #[error("{}: {detail}; {hint}", path.display())]
    Conflict { path: PathBuf, detail: String, hint: String },
    /// Rows that do not fit their table: a mistake of the program (exit 70).
    #[error(transparent)]
    Table(#[from] TableError),
}

impl StoreError {
    pub(crate) fn invalid(path: &Path, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Invalid { path: path.to_owned(), detail: detail.into(), column: None, row: None, hint: hint.into() }
    }

    pub(crate) fn invalid_column(
        path: &Path,
        column: &str,
        detail: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self::Invalid {
            path: path.to_owned(),
            detail: detail.into(),
            column: Some(column.to_owned()),
            row: None,
            hint: hint.into(),
        }
    }

    pub(crate) fn missing(path: &Path, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Missing { path: path.to_owned(), detail: detail.into(), hint: hint.into() }
    }

    pub(crate) fn model(path: &Path, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Model { path: path.to_owned(), detail: detail.into(), hint: hint.into() }
    }

    /// An error while reading: a file that is gone is missing, anything else unreadable.
    pub(crate) fn read(path: &Path, source: io::Error) -> Self {
        if let Some(known) = take_failure(path) {
            return known;
        }
        if source.kind() == io::ErrorKind::NotFound {
            return Self::missing(path, "does not exist", CHECK_PATH);
        }
        Self::Read { path: path.to_owned(), source }
    }

    /// What a library said while it read a file. What it was told of an object is known better. Where the system refused something (too many open files, a failing disk) that
    /// says nothing of the contents.
    pub(crate) fn while_reading(path: &Path, said: &str, otherwise: impl FnOnce() -> Self) -> Self {
        if let Some(known) = take_failure(path) {
            return known;
        }
        let number = said.rsplit_once("(os error ").and_then(|(_, rest)| rest.split(')').next()?.parse().ok());
        number.map_or_else(otherwise, |number| Self::read(path, io::Error::from_raw_os_error(number)))
    }

    /// The file that is missing, unreadable or damaged.
    pub fn unreadable(&self) -> Option<&Path> {
        match self {
            Self::Missing { path, .. }
            | Self::Read { path, .. }
            | Self::Invalid { path, .. }
            | Self::Remote { path, writing: false, .. }
            | Self::Model { path, .. } => Some(path),
            Self::Write { .. } | Self::Remote { .. } | Self::Conflict { .. } | Self::Table(_) => None,
        }
    }

    /// The same of a file that was found a moment ago.
    #[must_use]
    pub(crate) fn vanished(self) -> Self {
        match self {
            Self::Missing { path, .. } => {
                let hint = "keep the files of an input until the job has ended, then run it again";
                Self::missing(&path, "was there when the job began, and is gone", hint)
            }
            other => other,
        }
    }

    pub(crate) fn write(path: &Path, source: io::Error) -> Self {
        Self::Write { path: path.to_owned(), source }
    }
}

/// Renders `, column `x`, row 17 (counted from 0 in this file)` as far as it is known.
struct PlaceInFile<'a> {
    column: Option<&'a str>,
    row: Option<u64>,
}

impl fmt::Display for PlaceInFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(column) = self.column {
            write!(f, ", column `{column}`")?;
        }
        if let Some(row) = self.row {
            write!(f, ", row {row} (counted from 0 in this file)")?;
        }
        Ok(())
    }
}

fn read_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => "check its permissions and those of the directories above it",
        io::ErrorKind::NotADirectory => "a file stands where a directory is named: check the path",
        io::ErrorKind::InvalidFilename | io::ErrorKind::InvalidInput => "check the path",
        _ if is_one_of(source, &[rustix::io::Errno::MFILE, rustix::io::Errno::NFILE]) => {
            "the limit of open files is too low: raise it (`ulimit -n`)"
        }
        _ if source.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => "the links lead in a circle",
        _ => "check the file and the disk",
    }
}

fn is_one_of(source: &io::Error, numbers: &[rustix::io::Errno]) -> bool {
    numbers.iter().any(|number| source.raw_os_error() == Some(number.raw_os_error()))
}

fn write_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space, or choose another directory",
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only: choose another directory",
        io::ErrorKind::PermissionDenied => "check the permissions of the directory, or choose another one",
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "a file stands where a directory is needed: move it away"
        }
        io::ErrorKind::InvalidFilename => "the name is too long: choose a shorter one",
        io::ErrorKind::InvalidInput => "remove it, or choose another place",
        _ if source.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => "the links lead in a circle",
        io::ErrorKind::IsADirectory => "a directory has this name: move it away, or choose another name",
        _ => "check the directory and the disk",
    }
}
