//! What the language has to know of a kind of stage. The kinds themselves are declared in `stages`.

use super::links::Link;
use super::tree::{Entry, Node};
use super::{Diagnostic, Diagnostics};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

/// A kind of stage as it may be written.
pub struct Kind {
    /// The word in the language.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// The options of other stages that it may refer to.
    pub links: &'static [Link],
    /// Groups of keys of which one excludes the others: writing one replaces whichever was there.
    pub exclusive: &'static [&'static [&'static str]],
    /// Rules that the schema cannot express, for a stage of this kind among the stages of its case.
    pub check: fn(&Entry, &Node, &[Entry], &mut Diagnostics),
    /// The schema of the options.
    pub options: fn(&mut SchemaGenerator) -> Schema,
    /// A reference to that schema.
    pub reference: fn(&mut SchemaGenerator) -> Schema,
    /// Whether the options can be read as what they are for, and where not.
    pub readable: fn(&Json) -> Result<(), (String, String)>,
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Kind {
    /// A kind without links or rules, with these options.
    pub const fn new<Options: JsonSchema + DeserializeOwned>(name: &'static str, summary: &'static str) -> Self {
        Self {
            name,
            summary,
            links: &[],
            exclusive: &[],
            check: |_, _, _, _| {},
            options: Options::json_schema,
            reference: SchemaGenerator::subschema_for::<Options>,
            readable: readable::<Options>,
        }
    }
}

fn readable<Options: DeserializeOwned>(options: &Json) -> Result<(), (String, String)> {
    match serde_path_to_error::deserialize::<_, Options>(options.clone()) {
        Ok(_) => Ok(()),
        Err(error) => Err((error.path().to_string(), error.into_inner().to_string())),
    }
}

/// The kind of a stage and its options, if exactly one is written.
pub fn kind_of(stage: &Entry) -> Option<(&str, &Node)> {
    match stage.node.entries() {
        [only] => Some((only.key.as_str(), &only.node)),
        _ => None,
    }
}

/// The kind and the options of the stage of that id.
pub fn find<'a>(stages: &'a [Entry], id: &str) -> Option<(&'a str, &'a Node)> {
    stages.iter().find(|stage| stage.key == id).and_then(kind_of)
}

/// Reports a problem with advice.
pub fn refuse(problems: &mut Diagnostics, origin: super::tree::Origin, message: impl Into<String>, help: &str) {
    problems.push(Diagnostic::new(origin, message).help(help));
}
