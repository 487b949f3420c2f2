//! Points in time as the tables store them: microseconds since 1970, UTC.

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Datelike as _, NaiveDateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// How a time is shown, in chrono's notation: RFC 3339.
const SHOWN: &str = "%Y-%m-%dT%H:%M:%S%.6fZ";

/// A UTC time in microseconds since the Unix epoch; shown as RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From microseconds since the Unix epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// The wall clock, now.
    pub fn now() -> Self {
        Self::from(SystemTime::now())
    }

    /// The UTC day as `2026-11-15`.
    pub fn date(self) -> String {
        self.format("%Y-%m-%d")
    }

    /// In chrono's notation. Times that it cannot count are its first or last.
    pub(crate) fn format(self, pattern: &str) -> String {
        let bound = if self.0 < 0 { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC };
        DateTime::from_timestamp_micros(self.0).unwrap_or(bound).format(pattern).to_string()
    }

    /// Reads exactly what [`Timestamp::format`] writes, in the years 1 to 9999.
    pub(crate) fn parse(text: &str, pattern: &str) -> Option<Self> {
        let time = NaiveDateTime::parse_from_str(text, pattern).ok()?;
        let parsed = Self(time.and_utc().timestamp_micros());
        ((1..=9999).contains(&time.year()) && parsed.format(pattern) == text).then_some(parsed)
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let micros = |duration: std::time::Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self(micros(after)),
            Err(before) => Self(-micros(before.duration())),
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.format(SHOWN))
    }
}

/// Text that is not a time such as `2026-11-16T02:25:30.123456Z`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a UTC time such as 2026-11-16T02:25:30.123456Z")]
pub struct NotATimestamp(String);

impl FromStr for Timestamp {
    type Err = NotATimestamp;

    fn from_str(text: &str) -> Result<Self, NotATimestamp> {
        Self::parse(text, SHOWN).ok_or_else(|| NotATimestamp(text.to_owned()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
