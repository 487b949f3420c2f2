//! Points in time as the tables store them: microseconds since 1970, UTC.

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// A UTC time in microseconds since the Unix epoch; shown as RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// The calendar fields of a [`Timestamp`], UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Civil {
    pub year: i64,
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub micros: i64,
}

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
        let civil = self.civil();
        format!("{:04}-{:02}-{:02}", civil.year, civil.month, civil.day)
    }

    pub(crate) fn civil(self) -> Civil {
        let (year, month, day) = civil_from_days(self.0.div_euclid(MICROS_PER_DAY));
        let micros = self.0.rem_euclid(MICROS_PER_DAY);
        let seconds = micros / MICROS_PER_SECOND;
        Civil {
            year,
            month,
            day,
            hour: seconds / 3600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            micros: micros % MICROS_PER_SECOND,
        }
    }

    /// The inverse of [`Timestamp::civil`]; `None` for fields that are no date or time.
    pub(crate) fn from_civil(civil: Civil) -> Option<Self> {
        let days = days_from_civil(civil.year, civil.month, civil.day);
        let in_range = (1..=9999).contains(&civil.year)
            && (1..=12).contains(&civil.month)
            && civil_from_days(days) == (civil.year, civil.month, civil.day)
            && (0..24).contains(&civil.hour)
            && (0..60).contains(&civil.minute)
            && (0..60).contains(&civil.second)
            && (0..MICROS_PER_SECOND).contains(&civil.micros);
        let seconds = civil.hour * 3600 + civil.minute * 60 + civil.second;
        in_range.then(|| Self(days * MICROS_PER_DAY + seconds * MICROS_PER_SECOND + civil.micros))
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
        let Civil { year, month, day, hour, minute, second, micros } = self.civil();
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

/// Text that is not a time such as `2026-11-16T02:25:30.123456Z`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a UTC time such as 2026-11-16T02:25:30.123456Z")]
pub struct NotATimestamp(String);

impl FromStr for Timestamp {
    type Err = NotATimestamp;

    /// Reads exactly what `Display` writes.
    fn from_str(text: &str) -> Result<Self, NotATimestamp> {
        let number = |from: usize, to: usize| -> Option<i64> {
            let digits = text.get(from..to)?;
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
        };
        let parse = || {
            let punctuation = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (26, b'Z')];
            let shape =
                text.len() == 27 && punctuation.iter().all(|&(at, mark)| text.as_bytes().get(at) == Some(&mark));
            if !shape {
                return None;
            }
            Self::from_civil(Civil {
                year: number(0, 4)?,
                month: number(5, 7)?,
                day: number(8, 10)?,
                hour: number(11, 13)?,
                minute: number(14, 16)?,
                second: number(17, 19)?,
                micros: number(20, 26)?,
            })
        };
        parse().ok_or_else(|| NotATimestamp(text.to_owned()))
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

/// Year, month and day of a day number (0 = 1970-01-01) in the proleptic Gregorian calendar.
///
/// Counts in 400-year eras that begin on 1 March, so that the leap day is the last of its year.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The inverse of [`civil_from_days`].
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let march_year = year - i64::from(month <= 2);
    let era = march_year.div_euclid(400);
    let year_of_era = march_year.rem_euclid(400);
    let march_month = (month + 9) % 12;
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days() {
        assert_eq!(civil_from_days(0), (1970, 1, 1));
        assert_eq!(civil_from_days(-1), (1969, 12, 31));
        assert_eq!(civil_from_days(11_016), (2000, 2, 29));
        assert_eq!(civil_from_days(19_782), (2024, 2, 29));
        assert_eq!(civil_from_days(47_541), (2100, 3, 1));
    }

    #[test]
    fn every_day_of_eight_centuries_comes_back_and_follows_its_predecessor() {
        let lengths = |year: i64| {
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        };
        let mut expected = (1700, 1, 1);
        for days in days_from_civil(1700, 1, 1)..days_from_civil(2500, 1, 1) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!((year, month, day), expected);
            assert_eq!(days_from_civil(year, month, day), days);
            expected = match (month, day) {
                (12, 31) => (year + 1, 1, 1),
                (_, d) if d == lengths(year)[month as usize - 1] => (year, month + 1, 1),
                _ => (year, month, day + 1),
            };
        }
    }

    #[test]
    fn text_comes_back_and_nonsense_does_not() {
        let time = Timestamp::from_micros(1_794_795_930_123_456);
        assert_eq!(time.to_string(), "2026-11-16T02:25:30.123456Z");
        assert_eq!(time.to_string().parse(), Ok(time));
        for bad in [
            "",
            "2026-11-16",
            "2026-13-16T02:25:30.123456Z",
            "2026-02-30T02:25:30.123456Z",
            "2026-11-16T24:25:30.123456Z",
            "2026-11-16T02:25:30.12345éZ",
        ] {
            assert!(bad.parse::<Timestamp>().is_err(), "{bad}");
        }
    }
}
