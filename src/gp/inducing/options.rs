//! What can be asked of the inducing points: the one declaration of these options.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The inducing points: how many are chosen, or which rows.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Inducing")]
pub struct InducingOptions {
    /// How many.
    #[schemars(range(min = 1))]
    pub count: u32,
    /// Rows tried for each point: a number, or `all`.
    pub candidates: Candidates,
    /// These rows of the source, kept throughout.
    #[schemars(inner(range(min = 0)))]
    pub rows: Option<Vec<u64>>,
}

impl Default for InducingOptions {
    fn default() -> Self {
        Self { count: 50, candidates: Candidates::default(), rows: None }
    }
}

/// What is not used is not in the text: with given rows, `count` and `candidates` cannot matter.
impl Serialize for InducingOptions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "snake_case")]
        enum Used<'a> {
            Chosen { count: u32, candidates: Candidates },
            Given { rows: &'a [u64] },
        }
        let chosen = Used::Chosen { count: self.count, candidates: self.candidates };
        self.rows.as_ref().map_or(chosen, |rows| Used::Given { rows }).serialize(serializer)
    }
}

/// Rows tried for each inducing point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidates {
    /// Every row that is not an inducing point yet.
    All,
    /// That many of them, drawn anew each time.
    Count(u32),
}

impl Default for Candidates {
    fn default() -> Self {
        Self::Count(1000)
    }
}

impl<'de> Deserialize<'de> for Candidates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) if text == "all" => Ok(Self::All),
            number => serde_json::from_value(number).map(Self::Count).map_err(D::Error::custom),
        }
    }
}

impl Serialize for Candidates {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_none(),
            Self::Count(count) => count.serialize(serializer),
        }
    }
}

impl JsonSchema for Candidates {
    fn schema_name() -> Cow<'static, str> {
        "Candidates".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "a whole number from 1, or `all`",
            "anyOf": [{ "type": "integer", "minimum": 1, "maximum": u32::MAX }, { "const": "all" }]
        })
    }
}
