//! Folds in which every stratum has its share: values of a column, or parts of the range of a number.

use super::{Fold, by_part, by_row, check_folds, permutation, test_rows};
use crate::eval::EvalError;

/// Rows of each stratum, in random order; strata are numbered from 0.
fn shuffled(strata: &[u32], below: &mut dyn FnMut(usize) -> usize) -> Vec<Vec<usize>> {
    let mut rows = vec![Vec::new(); strata.iter().max().map_or(0, |largest| *largest as usize + 1)];
    for row in permutation(strata.len(), below) {
        rows[strata[row] as usize].push(row);
    }
    rows
}

/// Splits rows into `k` folds; their sizes, and those of their shares of every stratum, differ by at most one.
///
/// `below(k)` returns a uniform integer in `0..k`.
pub fn stratified_kfold(
    strata: &[u32],
    k: usize,
    below: &mut dyn FnMut(usize) -> usize,
) -> Result<Vec<Fold>, EvalError> {
    check_folds(strata.len(), k, (strata.len(), "rows"))?;
    let mut part_of = vec![0; strata.len()];
    // Dealt out like cards: the next stratum goes on where the one before ended.
    for (position, row) in shuffled(strata, below).concat().into_iter().enumerate() {
        part_of[row] = position % k;
    }
    Ok(by_part(&part_of, k))
}

/// Splits rows once: about `test_fraction` of all rows, rounded, are for testing, and of every stratum that share to within
/// one row.
///
/// `below(k)` returns a uniform integer in `0..k`.
pub fn stratified_holdout(
    strata: &[u32],
    test_fraction: f64,
    below: &mut dyn FnMut(usize) -> usize,
) -> Result<Fold, EvalError> {
    let n = strata.len();
    let wanted = test_rows(n, test_fraction)?;
    let rows = shuffled(strata, below);
    let share = |stratum: &usize| rows[*stratum].len() as f64 * test_fraction;
    let mut counts: Vec<usize> = (0..rows.len()).map(|stratum| share(&stratum).floor() as usize).collect();
    // The largest remainders get what is left over.
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|left, right| share(right).fract().total_cmp(&share(left).fract()));
    let left = wanted.saturating_sub(counts.iter().sum());
    for stratum in order.into_iter().filter(|stratum| !rows[*stratum].is_empty()).take(left) {
        counts[stratum] += 1;
    }
    let mut is_test = vec![false; n];
    for (stratum, count) in rows.iter().zip(counts) {
        for row in stratum.iter().take(count) {
            is_test[*row] = true;
        }
    }
    Ok(by_row(n, |row| is_test[row]))
}

/// Strata of about equally many rows by the size of a number; rows with the same number are in the same stratum.
pub fn quantile_strata(values: &[f64], quantiles: usize) -> Vec<u32> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let edges: Vec<f64> =
        (1..quantiles).filter_map(|edge| sorted.get(edge * sorted.len() / quantiles)).copied().collect();
    values.iter().map(|value| edges.partition_point(|edge| edge.total_cmp(value).is_le()) as u32).collect()
}
