//! Results in object storage, and the directory on this machine that runs work in.
//!
//! Locks, the cache and checkpoints need a file system: they are in the directory only. What a run leaves for others, its
//! tables, models, reports and manifest, is written there first and put into the store at the end, the manifest last. To be
//! read, runs of other machines are copied into the directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::client::{head, tag_of};
use super::copies::download_to;
use super::listing::list;
use super::settings::home;
use super::upload::Upload;
use crate::store::input::sha256_file;
use crate::store::lock::open_lock;
use crate::store::seal::{Sealing, sealed, sealing};
use crate::store::{StoreError, escape, write_atomic};

/// What is known to be the same in both places.
const INDEX: &str = ".in-storage.json";
const LOCK: &str = ".in-storage.lock";
/// Models are read where they are published; those of runs stay in the store.
const NOT_COPIED: &str = "models";

/// A results directory in object storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct Mirror {
    pub address: PathBuf,
    /// The directory on this machine.
    pub directory: PathBuf,
}

/// A file that is the same in both places.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SameFile {
    #[serde(default)]
    tag: Option<String>,
    #[serde(default)]
    sha256: Option<String>,
}

type Index = BTreeMap<String, SameFile>;

/// The index as it is written.
#[derive(Serialize, Deserialize)]
struct IndexFile {
    files: Index,
}

impl Mirror {
    /// The results at an address.
    pub(in crate::store) fn new(address: &Path) -> Self {
        let text = address.display().to_string();
        let directory = home().join("results").join(escape(text.trim_end_matches('/')));
        Self { address: address.to_owned(), directory }
    }

    /// The address of a file of the directory.
    pub(in crate::store) fn address_of(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.directory) {
            Ok(below) if below.as_os_str().is_empty() => self.address.clone(),
            Ok(below) => self.address.join(below),
            Err(_) => path.to_owned(),
        }
    }

    /// The files that are known to be in the store.
    pub(in crate::store) fn known(&self) -> BTreeSet<String> {
        self.index().into_keys().collect()
    }

    /// Puts files of the directory into the store, in this order, where they are not there already. Names of runs are
    /// unique: a file that is there is an earlier state of the same run, written from here, and is replaced.
    pub(in crate::store) fn push(&self, files: &[PathBuf]) -> Result<(), StoreError> {
        let _lock = self.lock()?;
        let mut index = self.index();
        for path in files {
            let Ok(below) = path.strip_prefix(&self.directory) else { continue };
            let (name, sha256) = (below.to_string_lossy().into_owned(), sha256_file(path)?);
            if index.get(&name).is_some_and(|known| known.sha256.as_ref() == Some(&sha256)) {
                continue;
            }
            let mut file = File::open(path).map_err(|source| StoreError::read(path, source))?;
            Upload::begin(&self.address.join(below))?.finish(&mut file, &sha256)?;
            index.insert(name, SameFile { tag: None, sha256: Some(sha256) });
            self.save(&index)?;
        }
        Ok(())
    }

    /// Copies what others have put there, and forgets what they have removed.
    pub(in crate::store) fn pull(&self) -> Result<(), StoreError> {
        let found = list(&self.address)?;
        let _lock = self.lock()?;
        let mut index = self.index();
        let mut there = BTreeSet::new();
        for (path, known) in found {
            let Ok(below) = path.strip_prefix(&self.address) else { continue };
            let (name, target) = (below.to_string_lossy().into_owned(), self.directory.join(below));
            there.insert(name.clone());
            let tag = tag_of(&known);
            if below.starts_with(NOT_COPIED) {
                index.entry(name).or_insert(SameFile { tag: Some(tag), sha256: None });
                continue;
            }
            let has = fs::metadata(&target).is_ok_and(|file| file.len() == known.size);
            match index.get_mut(&name) {
                Some(same) if has && same.tag.as_ref() == Some(&tag) => {}
                // Written from here; nobody else writes it.
                Some(same) if has && same.tag.is_none() => same.tag = Some(tag),
                _ => {
                    // As it is now: a listing may say less of it.
                    download_to(&path, &head(&path)?, &target)?;
                    index.insert(name, SameFile { tag: Some(tag), sha256: None });
                }
            }
        }
        index.retain(|name, _| {
            let stays = there.contains(name);
            if !stays && !name.starts_with(NOT_COPIED) {
                let _ = fs::remove_file(self.directory.join(name));
            }
            stays
        });
        self.save(&index)
    }

    fn lock(&self) -> Result<File, StoreError> {
        let path = self.directory.join(LOCK);
        let fail = |source| StoreError::write(&path, source);
        fs::create_dir_all(&self.directory).map_err(fail)?;
        let file = open_lock(&path).map_err(fail)?;
        file.lock().map_err(fail)?;
        Ok(file)
    }

    fn index(&self) -> Index {
        let text = fs::read_to_string(self.directory.join(INDEX)).unwrap_or_default();
        let whole = (sealing(&text) == Sealing::Whole).then(|| serde_json::from_str::<IndexFile>(&text).ok()).flatten();
        // What is not known is compared again.
        whole.map_or_else(Index::new, |found| found.files)
    }

    fn save(&self, index: &Index) -> Result<(), StoreError> {
        let path = self.directory.join(INDEX);
        let text = sealed(&IndexFile { files: index.clone() });
        let text = text.map_err(|error| StoreError::write(&path, error.into()))?;
        write_atomic(&path, text.as_bytes()).map(drop)
    }
}
