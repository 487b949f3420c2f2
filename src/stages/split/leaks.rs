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
    let rows = said(leak(&table.identities(), folds), "the same features");
    keys.chain(rows).collect()
}
