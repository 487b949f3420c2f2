//! The words of the language, as types. Doc comments become the descriptions that editors show.
//!
//! These types say what may be *written*; defaults and meaning are decided in `plan`. They also generate the JSON
//! Schema, which is what the file is checked against, so a new option is added here and nowhere else.

mod predict;
mod train;

pub use predict::*;
pub use train::*;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Names of pipelines, stages, parameters and matrix variables.
pub const NAME_PATTERN: &str = "^[a-z][a-z0-9_-]*$";

/// A stride-pipe pipeline.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
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
    pub defaults: Option<Defaults>,
    /// The stages in order: an id, and one kind with its options.
    #[schemars(extend("minProperties" = 1))]
    pub stages: BTreeMap<String, Stage>,
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

/// Matrix variables, each a list of values.
#[derive(Clone, Debug, Default)]
pub struct Matrix;

impl<'de> Deserialize<'de> for Matrix {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Cases are expanded from the tree, where positions are known; the type only carries the schema.
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

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

/// Options shared by all stages of a kind. A stage's own options win.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Defaults;

impl JsonSchema for Defaults {
    fn schema_name() -> Cow<'static, str> {
        "Defaults".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "Options shared by all stages of a kind.",
            "properties": {
                "ingest": optional::<Ingest>(generator),
                "split": optional::<Split>(generator),
                "train": optional::<Train>(generator),
                "predict": optional::<Predict>(generator),
                "evaluate": optional::<Evaluate>(generator),
                "report": optional::<Report>(generator)
            },
            "additionalProperties": false
        })
    }
}

/// The schema of a stage's options with none of them required.
fn optional<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = T::json_schema(generator);
    schema.remove("required");
    schema
}

/// One stage: exactly one kind with its options.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Stage {
    /// Reads features and target from Parquet.
    Ingest(Ingest),
    /// Divides rows into training and test rows, once per fold.
    Split(Split),
    /// Trains one model per fold.
    Train(Train),
    /// Predicts the test rows of every fold, or all rows of an input.
    Predict(Predict),
    /// Computes metrics per fold and over folds.
    Evaluate(Evaluate),
    /// Writes an HTML report of the run.
    Report(Report),
}

/// Reads features and target from Parquet.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Ingest {
    /// A file, a directory (hive partitions become columns) or a glob; relative to this file.
    #[schemars(length(min = 1))]
    pub path: String,
    /// Column that identifies rows in the predictions; must be unique to train on.
    pub key: Option<String>,
    /// Names or globs of the feature columns.
    #[schemars(extend("minItems" = 1))]
    pub features: Vec<String>,
    /// Column to predict; optional when only scoring.
    pub target: Option<String>,
}

/// Divides rows into training and test rows: one of `holdout`, `kfold`, `column` or `all`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// The ingest stage.
    pub input: String,
    /// A random part of the rows for testing.
    pub holdout: Option<Holdout>,
    /// Every row is tested once per repeat.
    pub kfold: Option<Kfold>,
    /// A column says which rows are for testing.
    pub column: Option<SplitColumn>,
    /// Every row trains, none is tested: for a model to publish.
    pub all: Option<AllRows>,
}

/// A random part of the rows for testing.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Holdout {
    /// Share of the rows used for testing.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub test_fraction: f64,
    /// How often, with a new draw each time. Default: 1.
    #[schemars(range(min = 1, max = 10_000))]
    pub repeats: Option<u32>,
}

/// Every row is tested once per repeat.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Kfold {
    /// Number of folds.
    #[schemars(range(min = 2, max = 10_000))]
    pub folds: u32,
    /// How often, with a new shuffle each time. Default: 1.
    #[schemars(range(min = 1, max = 10_000))]
    pub repeats: Option<u32>,
}

/// A column says which rows are for testing.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SplitColumn {
    /// Name of the column.
    pub name: String,
    /// Its value on test rows; all other rows train.
    pub test: Scalar,
}

/// Nothing to set.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct AllRows {}

/// Computes metrics per fold and over folds.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Evaluate {
    /// The predict stage.
    pub input: String,
}

/// Writes an HTML report of the run, once all cases are done.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The evaluate stage that is reported on, or a list of them.
    pub input: OneOrMore,
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
