//! Fold indices. Randomness comes in as a function, so that a fold depends on nothing but the numbers it returns.

use super::EvalError;

/// Row numbers of one fold, each list in increasing order; together they are all rows, each once.
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
    let refuse = |why: &str| Err(EvalError::CannotSplit { rows: n, why: why.into() });
    if !(test_fraction > 0.0 && test_fraction < 1.0) {
        return refuse("the test fraction must be between 0 and 1, both excluded");
    }
    let count = (n as f64 * test_fraction).round() as usize;
    if count == 0 {
        return refuse("no row would be left for testing; use a larger test fraction");
    }
    if count >= n {
        return refuse("no row would be left for training; use a smaller test fraction");
    }
    let order = permutation(n, below);
    Ok(fold(&order, 0, count))
}

/// Splits `n` rows into `k` folds whose sizes differ by at most one; every row is tested once.
///
/// `below(k)` returns a uniform integer in `0..k`.
pub fn kfold(n: usize, k: usize, below: &mut dyn FnMut(usize) -> usize) -> Result<Vec<Fold>, EvalError> {
    if k < 2 {
        return Err(EvalError::CannotSplit { rows: n, why: "at least 2 folds are needed".into() });
    }
    if n < k {
        return Err(EvalError::CannotSplit {
            rows: n,
            why: format!("there are fewer rows than the {k} folds; use fewer folds"),
        });
    }
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
