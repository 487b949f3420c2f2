//! The bytes of models and checkpoints: safetensors with a description, and hashes over everything.
//!
//! The description is JSON in the file's metadata. Two hashes stand beside it: `stride.sha256` over the tensor bytes and
//! `stride.meta_sha256` over the description and the tensors' names, types and shapes. Nothing in the file can change
//! without one of them noticing. The same contents always give the same bytes.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use safetensors::SafeTensors;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::atomic::hex;
use super::error::StoreError;
use super::tensor::Tensor;

const TENSOR_HASH: &str = "stride.sha256";
const META_HASH: &str = "stride.meta_sha256";

/// A description is a few kilobytes; this leaves room for many features.
const LONGEST_HEADER: u64 = 64 << 20;

/// What a file holds, and how it says so.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileKind {
    /// The word for it in messages.
    pub noun: &'static str,
    /// Where the description stands in the metadata.
    pub description: &'static str,
    pub version_key: &'static str,
    /// The version this program writes and reads.
    pub version: u32,
}

/// Why bytes are not what they should be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ContainerError {
    Foreign(String),
    /// Ours, of a version that is not known here.
    Version(String),
    /// Ours, but changed or incomplete.
    Damaged(String),
}

impl ContainerError {
    pub(super) fn detail(&self, kind: &FileKind) -> String {
        let FileKind { noun, version, .. } = kind;
        match self {
            Self::Foreign(detail) => format!("not a {noun} of stride-pipe: {detail}"),
            Self::Version(found) => {
                format!("a {noun} of format version {found}, but this stride-pipe reads {version}")
            }
            Self::Damaged(detail) => format!("a damaged {noun} file: {detail}"),
        }
    }

    pub(super) fn hint(&self) -> &'static str {
        match self {
            Self::Foreign(_) => "give the directory or file that training has written",
            Self::Version(_) => "use the stride-pipe that wrote it, or train again",
            Self::Damaged(_) => "copy it again, or train again",
        }
    }
}

/// Arrays by name.
pub type Tensors = BTreeMap<String, Tensor>;

/// The bytes of a file. A pipe would wait for its writer, a device may never end: only regular files are read.
pub(super) fn read_regular(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Ok(None);
    }
    fs::read(path).map(Some).map_err(|source| StoreError::read(path, source))
}

/// Builds the file. The crate's own writer keeps metadata in a hash map, whose order changes from run to run.
pub(super) fn encode(kind: &FileKind, description: String, tensors: &Tensors) -> Result<Vec<u8>, String> {
    let mut data = Vec::new();
    let mut entries = Map::new();
    let mut layout = BTreeMap::new();
    for (name, tensor) in tensors {
        if name == "__metadata__" {
            return Err("a tensor must not be called `__metadata__`".to_owned());
        }
        let start = data.len();
        data.extend(tensor.bytes());
        let entry = json!({"dtype": tensor.dtype(), "shape": tensor.shape(), "data_offsets": [start, data.len()]});
        entries.insert(name.clone(), entry);
        layout.insert(name.as_str(), place(tensor, start));
    }
    let mut metadata = Map::new();
    metadata.insert(META_HASH.to_owned(), Value::String(meta_hash(&description, &layout)));
    metadata.insert(TENSOR_HASH.to_owned(), Value::String(hex(&Sha256::digest(&data))));
    metadata.insert(kind.version_key.to_owned(), Value::String(kind.version.to_string()));
    metadata.insert(kind.description.to_owned(), Value::String(description));
    let mut header = Map::new();
    header.insert("__metadata__".to_owned(), Value::Object(metadata));
    header.append(&mut entries);
    let mut header = Value::Object(header).to_string().into_bytes();
    // Readers that map the file want the data aligned.
    header.resize(header.len().next_multiple_of(8), b' ');
    if header.len() as u64 > LONGEST_HEADER {
        return Err(format!("its description has {} bytes, more than {LONGEST_HEADER}", header.len()));
    }
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.append(&mut header);
    file.append(&mut data);
    Ok(file)
}

/// The description and the tensors of a file; every byte that matters is under one of the hashes.
pub(super) fn decode(kind: &FileKind, bytes: &[u8]) -> Result<(String, Tensors), ContainerError> {
    check_length(bytes)?;
    let (header, parsed) =
        SafeTensors::read_metadata(bytes).map_err(|error| ContainerError::Damaged(error.to_string()))?;
    let empty = HashMap::new();
    let metadata = parsed.metadata().as_ref().unwrap_or(&empty);
    let Some(version) = metadata.get(kind.version_key) else {
        return Err(ContainerError::Foreign(format!("its metadata has no `{}`", kind.version_key)));
    };
    if *version != kind.version.to_string() {
        return Err(ContainerError::Version(version.clone()));
    }
    let entry =
        |key: &str| metadata.get(key).ok_or_else(|| ContainerError::Damaged(format!("its metadata has no `{key}`")));
    let (description, tensor_hash, stored_hash) = (entry(kind.description)?, entry(TENSOR_HASH)?, entry(META_HASH)?);
    let data = bytes.get(8 + header..).unwrap_or_default();
    if hex(&Sha256::digest(data)) != *tensor_hash {
        return Err(ContainerError::Damaged("its tensors do not have the hash it states".to_owned()));
    }
    let mut tensors = Tensors::new();
    let mut layout = BTreeMap::new();
    let infos = parsed.tensors();
    for (name, info) in &infos {
        let (start, end) = info.data_offsets;
        let tensor = data.get(start..end).and_then(|bytes| Tensor::from_bytes(info.dtype, &info.shape, bytes));
        let Some(tensor) = tensor else {
            return Err(ContainerError::Damaged(format!(
                "the tensor `{name}` has type {:?}, shape {:?}",
                info.dtype, info.shape
            )));
        };
        layout.insert(name.as_str(), place(&tensor, start));
        tensors.insert(name.clone(), tensor);
    }
    if meta_hash(description, &layout) != *stored_hash {
        return Err(ContainerError::Damaged("its description does not have the hash it states".to_owned()));
    }
    Ok((description.clone(), tensors))
}

/// Before anything is parsed: long enough, and a header length that fits.
fn check_length(bytes: &[u8]) -> Result<(), ContainerError> {
    let Some(length) = bytes.first_chunk::<8>().map(|length| u64::from_le_bytes(*length)) else {
        return Err(ContainerError::Foreign(format!("it has only {} bytes", bytes.len())));
    };
    if length > LONGEST_HEADER || bytes.get(8) != Some(&b'{') {
        return Err(ContainerError::Foreign("it does not begin as a safetensors file".to_owned()));
    }
    if length > bytes.len() as u64 - 8 {
        return Err(ContainerError::Damaged("it ends within its header".to_owned()));
    }
    Ok(())
}

/// What a tensor is and where it begins.
fn place(tensor: &Tensor, start: usize) -> String {
    format!("{} {:?} at {start}", tensor.dtype(), tensor.shape())
}

/// Hash of the description and of what stands where in the data, in the order of names.
fn meta_hash(description: &str, layout: &BTreeMap<&str, String>) -> String {
    let mut hash = Sha256::new();
    let mut part = |text: &str| {
        // Lengths first, so that no two lists of texts hash alike.
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    part(description);
    for (name, place) in layout {
        part(name);
        part(place);
    }
    hex(&hash.finalize())
}
