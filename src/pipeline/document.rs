//! What a pipeline file holds beside its stages, as types. Doc comments become the descriptions that editors show.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Names of pipelines, stages, parameters and matrix variables.
pub const NAME_PATTERN: &str = "^[a-z][a-z0-9_-]*$";

/// A stride-pipe pipeline.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "its values are read from the tree, where positions are known; this is for the schema")]
#[serde(deny_unknown_fields)]
pub struct Pipeline {
    /// Version of this language.
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// Name of the pipeline: lower-case letters, digits, `_` and `-`, starting with a letter.
    #[schemars(regex(pattern = NAME_PATTERN))]
    pub name: String,
    /// Seed of everything random: same seed, same results.
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807_i64))]
    #[serde(default)]
    pub seed: i64,
    /// Directory of the results, relative to this file. Default: `results`.
    #[schemars(length(min = 1))]
    pub results: Option<String>,
    /// Values used as `${params.x}`; `--set x=…` overrides one.
    #[serde(default)]
    pub params: BTreeMap<String, Scalar>,
    /// One case per combination of these values, used as `${matrix.x}`.
    pub matrix: Option<Matrix>,
    /// Options shared by all stages of a kind; what a stage writes itself wins.
    pub defaults: Option<serde_json::Value>,
    /// The stages in order: an id, and one kind with its options.
    #[schemars(extend("minProperties" = 1))]
    pub stages: BTreeMap<String, serde_json::Value>,
}

/// Any single value.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(transparent)]
pub struct Scalar(pub serde_json::Value);

impl JsonSchema for Scalar {
    fn schema_name() -> Cow<'static, str> {
        "Scalar".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "boolean", "null"], "description": "a single value" })
    }
}

/// Matrix variables, each a list of values. Cases are expanded from the tree; this only carries the schema.
pub struct Matrix;

impl JsonSchema for Matrix {
    fn schema_name() -> Cow<'static, str> {
        "Matrix".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let scalar = generator.subschema_for::<Scalar>();
        json_schema!({
            "type": "object",
            "description": "Matrix variables, each a list of values.",
            "properties": {
                "include": {
                    "type": "array",
                    "description": "Further cases beside the combinations, each giving every variable.",
                    "items": { "type": "object", "additionalProperties": scalar.clone() }
                },
                "exclude": {
                    "type": "array",
                    "description": "Combinations to leave out: every case that has all the values given.",
                    "items": { "type": "object", "additionalProperties": scalar.clone() }
                }
            },
            "additionalProperties": { "type": "array", "minItems": 1, "items": scalar }
        })
    }
}

/// A name, or a list of names.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
#[serde(transparent)]
pub struct OneOrMore(pub Vec<String>);

impl<'de> Deserialize<'de> for OneOrMore {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(name) => Ok(Self(vec![name])),
            other => serde_json::from_value(other).map(Self).map_err(serde::de::Error::custom),
        }
    }
}

impl JsonSchema for OneOrMore {
    fn schema_name() -> Cow<'static, str> {
        "OneOrMore".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "the name of a stage, or a list of names",
            "anyOf": [{ "type": "string" }, { "type": "array", "minItems": 1, "items": { "type": "string" } }]
        })
    }
}
