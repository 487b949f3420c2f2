//! Removes what a pruning decided on, in an order that can stop anywhere.
//!
//! First the manifest of every run to remove becomes a tombstone: from then on none of them counts as complete, and the next
//! pruning goes on where this one stopped. Then the files go, those of a run that readers look at first before the others,
//! the tombstone last. The cache is swept at the end, from what is still there: what an interrupted pruning leaves
//! belongs to no kept run and is found again.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::prune::{Prune, RunToRemove};
use super::{Status, TOMBSTONE};
use crate::store::{ResultsDir, StoreError, write_atomic};
use crate::tables::TableKind;

/// What was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removal {
    pub files: usize,
    pub entries: usize,
    /// Bytes that are free now.
    pub bytes: u64,
}

impl Prune {
    pub fn perform(self) -> Result<Removal, StoreError> {
        let mut removal = Removal { bytes: self.bytes, ..Removal::default() };
        self.remove_stored()?;
        for going in &self.runs {
            set_tombstone(&self.results, going)?;
        }
        for going in &self.runs {
            let removed = self.remove_run(going)?;
            removal.files += if going.stored.files.is_empty() { removed } else { going.stored.files.len() };
        }
        for entry in &self.entries {
            self.remove_entry(entry)?;
            removal.entries += 1;
        }
        for leftover in &self.leftovers {
            remove_tree(leftover)?;
        }
        Ok(removal)
    }

    /// First what others see. A pruning that stops after this is ended by the next look into the store.
    fn remove_stored(&self) -> Result<(), StoreError> {
        for going in &self.runs {
            going.stored.set_tombstone()?;
        }
        for going in &self.runs {
            going.stored.remove()?;
            self.results.forget_stored(&going.stored.files)?;
        }
        Ok(())
    }

    fn remove_run(&self, going: &RunToRemove) -> Result<usize, StoreError> {
        let tombstone = self.results.run_dir(&going.run.id).join(TOMBSTONE);
        let runs_row = going.run.tables.get(&TableKind::Runs);
        // Who asks for the latest runs must not find one whose other tables are gone.
        let first = going.files.iter().filter(|file| Some(*file) == runs_row);
        let others = going.files.iter().filter(|file| Some(*file) != runs_row && **file != tombstone);
        let mut removed = 0;
        for file in first.chain(others) {
            removed += usize::from(remove_file(file)?);
        }
        removed += self.remove_directory(going, &tombstone)?;
        // While a run is in progress a directory may be just about to get a file: empty ones stay.
        if self.lock.is_some() {
            for file in &going.files {
                remove_empty_parents(file, self.results.root());
            }
        }
        Ok(removed)
    }

    /// The directory of a run with its tombstone, out of sight first: without the tombstone it would look like a run that
    /// has just begun. Where somebody else's files lie in it, it stays.
    fn remove_directory(&self, going: &RunToRemove, tombstone: &Path) -> Result<usize, StoreError> {
        let directory = self.results.run_dir(&going.run.id);
        let others = fs::read_dir(&directory).into_iter().flatten().flatten().any(|entry| entry.path() != *tombstone);
        let hidden = self.hidden(&directory)?;
        if others || !directory.is_dir() || fs::rename(&directory, &hidden).is_err() {
            let removed = remove_file(tombstone)?;
            let _ = fs::remove_dir(&directory);
            return Ok(usize::from(removed));
        }
        let removed = hidden.join(TOMBSTONE).is_file();
        remove_tree(&hidden)?;
        Ok(usize::from(removed))
    }

    /// Where nobody looks for it, and the next run or pruning removes it.
    fn hidden(&self, path: &Path) -> Result<PathBuf, StoreError> {
        let drafts = self.results.cache_dir().join("drafts");
        fs::create_dir_all(&drafts).map_err(|source| StoreError::write(&drafts, source))?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".pruned");
        let hidden = drafts.join(name);
        remove_tree(&hidden)?;
        Ok(hidden)
    }

    /// Out of sight first, in one step: a half-removed entry must not be found.
    fn remove_entry(&self, entry: &Path) -> Result<(), StoreError> {
        let hidden = self.hidden(entry)?;
        fs::rename(entry, &hidden).map_err(|source| StoreError::write(entry, source))?;
        if let Some(group) = entry.parent() {
            let _ = fs::remove_dir(group);
        }
        remove_tree(&hidden)
    }
}

/// Turns a run's manifest into its tombstone.
fn set_tombstone(results: &ResultsDir, going: &RunToRemove) -> Result<(), StoreError> {
    let directory = results.run_dir(&going.run.id);
    // Without a directory there is no manifest to mislead anyone.
    if !directory.is_dir() || going.run.status == Status::Pruning {
        return Ok(());
    }
    let (manifest, tombstone) = (results.manifest_path(&going.run.id), directory.join(TOMBSTONE));
    match fs::rename(&manifest, &tombstone) {
        Err(error) if error.kind() == ErrorKind::NotFound => write_atomic(&tombstone, b"{}\n").map(drop),
        other => other.map_err(|source| StoreError::write(&manifest, source)),
    }
}

/// Whether there was a file to remove.
fn remove_file(file: &Path) -> Result<bool, StoreError> {
    match fs::remove_file(file) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(source) => Err(StoreError::write(file, source)),
    }
}

fn remove_tree(path: &Path) -> Result<(), StoreError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(StoreError::write(path, error)),
        _ => Ok(()),
    }
}

/// Removes directories that became empty, up to the results directory.
fn remove_empty_parents(file: &Path, root: &Path) {
    let mut directory: Option<PathBuf> = file.parent().map(Path::to_owned);
    while let Some(path) = directory.filter(|path| path != root && path.starts_with(root)) {
        if fs::remove_dir(&path).is_err() {
            return;
        }
        directory = path.parent().map(Path::to_owned);
    }
}
