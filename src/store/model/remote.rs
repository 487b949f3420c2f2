//! Published models in object storage: `versions/1`, `versions/2`, … and `published.json`, which says which one is published.
//!
//! Versions never change. To publish one is to put the small pointer, under the condition that it still is what it was: the
//! store does that in one step, so that a reader sees one model or the other, and of two jobs that publish at once one is
//! told so. A directory that was copied from a disk has no pointer: its `model.safetensors` is read then.

use std::path::{Path, PathBuf};

use object_store::ObjectMeta;
use serde::{Deserialize, Serialize};

use super::versions::{ModelVersion, RolledBack, VERSIONS};
use super::{MODEL_FILE, ModelFile, Publication};
use crate::store::StoreError;
use crate::store::object::{children, exists, get, put_small, remove};
use crate::store::seal::{Sealing, sealed, sealing};

const POINTER: &str = "published.json";
/// How often a version that was just removed is looked for again: the pointer has a newer one.
const ATTEMPTS: u32 = 5;

/// `published.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Pointer {
    version: u64,
    /// What was published before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous: Option<u64>,
}

/// The pointer, and what tells whether it is still the same.
type KnownPointer = Option<(Pointer, ObjectMeta)>;

fn pointer(directory: &Path) -> Result<KnownPointer, StoreError> {
    let path = directory.join(POINTER);
    let (text, known) = match get(&path) {
        Err(StoreError::Missing { .. }) => return Ok(None),
        found => found?,
    };
    let not = |detail: String| {
        let hint = "put the number of a version there, as {\"version\": 3}, or publish again to another place";
        StoreError::model(&path, format!("not the pointer to a published model: {detail}"), hint)
    };
    let pointer = serde_json::from_slice(&text).map_err(|error| not(error.to_string()))?;
    if str::from_utf8(&text).map_or(Sealing::Broken, sealing) == Sealing::Broken {
        return Err(not("its text does not fit the hash in it".to_owned()));
    }
    Ok(Some((pointer, known)))
}

fn file_of(directory: &Path, number: u64) -> PathBuf {
    directory.join(VERSIONS).join(number.to_string()).join(MODEL_FILE)
}

/// The object of a model that is named by its directory or by itself.
pub(super) fn resolve(path: &Path) -> Result<PathBuf, StoreError> {
    if path.extension().is_some_and(|extension| extension == "safetensors") {
        return Ok(path.to_owned());
    }
    Ok(pointer(path)?.map_or_else(|| path.join(MODEL_FILE), |(pointer, _)| file_of(path, pointer.version)))
}

/// The bytes of a model, and the object that they are of.
pub(super) fn read(path: &Path) -> Result<(Vec<u8>, PathBuf), StoreError> {
    let mut attempt = 1;
    loop {
        let file = resolve(path)?;
        match get(&file) {
            Ok((bytes, _)) => return Ok((bytes, file)),
            Err(StoreError::Missing { .. }) if attempt < ATTEMPTS && resolve(path)? != file => attempt += 1,
            Err(error) => return Err(error),
        }
    }
}

fn numbers(directory: &Path) -> Result<Vec<u64>, StoreError> {
    let names = children(&directory.join(VERSIONS))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// All versions, oldest first.
pub(super) fn versions(directory: &Path) -> Result<Vec<ModelVersion>, StoreError> {
    let published = pointer(directory)?.map(|(pointer, _)| pointer.version);
    let version = |number: u64| ModelVersion {
        number,
        path: file_of(directory, number),
        is_published: published == Some(number),
    };
    let found: Vec<ModelVersion> = numbers(directory)?.into_iter().map(version).collect();
    let plain = directory.join(MODEL_FILE);
    if found.is_empty() && published.is_none() && exists(&plain)? {
        return Ok(vec![ModelVersion { number: 1, path: plain, is_published: true }]);
    }
    Ok(found)
}

/// Publishes a model; see [`super::publish`].
pub(super) fn publish(model: &ModelFile, directory: &Path, keep: u32) -> Result<Publication, StoreError> {
    let bytes = model.to_bytes(directory)?;
    // What is compared with here must be what the pointer is put in the place of.
    let before = pointer(directory)?;
    let file =
        before.as_ref().map_or_else(|| directory.join(MODEL_FILE), |(known, _)| file_of(directory, known.version));
    let found = match get(&file) {
        Err(StoreError::Missing { .. }) => None,
        found => Some(found?.0),
    };
    let mut replaced = None;
    if let Some(found) = &found {
        let parsed = ModelFile::from_bytes(found, &file).ok();
        if *found == bytes || parsed.as_ref().is_some_and(|parsed| parsed.is_same(model)) {
            return Ok(Publication::Unchanged);
        }
        replaced = parsed.map(|parsed| Box::new(parsed.meta));
    }
    // A model without versions becomes the first, so that there is a way back.
    if let (None, Some(found)) = (&before, found)
        && numbers(directory)?.is_empty()
    {
        put_small(&file_of(directory, 1), found, None)?;
    }
    let number = add_version(directory, &bytes, before.as_ref().map(|(known, _)| known.version))?;
    point(directory, number, &before)?;
    prune(directory, number, keep)?;
    Ok(replaced.map_or(Publication::New, Publication::Replaced))
}

/// Writes a version under the next free number; others may take numbers at the same time.
fn add_version(directory: &Path, bytes: &[u8], published: Option<u64>) -> Result<u64, StoreError> {
    let latest = numbers(directory)?.last().copied();
    // One that was written and not published, when a training was killed.
    if let Some(latest) = latest.filter(|latest| published.is_none_or(|published| *latest > published))
        && get(&file_of(directory, latest)).is_ok_and(|(found, _)| found == bytes)
    {
        return Ok(latest);
    }
    let mut number = latest.map_or(1, |latest| latest + 1);
    loop {
        match put_small(&file_of(directory, number), bytes.to_vec(), None) {
            Ok(()) => return Ok(number),
            Err(StoreError::Conflict { .. }) => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Publishes a version in one step, unless somebody else has published another meanwhile.
fn point(directory: &Path, version: u64, before: &KnownPointer) -> Result<(), StoreError> {
    let pointer = Pointer { version, previous: before.as_ref().map(|(known, _)| known.version) };
    let text = sealed(&pointer).unwrap_or_default() + "\n";
    put_small(&directory.join(POINTER), text.into_bytes(), before.as_ref().map(|(_, known)| known))
}

/// Removes the oldest versions beyond this number; never the one that is published.
fn prune(directory: &Path, published: u64, keep: u32) -> Result<(), StoreError> {
    let found = numbers(directory)?;
    let more = found.len().saturating_sub(keep.max(1) as usize);
    found
        .iter()
        .take(more)
        .filter(|number| **number != published)
        .try_for_each(|number| remove(&file_of(directory, *number)))
}

/// Publishes an earlier version again; see [`super::roll_back`].
pub(super) fn roll_back(directory: &Path, to: Option<u64>) -> Result<RolledBack, StoreError> {
    let Some((known, meta)) = pointer(directory)? else {
        let hint = "give the address that `publish` of a pipeline names";
        return Err(StoreError::missing(directory, "no model is published here", hint));
    };
    let (from, found) = (known.version, versions(directory)?);
    let wanted = super::versions::earlier(directory, &found, from, to)?;
    ModelFile::load(&wanted.path)?;
    if wanted.number != from {
        point(directory, wanted.number, &Some((known, meta)))?;
    }
    Ok(RolledBack { from, to: wanted.number })
}
