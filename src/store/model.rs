//! Model files: tensors and their description in one safetensors file that any tool can open.
//!
//! The description is JSON under `stride` in the file's metadata. Two hashes stand beside it: `stride.sha256` over the
//! tensor bytes and `stride.meta_sha256` over the description and the tensors' names, types and shapes. Nothing in the
//! file can change without one of them noticing. The same model always gives the same bytes.

mod container;
mod meta;
mod tensor;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::atomic::{Written, write_atomic};
use super::error::StoreError;

pub use meta::{FeatureScaling, InputDigest, ModelMeta, Range, TargetScaling, TrainingSummary};
pub use tensor::Tensor;

/// Name of a model's file in its directory.
pub const MODEL_FILE: &str = "model.safetensors";

/// The version this program writes and reads.
pub const FORMAT_VERSION: u32 = 1;

/// A model: numbers, and what they mean.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelFile {
    /// What the model is.
    pub meta: ModelMeta,
    /// Its numbers by name.
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
        self.meta
            .check()
            .and_then(|()| container::encode(&self.meta, &self.tensors))
            .map_err(|detail| StoreError::model(path, format!("this model cannot be saved: {detail}"), hint))
    }

    /// Reads a model and checks version, hashes, types and shapes. A directory stands for the `model.safetensors` in it.
    pub fn load(path: &Path) -> Result<Self, StoreError> {
        let path = model_path(path);
        // A pipe would wait for its writer, a device may never end.
        if fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(StoreError::model(&path, "not a regular file", "give the directory that training has written"));
        }
        let bytes = fs::read(&path).map_err(|source| match StoreError::read(&path, source) {
            StoreError::Missing { path, .. } => {
                StoreError::missing(&path, "there is no model here", "train and publish it first, or check the path")
            }
            other => other,
        })?;
        Self::from_bytes(&bytes, &path)
    }

    /// A model from the bytes of its file; `path` is for messages.
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Self, StoreError> {
        let (meta, tensors) =
            container::decode(bytes).map_err(|refusal| StoreError::model(path, refusal.detail(), refusal.hint()))?;
        Ok(Self { meta, tensors })
    }

    /// A tensor of floats by name.
    pub fn floats(&self, name: &str) -> Option<&ndarray::ArrayD<f64>> {
        match self.tensors.get(name)? {
            Tensor::F64(values) => Some(values),
            Tensor::I64(_) => None,
        }
    }

    /// A tensor of integers by name.
    pub fn integers(&self, name: &str) -> Option<&ndarray::ArrayD<i64>> {
        match self.tensors.get(name)? {
            Tensor::I64(values) => Some(values),
            Tensor::F64(_) => None,
        }
    }
}

/// The file of a model that is named by its directory or its file.
pub fn model_path(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(MODEL_FILE) } else { path.to_owned() }
}
