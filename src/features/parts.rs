//! Times as numbers: the age in days, and the month, the weekday and the hour as places on a circle.

use chrono::{DateTime, Datelike as _, Timelike as _, Weekday};
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

/// Microseconds of a day.
const DAY: f64 = 86_400e6;

/// A part of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimePart {
    /// Days since the earliest training row.
    Age,
    Month,
    Weekday,
    /// The time of the day.
    Hour,
}

/// All parts, in the order of their columns.
pub const PARTS: [TimePart; 4] = [TimePart::Age, TimePart::Month, TimePart::Weekday, TimePart::Hour];

impl TimePart {
    /// What is put behind the name of the column.
    pub const fn suffixes(self) -> &'static [&'static str] {
        match self {
            Self::Age => &["age"],
            Self::Month => &["month_sin", "month_cos"],
            Self::Weekday => &["weekday_sin", "weekday_cos"],
            Self::Hour => &["hour_sin", "hour_cos"],
        }
    }

    /// The part of a time in microseconds since 1970, as a share of its circle; days for the age.
    pub fn value(self, micros: f64, origin: f64) -> f64 {
        if self == Self::Age {
            return (micros - origin) / DAY;
        }
        let Some(time) = DateTime::from_timestamp_micros(micros as i64) else { return f64::NAN };
        match self {
            Self::Age => 0.0,
            Self::Month => f64::from(time.month0()) / 12.0,
            Self::Weekday => f64::from(time.weekday().days_since(Weekday::Mon)) / 7.0,
            Self::Hour => f64::from(time.num_seconds_from_midnight()) / 86_400.0,
        }
    }

    /// Its columns for a time.
    pub fn columns(self, micros: f64, origin: f64) -> Vec<f64> {
        let value = self.value(micros, origin);
        if self == Self::Age { vec![value] } else { vec![(TAU * value).sin(), (TAU * value).cos()] }
    }

    /// The parts in which these times differ; the age where they differ in none.
    pub fn of(times: &[f64]) -> Vec<Self> {
        let origin = times.first().copied().unwrap_or(0.0);
        #[expect(clippy::float_cmp, reason = "the same part is the same number")]
        let differs = |part: &Self| {
            let first = part.value(origin, origin);
            times.iter().any(|time| part.value(*time, origin) != first)
        };
        let found: Vec<Self> = PARTS.into_iter().filter(differs).collect();
        if found.is_empty() { vec![Self::Age] } else { found }
    }
}
