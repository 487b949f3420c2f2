//! Kernels as text: a name, and where a kernel has parameters, these in brackets, as in `name(alpha=2)`.
//!
//! Pipelines and cache keys have the same as data: `name`, or `{ name: { alpha: 2 } }`.

use std::fmt;
use std::str::FromStr;

use schemars::Schema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::Kernel;
use crate::gp::GpError;

impl Serialize for Kernel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Kernel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Value::deserialize(deserializer)?;
        // The name alone stands for the kernel with its default parameters.
        let named = Self::ALL.into_iter().find(|kernel| Some(name(&kernel.written())) == written.as_str());
        named.map_or_else(|| Self::deserialize(written).map_err(D::Error::custom), Ok)
    }
}

impl Kernel {
    fn written(self) -> Value {
        Self::serialize(&self, serde_json::value::Serializer).unwrap_or_default()
    }
}

fn name(written: &Value) -> &str {
    let tag = written.as_object().and_then(|tagged| tagged.keys().next().map(String::as_str));
    tag.or(written.as_str()).unwrap_or_default()
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_text(&self.written()))
    }
}

impl FromStr for Kernel {
    type Err = GpError;

    fn from_str(text: &str) -> Result<Self, GpError> {
        serde_json::from_value(from_text(text)).map_err(|_| {
            let known = Self::ALL.map(|kernel| name(&kernel.written()).to_owned()).join(", ");
            GpError::value(format!("kernel `{text}`; known: {known}"))
        })
    }
}

fn to_text(written: &Value) -> String {
    let parameters = written.as_object().and_then(|tagged| tagged.values().next()?.as_object());
    let values = parameters.map(|all| all.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>());
    let values = values.map(|values| format!("({})", values.join(", ")));
    format!("{}{}", name(written), values.unwrap_or_default())
}

fn from_text(text: &str) -> Value {
    let Some((name, values)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) else {
        return text.into();
    };
    let parameter = |pair: &str| {
        let (key, value) = pair.split_once('=')?;
        Some((key.trim().to_owned(), serde_json::from_str(value).ok()?))
    };
    values.split(',').map(parameter).collect::<Option<Map<_, _>>>().map_or(text.into(), |all| json!({ name: all }))
}

/// Lets kernels with parameters be written by their name alone too.
pub(super) fn names_alone(schema: &mut Schema) {
    let Some(kernels) = schema.get("oneOf").and_then(Value::as_array).cloned() else { return };
    let (tagged, mut names): (Vec<_>, Vec<_>) = kernels.into_iter().partition(|kernel| kernel["type"] == "object");
    if tagged.is_empty() {
        return;
    }
    names.extend(tagged.iter().map(|kernel| {
        let name = kernel["required"][0].clone();
        json!({ "type": "string", "const": name, "description": kernel["description"] })
    }));
    schema.remove("oneOf");
    schema.insert("anyOf".to_owned(), [vec![json!({ "oneOf": names })], tagged].concat().into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_found_by_its_text() -> Result<(), GpError> {
        for kernel in Kernel::ALL {
            assert_eq!(kernel.to_string().parse::<Kernel>()?, kernel);
        }
        let names = Kernel::ALL.map(|kernel| name(&kernel.written()).to_owned());
        let schema = schemars::schema_for!(Kernel).to_value();
        for name in &names {
            assert!(schema.to_string().contains(&format!("\"const\":\"{name}\"")), "{name}: {schema}");
        }
        assert_eq!(names[..4], ["rbf", "matern12", "matern32", "matern52"]);
        Ok(())
    }

    #[test]
    fn parameters_are_part_of_the_text() {
        for (text, written) in [
            ("plain", json!("plain")),
            ("one(alpha=0.30000000000000004)", json!({ "one": { "alpha": 0.1 + 0.2 } })),
            ("two(alpha=2.0, beta=1e-9)", json!({ "two": { "alpha": 2.0, "beta": 1e-9 } })),
        ] {
            assert_eq!((to_text(&written).as_str(), from_text(text)), (text, written));
        }
        for wrong in ["one()", "one(2)", "one(alpha=)", "one(alpha=2"] {
            assert_eq!(from_text(wrong), json!(wrong));
        }
    }

    #[test]
    fn a_kernel_with_parameters_may_be_named_alone() {
        let one = json!({ "type": "object", "required": ["one"], "description": "One.", "properties": { "one": {} } });
        let mut schema: Schema =
            schemars::json_schema!({ "oneOf": [{ "const": "plain" }, one], "description": "All." });
        names_alone(&mut schema);
        let names =
            json!({ "oneOf": [{ "const": "plain" }, { "type": "string", "const": "one", "description": "One." }] });
        assert_eq!(schema.to_value(), json!({ "description": "All.", "anyOf": [names, one] }));
    }
}
