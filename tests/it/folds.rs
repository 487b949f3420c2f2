//! Folds by groups, times, hashes and strata: what must hold of any, and what scikit-learn makes of the same rows.

use crate::naive::generator;
use proptest::prelude::*;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use stride_pipe::eval::folds::{
    Fold, group_holdout, group_kfold, hash_holdout, leak, quantile_strata, stratified_holdout, stratified_kfold,
    time_folds, time_holdout,
};
use stride_pipe::gp::random::below;
use stride_pipe::store::input::key_hash;

fn draw(seed: u64) -> impl FnMut(usize) -> usize {
    let mut rng = generator(seed);
    move |bound| below(&mut rng, bound)
}

/// Increasing rows, each on one side at most.
fn is_sound(fold: &Fold, n: usize) -> bool {
    let increasing = |rows: &[usize]| rows.windows(2).all(|pair| pair[0] < pair[1]) && rows.iter().all(|row| *row < n);
    let train: BTreeSet<&usize> = fold.train.iter().collect();
    increasing(&fold.train) && increasing(&fold.test) && fold.test.iter().all(|row| !train.contains(row))
}

/// All of it, and every row on one side.
fn is_partition(fold: &Fold, n: usize) -> bool {
    is_sound(fold, n) && fold.train.len() + fold.test.len() == n && !fold.train.is_empty() && !fold.test.is_empty()
}

/// Every row is tested in one of these folds.
fn test_every_row_once(folds: &[Fold], n: usize) -> bool {
    let mut tested: Vec<usize> = folds.iter().flat_map(|fold| fold.test.clone()).collect();
    tested.sort_unstable();
    tested == (0..n).collect::<Vec<_>>()
}

fn values<T: Copy + Ord>(rows: &[usize], of: &[T]) -> BTreeSet<T> {
    rows.iter().map(|row| of[*row]).collect()
}

fn counts(rows: &[usize], of: &[u32]) -> BTreeMap<u32, usize> {
    let mut counts = BTreeMap::new();
    for row in rows {
        *counts.entry(of[*row]).or_default() += 1;
    }
    counts
}

/// The same labels numbered from 0 without holes, as a table has them.
fn numbered(labels: &[u32]) -> Vec<u32> {
    let known: Vec<u32> = labels.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    labels.iter().map(|label| known.binary_search(label).unwrap() as u32).collect()
}

proptest! {
    #[test]
    fn no_group_is_on_both_sides(
        labels in prop::collection::vec(0_u32..12, 2..120), k in 2_usize..6, fraction in 0.05..0.95_f64, seed: u64,
    ) {
        let (groups, n) = (numbered(&labels), labels.len());
        let different = values(&(0..n).collect::<Vec<_>>(), &groups).len();
        let apart = |fold: &Fold| values(&fold.train, &groups).is_disjoint(&values(&fold.test, &groups));
        match group_kfold(&groups, k, &mut draw(seed)) {
            Ok(folds) => {
                prop_assert!(test_every_row_once(&folds, n));
                prop_assert!(folds.iter().all(|fold| is_partition(fold, n) && apart(fold)));
                prop_assert_eq!(Ok(folds), group_kfold(&groups, k, &mut draw(seed)));
            }
            Err(_) => prop_assert!(different < k),
        }
        let wanted = (n as f64 * fraction).round() as usize;
        match group_holdout(&groups, fraction, &mut draw(seed)) {
            Ok(fold) => {
                prop_assert!(is_partition(&fold, n) && apart(&fold));
                // No single group more or less would come closer, as long as both sides keep one.
                let sizes = counts(&(0..n).collect::<Vec<_>>(), &groups);
                let (tested, off) = (fold.test.len(), fold.test.len().abs_diff(wanted));
                for group in values(&fold.train, &groups) {
                    let more = tested + sizes[&group];
                    prop_assert!(more == n || more.abs_diff(wanted) >= off);
                }
            }
            Err(_) => prop_assert!(different < 2 || wanted == 0 || wanted == n),
        }
    }

    #[test]
    fn training_ends_before_the_test_and_its_gap(
        times in prop::collection::vec(-40_i64..40, 2..120), gap in 0_i64..12, k in 1_usize..6, fraction in 0.05..0.95_f64,
    ) {
        let n = times.len();
        let naive = |fold: &Fold, to: i64| {
            let from = fold.test.iter().map(|row| times[*row]).min().unwrap();
            let rows = |wanted: &dyn Fn(i64) -> bool| (0..n).filter(|row| wanted(times[*row])).collect::<Vec<_>>();
            fold.train == rows(&|time| time < from - gap) && fold.test == rows(&|time| from <= time && time < to)
        };
        if let Ok(folds) = time_folds(&times, gap, k) {
            prop_assert_eq!(folds.len(), k);
            let starts: Vec<i64> = folds.iter().map(|fold| values(&fold.test, &times).into_iter().next().unwrap()).collect();
            prop_assert!(starts.windows(2).all(|pair| pair[0] < pair[1]));
            for (number, fold) in folds.iter().enumerate() {
                prop_assert!(is_sound(fold, n) && !fold.train.is_empty());
                prop_assert!(naive(fold, starts.get(number + 1).copied().unwrap_or(i64::MAX)));
            }
            // Windows grow, and the last ends with the last row.
            prop_assert!(folds.windows(2).all(|pair| pair[0].train.len() <= pair[1].train.len()));
            prop_assert!(folds.iter().map(|fold| fold.test.len()).sum::<usize>() >= k * (n / (k + 1)));
        }
        if let Ok(fold) = time_holdout(&times, gap, fraction) {
            prop_assert!(is_sound(&fold, n) && naive(&fold, i64::MAX));
            prop_assert!(fold.test.len() >= (n as f64 * fraction).round() as usize);
        }
    }

    #[test]
    fn every_stratum_has_its_share(
        labels in prop::collection::vec(0_u32..7, 2..150), k in 2_usize..6, fraction in 0.05..0.95_f64, seed: u64,
    ) {
        let (strata, n) = (numbered(&labels), labels.len());
        let all = counts(&(0..n).collect::<Vec<_>>(), &strata);
        if let Ok(folds) = stratified_kfold(&strata, k, &mut draw(seed)) {
            prop_assert!(test_every_row_once(&folds, n));
            prop_assert!(folds.iter().all(|fold| is_partition(fold, n) && fold.test.len().abs_diff(n / k) <= 1));
            for (stratum, rows) in &all {
                let share = |fold: &Fold| counts(&fold.test, &strata).get(stratum).copied().unwrap_or(0);
                prop_assert!(folds.iter().all(|fold| (rows / k..=rows.div_ceil(k)).contains(&share(fold))));
            }
        } else {
            prop_assert!(n < k);
        }
        if let Ok(fold) = stratified_holdout(&strata, fraction, &mut draw(seed)) {
            prop_assert!(is_partition(&fold, n));
            prop_assert_eq!(fold.test.len(), (n as f64 * fraction).round() as usize);
            let tested = counts(&fold.test, &strata);
            for (stratum, rows) in &all {
                let share = tested.get(stratum).copied().unwrap_or(0) as f64;
                prop_assert!((share - *rows as f64 * fraction).abs() < 1.0 + 1e-9);
            }
        }
    }

    #[test]
    fn quantiles_keep_order_and_equals_together(values in prop::collection::vec(-5_i32..400, 1..150), parts in 2_usize..12) {
        let values: Vec<f64> = values.into_iter().map(f64::from).collect();
        let strata = quantile_strata(&values, parts);
        let mut pairs: Vec<(f64, u32)> = values.iter().copied().zip(strata.iter().copied()).collect();
        pairs.sort_by(|left, right| left.0.total_cmp(&right.0));
        let sound = |pair: &[(f64, u32)]| pair[0].1 <= pair[1].1 && (pair[0].0 != pair[1].0 || pair[0].1 == pair[1].1);
        prop_assert!(pairs.windows(2).all(sound));
        if pairs.windows(2).all(|pair| pair[0].0 < pair[1].0) {
            let mut sizes = vec![0_usize; parts];
            for stratum in &strata {
                sizes[*stratum as usize] += 1;
            }
            prop_assert!(sizes.iter().all(|size| (values.len() / parts..=values.len().div_ceil(parts)).contains(size)));
        }
    }

    #[test]
    fn rows_stay_on_their_side_when_others_are_added(
        keys in prop::collection::btree_set(0_u64..1_000_000, 3..200), fraction in 0.1..0.9_f64, kept in 2_usize..100,
    ) {
        let hashes: Vec<u64> = keys.iter().map(|key| key_hash(&key.to_string())).collect();
        let Ok(all) = hash_holdout(&hashes, fraction) else { return Ok(()) };
        prop_assert!(is_partition(&all, hashes.len()));
        let tested: BTreeSet<usize> = all.test.into_iter().collect();
        if let Ok(some) = hash_holdout(&hashes[..kept.min(hashes.len())], fraction) {
            prop_assert!(some.test.iter().all(|row| tested.contains(row)));
            prop_assert!(some.train.iter().all(|row| !tested.contains(row)));
        }
    }

    #[test]
    fn leaks_are_counted(identities in prop::collection::vec(0_u64..40, 2..60), k in 2_usize..5, seed: u64) {
        let Ok(folds) = stratified_kfold(&vec![0; identities.len()], k, &mut draw(seed)) else { return Ok(()) };
        let leaks = |fold: &Fold| {
            let twin = |row: &&usize| fold.train.iter().any(|other| identities[*other] == identities[**row]);
            fold.test.iter().filter(twin).count()
        };
        let found = leak(&identities, &folds);
        prop_assert_eq!(found.leaked, folds.iter().map(leaks).sum::<usize>());
        prop_assert_eq!(found.tested, identities.len());
    }
}

fn numbers<T: serde::de::DeserializeOwned>(value: &Json) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn as_scikit_learn() {
    let reference: Json = serde_json::from_str(include_str!("reference/folds.json")).unwrap();
    for case in reference["groups"].as_array().unwrap() {
        let (groups, k): (Vec<u32>, usize) = (numbers(&case["groups"]), numbers(&case["folds"]));
        let folds = group_kfold(&groups, k, &mut draw(1)).unwrap();
        let mut sizes: Vec<usize> = folds.iter().map(|fold| fold.test.len()).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, numbers::<Vec<usize>>(&case["sizes"]));
    }
    for case in reference["times"].as_array().unwrap() {
        let times: Vec<i64> = numbers(&case["times"]);
        let folds = time_folds(&times, numbers(&case["gap"]), numbers(&case["folds"])).unwrap();
        let windows: Vec<[Vec<usize>; 2]> = folds.into_iter().map(|fold| [fold.train, fold.test]).collect();
        assert_eq!(windows, numbers::<Vec<[Vec<usize>; 2]>>(&case["windows"]));
    }
    for case in reference["strata"].as_array().unwrap() {
        let strata: Vec<u32> = numbers(&case["strata"]);
        let folds = stratified_kfold(&strata, numbers(&case["folds"]), &mut draw(1)).unwrap();
        let shares: Vec<Vec<usize>> = numbers(&case["shares"]);
        for (stratum, expected) in (0..).zip(shares) {
            let share = |fold: &Fold| counts(&fold.test, &strata).get(&stratum).copied().unwrap_or(0);
            let mut found: Vec<usize> = folds.iter().map(share).collect();
            found.sort_unstable();
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn these_folds_never_change() {
    // A change here changes the folds of every user: do not update the figures.
    let tests = |folds: Vec<Fold>| folds.into_iter().map(|fold| fold.test).collect::<Vec<_>>();
    let groups = [0, 0, 0, 1, 1, 2, 3, 3, 4, 5];
    let found = [
        format!("{:?}", tests(group_kfold(&groups, 3, &mut draw(1)).unwrap())),
        format!("{:?}", group_holdout(&groups, 0.3, &mut draw(1)).unwrap().test),
        format!("{:?}", tests(stratified_kfold(&groups, 3, &mut draw(1)).unwrap())),
        format!("{:?}", stratified_holdout(&groups, 0.3, &mut draw(1)).unwrap().test),
        // As Python says: int.from_bytes(hashlib.sha256(b"7").digest()[:8]).
        key_hash("7").to_string(),
    ];
    insta::assert_snapshot!(found.join("\n"));
}

#[test]
fn impossible_splits_say_why() {
    let mut zero = |_| 0;
    let message = |found: Result<Vec<Fold>, stride_pipe::eval::EvalError>| found.unwrap_err().to_string();
    let one = |fold: Result<Fold, _>| fold.map(|fold| vec![fold]);
    let messages = [
        message(group_kfold(&[0, 0, 1], 3, &mut zero)),
        message(one(group_holdout(&[0, 0, 0], 0.5, &mut zero))),
        message(time_folds(&[1, 2, 3], 0, 3)),
        message(time_folds(&[1, 1, 1, 1, 2, 3], 0, 5)),
        message(time_folds(&[1, 2, 3, 4], 2, 2)),
        message(one(time_holdout(&[5, 5, 5], 0, 0.3))),
        message(one(hash_holdout(&[u64::MAX, u64::MAX - 1], 0.5))),
        message(one(hash_holdout(&[0, 1], 0.5))),
        message(stratified_kfold(&[0, 1], 3, &mut zero)),
    ];
    insta::assert_snapshot!(messages.join("\n"));
}
