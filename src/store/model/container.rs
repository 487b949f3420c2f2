//! The bytes of a model file: safetensors, with hashes over everything.

use std::collections::{BTreeMap, HashMap};

use safetensors::SafeTensors;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{FORMAT_VERSION, ModelMeta, Tensor};
use crate::store::atomic::hex;

const META: &str = "stride";
const VERSION: &str = "stride.format_version";
const TENSOR_HASH: &str = "stride.sha256";
const META_HASH: &str = "stride.meta_sha256";

/// A model's description is a few kilobytes; this leaves room for many features.
const LONGEST_HEADER: u64 = 64 << 20;

/// Why bytes are not a model.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Not ours at all.
    Foreign(String),
    /// Ours, of a version that is not known here.
    Version(String),
    /// Ours, but changed or incomplete.
    Damaged(String),
}

impl Refusal {
    pub(super) fn detail(&self) -> String {
        match self {
            Self::Foreign(detail) => format!("not a model of stride-pipe: {detail}"),
            Self::Version(found) => {
                format!("a model of format version {found}, but this stride-pipe reads {FORMAT_VERSION}")
            }
            Self::Damaged(detail) => format!("a damaged model file: {detail}"),
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

type Tensors = BTreeMap<String, Tensor>;

/// Builds the file. The crate's own writer keeps metadata in a hash map, whose order changes from run to run.
pub(super) fn encode(meta: &ModelMeta, tensors: &Tensors) -> Result<Vec<u8>, String> {
    let description = serde_json::to_string(meta).map_err(|error| error.to_string())?;
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
    metadata.insert(VERSION.to_owned(), Value::String(FORMAT_VERSION.to_string()));
    metadata.insert(META.to_owned(), Value::String(description));
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

/// Reads the file; every byte that matters is under one of the hashes.
pub(super) fn decode(bytes: &[u8]) -> Result<(ModelMeta, Tensors), Refusal> {
    check_length(bytes)?;
    let (header, parsed) = SafeTensors::read_metadata(bytes).map_err(|error| Refusal::Damaged(error.to_string()))?;
    let empty = HashMap::new();
    let metadata = parsed.metadata().as_ref().unwrap_or(&empty);
    let Some(version) = metadata.get(VERSION) else {
        return Err(Refusal::Foreign(format!("its metadata has no `{VERSION}`")));
    };
    if *version != FORMAT_VERSION.to_string() {
        return Err(Refusal::Version(version.clone()));
    }
    let entry = |key: &str| metadata.get(key).ok_or_else(|| Refusal::Damaged(format!("its metadata has no `{key}`")));
    let (description, tensor_hash, stored_hash) = (entry(META)?, entry(TENSOR_HASH)?, entry(META_HASH)?);
    let data = bytes.get(8 + header..).unwrap_or_default();
    if hex(&Sha256::digest(data)) != *tensor_hash {
        return Err(Refusal::Damaged("its tensors do not have the hash it states".to_owned()));
    }
    let mut tensors = Tensors::new();
    let mut layout = BTreeMap::new();
    let infos = parsed.tensors();
    for (name, info) in &infos {
        let (start, end) = info.data_offsets;
        let tensor = data.get(start..end).and_then(|bytes| Tensor::from_bytes(info.dtype, &info.shape, bytes));
        let Some(tensor) = tensor else {
            return Err(Refusal::Damaged(format!(
                "the tensor `{name}` has type {:?}, shape {:?}",
                info.dtype, info.shape
            )));
        };
        layout.insert(name.as_str(), place(&tensor, start));
        tensors.insert(name.clone(), tensor);
    }
    if meta_hash(description, &layout) != *stored_hash {
        return Err(Refusal::Damaged("its description does not have the hash it states".to_owned()));
    }
    let meta: ModelMeta = serde_json::from_str(description).map_err(|error| Refusal::Damaged(error.to_string()))?;
    meta.check().map_err(Refusal::Damaged)?;
    Ok((meta, tensors))
}

/// Before anything is parsed: long enough, and a header length that fits.
fn check_length(bytes: &[u8]) -> Result<(), Refusal> {
    let Some(length) = bytes.first_chunk::<8>().map(|length| u64::from_le_bytes(*length)) else {
        return Err(Refusal::Foreign(format!("it has only {} bytes", bytes.len())));
    };
    if length > LONGEST_HEADER || bytes.get(8) != Some(&b'{') {
        return Err(Refusal::Foreign("it does not begin as a safetensors file".to_owned()));
    }
    if length > bytes.len() as u64 - 8 {
        return Err(Refusal::Damaged("it ends within its header".to_owned()));
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
