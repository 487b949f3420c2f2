//! Ways of splitting, through the whole program: any column as a key, leaks, folds of folds.

use crate::sandbox::{SMALL, Sandbox};
use arrow::array::AsArray as _;
use arrow::array::{ArrayRef, Date32Array, Float64Array, Int64Array, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{Float64Type, Int32Type, Int64Type};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stride_pipe::store::{open_batches, write_columns};

const ROWS: i64 = 80;

/// Orders of 16 customers on 40 days, two a day.
fn orders() -> Vec<(&'static str, ArrayRef)> {
    let floats = |value: fn(i64) -> f64| Arc::new(Float64Array::from_iter_values((0..ROWS).map(value))) as ArrayRef;
    let customer = |row: i64| format!("c{}", (row * 7) % 16);
    let region = |row: i64| (row % 9 != 4).then_some(if row % 4 == 0 { "north" } else { "south" });
    vec![
        ("order", Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| 1000 + row)))),
        ("customer", Arc::new(StringArray::from_iter_values((0..ROWS).map(customer)))),
        ("number", Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| (row * 7) % 16)))),
        ("day", Arc::new(Date32Array::from_iter_values((0..ROWS).map(|row| 19_000 + row as i32 / 2)))),
        (
            "at",
            Arc::new(TimestampMillisecondArray::from_iter_values(
                (0..ROWS).map(|row| (19_000 + row / 2) * 86_400_000 + 3_600_000 * (row % 2)),
            )),
        ),
        ("iso", Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| format!("2024-01-{:02}", 1 + row / 4))))),
        ("region", Arc::new((0..ROWS).map(region).collect::<StringArray>())),
        ("a", floats(|row| (row as f64 * 0.37).sin())),
        ("b", floats(|row| row as f64 / 80.0)),
        ("y", floats(|row| (row as f64 * 0.1).sin() + row as f64 / 80.0)),
    ]
}

fn sandbox(columns: Vec<(&'static str, ArrayRef)>) -> Sandbox {
    let sandbox = Sandbox::new();
    write_columns(&sandbox.path("orders.parquet"), columns).unwrap();
    sandbox
}

/// The small pipeline on the orders, split in this way.
fn pipeline(sandbox: &Sandbox, split: &str) {
    let text = SMALL.replace("rows.parquet, key: id", "orders.parquet, key: order");
    sandbox.write("orders.yaml", &text.replace("kfold: { folds: 5 }", split));
}

/// Test rows of every fold of the only run.
fn tests(sandbox: &Sandbox) -> Vec<Vec<usize>> {
    let mut folds: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
    for file in sandbox.table_files("predictions") {
        for batch in open_batches(&file).unwrap().1.map(Result::unwrap) {
            let fold = batch.column_by_name("fold").unwrap().as_primitive::<Int32Type>();
            let row = batch.column_by_name("row").unwrap().as_primitive::<Int64Type>();
            for (fold, row) in fold.values().iter().zip(row.values()) {
                folds.entry(*fold).or_default().push(*row as usize);
            }
        }
    }
    folds.into_values().collect()
}

fn run(split: &str) -> (Vec<Vec<usize>>, String) {
    let sandbox = sandbox(orders());
    pipeline(&sandbox, split);
    let ran = sandbox.run("run orders.yaml").succeeded();
    (tests(&sandbox), ran.stderr)
}

#[test]
fn groups_are_whole_and_a_column_of_any_type() {
    let (folds, said) = run("group: { key: customer, folds: 4 }");
    assert_eq!(folds.len(), 4);
    assert_eq!(folds.iter().map(Vec::len).sum::<usize>(), ROWS as usize);
    let of = |rows: &Vec<usize>| rows.iter().map(|row| (row * 7) % 16).collect::<BTreeSet<_>>();
    let all: Vec<usize> = folds.iter().flat_map(of).collect();
    assert_eq!(all.len(), 16, "every customer is in one fold: {all:?}");
    assert!(!said.contains("test rows have"), "{said}");
    // The same groups as numbers are the same folds.
    assert_eq!(run("group: { key: number, folds: 4 }").0, folds);
    let (held, _) = run("group: { key: customer, test_fraction: 0.25, repeats: 3 }");
    assert_eq!(held.iter().map(Vec::len).collect::<Vec<_>>(), [20, 20, 20]);
    assert_ne!(held[0], held[1]);
}

#[test]
fn training_rows_come_before_test_rows() {
    let by_day = run("time: { key: day, folds: 3 }").0;
    let starts: Vec<usize> = by_day.iter().map(|rows| rows[0]).collect();
    assert_eq!(starts, [20, 40, 60]);
    assert!(by_day.iter().all(|rows| rows.len() == 20));
    assert_eq!(run("time: { key: at, folds: 3, gap: 7d }").0, by_day);
    assert_eq!(run("time: { key: number, test_fraction: 0.2, gap: 3 }").0[0].len(), 20);
    // Four rows have the same date: the first of them is where the test begins.
    assert_eq!(run("time: { key: iso, test_fraction: 0.25 }").0, [(60..80).collect::<Vec<_>>()]);
    let refused = |split: &str| {
        let sandbox = sandbox(orders());
        pipeline(&sandbox, split);
        let ran = sandbox.run("run orders.yaml --quiet");
        (ran.code, ran.stderr.lines().next().unwrap_or_default().to_owned())
    };
    insta::assert_debug_snapshot!([
        refused("time: { key: day, folds: 3, gap: 7 }"),
        refused("time: { key: number, folds: 3, gap: 7d }"),
        refused("time: { key: day, folds: 3, gap: 300d }"),
        refused("time: { key: a, folds: 3 }"),
        refused("time: { key: customer, folds: 3 }"),
        refused("time: { key: region, folds: 3 }"),
        refused("group: { key: region, folds: 2 }"),
        refused("group: { key: custumer, folds: 2 }"),
        refused("hash: { key: region, test_fraction: 0.5 }"),
        refused("kfold: { folds: 5 }, stratify: y"),
    ]);
}

/// The documented rule, which any other program can follow.
#[test]
fn the_hash_of_a_key_decides() {
    let is_test = |row: &usize| {
        let digest = Sha256::digest((1000 + row).to_string());
        (u64::from_be_bytes(digest[..8].try_into().unwrap()) as f64) < 0.3 * 2_f64.powi(64)
    };
    let expected: Vec<usize> = (0..ROWS as usize).filter(is_test).collect();
    assert_eq!(run("hash: { key: order, test_fraction: 0.3 }").0, std::slice::from_ref(&expected));
    // Whatever the seed, and in whatever type.
    let mut columns = orders();
    columns[0].1 = Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| (1000 + row).to_string())));
    let sandbox = sandbox(columns);
    pipeline(&sandbox, "hash: { key: order, test_fraction: 0.3 }");
    sandbox.run("run orders.yaml --set seed=99 --quiet").succeeded();
    assert_eq!(tests(&sandbox), [expected]);
}

#[test]
fn every_stratum_is_in_every_fold() {
    let (folds, said) = run("kfold: { folds: 4 }, stratify: region");
    let north = |rows: &Vec<usize>| rows.iter().filter(|row| *row % 4 == 0 && *row % 9 != 4).count();
    let expected = (0..ROWS as usize).filter(|row| row % 4 == 0 && row % 9 != 4).count();
    assert!(folds.iter().all(|rows| north(rows).abs_diff(expected / 4) <= 1), "{folds:?}");
    assert!(!said.contains("fewer than"), "{said}");
    let (held, _) = run("holdout: { test_fraction: 0.25, repeats: 2 }, stratify: { column: y, quantiles: 4 }");
    let y = |row: usize| (row as f64 * 0.1).sin() + row as f64 / 80.0;
    let mut order: Vec<usize> = (0..ROWS as usize).collect();
    order.sort_by(|left, right| y(*left).total_cmp(&y(*right)));
    assert_eq!(held.len(), 2);
    for quarter in order.chunks(20) {
        assert!(held.iter().all(|rows| rows.iter().filter(|row| quarter.contains(row)).count() == 5), "{held:?}");
    }
    let (_, said) = run("kfold: { folds: 10 }, stratify: region");
    assert!(said.contains("1 of 3 values of `region` have fewer than 10 rows"), "{said}");
}

#[test]
fn columns_that_divide_rows_are_no_features_unless_named() {
    let sandbox = sandbox(orders());
    for (split, features) in [
        ("group: { key: number, folds: 4 }", "a, b"),
        ("time: { key: number, folds: 2 }", "a, b"),
        ("kfold: { folds: 2 }, stratify: number", "number, a, b"),
    ] {
        pipeline(&sandbox, split);
        let text = std::fs::read_to_string(sandbox.path("orders.yaml")).unwrap();
        let text = text.replace("features: [a, b]", "features: ['*'], exclude: [day, at, iso, region, customer]");
        sandbox.write("orders.yaml", &text);
        let shown = sandbox.run("validate orders.yaml --data").succeeded().stdout;
        let named =
            shown.lines().filter(|line| line.contains("  feature  ")).filter_map(|line| line.split_whitespace().next());
        assert_eq!(named.collect::<Vec<_>>().join(", "), features, "{shown}");
    }
}

#[test]
fn what_is_shown_of_the_data() {
    let sandbox = sandbox(orders());
    pipeline(&sandbox, "time: { key: day, folds: 3, gap: 7d }");
    let shown = sandbox.run("validate orders.yaml --data").succeeded().stdout;
    assert!(shown.contains("day     split    Date32"), "{shown}");
    assert!(shown.contains("2022-01-08 to 2022-02-16"), "{shown}");
    assert!(shown.contains("split: 3 fold(s): 6 to 46 training rows, 20 test rows"), "{shown}");
    pipeline(&sandbox, "group: { key: customer, folds: 4 }");
    let shown = sandbox.run("validate orders.yaml --data").succeeded().stdout;
    assert!(shown.contains("c0 5, c1 5"), "{shown}");
}

/// A copy of a row under another key, planted on purpose.
#[test]
fn leaks_are_reported_once() {
    let mut columns = orders();
    for name in ["a", "b"] {
        let column = columns.iter_mut().find(|(known, _)| *known == name).unwrap();
        let values = column.1.as_primitive::<Float64Type>().clone();
        // Zero has two signs and is one number.
        let changed = |row: usize| match row {
            3 => 0.0,
            70 => -0.0,
            _ => values.value(row),
        };
        column.1 = Arc::new(Float64Array::from_iter_values((0..values.len()).map(changed)));
    }
    let leaking = sandbox(columns);
    pipeline(&leaking, "time: { key: day, test_fraction: 0.25 }");
    let warning = "folds: 1 of 20 test rows have the same features as a training row of their fold";
    let first = leaking.run("run orders.yaml").succeeded();
    assert_eq!(first.stderr.matches(warning).count(), 1, "{}", first.stderr);
    // Said again where nothing is done again, and before anything is done.
    let again = leaking.run("run orders.yaml").succeeded();
    assert_eq!(again.stderr.matches(warning).count(), 1, "{}", again.stderr);
    assert!(leaking.run("validate orders.yaml --data").succeeded().stdout.contains("1 of 20 test rows have the same"));
    let honest = run("time: { key: day, test_fraction: 0.25 }").1;
    assert!(!honest.contains("test rows have"), "{honest}");
}

/// Settings are chosen on rows that the outer folds train on, so that their test rows stay unseen.
#[test]
fn training_rows_are_divided_again() {
    let sandbox = sandbox(orders());
    let text = SMALL.replace("rows.parquet, key: id", "orders.parquet, key: order");
    let nested = "split: { input: rows, group: { key: customer, folds: 2 } }\n  inner:\n    \
                  split: { input: folds, holdout: { test_fraction: 0.25, repeats: 2 } }";
    let text = text.replace("split: { input: rows, kfold: { folds: 5 } }", nested);
    let text = text.replace("train: { input: folds", "train: { input: inner");
    sandbox.write("orders.yaml", &text.replace("model: model, input: folds", "model: model, input: inner"));
    sandbox.run("run orders.yaml").succeeded();
    let inner = tests(&sandbox);
    let (outer, _) = run("group: { key: customer, folds: 2 }");
    assert_eq!(inner.len(), 4);
    for (number, rows) in inner.iter().enumerate() {
        let unseen: BTreeSet<&usize> = outer[number / 2].iter().collect();
        assert_eq!(rows.len(), 10);
        assert!(rows.iter().all(|row| !unseen.contains(row)), "fold {number}");
    }
    assert_ne!(inner[0], inner[1]);
}
