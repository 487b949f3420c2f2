//! What can be asked of the local layer: the one declaration of these options.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::gp::kernel::Kernel;

/// Predictions that remember the training rows nearby.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Local")]
pub struct LocalOptions {
    /// Nearest training rows that a prediction is conditioned on.
    #[schemars(range(min = 1, max = 200))]
    pub neighbours: u32,
    /// Covariance function of what the global model leaves over: its name, or `auto` for the best of matern12, matern32 and
    /// rbf by leave-one-out density.
    pub kernel: LocalKernel,
    /// Training rows that are kept to look for neighbours, drawn at random; null: all.
    #[schemars(range(min = 1))]
    pub rows: Option<u32>,
    /// The noise is known, and stays what the global model has.
    #[serde(skip)]
    pub known_noise: bool,
    /// So many particles after each other are states of one chain. After a start from an earlier model they share
    /// hyper-parameters.
    #[serde(skip, default = "each")]
    pub states: usize,
}

// Every particle is a chain.
const fn each() -> usize {
    1
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self { neighbours: 40, kernel: LocalKernel::Auto, rows: None, known_noise: false, states: each() }
    }
}

/// The covariance function of a local layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LocalKernel {
    /// The best of [`LocalKernel::TRIED`].
    Auto,
    Given(Kernel),
}

impl LocalKernel {
    /// What `auto` chooses from.
    pub const TRIED: [Kernel; 3] = [Kernel::Matern12, Kernel::Matern32, Kernel::Rbf];
    const AUTO: &'static str = "auto";

    /// The covariance function after one that was chosen earlier: that one, unless another is asked for.
    pub fn after(self, earlier: Kernel) -> Kernel {
        match self {
            Self::Auto => earlier,
            Self::Given(kernel) => kernel,
        }
    }

    /// The covariance functions that it allows.
    pub fn allowed(self) -> Vec<Kernel> {
        match self {
            Self::Auto => Self::TRIED.to_vec(),
            Self::Given(kernel) => vec![kernel],
        }
    }
}

impl<'de> Deserialize<'de> for LocalKernel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Value::deserialize(deserializer)?;
        if written == Self::AUTO {
            return Ok(Self::Auto);
        }
        serde_json::from_value(written).map(Self::Given).map_err(D::Error::custom)
    }
}

impl Serialize for LocalKernel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str(Self::AUTO),
            Self::Given(kernel) => kernel.serialize(serializer),
        }
    }
}

impl JsonSchema for LocalKernel {
    fn schema_name() -> Cow<'static, str> {
        "LocalKernel".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let kernel = generator.subschema_for::<Kernel>();
        json_schema!({ "description": "`auto`, or a covariance function", "anyOf": [{ "const": Self::AUTO }, kernel] })
    }
}

/// Whether there is a local layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LocalChoice {
    Off,
    On(LocalOptions),
}

impl LocalChoice {
    /// The options of the layer, if there is to be one.
    pub fn options(&self) -> Option<&LocalOptions> {
        match self {
            Self::Off => None,
            Self::On(options) => Some(options),
        }
    }
}

impl Default for LocalChoice {
    fn default() -> Self {
        Self::On(LocalOptions::default())
    }
}

impl<'de> Deserialize<'de> for LocalChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Bool(false) => Ok(Self::Off),
            Value::Bool(true) => Ok(Self::On(LocalOptions::default())),
            options => serde_json::from_value(options).map(Self::On).map_err(D::Error::custom),
        }
    }
}

impl Serialize for LocalChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_bool(false),
            Self::On(options) => options.serialize(serializer),
        }
    }
}

impl JsonSchema for LocalChoice {
    fn schema_name() -> Cow<'static, str> {
        "LocalChoice".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let options = generator.subschema_for::<LocalOptions>();
        json_schema!({ "description": "options, or false for none", "anyOf": [{ "type": "boolean" }, options] })
    }
}
