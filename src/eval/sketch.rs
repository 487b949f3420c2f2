//! Which rows a model has seen: the least of their hashes, enough to tell how many of some other rows are among them.
//!
//! Hashes are evenly spread. So the least of those of a set are a sample of its rows, and any other row whose hash is as small is
//! in the set if, and only if, its hash is among them. The sample is the same for any order of the rows.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// So many hashes are kept: the share of other rows is known to a few per cent, in a few kilobytes.
const KEPT: usize = 1024;
/// Bits of a hash, and the hexadecimal digits that it is written with.
const BITS: u32 = 48;
const DIGITS: usize = 12;

/// The least hashes of the rows of a set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowSketch {
    /// Different rows in the set, those that are not kept included.
    pub rows: u64,
    /// The least hashes, in increasing order, as hexadecimal digits.
    pub least: String,
}

/// Rows that a sketch can tell of, and those of them that are in its set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SeenRows {
    pub told: u64,
    pub seen: u64,
}

impl SeenRows {
    pub fn add(&mut self, other: Self) {
        (self.told, self.seen) = (self.told + other.told, self.seen + other.seen);
    }

    /// None where nothing can be told.
    pub fn share(self) -> Option<f64> {
        (self.told > 0).then(|| self.seen as f64 / self.told as f64)
    }
}

impl RowSketch {
    /// Of a set of rows, by their hashes.
    pub fn of(hashes: impl IntoIterator<Item = u64>) -> Self {
        let all: BTreeSet<u64> = hashes.into_iter().map(shortened).collect();
        let digits: Vec<String> = all.iter().take(KEPT).map(|hash| format!("{hash:0DIGITS$x}")).collect();
        Self { rows: all.len() as u64, least: digits.concat() }
    }

    /// How many of these rows are in the set, as far as it can tell.
    pub fn look_for(&self, hashes: impl IntoIterator<Item = u64>) -> SeenRows {
        let digits = self.least.as_bytes().chunks(DIGITS);
        let known = digits.filter_map(|digits| u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        let known: BTreeSet<u64> = known.collect();
        let is_whole = known.len() as u64 == self.rows;
        let last = if is_whole { u64::MAX } else { known.last().copied().unwrap_or(0) };
        let mut found = SeenRows::default();
        for hash in hashes.into_iter().map(shortened).filter(|hash| *hash <= last) {
            found.add(SeenRows { told: 1, seen: u64::from(known.contains(&hash)) });
        }
        found
    }
}

const fn shortened(hash: u64) -> u64 {
    hash >> (u64::BITS - BITS)
}

/// The hash of a row, from what it consists of.
pub fn row_hash(parts: impl IntoIterator<Item = u64>) -> u64 {
    parts.into_iter().fold(0, |hash, part| mixed(hash ^ part))
}

/// What a number is of a row.
pub fn number_hash(value: f64) -> u64 {
    // Zero has two signs and is one number.
    (value + 0.0).to_bits()
}

/// The hash of a text.
pub fn text_hash(text: &str) -> u64 {
    row_hash(text.bytes().map(u64::from))
}

/// The last step of `splitmix64`, which tells all numbers apart.
const fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(rows: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
        rows.map(|row| row_hash([row, 7]))
    }

    #[test]
    fn small_sets_are_known_exactly() {
        let sketch = RowSketch::of(hashes(0..300));
        assert_eq!(sketch.rows, 300);
        assert_eq!(sketch.look_for(hashes(200..500)), SeenRows { told: 300, seen: 100 });
        assert_eq!(RowSketch::default().look_for(hashes(0..3)).share(), Some(0.0));
    }

    #[test]
    fn large_sets_are_sampled() {
        let sketch = RowSketch::of(hashes(0..50_000));
        assert_eq!(sketch.least.len(), KEPT * DIGITS);
        assert_eq!(sketch, RowSketch::of(hashes(0..50_000).collect::<Vec<_>>().into_iter().rev()));
        assert_eq!(sketch.look_for(hashes(10_000..20_000)).share(), Some(1.0));
        assert_eq!(sketch.look_for(hashes(50_000..60_000)).share(), Some(0.0));
        let half = sketch.look_for(hashes(40_000..60_000));
        assert!(half.told > 300 && (half.share().unwrap_or(0.0) - 0.5).abs() < 0.1, "{half:?}");
        assert_eq!(sketch.look_for(std::iter::empty()).share(), None);
    }

    #[test]
    fn rows_differ_by_any_part() {
        let rows =
            [row_hash([1, 2]), row_hash([2, 1]), row_hash([1, 2, 0]), text_hash("a"), text_hash("b"), text_hash("")];
        assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), rows.len());
    }
}
