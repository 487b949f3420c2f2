//! How many bytes the removal of files gives back: a file with several names goes with its last one.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Files below a directory, not followed through symbolic links; the file itself if it is one.
pub(super) fn files_below(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![path.to_owned()];
    while let Some(path) = open.pop() {
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {
                open.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
            }
            Ok(_) => found.push(path),
            Err(_) => {}
        }
    }
    found.sort();
    found
}

/// Whether a path is a plain file, and not a link to one.
pub(super) fn is_plain_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
}

/// Bytes that are free once all of these are removed.
pub(super) fn freed_bytes<'a>(files: impl Iterator<Item = &'a PathBuf>) -> u64 {
    let mut names: HashMap<(u64, u64), (u64, Metadata)> = HashMap::new();
    for metadata in files.filter_map(|file| fs::symlink_metadata(file).ok()) {
        names.entry((metadata.dev(), metadata.ino())).or_insert((0, metadata)).0 += 1;
    }
    names.values().filter(|(removed, metadata)| *removed >= metadata.nlink()).map(|(_, metadata)| metadata.len()).sum()
}
