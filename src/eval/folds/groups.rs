//! Folds of whole groups: rows of one customer are all on one side.

use super::{Fold, by_part, by_row, check_folds, permutation, refuse, test_rows};
use crate::eval::EvalError;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Rows of each group; groups are numbered from 0.
fn sizes(groups: &[u32]) -> Vec<usize> {
    let mut sizes = vec![0; groups.iter().max().map_or(0, |largest| *largest as usize + 1)];
    for group in groups {
        sizes[*group as usize] += 1;
    }
    sizes
}

/// Splits rows into `k` folds of whole groups; every row is tested once. The largest groups are dealt out first, each to the
/// fold that has the fewest rows so far, which keeps the folds about equal.
///
/// `below(k)` returns a uniform integer in `0..k`.
pub fn group_kfold(groups: &[u32], k: usize, below: &mut dyn FnMut(usize) -> usize) -> Result<Vec<Fold>, EvalError> {
    let sizes = sizes(groups);
    check_folds(groups.len(), k, (sizes.iter().filter(|size| **size > 0).count(), "groups"))?;
    let mut order = permutation(sizes.len(), below);
    order.sort_by_key(|group| Reverse(sizes[*group]));
    let mut folds: BinaryHeap<Reverse<(usize, usize)>> = (0..k).map(|fold| Reverse((0, fold))).collect();
    let mut fold_of = vec![0; sizes.len()];
    for group in order {
        if let Some(mut lightest) = folds.peek_mut() {
            fold_of[group] = lightest.0.1;
            lightest.0.0 += sizes[group];
        }
    }
    let part_of: Vec<usize> = groups.iter().map(|group| fold_of[*group as usize]).collect();
    Ok(by_part(&part_of, k))
}

/// Splits rows once, whole groups: in random order, each group is taken for testing that brings the test rows closer to
/// `test_fraction` of all rows.
///
/// `below(k)` returns a uniform integer in `0..k`.
pub fn group_holdout(
    groups: &[u32],
    test_fraction: f64,
    below: &mut dyn FnMut(usize) -> usize,
) -> Result<Fold, EvalError> {
    let n = groups.len();
    let wanted = test_rows(n, test_fraction)?;
    let sizes = sizes(groups);
    if sizes.iter().filter(|size| **size > 0).count() < 2 {
        return refuse(n, "they are all of one group; choose another `key`");
    }
    let (mut taken, mut is_test) = (0, vec![false; sizes.len()]);
    let order = permutation(sizes.len(), below);
    for group in &order {
        let more = taken + sizes[*group];
        if more < n && more.abs_diff(wanted) < taken.abs_diff(wanted) {
            (taken, is_test[*group]) = (more, true);
        }
    }
    if taken == 0 {
        // Every group is more than twice what is wanted: the smallest is the least too much.
        let smallest = order.iter().filter(|group| sizes[**group] > 0).min_by_key(|group| sizes[**group]);
        if let Some(group) = smallest {
            is_test[*group] = true;
        }
    }
    Ok(by_row(n, |row| is_test[groups[row] as usize]))
}
