//! Features and targets that do not vary: they ruin nothing, and are named.

use crate::sandbox::{SMALL, Sandbox};
use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};
use std::sync::Arc;
use stride_pipe::store::{read_table, write_columns};
use stride_pipe::tables::MetricRow;

/// 60 rows of a wave over `a`; `c` and `y` by row, where every third row is a test row.
fn data(sandbox: &Sandbox, c: impl Fn(bool) -> f64, y: impl Fn(usize, bool) -> f64) {
    let is_test = |row: usize| row.is_multiple_of(3);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..60))),
        ("a", Arc::new(Float64Array::from_iter_values((0..60).map(|row| f64::from(row) / 10.0)))),
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
            let expected = "model / fold 0 (of 1): constant in the training rows: c;";
            let ran = sandbox.run("run flat.yaml --quiet").succeeded();
            assert!(ran.stderr.contains(expected), "{value} {scale}: {}", ran.stderr);
            assert!(smse(&sandbox) < 0.05, "{value} {scale}: {}", smse(&sandbox));
            // Said again when the model comes from the cache.
            let again = sandbox.run("run flat.yaml --quiet").succeeded();
            assert!(again.stderr.contains(expected), "{value} {scale}: {}", again.stderr);
            let seen = sandbox.run("validate flat.yaml --data").succeeded();
            assert!(
                seen.stdout.contains("warning: fold 0 (of 1): constant in the training rows: c;"),
                "{}",
                seen.stdout
            );
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

/// 40 rows with a number of the row, an index that pandas left, counts that repeat, and the same noise everywhere.
fn numbered(sandbox: &Sandbox) {
    let rows = || 0..40_i64;
    let noise = |row: i64| 50.0 * (((row * 7919) % 13) as f64 - 6.0) / 6.0;
    let target = rows().map(|row| 3000.0 * (row as f64 / 8.0).sin() + noise(row));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("row_id", Arc::new(Int64Array::from_iter_values(rows().map(|row| 1000 + 3 * row)))),
        ("a", Arc::new(Float64Array::from_iter_values(rows().map(|row| row as f64 / 8.0)))),
        ("rooms", Arc::new(Int64Array::from_iter_values(rows().map(|row| row % 5)))),
        ("__index_level_0__", Arc::new(Int64Array::from_iter_values(rows().map(|row| row / 2)))),
        ("y", Arc::new(Float64Array::from_iter_values(target))),
    ];
    write_columns(&sandbox.path("numbered.parquet"), columns).unwrap();
}

fn ingest(sandbox: &Sandbox, options: &str) {
    let text =
        SMALL.replace("path: rows.parquet, key: id, features: [a, b]", &format!("path: numbered.parquet, {options}"));
    sandbox.write("x.yaml", &text);
}

#[test]
fn numbers_of_rows_among_the_features_are_named_and_can_be_excluded() {
    let sandbox = Sandbox::new();
    numbered(&sandbox);
    for (options, named) in [
        ("features: ['*']", "feature(s) row_id, __index_level_0__ look like numbers of rows"),
        ("features: ['*'], key: row_id", "feature(s) __index_level_0__ look like numbers of rows"),
        ("features: ['*'], exclude: ['__*']", "feature(s) row_id look like numbers of rows"),
        ("features: ['*'], exclude: ['__*', row_id]", ""),
        ("features: [row_id, a]", ""),
        ("features: [row_id, 'a*'], exclude: ['*id']", ""),
    ] {
        ingest(&sandbox, options);
        let seen = sandbox.run("validate x.yaml --data").succeeded().stdout;
        let ran = sandbox.run("run x.yaml --quiet --to folds").succeeded().stderr;
        for said in [&seen, &ran] {
            assert_eq!(said.contains("look like numbers of rows"), !named.is_empty(), "{options}: {said}");
            assert!(said.contains(named), "{options}: {said}");
        }
    }
    ingest(&sandbox, "features: ['*'], exclude: ['__*', row_id]");
    let seen = sandbox.run("validate x.yaml --data").succeeded().stdout;
    assert!(seen.contains("rooms") && !seen.contains("row_id") && !seen.contains("__index"), "{seen}");
    sandbox.run("run x.yaml --quiet --to folds").succeeded();
    let plan = sandbox.run("plan x.yaml --set stages.rows.ingest.exclude=[rooms]").succeeded().stdout;
    assert!(plan.contains("exclude changed"), "{plan}");
    ingest(&sandbox, "features: ['r*'], exclude: ['r*']");
    let refused = sandbox.run("run x.yaml --quiet");
    assert!(refused.code == 65 && refused.stderr.contains("no column matches `r*`"), "{}", refused.stderr);
}

/// A noise of 30 in the units of a target of thousands: held, it is what the model says.
#[test]
fn known_noise_is_written_in_the_units_of_the_target() {
    let sandbox = Sandbox::new();
    numbered(&sandbox);
    ingest(&sandbox, "features: [a]");
    let text = std::fs::read_to_string(sandbox.path("x.yaml")).unwrap();
    for method in ["gp", "sparse_gp"] {
        let known = format!("method: {method}, hyperparameters: {{ noise_std: 30, optimise: [variance, length] }}");
        sandbox.write("x.yaml", &text.replace("method: gp", &known));
        sandbox.run("run x.yaml --quiet").succeeded();
        let predictions = sandbox.table_files("predictions");
        let block = stride_pipe::store::read_predictions(predictions.last().unwrap()).unwrap();
        let noise = block.noise_std.unwrap();
        assert!(noise.iter().all(|noise| (noise - 30.0).abs() < 1e-9), "{noise:?}");
        assert!(smse(&sandbox) < 0.05, "{}", smse(&sandbox));
    }
    sandbox.write("x.yaml", &text.replace("method: gp", "method: gp, hyperparameters: { noise: 1, noise_std: 30 }"));
    let refused = sandbox.run("validate x.yaml");
    assert_eq!(refused.code, 78);
    assert!(refused.stderr.contains("`noise` and `noise_std` exclude each other"), "{}", refused.stderr);
}
