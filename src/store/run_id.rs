//! Names of runs: UTC time and a short hash, in the order of time.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

use super::atomic::hex;
use crate::tables::Timestamp;

/// A run's name, such as `20261116T022530123456Z-3f9a1c`: later runs sort after earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId {
    text: String,
    started: Timestamp,
}

/// Text that is not a run's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a run id such as 20261116T022530123456Z-3f9a1c")]
pub struct NotARunId(String);

/// The time in a name, in chrono's notation, and its length.
const SHOWN: &str = "%Y%m%dT%H%M%S%6fZ";
const STAMP: usize = 22;
const LENGTH: usize = STAMP + 7;

impl RunId {
    /// The name of a run that started at `started`; `entropy` tells runs of the same microsecond apart.
    pub fn new(started: Timestamp, entropy: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update(started.micros().to_le_bytes());
        hash.update(entropy);
        let digest = hex(&hash.finalize());
        Self { text: format!("{}-{}", started.format(SHOWN), &digest[..6]), started }
    }

    /// A new name from the wall clock and the process.
    pub fn generate() -> Self {
        let stack = 0_u8;
        // The address differs between processes that share pid and clock, as containers may.
        let entropy = format!("{}-{:p}", std::process::id(), &raw const stack);
        Self::new(Timestamp::now(), entropy.as_bytes())
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn started(&self) -> Timestamp {
        self.started
    }

    /// The UTC day on which the run started, as `2026-11-16`: the partition of its tables.
    pub fn run_date(&self) -> String {
        self.started.date()
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl FromStr for RunId {
    type Err = NotARunId;

    fn from_str(text: &str) -> Result<Self, NotARunId> {
        let parse = || {
            let (time, hash) = text.split_at_checked(STAMP)?;
            let hash = hash.strip_prefix('-')?;
            let lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            if text.len() != LENGTH || !hash.bytes().all(lower_hex) {
                return None;
            }
            Some(Self { text: text.to_owned(), started: Timestamp::parse(time, SHOWN)? })
        };
        parse().ok_or_else(|| NotARunId(text.to_owned()))
    }
}

impl Serialize for RunId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
