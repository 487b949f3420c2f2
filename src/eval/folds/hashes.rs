//! A fold by the hash of each row's key: the side of a row depends on no other row.

use super::{Fold, by_row, check_fraction, refuse};
use crate::eval::EvalError;

/// 2⁶⁴, the number of hashes.
const HASHES: f64 = 18_446_744_073_709_551_616.0;

/// Splits rows once: those for testing have a hash below `test_fraction` · 2⁶⁴.
pub fn hash_holdout(hashes: &[u64], test_fraction: f64) -> Result<Fold, EvalError> {
    let n = hashes.len();
    check_fraction(n, test_fraction)?;
    let limit = (test_fraction * HASHES).ceil() as u64;
    let fold = by_row(n, |row| hashes[row] < limit);
    if fold.test.is_empty() {
        return refuse(n, "no row's key falls into the test part; use a larger test fraction, or more rows");
    }
    if fold.train.is_empty() {
        return refuse(n, "every row's key falls into the test part; use a smaller test fraction, or more rows");
    }
    Ok(fold)
}
