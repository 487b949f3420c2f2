//! `validate --data`: what it shows, and that it refuses what a run would refuse.

use crate::sandbox::{SMALL, Sandbox};
use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};
use insta::assert_snapshot;
use std::sync::Arc;
use stride_pipe::store::write_columns;

/// Nulls, NaN and infinities, a constant column, repeated keys.
fn poor_data(sandbox: &Sandbox) {
    let x = [Some(1.0), None, Some(f64::NAN), Some(f64::INFINITY), None, Some(-2.5)];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3, 3, 4, 5]))),
        ("a", Arc::new(Float64Array::from(x.to_vec()))),
        ("b", Arc::new(Float64Array::from(vec![4.0; 6]))),
        ("y", Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0, 4.0, 5.0, 1e12]))),
        ("half", Arc::new(StringArray::from(vec![Some("train"), None, None, Some("train"), Some("x"), Some("y")]))),
    ];
    write_columns(&sandbox.path("poor.parquet"), columns).unwrap();
}

#[test]
fn shows_the_data() {
    let sandbox = Sandbox::new();
    let before = sandbox.files(".");
    assert_snapshot!("inspect", sandbox.run("validate small.yaml --data").succeeded().stdout);
    let by_column = SMALL.replace("kfold: { folds: 5 }", "column: { name: half, test: test }");
    sandbox.write("small.yaml", &by_column);
    assert_snapshot!("inspect_column", sandbox.run("validate small.yaml --data").succeeded().stdout);
    assert_eq!(sandbox.files("."), before, "nothing is written");
}

#[test]
fn refuses_what_training_refuses() {
    let sandbox = Sandbox::new();
    poor_data(&sandbox);
    sandbox.write("poor.yaml", &SMALL.replace("rows.parquet", "poor.parquet").replace("folds: 5", "folds: 7"));
    let ran = sandbox.run("validate poor.yaml --data");
    assert_eq!(ran.code, 65);
    assert_snapshot!("inspect_poor", format!("{}--- stderr\n{}", ran.stdout, ran.stderr));
    let by_column =
        SMALL.replace("rows.parquet", "poor.parquet").replace("kfold: { folds: 5 }", "column: { name: half, test: t }");
    sandbox.write("poor.yaml", &by_column);
    let ran = sandbox.run("validate poor.yaml --data");
    assert!(ran.code == 65 && ran.stderr.contains("no row has the value `t`"), "{}", ran.stderr);
    assert!(ran.stdout.contains("null 2, train 2, x 1, y 1"), "{}", ran.stdout);
}

#[test]
fn exit_codes_are_those_of_a_run() {
    let sandbox = Sandbox::new();
    for (from, to, code) in [
        ("rows.parquet", "gone.parquet", 66),
        ("rows.parquet", "small.yaml", 65),
        ("features: [a, b]", "features: [a, bb]", 65),
        ("features: [a, b]", "features: [{ name: half, kind: number }]", 65),
        ("folds: 5", "folds: 61", 65),
        ("features: [a, b]", "features: [a]", 0),
    ] {
        sandbox.write("x.yaml", &SMALL.replace(from, to));
        let ran = sandbox.run("validate x.yaml --data");
        assert_eq!(ran.code, code, "{to}: {}", ran.stderr);
        if code != 0 {
            assert_eq!(sandbox.run("run x.yaml --quiet").code, code, "{to}");
            assert_eq!(sandbox.run("validate x.yaml").code, 0, "{to}: without --data the data are not looked at");
        }
    }
}

#[test]
fn cases_that_read_the_same_are_shown_once() {
    let sandbox = Sandbox::new();
    let matrix = "matrix: { kernel: [rbf, matern32] }\nstages:";
    sandbox.write(
        "m.yaml",
        &SMALL.replace("stages:", matrix).replace("method: gp", "method: gp, kernel: '${matrix.kernel}'"),
    );
    let ran = sandbox.run("validate m.yaml --data").succeeded();
    assert_eq!(ran.stdout.matches("rows.parquet").count(), 1, "{}", ran.stdout);
    let matrix = "matrix: { file: [rows, gone] }\nstages:";
    sandbox.write("m.yaml", &SMALL.replace("stages:", matrix).replace("rows.parquet", "'${matrix.file}.parquet'"));
    let ran = sandbox.run("validate m.yaml --data");
    assert_eq!(ran.code, 66);
    assert!(ran.stdout.contains("rows: rows.parquet (file=rows)"), "{}", ran.stdout);
}

#[test]
fn many_features_are_folded() {
    let sandbox = Sandbox::new();
    let names: Vec<String> = (0..60).map(|index| format!("f{index:02}")).collect();
    let value = |index: usize, row: usize| if index == 7 { 1.0 } else { (row * (index + 1)) as f64 };
    let mut columns: Vec<(&str, ArrayRef)> =
        vec![("y", Arc::new(Float64Array::from_iter_values((0..20).map(f64::from))))];
    for (index, name) in names.iter().enumerate() {
        columns.push((name, Arc::new(Float64Array::from_iter_values((0..20).map(|row| value(index, row))))));
    }
    write_columns(&sandbox.path("wide.parquet"), columns).unwrap();
    sandbox
        .write("x.yaml", &SMALL.replace("rows.parquet, key: id, features: [a, b]", "wide.parquet, features: ['f*']"));
    assert_snapshot!("inspect_wide", sandbox.run("validate x.yaml --data").succeeded().stdout);
}

#[test]
fn published_models_are_looked_at() {
    let sandbox = Sandbox::new();
    let publish =
        SMALL.replace("kfold: { folds: 5 }", "all: {}").replace("method: gp", "method: gp, publish: models/small");
    let publish = publish.split("  predictions:").next().unwrap();
    sandbox.write("publish.yaml", publish);
    let score = "version: 1\nname: score\nstages:\n  batch:\n    ingest: { path: rows.parquet, features: [a, b] }\n  \
                 scores:\n    predict: { model: ./models/small, input: batch }\n";
    sandbox.write("score.yaml", score);
    assert_eq!(sandbox.run("validate score.yaml --data").code, 66, "there is no model yet");
    sandbox.run("run publish.yaml").succeeded();
    sandbox.run("validate score.yaml --data").succeeded();
    sandbox.write("score.yaml", &score.replace("[a, b]", "[a]"));
    let ran = sandbox.run("validate score.yaml --data");
    assert!(ran.code == 65 && ran.stderr.contains("needs the feature(s) b"), "{}", ran.stderr);
}
