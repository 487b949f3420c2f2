//! Copies of objects on this machine, by address and `ETag`, and the hashes of their contents.
//!
//! A copy is a directory `objects/<hash of address and ETag>` with the contents and their SHA-256. It appears by rename, so
//! that processes may share it, and is never changed. What was not used for longest goes first when room is needed.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::ObjectMeta;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::client::{Object, fetch, forget, tag_of, wait};
use super::fault::{Doing, changed, fault};
use super::settings::{home, room_for_copies};
use crate::store::StoreError;
use crate::store::atomic::{AtomicFile, hex, sweep, write_atomic};
use crate::store::input::sha256_file;
use crate::store::seal::{Sealing, sealed, sealing};

/// What is asked for at once, and how many such requests are on their way together.
const PIECE: u64 = 8 << 20;
const TOGETHER: usize = 4;

const CONTENTS: &str = "contents";
const HASH: &str = "sha256.json";

/// The hash of an object's contents, as it is noted.
#[derive(Serialize, Deserialize)]
struct NotedHash {
    contents: String,
}

/// The copies of this user.
pub(in crate::store) struct Copies {
    root: PathBuf,
}

impl Copies {
    pub(in crate::store) fn of_user() -> Self {
        Self { root: home().join("objects") }
    }

    /// Where the copy of an object is, if it can be told apart from what will have its name later.
    fn directory(&self, path: &Path, known: &ObjectMeta) -> Option<PathBuf> {
        known.e_tag.as_ref().or(known.version.as_ref())?;
        let tag = tag_of(known);
        let name = format!("{}\n{tag}\n{}", path.display(), known.size);
        Some(self.root.join(hex(&Sha256::digest(name))))
    }

    /// The copy of an object, if there is one that is as it was made.
    pub(in crate::store) fn find(&self, path: &Path, known: &ObjectMeta) -> Option<File> {
        let directory = self.directory(path, known)?;
        let file = File::open(directory.join(CONTENTS)).ok()?;
        let fits = file.metadata().is_ok_and(|found| found.len() == known.size);
        let whole = fits && is_whole(&directory);
        // The time of the last use; that it cannot be noted is no reason not to use it.
        let _ = whole.then(|| file.set_modified(SystemTime::now()));
        whole.then_some(file)
    }

    /// SHA-256 of the contents, in hexadecimal. Reads all of the object unless that was done before.
    pub(in crate::store) fn sha256(&self, path: &Path, known: &ObjectMeta) -> Result<String, StoreError> {
        let directory = self.directory(path, known);
        match directory.as_deref().and_then(noted_hash) {
            Some(noted) => Ok(noted),
            None => self.make(path, known, directory.as_deref()),
        }
    }

    /// Downloads an object and keeps it, where it has a tag.
    fn make(&self, path: &Path, known: &ObjectMeta, directory: Option<&Path>) -> Result<String, StoreError> {
        let Some(directory) = directory else { return download(&Object::at(path)?, known, &mut std::io::sink()) };
        self.make_room(known.size);
        let hash = download_to(path, known, &directory.join(CONTENTS))?;
        note_hash(directory, &hash)?;
        Ok(hash)
    }

    /// Removes what was not used for longest until there is room for this many bytes more.
    fn make_room(&self, more: u64) {
        let contents = |entry: fs::DirEntry| {
            let found = fs::metadata(entry.path().join(CONTENTS)).ok()?;
            Some((found.modified().ok()?, found.len(), entry.path()))
        };
        let mut copies: Vec<_> =
            fs::read_dir(&self.root).into_iter().flatten().flatten().filter_map(contents).collect();
        copies.sort();
        let mut total = copies.iter().map(|(_, size, _)| size).sum::<u64>() + more;
        for (_, size, directory) in copies {
            if total <= room_for_copies() {
                break;
            }
            // Whoever reads it has it open. Its hash may stay: it is small, and as true as before.
            if fs::remove_file(directory.join(CONTENTS)).is_ok() {
                total -= size;
            }
        }
    }
}

/// Notes the hash of an object that was just written, so that it need not be read to know it.
pub(in crate::store) fn remember(path: &Path, known: &ObjectMeta, sha256: &str) {
    if let Some(directory) = Copies::of_user().directory(path, known) {
        let _ = note_hash(&directory, sha256);
    }
}

/// The hash that was noted of an object, if that is as it was written.
fn noted_hash(directory: &Path) -> Option<String> {
    let text = fs::read_to_string(directory.join(HASH)).ok()?;
    let noted: NotedHash = serde_json::from_str(&text).ok()?;
    (sealing(&text) == Sealing::Whole).then_some(noted.contents)
}

fn note_hash(directory: &Path, hash: &str) -> Result<(), StoreError> {
    let path = directory.join(HASH);
    let text = sealed(&NotedHash { contents: hash.to_owned() });
    let text = text.map_err(|error| StoreError::write(&path, error.into()))?;
    write_atomic(&path, text.as_bytes()).map(drop)
}

/// Whether the contents of a copy have the hash that was noted. A process looks once: it is a file of its own user, and large.
fn is_whole(directory: &Path) -> bool {
    static KNOWN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if known().contains(directory) {
        return true;
    }
    let whole = noted_hash(directory)
        .is_some_and(|noted| sha256_file(&directory.join(CONTENTS)).is_ok_and(|hash| hash == noted));
    if whole {
        known().insert(directory.to_owned());
    }
    whole
}

/// Makes a file of an object, in one step; its SHA-256.
pub(super) fn download_to(path: &Path, known: &ObjectMeta, target: &Path) -> Result<String, StoreError> {
    let object = Object::at(path)?;
    sweep(target);
    let mut file = AtomicFile::create(target)?;
    download(&object, known, &mut file)?;
    Ok(file.commit()?.sha256)
}

/// Reads all of an object into a file; its SHA-256.
fn download(
    object: &Object,
    known: &ObjectMeta,
    file: &mut (impl std::io::Write + Send),
) -> Result<String, StoreError> {
    let Object { store, key, path } = object;
    let (started, mut hash) = (Instant::now(), Sha256::new());
    let pieces = (0..known.size.div_ceil(PIECE)).map(|piece| piece * PIECE..((piece + 1) * PIECE).min(known.size));
    let mut pieces =
        futures_util::stream::iter(pieces)
            .map(|range| async move {
                fetch(store, key, known, range.clone()).await.map(|got| (got, range.end - range.start))
            })
            .buffered(TOGETHER);
    let mut written = 0;
    while let Some(piece) = wait(pieces.try_next())?.transpose() {
        let ((bytes, same), length) = piece.map_err(|error| {
            forget(path);
            fault(path, &error, Doing::Reading, started)
        })?;
        if !same || bytes.len() as u64 != length {
            forget(path);
            return Err(changed(path));
        }
        hash.update(&bytes);
        file.write_all(&bytes).map_err(|source| StoreError::write(&home(), source))?;
        written += length;
    }
    if written != known.size {
        return Err(changed(path));
    }
    Ok(hex(&hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies of objects are files of this machine, and disks fail: what is not as it was made is fetched again.
    #[test]
    fn copies_with_any_bit_flipped_are_not_used() -> Result<(), Box<dyn std::error::Error>> {
        let home = tempfile::tempdir()?;
        let copies = Copies { root: home.path().to_owned() };
        let path = Path::new("s3://bucket/rows.parquet");
        let contents = b"rows";
        let known = |tag: usize| ObjectMeta {
            location: "rows.parquet".into(),
            last_modified: SystemTime::UNIX_EPOCH.into(),
            size: contents.len() as u64,
            e_tag: Some(tag.to_string()),
            version: None,
        };
        // One copy for each bit: a process looks at each once.
        let make = |tag: usize| -> Result<PathBuf, Box<dyn std::error::Error>> {
            let directory = copies.directory(path, &known(tag)).ok_or("no tag")?;
            fs::create_dir_all(&directory)?;
            fs::write(directory.join(CONTENTS), contents)?;
            note_hash(&directory, &hex(&Sha256::digest(contents)))?;
            Ok(directory)
        };
        let note = make(0)?.join(HASH);
        assert!(copies.find(path, &known(0)).is_some());
        let bits = 8 * fs::metadata(note)?.len() as usize;
        for (tag, name, bit) in
            (0..32).map(|bit| (bit + 1, CONTENTS, bit)).chain((0..bits).map(|bit| (bit + 33, HASH, bit)))
        {
            let directory = make(tag)?;
            let mut bytes = fs::read(directory.join(name))?;
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(directory.join(name), bytes)?;
            assert!(copies.find(path, &known(tag)).is_none(), "bit {bit} of {name}");
            let noted = noted_hash(&directory);
            assert!(noted.is_none() == (name == HASH), "bit {bit} of {name}");
        }
        Ok(())
    }
}
