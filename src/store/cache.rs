//! Finished work by the hash of what it depends on, so that it need not be done twice.
//!
//! An entry is a directory that appears by rename, complete with the hashes of its files: a half-written one cannot be
//! seen, a damaged one is not used. `last/` remembers what each place of a pipeline depended on last time, to say why
//! it must run again.

use super::atomic::{abandoned, create_held, process_mark};
use super::input::sha256_file;
use super::lock::open_lock;
use super::seal::{Sealing, sealed, sealing};
use super::{ResultsDir, StoreError, escape, sweep, write_atomic};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const ENTRY: &str = "entry.json";
/// The end of the name of a draft's lock.
const LOCK: &str = ".lock";

/// The cache of a results directory.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

/// A complete entry.
#[derive(Clone, Debug)]
pub struct CacheEntry {
    directory: PathBuf,
    /// What was noted about it.
    pub notes: Json,
}

/// `entry.json`. The hash of its own text comes last: what was made before there was one is not used, and pruned.
#[derive(Serialize, Deserialize)]
struct Listing {
    files: BTreeMap<String, String>,
    notes: Json,
}

impl Listing {
    /// The listing in a file, if it is whole.
    fn load(path: &Path) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        serde_json::from_str(&text).ok().filter(|_| sealing(&text) == Sealing::Whole)
    }
}

/// What a place of a pipeline depended on, in `last/`.
#[derive(Serialize, Deserialize)]
struct Remembered {
    parts: Json,
}

/// An entry being made; it is removed unless committed.
#[derive(Debug)]
pub struct Draft {
    temporary: PathBuf,
    target: PathBuf,
    committed: bool,
    /// Held while the entry is made: others know by it that somebody is at work.
    lock: (PathBuf, File),
}

static DRAFTS: AtomicU64 = AtomicU64::new(0);

impl Cache {
    /// The cache of these results.
    pub fn new(results: &ResultsDir) -> Self {
        Self { root: results.cache_dir() }
    }

    /// Marks the cache as in use until the file is dropped, or the process ends; waits while it is being pruned.
    pub fn hold(&self) -> Result<File, StoreError> {
        let file = self.lock_file()?;
        match file.lock_shared() {
            // A file system without locks still has a cache; pruning then leaves it alone.
            Err(source) if source.kind() != std::io::ErrorKind::Unsupported => {
                Err(StoreError::write(&self.root, source))
            }
            _ => Ok(file),
        }
    }

    /// The cache for its pruner alone, until the file is dropped; none while a run uses it, or where files cannot be locked.
    pub fn own(&self) -> Result<Option<File>, StoreError> {
        let file = self.lock_file()?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) if error.kind() == std::io::ErrorKind::Unsupported => Ok(None),
            Err(TryLockError::Error(source)) => Err(StoreError::write(&self.root, source)),
        }
    }

    fn lock_file(&self) -> Result<File, StoreError> {
        let path = self.root.join("in-use.lock");
        fs::create_dir_all(&self.root).map_err(|source| StoreError::write(&self.root, source))?;
        open_lock(&path).map_err(|source| StoreError::write(&path, source))
    }

    fn directory(&self, hash: &str) -> PathBuf {
        self.root.join("entries").join(hash.get(..2).unwrap_or(hash)).join(hash)
    }

    /// Where a file of the entry of that hash is, or will be.
    pub fn file(&self, hash: &str, name: &str) -> PathBuf {
        self.directory(hash).join(name)
    }

    /// The entry of that hash, if it is there and undamaged.
    pub fn look_up(&self, hash: &str) -> Option<CacheEntry> {
        entry_in(&self.directory(hash))
    }

    /// Whether there is an entry of that hash, without a look at its files.
    pub fn contains(&self, hash: &str) -> bool {
        Listing::load(&self.directory(hash).join(ENTRY)).is_some()
    }

    /// Whether a file lies in the cache.
    pub fn holds(&self, path: &Path) -> bool {
        path.starts_with(self.root.join("entries"))
    }

    /// Removes what runs that were killed left behind half-made.
    pub fn sweep(&self) {
        for found in fs::read_dir(self.root.join("drafts")).into_iter().flatten().flatten() {
            let (path, name) = (found.path(), found.file_name().to_string_lossy().into_owned());
            // `<hash>.<process>-<time>-<host>.<number>`, and beside it the lock that its writer holds.
            let Some(draft) = name.strip_suffix(LOCK) else {
                if !path.with_file_name(format!("{name}{LOCK}")).exists() {
                    let _ = fs::remove_dir_all(path);
                }
                continue;
            };
            let mark = draft.split('.').nth(1).unwrap_or_default();
            if let Some(_held) = abandoned(&path, mark) {
                let _ = fs::remove_dir_all(path.with_file_name(draft));
                let _ = fs::remove_file(path);
            }
        }
    }

    pub fn begin(&self, hash: &str) -> Result<Draft, StoreError> {
        let drafts = self.root.join("drafts");
        fs::create_dir_all(&drafts).map_err(|source| StoreError::write(&drafts, source))?;
        let lock = || {
            let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
            drafts.join(format!("{hash}.{}.{number}{LOCK}", process_mark()))
        };
        let (path, file) = create_held(lock).map_err(|source| StoreError::write(&drafts, source))?;
        let temporary = path.with_extension("");
        let draft = Draft { temporary, target: self.directory(hash), committed: false, lock: (path, file) };
        fs::create_dir(&draft.temporary).map_err(|source| StoreError::write(&draft.temporary, source))?;
        Ok(draft)
    }

    fn place(&self, place: &[impl AsRef<str>]) -> PathBuf {
        let mut path = self.root.join("last");
        path.extend(place.iter().map(|part| escape(part.as_ref())));
        // Not `with_extension`: a name may hold a dot of its own.
        path.as_mut_os_string().push(".json");
        path
    }

    /// Remembers what a place of a pipeline depended on.
    pub fn remember(&self, place: &[impl AsRef<str>], parts: &Json) -> Result<(), StoreError> {
        let path = self.place(place);
        let text =
            sealed(&Remembered { parts: parts.clone() }).map_err(|error| StoreError::write(&path, error.into()))?;
        sweep(&path);
        write_atomic(&path, text.as_bytes()).map(drop)
    }

    /// What it depended on last time; nothing where that is damaged, or of an older program.
    pub fn recall(&self, place: &[impl AsRef<str>]) -> Option<Json> {
        let text = fs::read_to_string(self.place(place)).ok()?;
        let found: Remembered = serde_json::from_str(&text).ok()?;
        (sealing(&text) == Sealing::Whole).then_some(found.parts)
    }
}

/// The entry in that directory, if it is there and undamaged.
fn entry_in(directory: &Path) -> Option<CacheEntry> {
    let listing = Listing::load(&directory.join(ENTRY))?;
    let intact =
        |(name, expected): (&String, &String)| sha256_file(&directory.join(name)).is_ok_and(|h| h == *expected);
    let directory = directory.to_owned();
    listing.files.iter().all(intact).then_some(CacheEntry { directory, notes: listing.notes })
}

impl CacheEntry {
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

impl Draft {
    /// Where to write a file of the entry.
    pub fn file(&self, name: &str) -> PathBuf {
        self.temporary.join(name)
    }

    /// Makes the entry visible, with all its files.
    pub fn commit(mut self, notes: Json) -> Result<CacheEntry, StoreError> {
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |source| StoreError::write(&path, source)
        };
        let mut files = BTreeMap::new();
        for file in fs::read_dir(&self.temporary).map_err(fail(&self.temporary))? {
            let name = file.map_err(fail(&self.temporary))?.file_name().to_string_lossy().into_owned();
            let hash = sha256_file(&self.temporary.join(&name))?;
            files.insert(name, hash);
        }
        let listing = sealed(&Listing { files, notes: notes.clone() })
            .map_err(|error| StoreError::write(&self.temporary, error.into()))?;
        write_atomic(&self.temporary.join(ENTRY), listing.as_bytes())?;
        let parent = self.target.parent().unwrap_or(&self.target);
        fs::create_dir_all(parent).map_err(fail(parent))?;
        if fs::rename(&self.temporary, &self.target).is_err() {
            return self.replace();
        }
        self.committed = true;
        Ok(CacheEntry { directory: self.target.clone(), notes })
    }

    /// Settles with the entry that is there already. If it is whole, another run was faster and may be reading it: it
    /// stays. Only a damaged one makes room, and only one run at a time decides that.
    fn replace(mut self) -> Result<CacheEntry, StoreError> {
        let drafts = self.temporary.parent().unwrap_or(&self.temporary).to_owned();
        let path = drafts.with_file_name("replace.lock");
        let lock = open_lock(&path).map_err(|source| StoreError::write(&path, source))?;
        // Where files cannot be locked the worst is that two runs replace the same damaged entry.
        let _ = lock.lock();
        let displaced = self.temporary.with_extension("old");
        loop {
            if let Some(whole) = entry_in(&self.target) {
                return Ok(whole);
            }
            if self.target.exists() {
                fs::rename(&self.target, &displaced).map_err(|source| StoreError::write(&self.target, source))?;
                let _ = fs::remove_dir_all(&displaced);
            }
            match fs::rename(&self.temporary, &self.target) {
                Ok(()) => self.committed = true,
                // A run that found the place free needed no lock to take it.
                Err(_) if self.target.exists() => {}
                Err(source) => return Err(StoreError::write(&self.target, source)),
            }
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.committed {
            let _ = fs::remove_dir_all(&self.temporary);
        }
        let _ = fs::remove_file(&self.lock.0);
    }
}
