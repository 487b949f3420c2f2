//! Paths in a pipeline file, which are relative to it.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};

/// A path as it is written, and as it is seen from the working directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(from = "String")]
pub struct FilePath {
    written: String,
    path: PathBuf,
}

impl From<String> for FilePath {
    fn from(written: String) -> Self {
        Self { path: PathBuf::from(&written), written }
    }
}

impl FilePath {
    /// As written, for messages.
    pub fn written(&self) -> &str {
        &self.written
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes it relative to this directory; an address (`https://…`) is where it is.
    pub fn locate(&mut self, base: &Path) {
        if !self.written.contains("://") {
            self.path = join(base, &self.written);
        }
    }
}

impl Serialize for FilePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.path.serialize(serializer)
    }
}

impl JsonSchema for FilePath {
    fn schema_name() -> Cow<'static, str> {
        "FilePath".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

/// A path of the file, seen from the working directory. `pipelines/../data` becomes `data` where that is the same place:
/// not when `pipelines` is a link to somewhere else.
pub fn join(base: &Path, path: &str) -> PathBuf {
    let (mut base, mut path) = (base.to_path_buf(), Path::new(path));
    while let Ok(rest) = path.strip_prefix("..") {
        let plain = matches!(base.components().next_back(), Some(Component::Normal(_))) && !base.is_symlink();
        if !plain {
            break;
        }
        base.pop();
        path = rest;
    }
    let joined = base.join(path.strip_prefix(".").unwrap_or(path));
    // An empty path is no directory: the current one has a name.
    if joined.as_os_str().is_empty() { PathBuf::from(".") } else { joined }
}
