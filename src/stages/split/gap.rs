//! The time between training and test rows.

use crate::store::input::TimeScale;
use crate::text::parse_duration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::borrow::Cow;

/// A gap as it is written.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct WrittenGap(pub(super) Json);

impl JsonSchema for WrittenGap {
    fn schema_name() -> Cow<'static, str> {
        "WrittenGap".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer"], "description": "a time such as 7d, or a whole number" })
    }
}

/// A length of time, in the units of the column that tells the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Gap {
    /// No gap in any unit.
    #[default]
    None,
    Microseconds(i64),
    Number(i64),
}

impl Gap {
    /// `7d`, `12h`, or a whole number; none if it is neither.
    pub(super) fn parse(written: &Json) -> Option<Self> {
        if let Some(number) = written.as_i64().filter(|number| *number >= 0) {
            return Some(if number == 0 { Self::None } else { Self::Number(number) });
        }
        let time = parse_duration(written.as_str()?)?;
        let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        Some(if micros == 0 { Self::None } else { Self::Microseconds(micros) })
    }

    /// The gap in the units of a column, or what is wrong with it.
    pub(super) fn on(self, scale: TimeScale) -> Result<i64, (String, &'static str)> {
        match (self, scale) {
            (Self::None, _) => Ok(0),
            (Self::Microseconds(gap), TimeScale::Microseconds) | (Self::Number(gap), TimeScale::Number) => Ok(gap),
            (Self::Number(gap), TimeScale::Microseconds) => {
                Err((format!("it holds dates, and `gap: {gap}` has no unit"), "write a unit: 7d, 12h or 30m"))
            }
            (Self::Microseconds(_), TimeScale::Number) => Err((
                "it holds numbers, and `gap` is a time".to_owned(),
                "write the gap as a number too, or give `key` a column of dates",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_times_and_numbers() {
        let week = 7 * 86_400 * 1_000_000;
        assert_eq!(Gap::parse(&json!("7d")), Some(Gap::Microseconds(week)));
        assert_eq!(Gap::parse(&json!("1w")), Some(Gap::Microseconds(week)));
        assert_eq!(Gap::parse(&json!("168h")), Some(Gap::Microseconds(week)));
        assert_eq!(Gap::parse(&json!(7)), Some(Gap::Number(7)));
        assert_eq!([json!("0s"), json!(0)].map(|gap| Gap::parse(&gap)), [Some(Gap::None); 2]);
        assert_eq!([json!(-1), json!("soon"), json!(1.5), json!("-7d")].map(|gap| Gap::parse(&gap)), [None; 4]);
        assert_eq!(Gap::Number(3).on(TimeScale::Number), Ok(3));
        assert!(Gap::Number(3).on(TimeScale::Microseconds).is_err());
        assert!(Gap::Microseconds(3).on(TimeScale::Number).is_err());
    }
}
