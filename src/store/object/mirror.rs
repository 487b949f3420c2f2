//! Results in object storage, and the directory on this machine that runs work in.
//!
//! Locks, the cache and checkpoints need a file system: they are in the directory only. What a run leaves for others, its
//! tables, models, reports and manifest, is written there first and put into the store at the end, the manifest last. To be
//! read, runs of other machines are copied into the directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::client::{exists, head, tag_of};
use super::copies::download_to;
use super::listing::list;
use super::settings::home;
use super::upload::Upload;
use crate::store::history::TOMBSTONE;
use crate::store::input::sha256_file;
use crate::store::lock::open_lock;
use crate::store::seal::{Sealing, sealed, sealing};
use crate::store::{StoreError, escape, write_atomic};
use crate::tables::Timestamp;

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

/// A file of the results as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct StoredFile {
    /// Named from the results directory.
    pub name: PathBuf,
    pub address: PathBuf,
    pub size: u64,
    pub written: Timestamp,
}

impl StoredFile {
    /// Whether it is the file of that name in the directory of its run.
    pub(in crate::store) fn is_record(&self, name: &str) -> bool {
        self.name.starts_with("run") && self.name.file_name().is_some_and(|own| own == name)
    }
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
    /// unique: a file that is there is an earlier state of the same run, written from here, and is replaced. A run whose
    /// removal has begun is not put there again meanwhile.
    pub(in crate::store) fn push(&self, files: &[PathBuf], run: &str) -> Result<(), StoreError> {
        let tombstone = self.address.join("run").join(run).join(TOMBSTONE);
        if exists(&tombstone)? {
            return Err(StoreError::Conflict {
                path: tombstone,
                detail: format!("run {run} is being removed by `runs prune`, or that did not end"),
                hint: "end it with `stride-pipe runs prune`, and run again: what is done is in the cache".to_owned(),
            });
        }
        let _lock = self.lock()?;
        let mut index = self.index();
        for path in files {
            let Ok(below) = path.strip_prefix(&self.directory) else { continue };
            let (name, sha256) = (below.to_string_lossy().into_owned(), sha256_file(path)?);
            let address = self.address.join(below);
            // A resumed run has files that were put there before it was interrupted: somebody may have removed them since.
            if index.get(&name).is_some_and(|known| known.sha256.as_ref() == Some(&sha256)) && exists(&address)? {
                continue;
            }
            let mut file = File::open(path).map_err(|source| StoreError::read(path, source))?;
            Upload::begin(&address)?.finish(&mut file, &sha256)?;
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
                    // The age of a log tells whether its run may be in progress.
                    let written = SystemTime::from(known.last_modified);
                    let _ = File::options().write(true).open(&target).and_then(|file| file.set_modified(written));
                    index.insert(name, SameFile { tag: Some(tag), sha256: None });
                }
            }
        }
        index.retain(|name, _| {
            let stays = there.contains(name);
            if !stays {
                self.drop_copy(Path::new(name));
            }
            stays
        });
        self.save(&index)
    }

    // With the directory of its run once that is empty: it would look like a run that has just begun.
    fn drop_copy(&self, name: &Path) {
        let copy = self.directory.join(name);
        let _ = fs::remove_file(&copy);
        let below = ["run", NOT_COPIED].map(|top| self.directory.join(top));
        let mut parent = copy.parent();
        while let Some(directory) =
            parent.filter(|parent| below.iter().any(|top| parent.starts_with(top) && *parent != top))
        {
            if fs::remove_dir(directory).is_err() {
                return;
            }
            parent = directory.parent();
        }
    }

    /// All that is there.
    pub(in crate::store) fn stored(&self) -> Result<Vec<StoredFile>, StoreError> {
        let file = |(address, known): (PathBuf, object_store::ObjectMeta)| {
            let name = address.strip_prefix(&self.address).ok()?.to_owned();
            let written = Timestamp::from(SystemTime::from(known.last_modified));
            Some(StoredFile { name, address, size: known.size, written })
        };
        Ok(list(&self.address)?.into_iter().filter_map(file).collect())
    }

    /// Notes that a file of the directory has been put there.
    pub(in crate::store) fn note(&self, path: &Path, sha256: String) -> Result<(), StoreError> {
        let Ok(below) = path.strip_prefix(&self.directory) else { return Ok(()) };
        let _lock = self.lock()?;
        let mut index = self.index();
        index.insert(below.to_string_lossy().into_owned(), SameFile { tag: None, sha256: Some(sha256) });
        self.save(&index)
    }

    /// Forgets files that are there no more.
    pub(in crate::store) fn forget<'a>(&self, names: impl Iterator<Item = &'a Path>) -> Result<(), StoreError> {
        let _lock = self.lock()?;
        let mut index = self.index();
        for name in names {
            index.remove(name.to_string_lossy().as_ref());
        }
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
