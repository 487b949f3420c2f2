//! Locks that vanish with the process: the operating system's own, on files that stay.
//!
//! What is replaced in place has a lock file beside it. A job that may write any file of a directory and a job that writes
//! one file below it must not meet either. So each takes its own lock first and looks for the others' then: a file's job
//! at the directories above, a directory's job at the files below. Whoever comes second sees the first.

use super::object::{home, is_address};
use super::{ResultsDir, StoreError, escape};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

/// A lock that is held until dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// What came of trying.
#[derive(Debug)]
pub enum Locking {
    Held(Lock),
    /// Somebody else has it, and this is what they wrote about themselves.
    Taken(String),
    /// Others have it together.
    Shared,
}

/// The lock of a pipeline in a results directory.
pub fn pipeline_lock(results: &Path, pipeline: &str) -> PathBuf {
    ResultsDir::new(results).root().join("locks").join(format!("{}.lock", escape(pipeline)))
}

/// The lock of something that is replaced in place: a published model, a file or a directory of scores.
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
    let mut file = open_lock(path).map_err(fail)?;
    match file.try_lock() {
        Ok(()) => {
            file.set_len(0).map_err(fail)?;
            file.write_all(owner.as_bytes()).map_err(fail)?;
            Ok(Locking::Held(Lock { _file: file }))
        }
        // Nobody has it alone: the name in it is of somebody who is gone.
        Err(TryLockError::WouldBlock) if file.try_lock_shared().is_ok() => Ok(Locking::Shared),
        Err(TryLockError::WouldBlock) => Ok(Locking::Taken(holder(&mut file))),
        Err(TryLockError::Error(source)) => Err(fail(source)),
    }
}

/// A lock file, made if it is not there. A link is not followed: whoever planted it would have its target written to.
pub(super) fn open_lock(path: &Path) -> io::Result<File> {
    // Not truncated on opening: it may be somebody else's, and say whose.
    let opened =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).custom_flags(NOFOLLOW).open(path);
    opened.map_err(|source| {
        if path.is_symlink() {
            return io::Error::new(io::ErrorKind::InvalidInput, "a link stands where the lock file belongs");
        }
        source
    })
}

const NOFOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

/// Tries to join those who have a lock together; the file is made if it is not there.
fn try_join(path: &Path) -> Result<Locking, StoreError> {
    let fail = |source| StoreError::write(path, source);
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(|source| StoreError::write(directory, source))?;
    }
    let mut file = open_lock(path).map_err(fail)?;
    match file.try_lock_shared() {
        Ok(()) => Ok(Locking::Held(Lock { _file: file })),
        Err(TryLockError::WouldBlock) => Ok(Locking::Taken(holder(&mut file))),
        Err(TryLockError::Error(source)) => Err(fail(source)),
    }
}

/// Tries to join those who have a lock together; none where there is no such lock, or it is not ours to take.
fn try_share(path: &Path) -> Option<Locking> {
    let mut file = OpenOptions::new().read(true).custom_flags(NOFOLLOW).open(path).ok()?;
    match file.try_lock_shared() {
        Ok(()) => Some(Locking::Held(Lock { _file: file })),
        Err(TryLockError::WouldBlock) => Some(Locking::Taken(holder(&mut file))),
        Err(TryLockError::Error(_)) => None,
    }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let _ = file.rewind().and_then(|()| file.read_to_string(&mut text));
    text
}

/// Everything that a job must have for itself before it begins.
#[derive(Debug, Default)]
pub struct Claims {
    /// Lock files taken alone, by their real place: as they were given, and what messages are about.
    own: BTreeMap<PathBuf, (PathBuf, PathBuf)>,
    /// Lock files taken together with others.
    shared: BTreeSet<PathBuf>,
    /// Locks of directories above targets, taken together with others where they exist.
    above: BTreeSet<PathBuf>,
    /// Directories in which any file may be written.
    directories: BTreeSet<PathBuf>,
}

/// All locks, or the one that somebody else has and what they say of themselves.
pub type Claimed = Result<Vec<Lock>, (PathBuf, String)>;

impl Claims {
    /// Adds a lock that is not about a file to write.
    pub fn add_lock(&mut self, path: PathBuf) {
        self.own.insert(real(&path).unwrap_or_else(|_| path.clone()), (path.clone(), path));
    }

    /// Adds a lock that is taken together with others.
    pub fn add_shared(&mut self, path: PathBuf) {
        self.shared.insert(path);
    }

    /// Adds a file, or a directory with all below it, that is replaced in place.
    pub fn add_target(&mut self, target: &Path, is_directory: bool) -> Result<(), StoreError> {
        if is_address(target) {
            // Jobs of this machine wait for each other; those of others are told apart by the store.
            let name = target.display().to_string();
            let lock = home().join("locks").join(format!("{}.lock", escape(name.trim_end_matches('/'))));
            self.own.insert(lock.clone(), (lock, target.to_owned()));
            return Ok(());
        }
        let place = place_of(target, is_directory).map_err(|source| StoreError::write(target, source))?;
        // `.` and `..` have no name that a lock could have: the directory that they mean has.
        let named = if target.file_name().is_some() { target } else { &place };
        self.own.insert(target_lock(&place), (target_lock(named), target.to_owned()));
        let named = place.ancestors().skip(1).filter(|directory| directory.file_name().is_some());
        self.above.extend(named.map(target_lock));
        if is_directory {
            self.directories.insert(place);
        }
        Ok(())
    }

    /// Tries to take all of them, once. What was taken is given back when one cannot be had: nobody who waits is in the
    /// way of others.
    pub fn try_take(&self, owner: &str) -> Result<Claimed, StoreError> {
        let mut locks = Vec::with_capacity(self.own.len());
        for (path, named) in self.own.values() {
            let taken = try_lock(path, owner).map_err(|error| match error {
                StoreError::Write { path: failed, source } if failed == *path => StoreError::write(named, source),
                other => other,
            });
            match taken? {
                Locking::Held(lock) => locks.push(lock),
                Locking::Taken(holder) => return Ok(Err((named.clone(), holder))),
                Locking::Shared => {
                    let others = if named == path { "shards of this pipeline" } else { "a job that writes below it" };
                    return Ok(Err((named.clone(), others.to_owned())));
                }
            }
        }
        for path in &self.shared {
            match try_join(path)? {
                Locking::Held(lock) => locks.push(lock),
                Locking::Taken(holder) => return Ok(Err((path.clone(), holder))),
                Locking::Shared => {}
            }
        }
        for path in self.above.iter().filter(|path| !self.own.contains_key(*path)) {
            match try_share(path) {
                Some(Locking::Held(lock)) => locks.push(lock),
                Some(Locking::Taken(holder)) => return Ok(Err((path.clone(), holder))),
                Some(Locking::Shared) | None => {}
            }
        }
        Ok(Ok(locks))
    }

    /// A lock below one of the directories that somebody else has, if there is one.
    pub fn busy_below(&self) -> Option<(PathBuf, String)> {
        let mut directories: Vec<PathBuf> = self.directories.iter().cloned().collect();
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                let (path, name) = (entry.path(), entry.file_name());
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    directories.push(path);
                } else if is_lock(&name.to_string_lossy())
                    && !self.own.contains_key(&path)
                    && let Some(Locking::Taken(holder)) = try_share(&path)
                {
                    return Some((path, holder));
                }
            }
        }
        None
    }
}

/// Whether a name is one that [`target_lock`] gives.
fn is_lock(name: &str) -> bool {
    name.starts_with('.') && Path::new(name).extension().is_some_and(|extension| extension == "lock")
}

/// The place of something that is replaced in place, the same however it is written.
pub fn place_of(target: &Path, is_directory: bool) -> io::Result<PathBuf> {
    if is_directory {
        return real(target);
    }
    // A file that is a link is replaced, not followed.
    let absolute = std::path::absolute(target)?;
    let directory = absolute.parent().map_or_else(|| Ok(PathBuf::from("/")), real)?;
    Ok(directory.join(absolute.file_name().unwrap_or_default()))
}

/// The place of a path without links, also where its end does not exist yet.
pub fn real(path: &Path) -> io::Result<PathBuf> {
    if is_address(path) {
        return Ok(path.to_owned());
    }
    let absolute = std::path::absolute(path)?;
    for ancestor in absolute.ancestors() {
        if let Ok(mut place) = ancestor.canonicalize() {
            // What does not exist is no link: `..` leads back to where it was entered.
            for step in absolute.strip_prefix(ancestor).unwrap_or(Path::new("")).components() {
                if step == Component::ParentDir {
                    place.pop();
                } else {
                    place.push(step);
                }
            }
            return Ok(place);
        }
    }
    Ok(absolute)
}
