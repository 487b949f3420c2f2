//! The versions of a published model: `versions/1`, `versions/2`, … beside the file that scoring jobs read.
//!
//! A version is a directory with a model file, as the published directory itself is. Which one is published is told by the
//! contents: there is no second place that could say something else. Whoever changes anything holds the directory's lock.

use super::{MODEL_FILE, ModelFile, PREVIOUS, remote};
use crate::store::atomic::{check_replaceable, link_atomic, sweep, write_atomic};
use crate::store::error::StoreError;
use crate::store::object::is_address;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Where a published model's directory keeps its versions.
pub const VERSIONS: &str = "versions";

/// A version of a published model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelVersion {
    pub number: u64,
    /// Its file.
    pub path: PathBuf,
    /// Whether scoring jobs see it.
    pub is_published: bool,
}

/// What a rollback did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolledBack {
    pub from: u64,
    pub to: u64,
}

/// All versions, oldest first. A model from before there were versions is version 1, or 2 where `previous` has another.
pub fn versions(directory: &Path) -> Result<Vec<ModelVersion>, StoreError> {
    if is_address(directory) {
        return remote::versions(directory);
    }
    let published = directory.join(MODEL_FILE);
    let numbers = numbers(directory)?;
    if numbers.is_empty() {
        let previous = directory.join(PREVIOUS).join(MODEL_FILE);
        let files = [previous, published.clone()].into_iter().filter(|path| path.is_file());
        let version = |(number, path): (u64, PathBuf)| ModelVersion { number, is_published: path == published, path };
        return Ok((1..).zip(files).map(version).collect());
    }
    let mut found: Vec<ModelVersion> = numbers
        .into_iter()
        .map(|number| ModelVersion { number, path: file_of(directory, number), is_published: false })
        .collect();
    // Of several with the same contents the latest, unless the file system says which it is.
    let same = |alike: fn(&Path, &Path) -> bool| found.iter().rposition(|version| alike(&version.path, &published));
    if let Some(place) = same(is_same_file).or_else(|| same(has_same_contents)) {
        found[place].is_published = true;
    }
    Ok(found)
}

fn numbers(directory: &Path) -> Result<Vec<u64>, StoreError> {
    let below = directory.join(VERSIONS);
    let entries = match fs::read_dir(&below) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| StoreError::read(&below, error))?,
    };
    let number = |entry: fs::DirEntry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        // One that was being removed has no file any more.
        file_of(directory, number).is_file().then_some(number)
    };
    let mut numbers: Vec<u64> = entries.flatten().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn file_of(directory: &Path, number: u64) -> PathBuf {
    directory.join(VERSIONS).join(number.to_string()).join(MODEL_FILE)
}

fn is_same_file(left: &Path, right: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    identity(left).is_some() && identity(left) == identity(right)
}

fn has_same_contents(left: &Path, right: &Path) -> bool {
    let length = |path: &Path| fs::metadata(path).ok().map(|found| found.len());
    length(left).is_some()
        && length(left) == length(right)
        && fs::read(left).is_ok_and(|contents| fs::read(right).is_ok_and(|other| other == contents))
}

/// Makes these bytes a version and publishes it, in one step; what was published is a version too, if it was none.
pub(super) fn publish_version(directory: &Path, bytes: &[u8], keep: u32) -> Result<(), StoreError> {
    let target = directory.join(MODEL_FILE);
    check_replaceable(&target)?;
    let known = adopt(directory)?;
    let latest = known.last();
    // One that was written and not published, when a training was killed, or one that was rolled back.
    let again = latest.filter(|version| fs::read(&version.path).is_ok_and(|found| found == bytes));
    let path = if let Some(version) = again {
        version.path.clone()
    } else {
        let path = file_of(directory, latest.map_or(1, |version| version.number + 1));
        sweep(&path);
        // Whoever publishes knows of one file, whichever cannot be written.
        let of_target = |error| match error {
            StoreError::Write { source, .. } => StoreError::write(&target, source),
            other => other,
        };
        write_atomic(&path, bytes).map_err(of_target)?.path
    };
    put(directory, &path)?;
    prune(directory, keep)
}

/// Makes a version of what is published, and before that of `previous`, where no version has it.
fn adopt(directory: &Path) -> Result<Vec<ModelVersion>, StoreError> {
    let found = versions(directory)?;
    let published = directory.join(MODEL_FILE);
    let is_known = found.iter().any(|version| version.is_published && version.path != published);
    if is_known || !published.is_file() {
        return Ok(found);
    }
    for version in found.iter().filter(|version| !version.path.starts_with(directory.join(VERSIONS))) {
        link_atomic(&version.path, &file_of(directory, version.number))?;
    }
    if found.iter().all(|version| version.path.starts_with(directory.join(VERSIONS))) {
        let number = found.last().map_or(1, |version| version.number + 1);
        link_atomic(&published, &file_of(directory, number))?;
    }
    versions(directory)
}

/// Publishes a version; what was published before is in `previous`.
fn put(directory: &Path, version: &Path) -> Result<(), StoreError> {
    let (target, previous) = (directory.join(MODEL_FILE), directory.join(PREVIOUS).join(MODEL_FILE));
    sweep(&target);
    sweep(&previous);
    if target.is_file() {
        link_atomic(&target, &previous)?;
    }
    link_atomic(version, &target)
}

/// Removes the oldest versions beyond this number; never the one that is published.
fn prune(directory: &Path, keep: u32) -> Result<(), StoreError> {
    let found = versions(directory)?;
    let more = found.len().saturating_sub(keep.max(1) as usize);
    for version in found.iter().take(more).filter(|version| !version.is_published) {
        let place = version.path.parent().unwrap_or(directory);
        fs::remove_dir_all(place).map_err(|error| StoreError::write(place, error))?;
    }
    Ok(())
}

/// Publishes an earlier version again: this one, or the one before that is there.
pub fn roll_back(directory: &Path, to: Option<u64>) -> Result<RolledBack, StoreError> {
    if is_address(directory) {
        return remote::roll_back(directory, to);
    }
    if !directory.join(MODEL_FILE).is_file() {
        let hint = "give the directory that `publish` of a pipeline names";
        return Err(StoreError::missing(directory, "no model is published here", hint));
    }
    let found = adopt(directory)?;
    let from = found.iter().find(|version| version.is_published).map_or(0, |version| version.number);
    let wanted = earlier(directory, &found, from, to)?;
    // Whoever goes back wants a model that works.
    ModelFile::load(&wanted.path)?;
    if wanted.number != from {
        put(directory, &wanted.path)?;
    }
    Ok(RolledBack { from, to: wanted.number })
}

/// The version that is asked for, or the one before that is there.
pub(super) fn earlier<'a>(
    directory: &Path,
    found: &'a [ModelVersion],
    from: u64,
    to: Option<u64>,
) -> Result<&'a ModelVersion, StoreError> {
    let wanted = match to {
        Some(number) => found.iter().find(|version| version.number == number),
        None => found.iter().rev().find(|version| version.number < from),
    };
    let Some(wanted) = wanted else {
        let detail = match to {
            Some(number) => format!("there is no version {number}"),
            None => format!("there is no version before {from}, which is published"),
        };
        let there: Vec<String> = found.iter().map(|version| version.number.to_string()).collect();
        let hint = format!("there are: {}; `stride-pipe model list` says what they are", there.join(", "));
        return Err(StoreError::missing(directory, detail, hint));
    };
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(directory: &Path, text: &str, keep: u32) {
        publish_version(directory, text.as_bytes(), keep).unwrap_or_default();
    }

    fn numbers_and_published(directory: &Path) -> (Vec<u64>, Option<u64>) {
        let found = versions(directory).unwrap_or_default();
        let published = found.iter().find(|version| version.is_published).map(|version| version.number);
        (found.iter().map(|version| version.number).collect(), published)
    }

    fn contents(path: PathBuf) -> String {
        fs::read_to_string(path).unwrap_or_default()
    }

    #[test]
    fn versions_are_numbered_and_the_oldest_go() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let dir = dir.path();
        assert_eq!(numbers_and_published(dir), (vec![], None));
        for text in ["a", "b", "a", "c"] {
            publish(dir, text, 3);
        }
        assert_eq!(numbers_and_published(dir), (vec![2, 3, 4], Some(4)));
        assert_eq!(contents(dir.join(MODEL_FILE)), "c");
        assert_eq!(contents(dir.join(PREVIOUS).join(MODEL_FILE)), "a");
        // The published one stays, however old.
        put(dir, &file_of(dir, 2)).unwrap_or_default();
        assert_eq!(numbers_and_published(dir), (vec![2, 3, 4], Some(2)));
        prune(dir, 1).unwrap_or_default();
        assert_eq!(numbers_and_published(dir), (vec![2, 4], Some(2)));
        // What was rolled back and is published again has its number again.
        publish(dir, "c", 3);
        assert_eq!(numbers_and_published(dir), (vec![2, 4], Some(4)));
        Ok(())
    }

    #[test]
    fn what_was_there_before_versions_becomes_one() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let dir = dir.path();
        fs::create_dir(dir.join(PREVIOUS))?;
        fs::write(dir.join(PREVIOUS).join(MODEL_FILE), "old")?;
        fs::write(dir.join(MODEL_FILE), "new")?;
        assert_eq!(numbers_and_published(dir), (vec![1, 2], Some(2)));
        publish(dir, "newer", 5);
        assert_eq!(numbers_and_published(dir), (vec![1, 2, 3], Some(3)));
        assert_eq!(["old", "new", "newer"].map(str::to_owned), [1, 2, 3].map(|number| contents(file_of(dir, number))));
        // A file that somebody put there by hand.
        fs::remove_file(dir.join(MODEL_FILE))?;
        fs::write(dir.join(MODEL_FILE), "by hand")?;
        publish(dir, "last", 9);
        assert_eq!(numbers_and_published(dir), (vec![1, 2, 3, 4, 5], Some(5)));
        assert_eq!(contents(file_of(dir, 4)), "by hand");
        Ok(())
    }
}
