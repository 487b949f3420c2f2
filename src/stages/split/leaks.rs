//! Warns of test rows that training rows give away.

use crate::eval::folds::{Fold, Leak, leak};
use crate::store::InputTable;
use crate::store::input::key_hash;

/// What is on both sides of a fold and should not be.
pub(super) fn warnings(table: &InputTable, folds: &[Fold]) -> Vec<String> {
    if folds.iter().all(|fold| fold.test.is_empty()) {
        return Vec::new();
    }
    let said = |Leak { leaked, tested }: Leak, what: &str| {
        (leaked > 0).then(|| {
            format!(
                "{leaked} of {tested} test rows have {what} as a training row of their fold, so that test errors may be too \
                 small: remove copies, or keep what belongs together on one side with `group`"
            )
        })
    };
    let keys = table.key.iter().filter_map(|keys| {
        let hashes: Vec<u64> = keys.iter().map(|key| key_hash(key)).collect();
        said(leak(&hashes, folds), "the same key")
    });
    let rows = said(leak(&identities(table), folds), "the same features");
    keys.chain(rows).collect()
}

/// A number for the features of each row; that of other features is another one, as good as always.
fn identities(table: &InputTable) -> Vec<u64> {
    // Zero has two signs and is one number.
    let bits = |value: &f64| (value + 0.0).to_bits();
    let of = |row: ndarray::ArrayView1<'_, f64>| row.iter().fold(0, |state, value| mixed(state ^ bits(value)));
    table.features.rows().into_iter().map(of).collect()
}

/// The last step of `splitmix64`, which tells all numbers apart.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
