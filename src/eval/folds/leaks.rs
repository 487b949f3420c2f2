//! What training rows give away about test rows: the same thing on both sides of a fold.

use super::Fold;

/// Test rows of all folds, and how many of them have a copy among the training rows of their fold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leak {
    pub leaked: usize,
    pub tested: usize,
}

/// Counts test rows whose identity is also that of a training row of their fold. Rows with an identity of their own, which
/// are usually all of them, are looked at once and not once per fold.
pub fn leak(identities: &[u64], folds: &[Fold]) -> Leak {
    let mut order: Vec<u32> = (0..identities.len() as u32).collect();
    order.sort_unstable_by_key(|row| identities[*row as usize]);
    let same = |left: &u32, right: &u32| identities[*left as usize] == identities[*right as usize];
    let copies: Vec<&[u32]> = order.chunk_by(same).filter(|rows| rows.len() > 1).collect();
    let tested = folds.iter().map(|fold| fold.test.len()).sum();
    let leaked = if copies.is_empty() { 0 } else { folds.iter().map(|fold| leaked(&copies, fold)).sum() };
    Leak { leaked, tested }
}

fn leaked(copies: &[&[u32]], fold: &Fold) -> usize {
    let is_in = |rows: &[usize], row: u32| rows.binary_search(&(row as usize)).is_ok();
    let of = |rows: &&[u32]| {
        let trains = rows.iter().any(|row| is_in(&fold.train, *row));
        if trains { rows.iter().filter(|row| is_in(&fold.test, **row)).count() } else { 0 }
    };
    copies.iter().map(of).sum()
}
