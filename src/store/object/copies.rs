//! Copies of objects on this machine, by address and `ETag`, and the hashes of their contents.
//!
//! A copy is a directory `objects/<hash of address and ETag>` with the contents and their SHA-256. It appears by rename, so
//! that processes may share it, and is never changed. What was not used for longest goes first when room is needed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::ObjectMeta;
use sha2::{Digest as _, Sha256};

use super::client::{Object, fetch, forget, tag_of, wait};
use super::fault::{Doing, changed, fault};
use super::settings::{home, room_for_copies};
use crate::store::StoreError;
use crate::store::atomic::{AtomicFile, hex, sweep, write_atomic};

/// What is asked for at once, and how many such requests are on their way together.
const PIECE: u64 = 8 << 20;
const TOGETHER: usize = 4;

const CONTENTS: &str = "contents";
const HASH: &str = "sha256";

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

    /// The copy of an object, if there is one.
    pub(in crate::store) fn find(&self, path: &Path, known: &ObjectMeta) -> Option<File> {
        let file = File::open(self.directory(path, known)?.join(CONTENTS)).ok()?;
        let whole = file.metadata().is_ok_and(|found| found.len() == known.size);
        // The time of the last use; that it cannot be noted is no reason not to use it.
        let _ = whole.then(|| file.set_modified(SystemTime::now()));
        whole.then_some(file)
    }

    /// SHA-256 of the contents, in hexadecimal. Reads all of the object unless that was done before.
    pub(in crate::store) fn sha256(&self, path: &Path, known: &ObjectMeta) -> Result<String, StoreError> {
        let directory = self.directory(path, known);
        let is_hash = |text: &String| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let noted = directory.as_ref().and_then(|found| fs::read_to_string(found.join(HASH)).ok()).filter(is_hash);
        match noted {
            Some(noted) => Ok(noted),
            None => self.make(path, known, directory.as_deref()),
        }
    }

    /// Downloads an object and keeps it, where it has a tag.
    fn make(&self, path: &Path, known: &ObjectMeta, directory: Option<&Path>) -> Result<String, StoreError> {
        let Some(directory) = directory else { return download(&Object::at(path)?, known, &mut std::io::sink()) };
        self.make_room(known.size);
        let hash = download_to(path, known, &directory.join(CONTENTS))?;
        write_atomic(&directory.join(HASH), hash.as_bytes())?;
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
        let _ = write_atomic(&directory.join(HASH), sha256.as_bytes());
    }
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
