//! The YAML document as a tree whose nodes know where they were written.

mod emit;
mod parse;
mod scalar;

pub use emit::{quoted, to_yaml};
pub use parse::{MAX_BYTES, parse};
pub use scalar::plain;

/// Where a node was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// In the pipeline file: 1-based line and column, length in characters.
    File {
        /// 1-based line.
        line: usize,
        /// 1-based column, in characters.
        column: usize,
        /// Length in characters; at least 1.
        length: usize,
    },
    /// In the n-th `--set` of the command line.
    Set(usize),
}

impl Origin {
    /// The first character of the file.
    pub const START: Self = Self::File { line: 1, column: 1, length: 1 };
}

/// A value of the document.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`, `~` or nothing at all.
    Null,
    /// `true` or `false`.
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    /// A mapping, in the order written.
    Map(Vec<Entry>),
    /// Something that was reported as unreadable; nobody needs to complain about it again.
    Unreadable,
}

/// A value and where it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub value: Value,
    pub origin: Origin,
    /// How to show the value instead, when it came from the environment and must not be written anywhere.
    pub masked: Option<String>,
}

/// One `key: value` of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub key: String,
    /// Where the key stands.
    pub origin: Origin,
    pub node: Node,
}

impl Node {
    /// A node with nothing to hide.
    pub const fn new(value: Value, origin: Origin) -> Self {
        Self { value, origin, masked: None }
    }

    /// The entries of a mapping; none for anything else.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list; none for anything else.
    pub fn items(&self) -> &[Self] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The entry of that key, in a mapping.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The node under a path of keys.
    pub fn find(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| node.entry(key).map(|entry| &entry.node))
    }

    /// Where the node under that path stands, or else its nearest written ancestor.
    pub fn origin_of(&self, path: &[&str]) -> Origin {
        let mut node = self;
        let mut origin = self.origin;
        for key in path {
            let Some(entry) = node.entry(key) else { break };
            // Pointing at the key of a mapping or list says more than pointing at its first item.
            origin = match entry.node.value {
                Value::Map(_) | Value::List(_) => entry.origin,
                _ => entry.node.origin,
            };
            node = &entry.node;
        }
        origin
    }

    /// What kind of value this is, for messages.
    pub const fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "true/false",
            Value::Int(_) => "a whole number",
            Value::Float(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
            Value::Unreadable => "unreadable",
        }
    }

    /// The value in JSON's terms, for serde; masked values keep their real content.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Null | Value::Unreadable => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Int(value) => Json::from(*value),
            Value::Float(value) => Json::from(*value),
            Value::Text(text) => Json::String(text.clone()),
            Value::List(items) => Json::Array(items.iter().map(Self::to_json).collect()),
            Value::Map(entries) => {
                Json::Object(entries.iter().map(|entry| (entry.key.clone(), entry.node.to_json())).collect())
            }
        }
    }

    /// A scalar as text, as it is used inside a longer text and in the name of a case.
    pub fn scalar_text(&self) -> Option<String> {
        match &self.value {
            Value::Null => Some("null".to_owned()),
            Value::Bool(value) => Some(value.to_string()),
            Value::Int(value) => Some(value.to_string()),
            Value::Float(value) => Some(value.to_string()),
            Value::Text(text) => Some(text.clone()),
            Value::List(_) | Value::Map(_) | Value::Unreadable => None,
        }
    }

    /// A scalar as text that may be shown.
    pub fn shown(&self) -> Option<String> {
        self.masked.clone().or_else(|| self.scalar_text())
    }
}
