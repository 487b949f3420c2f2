//! What the language has to know of a kind of stage. The kinds themselves are declared in `stages`.

use super::Diagnostics;
use super::links::Link;
use super::merge::{Exclusive, merge};
use super::tree::{Entry, Node, Value, parse};
use super::unused::UsedBy;
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
    /// Sets of defaults, chosen by what is written.
    pub presets: &'static [Preset],
    /// Options that count only where another one has some value; one line each.
    pub used_by: &'static [UsedBy],
    /// Keys for which null is a word of its own; anywhere else it is another way to write nothing.
    pub null_words: &'static [&'static str],
    /// Rules that the schema cannot express, for a stage of this kind among the stages of its case.
    pub check: fn(&Entry, &Node, &[Entry], &mut Diagnostics),
    pub options: fn(&mut SchemaGenerator) -> Schema,
    pub reference: fn(&mut SchemaGenerator) -> Schema,
    /// Whether the options can be read as what they are for, and where not.
    pub readable: fn(&Json) -> Result<(), (String, String)>,
}

/// Options that are taken where a key has a value, unless others are written.
pub struct Preset {
    pub key: &'static str,
    pub value: &'static str,
    /// The options, as YAML.
    pub options: &'static str,
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Kind {
    /// Written options with the presets that they ask for, without those that are null.
    pub fn with_presets(&self, written: &Node, exclusive: Exclusive<'_>) -> Node {
        let written = self.without_nulls(written);
        let asked = |preset: &&Preset| {
            written.entry(preset.key).and_then(|entry| entry.node.scalar_text()).as_deref() == Some(preset.value)
        };
        let under =
            self.presets.iter().filter(asked).filter_map(|preset| parse(preset.options, &mut Diagnostics::default()));
        under.fold(written.clone(), |over, under| merge(&under, &over, exclusive))
    }

    fn without_nulls(&self, node: &Node) -> Node {
        let Value::Map(entries) = &node.value else { return node.clone() };
        let stays = |entry: &&Entry| entry.node.value != Value::Null || self.null_words.contains(&entry.key.as_str());
        let kept = |entry: &Entry| Entry { node: self.without_nulls(&entry.node), ..entry.clone() };
        Node { value: Value::Map(entries.iter().filter(stays).map(kept).collect()), ..node.clone() }
    }

    /// A kind without links or rules, with these options.
    pub const fn new<Options: JsonSchema + DeserializeOwned>(name: &'static str, summary: &'static str) -> Self {
        Self {
            name,
            summary,
            links: &[],
            exclusive: &[],
            presets: &[],
            used_by: &[],
            null_words: &[],
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
