//! Fold indices. Randomness comes in as a function, so that a fold depends on nothing but the numbers it returns.

mod groups;
mod hashes;
mod leaks;
mod strata;
mod times;

pub use groups::{group_holdout, group_kfold};
pub use hashes::hash_holdout;
pub use leaks::{Leak, leak};
pub use strata::{quantile_strata, stratified_holdout, stratified_kfold};
pub use times::{time_folds, time_holdout};

use super::EvalError;

/// Row numbers of one fold, each list in increasing order. No row is in both; a gap in time leaves rows that are in neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fold {
    /// Rows to train on.
    pub train: Vec<usize>,
    /// Rows to test on.
    pub test: Vec<usize>,
}

/// Splits `n` rows once: about `test_fraction` of them, rounded, are for testing.
///
/// `below(k)` returns a uniform integer in `0..k`.
pub fn holdout(n: usize, test_fraction: f64, below: &mut dyn FnMut(usize) -> usize) -> Result<Fold, EvalError> {
    let count = test_rows(n, test_fraction)?;
    let order = permutation(n, below);
    Ok(fold(&order, 0, count))
}

fn refuse<T>(rows: usize, why: impl Into<String>) -> Result<T, EvalError> {
    Err(EvalError::CannotSplit { rows, why: why.into() })
}

/// How many of `n` rows are for testing: at least one, and not all.
fn test_rows(n: usize, test_fraction: f64) -> Result<usize, EvalError> {
    check_fraction(n, test_fraction)?;
    match (n as f64 * test_fraction).round() as usize {
        0 => refuse(n, "no row would be left for testing; use a larger test fraction"),
        count if count >= n => refuse(n, "no row would be left for training; use a smaller test fraction"),
        count => Ok(count),
    }
}

fn check_fraction(n: usize, test_fraction: f64) -> Result<(), EvalError> {
    if test_fraction > 0.0 && test_fraction < 1.0 {
        return Ok(());
    }
    refuse(n, "the test fraction must be between 0 and 1, both excluded")
}

/// Refuses fewer than two folds, and more folds than there is of what is divided.
fn check_folds(rows: usize, k: usize, (count, what): (usize, &str)) -> Result<(), EvalError> {
    if k < 2 {
        return refuse(rows, "at least 2 folds are needed");
    }
    if count < k {
        return refuse(rows, format!("there are fewer {what} than the {k} folds; use fewer folds"));
    }
    Ok(())
}

/// The rows of every part, given the part of each row, as the test rows of one fold each.
fn by_part(part_of: &[usize], parts: usize) -> Vec<Fold> {
    let rows = |part: usize, wanted: bool| {
        (0..part_of.len()).filter(|row| (part_of[*row] == part) == wanted).collect::<Vec<usize>>()
    };
    (0..parts).map(|part| Fold { train: rows(part, false), test: rows(part, true) }).collect()
}

/// A fold of all rows, divided by what is said of each of them.
fn by_row(n: usize, is_test: impl Fn(usize) -> bool) -> Fold {
    let (test, train) = (0..n).partition(|row| is_test(*row));
    Fold { train, test }
}

/// Splits `n` rows into `k` folds whose sizes differ by at most one; every row is tested once.
///
/// `below(k)` returns a uniform integer in `0..k`.
pub fn kfold(n: usize, k: usize, below: &mut dyn FnMut(usize) -> usize) -> Result<Vec<Fold>, EvalError> {
    check_folds(n, k, (n, "rows"))?;
    let order = permutation(n, below);
    let (size, larger) = (n / k, n % k);
    let mut start = 0;
    Ok((0..k)
        .map(|index| {
            let end = start + size + usize::from(index < larger);
            let fold = fold(&order, start, end);
            start = end;
            fold
        })
        .collect())
}

// Positions start..end of the order are for testing, the others for training.
fn fold(order: &[usize], start: usize, end: usize) -> Fold {
    let mut test = order[start..end].to_vec();
    let mut train = [&order[..start], &order[end..]].concat();
    test.sort_unstable();
    train.sort_unstable();
    Fold { train, test }
}

// Fisher–Yates, written here because a library's shuffle may change and folds must not.
fn permutation(n: usize, below: &mut dyn FnMut(usize) -> usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    for last in (1..n).rev() {
        order.swap(last, below(last + 1));
    }
    order
}
