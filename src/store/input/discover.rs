//! The files of an input, with what the names of their directories say.

use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};

use percent_encoding::percent_decode_str;

use super::local::has_pattern;
use super::progress::ReadProgress;
use super::source::source_of;
use crate::store::StoreError;

/// What Spark and Hive write for a partition whose value is null.
const NULL_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// A file to read, with what the names of its directories say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFile {
    pub path: PathBuf,
    /// Partition columns from `key=value` directories, outermost first; none = null.
    pub hive: Vec<(String, Option<String>)>,
    /// Its identity and its SHA-256 when it was hashed.
    hashed: Option<(String, String)>,
}

impl InputFile {
    /// A file, with the partition columns in its path.
    pub fn new(path: PathBuf) -> Self {
        let hive = hive_values(&path);
        Self { path, hive, hashed: None }
    }

    /// The same file with its hash, which is not computed again as long as the file stays as it is.
    pub fn hashed(mut self, progress: &mut ReadProgress) -> Result<Self, StoreError> {
        // The identity first: a change while the file is read shows.
        let identity = self.identity()?;
        self.hashed = Some((identity, self.hash(&mut |bytes| progress.advance(bytes))?));
        Ok(self)
    }

    /// SHA-256 of the contents, in hexadecimal.
    pub fn sha256(&self) -> Result<String, StoreError> {
        if let Some((_, hash)) = &self.hashed
            && self.is_unchanged()?
        {
            return Ok(hash.clone());
        }
        self.hash(&mut |_| {})
    }

    fn hash(&self, seen: &mut dyn FnMut(u64)) -> Result<String, StoreError> {
        source_of(&self.path).sha256(&self.path, seen).map_err(StoreError::vanished)
    }

    /// Bytes, where they can be told without asking a store.
    pub fn size(&self) -> Option<u64> {
        std::fs::metadata(&self.path).ok().map(|metadata| metadata.len())
    }

    /// Whether the file is the one that was hashed, as far as can be told without reading it.
    pub fn is_unchanged(&self) -> Result<bool, StoreError> {
        let now = self.identity()?;
        Ok(self.hashed.as_ref().is_some_and(|(known, _)| *known == now))
    }

    /// What tells, without reading it, that the file has changed.
    pub(super) fn identity(&self) -> Result<String, StoreError> {
        source_of(&self.path).identity(&self.path).map_err(StoreError::vanished)
    }
}

/// The files that `path` stands for, sorted; at least one.
///
/// A directory stands for every `.parquet` file below it, but for names that begin with `.` or `_`. Symbolic links are
/// followed, and each real file counts once. A path with `*`, `?`, `[…]` or `**` that does not exist as such is a pattern.
pub fn discover(path: &Path) -> Result<Vec<InputFile>, StoreError> {
    Ok(source_of(path).list(path)?.into_iter().map(InputFile::new).collect())
}

/// Where a file lies below the path it was found by: its place in a mirrored layout.
pub fn mirrored(path: &Path, file: &Path) -> PathBuf {
    let plain = |component: &Component<'_>| !has_pattern(component.as_os_str());
    let root: PathBuf = if path.is_dir() { path.to_owned() } else { path.components().take_while(plain).collect() };
    match file.strip_prefix(&root) {
        Ok(below) if !below.as_os_str().is_empty() => below.to_owned(),
        _ => file.file_name().map_or_else(|| file.to_owned(), PathBuf::from),
    }
}

/// Partition columns in the directories of a path; where a key occurs twice, the innermost counts.
fn hive_values(path: &Path) -> Vec<(String, Option<String>)> {
    let mut values: Vec<(String, Option<String>)> = Vec::new();
    for component in path.parent().into_iter().flat_map(Path::components) {
        let Some((key, value)) = component.as_os_str().to_str().and_then(|name| name.split_once('=')) else { continue };
        if key.is_empty() {
            continue;
        }
        let key = percent_decode(key);
        let value = (value != NULL_PARTITION).then(|| percent_decode(value));
        values.retain(|(known, _)| *known != key);
        values.push((key, value));
    }
    values
}

/// Undoes `%20`-style escapes; text that would not be UTF-8 stays as it is.
fn percent_decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8().map_or_else(|_| text.to_owned(), Cow::into_owned)
}
