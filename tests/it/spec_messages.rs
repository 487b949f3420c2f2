//! What people read when a pipeline file is wrong: every message with its place, all at once, exit code 78.

use crate::sandbox::{SMALL, Sandbox};
use insta::assert_snapshot;

/// The messages for a broken file; nothing may have been written.
#[track_caller]
fn messages(text: &str, arguments: &str) -> String {
    let sandbox = Sandbox::new();
    sandbox.write("broken.yaml", text);
    let ran = sandbox.run(&format!("run broken.yaml {arguments}"));
    assert_eq!((ran.code, ran.stdout.as_str()), (78, ""), "{}", ran.stderr);
    assert!(sandbox.files("results").is_empty());
    ran.stderr
}

#[track_caller]
fn broken(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from));
    messages(&SMALL.replace(from, to), "")
}

#[test]
fn many_problems_at_once() {
    assert_snapshot!(messages(
        "\
version: 1
name: Many Problems
sede: 7
params: { m: 50 }
stages:
  rows:
    ingest: { path: rows.parquet, features: a, taget: y }
  rows:
    ingest: { path: rows.parquet, features: [a] }
  folds:
    split: { input: model, kfold: { folds: 1 }, holdout: { test_fraction: 1.5 } }
  model:
    train: { input: fold, method: gpp, kernel: 3, ard: maybe, hyperparameters: { length: -1, optimise: [noize] } }
  Predictions:
    predict: { model: model, input: folds, intervals: [0.5, 2] }
  metrics:
    evaluate: { }
  extra:
    trian: { input: folds }
  number:
    train: { input: folds, method: gp, inducing: { count: '${params.n}', candidates: some } }
",
        ""
    ));
}

#[test]
fn unknown_key() {
    assert_snapshot!(broken("target: y", "target: y, tarjet: z"));
}

#[test]
fn wrong_type() {
    assert_snapshot!(broken("seed: 7", "seed: seven"));
}

#[test]
fn missing_key() {
    assert_snapshot!(broken("{ input: folds, method: gp }", "{ method: gp }"));
}

#[test]
fn unknown_reference() {
    assert_snapshot!(broken("path: rows.parquet", "path: '${params.path}/${env.STRIDE_TEST_UNSET}'"));
}

#[test]
fn bad_name() {
    assert_snapshot!(broken("name: small", "name: Small Thing"));
}

#[test]
fn forward_input() {
    assert_snapshot!(broken("{ input: rows, kfold", "{ input: metrics, kfold"));
}

#[test]
fn unknown_stage() {
    assert_snapshot!(broken("model: model", "model: modle"));
}

#[test]
fn duplicate_id() {
    assert_snapshot!(broken("  metrics:", "  folds:"));
}

#[test]
fn wrong_kind_of_input() {
    assert_snapshot!(broken("{ input: folds, method: gp }", "{ input: rows, method: gp }"));
}

#[test]
fn no_way_to_split() {
    assert_snapshot!(broken(", kfold: { folds: 5 }", ""));
}

#[test]
fn no_target() {
    assert_snapshot!(broken(", target: y", ""));
}

#[test]
fn not_yaml() {
    assert_snapshot!(broken("version: 1", "version: [1"));
}

#[test]
fn two_kinds_in_one_stage() {
    assert_snapshot!(broken(
        "    evaluate: { input: predictions }",
        "    evaluate: { input: predictions }\n    split: { input: rows, all: {} }"
    ));
}

#[test]
fn publish_of_many_models() {
    assert_snapshot!(broken("method: gp }", "method: gp, publish: models/x }"));
}

#[test]
fn set_unknown_things() {
    assert_snapshot!(messages(
        SMALL,
        "--set m=3 --set stages.modle.train.ard=true --set stages.model.train.adr=true --set name=x --set seed"
    ));
}

#[test]
fn matrix_mistakes() {
    let matrix = "matrix:\n  k: [rbf, rbf]\n  exclude: [{ kk: rbf }]\n  include: [{ j: 1 }]\nstages:\n";
    assert_snapshot!(broken("stages:\n", matrix));
}

#[test]
fn type_of_a_reference() {
    let text =
        SMALL.replace("folds: 5", "folds: '${matrix.k}'").replace("stages:\n", "matrix:\n  k: [5, many, 1]\nstages:\n");
    assert_snapshot!(messages(&text, ""));
}
