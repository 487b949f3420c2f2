//! Model files: tensors and their description in one safetensors file that any tool can open.
//!
//! The description is JSON under `stride` in the file's metadata; hashes beside it guard every byte. The same model
//! always gives the same bytes.

mod meta;
mod remote;
mod versions;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::atomic::{Written, hex, write_atomic};
use sha2::{Digest as _, Sha256};

use super::container::{ContainerError, FileKind, decode, encode, read_regular};
use super::error::StoreError;
use super::object::is_address;
use super::tensor::Tensor;

pub use versions::{ModelVersion, RolledBack, roll_back, versions};

pub use meta::{CentreAndScale, InputDigest, ModelMeta, Published, Range, StartedFrom, TargetScaling, TrainingSummary};

/// Name of a model's file in its directory.
pub const MODEL_FILE: &str = "model.safetensors";

/// The version this program writes and reads.
pub const FORMAT_VERSION: u32 = 1;

const KIND: FileKind =
    FileKind { noun: "model", description: "stride", version_key: "stride.format_version", version: FORMAT_VERSION };

/// A model: numbers, and what they mean.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelFile {
    pub meta: ModelMeta,
    pub tensors: BTreeMap<String, Tensor>,
}

impl ModelFile {
    /// Writes the model in one step; the same model gives the same bytes.
    pub fn save(&self, path: &Path) -> Result<Written, StoreError> {
        write_atomic(path, &self.to_bytes(path)?)
    }

    /// The bytes of the file; `path` is for messages.
    pub fn to_bytes(&self, path: &Path) -> Result<Vec<u8>, StoreError> {
        let hint = "this is a mistake of stride-pipe: please report it";
        let description = || serde_json::to_string(&self.meta).map_err(|error| error.to_string());
        self.meta
            .check()
            .and_then(|()| encode(&KIND, description()?, &self.tensors))
            .map_err(|detail| StoreError::model(path, format!("this model cannot be saved: {detail}"), hint))
    }

    /// Reads a model and checks version, hashes, types and shapes. A directory stands for the `model.safetensors` in it.
    pub fn load(path: &Path) -> Result<Self, StoreError> {
        Self::load_hashed(path).map(|(file, _)| file)
    }

    /// The same with the SHA-256 of the very bytes that were read: a published model may be replaced at any time.
    pub fn load_hashed(path: &Path) -> Result<(Self, String), StoreError> {
        let directory = path;
        if is_address(directory) {
            let (bytes, path) = remote::read(directory).map_err(|error| match error {
                StoreError::Missing { path, .. } => StoreError::missing(&path, "there is no model here", PUBLISH_FIRST),
                other => other,
            })?;
            return Ok((Self::from_bytes(&bytes, &path)?, hex(&Sha256::digest(&bytes))));
        }
        let path = model_path(path);
        let bytes = read_regular(&path).map_err(|error| match error {
            StoreError::Missing { path, .. } => StoreError::missing(
                &path,
                "there is no model here",
                model_below(directory).map_or_else(
                    || PUBLISH_FIRST.to_owned(),
                    |below| format!("there is one below: {}", below.display()),
                ),
            ),
            other => other,
        })?;
        let irregular =
            || StoreError::model(&path, "not a regular file", "give the directory that training has written");
        let bytes = bytes.ok_or_else(irregular)?;
        Ok((Self::from_bytes(&bytes, &path)?, hex(&Sha256::digest(&bytes))))
    }

    /// A model from the bytes of its file; `path` is for messages.
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Self, StoreError> {
        let read = || {
            let (description, tensors) = decode(&KIND, bytes)?;
            let meta: ModelMeta =
                serde_json::from_str(&description).map_err(|error| ContainerError::Damaged(error.to_string()))?;
            meta.check().map_err(ContainerError::Damaged)?;
            Ok(Self { meta, tensors })
        };
        read().map_err(|error: ContainerError| StoreError::model(path, error.detail(&KIND), error.hint()))
    }

    /// Whether both are the same model, whichever run trained it and whatever its publishing was subject to.
    pub fn is_same(&self, other: &Self) -> bool {
        let mut meta = other.meta.clone();
        meta.published.clone_from(&self.meta.published);
        meta.training.run_id.clone_from(&self.meta.training.run_id);
        meta.training.created = self.meta.training.created;
        meta == self.meta && self.tensors == other.tensors
    }

    /// A tensor of floats by name.
    pub fn floats(&self, name: &str) -> Option<&ndarray::ArrayD<f64>> {
        self.tensors.get(name)?.floats()
    }

    /// A tensor of integers by name.
    pub fn integers(&self, name: &str) -> Option<&ndarray::ArrayD<i64>> {
        self.tensors.get(name)?.integers()
    }
}

const PUBLISH_FIRST: &str = "train and publish it first, or check the path";

/// Where a published model's directory keeps the one before.
pub const PREVIOUS: &str = "previous";

/// What a publication changed.
#[derive(Debug, Clone, PartialEq)]
pub enum Publication {
    /// The same model was there.
    Unchanged,
    /// Nothing was there, or nothing that is a model.
    New,
    /// This model was there, and is kept as a version.
    Replaced(Box<ModelMeta>),
}

/// Puts a model where scoring jobs find it, in one step, and keeps the ones that were there as versions, `keep` of them in
/// all. The same model again changes nothing, under whichever condition it is published: else it would push out the
/// previous one, which somebody may want to go back to.
pub fn publish(model: &ModelFile, directory: &Path, keep: u32) -> Result<Publication, StoreError> {
    if is_address(directory) {
        return remote::publish(model, directory, keep);
    }
    let target = directory.join(MODEL_FILE);
    let bytes = model.to_bytes(&target)?;
    let mut replaced = None;
    match std::fs::read(&target) {
        Ok(found) if found == bytes => return Ok(Publication::Unchanged),
        Ok(found) if ModelFile::from_bytes(&found, &target).is_ok_and(|found| found.is_same(model)) => {
            return Ok(Publication::Unchanged);
        }
        Ok(found) => {
            replaced = ModelFile::from_bytes(&found, &target).ok().map(|found| Box::new(found.meta));
        }
        // Another one, or nothing that could be kept: writing tells what is wrong.
        _ => {}
    }
    versions::publish_version(directory, &bytes, keep)?;
    Ok(replaced.map_or(Publication::New, Publication::Replaced))
}

// The first model in a subdirectory, as training writes one for each fold.
fn model_below(directory: &Path) -> Option<PathBuf> {
    let below = std::fs::read_dir(directory).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    below.filter(|path| path.join(MODEL_FILE).is_file() && !path.ends_with(PREVIOUS)).min()
}

/// The file of a model that is named by its directory or its file.
pub fn model_path(path: &Path) -> PathBuf {
    if is_address(path) {
        return remote::resolve(path).unwrap_or_else(|_| path.to_owned());
    }
    if path.is_dir() { path.join(MODEL_FILE) } else { path.to_owned() }
}
