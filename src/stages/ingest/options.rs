//! How features and target are written: by name, or with what they are.

use crate::eval::transform::TransformName;
use crate::features::{ColumnKind, Missing};
use crate::store::input::DeclaredColumn;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::borrow::Cow;

/// A feature: a name or pattern, or a mapping that says what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureOption {
    /// Whether it is written as text.
    short: bool,
    options: FeatureOptions,
}

/// What a feature is, and what happens where it has no value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FeatureOptions {
    /// A column, or a pattern; the kind of a column that several fit is that of its own name, or of the last pattern.
    #[schemars(length(min = 1))]
    pub name: String,
    /// What it holds; by default what its type says: text is a category, dates and times are timestamps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<ColumnKind>,
    /// What happens where it has no value (null or NaN).
    #[serde(default, skip_serializing_if = "Missing::is_error")]
    pub missing: Missing,
    /// Categories with at most so many levels get a column for each; by default 8. Levels of more are encoded by their
    /// mean target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_hot: Option<u32>,
}

impl FeatureOption {
    /// The name or pattern.
    pub fn name(&self) -> &str {
        &self.options.name
    }

    /// What is declared of it, if anything is.
    pub fn declared(&self) -> Option<DeclaredColumn> {
        let FeatureOptions { name, kind, missing, one_hot } = self.options.clone();
        (!self.short).then_some(DeclaredColumn { name, kind, missing, one_hot })
    }
}

impl<'de> Deserialize<'de> for FeatureOption {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(name) => {
                Ok(Self { short: true, options: FeatureOptions { name, ..FeatureOptions::default() } })
            }
            options => Ok(Self { short: false, options: serde_json::from_value(options).map_err(D::Error::custom)? }),
        }
    }
}

impl Serialize for FeatureOption {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.short { serializer.serialize_str(&self.options.name) } else { self.options.serialize(serializer) }
    }
}

impl JsonSchema for FeatureOption {
    fn schema_name() -> Cow<'static, str> {
        "FeatureOption".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let options = generator.subschema_for::<FeatureOptions>();
        let description = "a name or pattern, or a mapping such as `{ name: region, kind: category }`";
        json_schema!({ "description": description, "anyOf": [{ "type": "string" }, options] })
    }
}

/// The target: a name, or a mapping with the scale on which it is modelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetOption(TargetOptions);

/// A target and its scale.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetOptions {
    /// The column.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The scale on which it is modelled; predictions are in its own units.
    #[serde(default, skip_serializing_if = "TransformName::is_none")]
    pub transform: TransformName,
}

impl TargetOption {
    /// The column.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    pub const fn transform(&self) -> TransformName {
        self.0.transform
    }
}

impl<'de> Deserialize<'de> for TargetOption {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(name) => Ok(Self(TargetOptions { name, ..TargetOptions::default() })),
            options => serde_json::from_value(options).map(Self).map_err(D::Error::custom),
        }
    }
}

impl Serialize for TargetOption {
    /// Without a transform it is the name alone: it is the same target, however it is written.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.transform.is_none() { serializer.serialize_str(&self.0.name) } else { self.0.serialize(serializer) }
    }
}

impl JsonSchema for TargetOption {
    fn schema_name() -> Cow<'static, str> {
        "TargetOption".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let options = generator.subschema_for::<TargetOptions>();
        let description = "a name, or a mapping such as `{ name: amount, transform: log }`";
        json_schema!({ "description": description, "anyOf": [{ "type": "string" }, options] })
    }
}
