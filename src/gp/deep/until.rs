//! When training ends: figures of the chains that are good enough, and a budget of time.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// When chains have run long enough.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Until {
    /// The largest split-R̂.
    #[schemars(extend("exclusiveMinimum" = 1))]
    pub rhat: f64,
    /// The smallest effective sample size.
    #[schemars(range(min = 1))]
    pub ess: f64,
}

impl Default for Until {
    fn default() -> Self {
        Self { rhat: 1.05, ess: 100.0 }
    }
}

/// A time, written as `90s`, `5m` or `2h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeBudget(u64);

/// What may be written.
const PATTERN: &str = "^[0-9]{1,9}(s|m|h)$";

impl TimeBudget {
    /// The time in a text.
    pub fn parse(text: &str) -> Option<Self> {
        let unit = match text.chars().last()? {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            _ => return None,
        };
        let number = &text[..text.len() - 1];
        let plain = !number.is_empty() && number.len() <= 9 && number.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| number.parse::<u64>().ok()).flatten().map(|number| Self(number * unit))
    }

    pub fn seconds(self) -> f64 {
        self.0 as f64
    }
}

impl Serialize for TimeBudget {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}s", self.0))
    }
}

impl<'de> Deserialize<'de> for TimeBudget {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom(format!("`{text}` is no time such as `90s`, `5m` or `2h`")))
    }
}

impl JsonSchema for TimeBudget {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TimeBudget".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": PATTERN, "description": "A time: `90s`, `5m`, `2h`." })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_numbers_with_a_unit() {
        for (text, seconds) in [("0s", Some(0.0)), ("90s", Some(90.0)), ("5m", Some(300.0)), ("2h", Some(7200.0))] {
            assert_eq!(TimeBudget::parse(text).map(TimeBudget::seconds), seconds, "{text}");
        }
        for text in ["", "s", "5", "5 m", "-5m", "1.5h", "5d", "9999999999s", "5µ"] {
            assert_eq!(TimeBudget::parse(text), None, "{text}");
        }
    }
}
