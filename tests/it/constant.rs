//! Features and targets that do not vary: they ruin nothing, and are named.

use crate::sandbox::{SMALL, Sandbox};
use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};
use std::sync::Arc;
use stride_pipe::store::{read_table, write_columns};
use stride_pipe::tables::MetricRow;

/// 60 rows of a wave over `a`; `c` and `y` by row, where every third row is a test row.
fn data(sandbox: &Sandbox, c: impl Fn(bool) -> f64, y: impl Fn(usize, bool) -> f64) {
    let is_test = |row: usize| row % 3 == 0;
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..60))),
        ("a", Arc::new(Float64Array::from_iter_values((0..60).map(|row| row as f64 / 10.0)))),
        ("c", Arc::new(Float64Array::from_iter_values((0..60).map(|row| c(is_test(row)))))),
        ("y", Arc::new(Float64Array::from_iter_values((0..60).map(|row| y(row, is_test(row)))))),
        (
            "half",
            Arc::new(StringArray::from_iter_values((0..60).map(|row| if is_test(row) { "test" } else { "train" }))),
        ),
    ];
    write_columns(&sandbox.path("flat.parquet"), columns).unwrap();
    let text = SMALL
        .replace("rows.parquet", "flat.parquet")
        .replace("[a, b]", "[a, c]")
        .replace("kfold: { folds: 5 }", "column: { name: half, test: test }");
    sandbox.write("flat.yaml", &text);
}

fn wave(row: usize, _: bool) -> f64 {
    (row as f64 / 10.0).sin()
}

fn smse(sandbox: &Sandbox) -> f64 {
    let rows: Vec<MetricRow> = read_table(sandbox.table_files("metrics").last().unwrap()).unwrap();
    rows.iter().find(|row| row.metric == "smse" && row.fold == Some(0)).unwrap().value.unwrap()
}

/// The mean of forty times 0.1 is not 0.1: what is left must not become the unit.
#[test]
fn a_constant_feature_ruins_no_prediction() {
    for value in [0.1, 0.3, 0.5, 0.7, 19.99] {
        for scale in ["column", "global"] {
            let sandbox = Sandbox::new();
            data(&sandbox, |is_test| if is_test { 1.001 * value } else { value }, wave);
            let text = std::fs::read_to_string(sandbox.path("flat.yaml")).unwrap();
            let scaled = format!("method: gp, scale: {{ features: {scale} }}");
            sandbox.write("flat.yaml", &text.replace("method: gp", &scaled));
            let expected = "model / fold 1 of 1: constant in the training rows: c;";
            let ran = sandbox.run("run flat.yaml --quiet").succeeded();
            assert!(ran.stderr.contains(expected), "{value} {scale}: {}", ran.stderr);
            assert!(smse(&sandbox) < 0.05, "{value} {scale}: {}", smse(&sandbox));
            // Said again when the model comes from the cache.
            let again = sandbox.run("run flat.yaml --quiet").succeeded();
            assert!(again.stderr.contains(expected), "{value} {scale}: {}", again.stderr);
            let seen = sandbox.run("validate flat.yaml --data").succeeded();
            assert!(seen.stdout.contains("warning: fold 1 of 1: constant in the training rows: c;"), "{}", seen.stdout);
        }
    }
}

#[test]
fn a_target_that_is_constant_in_the_training_rows_is_named() {
    let sandbox = Sandbox::new();
    data(&sandbox, |is_test| f64::from(u8::from(is_test)), |row, is_test| if is_test { row as f64 } else { 0.1 });
    let expected = "the target is constant in the training rows";
    let ran = sandbox.run("run flat.yaml --quiet").succeeded();
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    let seen = sandbox.run("validate flat.yaml --data").succeeded();
    assert!(seen.stdout.contains(expected), "{}", seen.stdout);
}

/// What is constant in the whole input is said once, by the stage that reads it, also when all of it is cached.
#[test]
fn constant_columns_are_named_in_cached_runs_too() {
    let sandbox = Sandbox::new();
    data(&sandbox, |_| 0.1, wave);
    for _ in 0..2 {
        let ran = sandbox.run("run flat.yaml --quiet").succeeded();
        assert_eq!(ran.stderr.matches("rows: constant column(s) c say nothing").count(), 1, "{}", ran.stderr);
        assert!(!ran.stderr.contains("in the training rows"), "{}", ran.stderr);
    }
}
