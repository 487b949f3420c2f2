//! Folds in time: a model is tested on what came after the rows that it was trained on.

use super::{Fold, refuse, test_rows};
use crate::eval::EvalError;

/// Rows from one time on and before another, and those to train on for them.
fn window(times: &[i64], gap: i64, from: i64, to: Option<i64>) -> Fold {
    let rows = |wanted: &dyn Fn(i64) -> bool| (0..times.len()).filter(|row| wanted(times[*row])).collect();
    let until = from.saturating_sub(gap);
    Fold { train: rows(&|time| time < until), test: rows(&|time| time >= from && to.is_none_or(|to| time < to)) }
}

/// Splits rows into `k` folds of one test block each, one after the other in time and about equally large; a fold trains on
/// all rows from before its test block, but for those within `gap` of it. Rows of the same time stay together.
pub fn time_folds(times: &[i64], gap: i64, k: usize) -> Result<Vec<Fold>, EvalError> {
    let n = times.len();
    if k == 0 {
        return refuse(n, "at least 1 fold is needed");
    }
    let block = n / (k + 1);
    if block == 0 {
        return refuse(n, format!("{k} folds in time need at least {} rows; use fewer folds", k + 1));
    }
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let starts: Vec<i64> = (1..=k).rev().map(|left| sorted[n - left * block]).collect();
    if starts.windows(2).any(|pair| pair[0] == pair[1]) {
        return refuse(n, format!("too many rows have the same time for {k} test blocks; use fewer folds"));
    }
    let ends = starts.iter().skip(1).map(|end| Some(*end)).chain([None]);
    let folds: Vec<Fold> = starts.iter().zip(ends).map(|(start, end)| window(times, gap, *start, end)).collect();
    match folds.iter().position(|fold| fold.train.is_empty()) {
        Some(fold) => refuse(n, format!("fold {fold} (of {k}) {}", nothing_before(gap))),
        None => Ok(folds),
    }
}

/// Splits rows once: the latest ones are for testing, about `test_fraction` of all, rows of the same time together.
pub fn time_holdout(times: &[i64], gap: i64, test_fraction: f64) -> Result<Fold, EvalError> {
    let n = times.len();
    let count = test_rows(n, test_fraction)?;
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let fold = window(times, gap, sorted[n - count], None);
    if fold.train.is_empty() {
        return refuse(n, format!("the test part {}", nothing_before(gap)));
    }
    Ok(fold)
}

fn nothing_before(gap: i64) -> &'static str {
    if gap > 0 {
        "has no row before it and the gap; use a smaller gap, fewer folds or a smaller test fraction"
    } else {
        "has no row before it; use fewer folds or a smaller test fraction"
    }
}
