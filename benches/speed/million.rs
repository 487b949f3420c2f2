//! A million rows through the real program: two EM iterations with 100 inducing points and four chains, time and memory.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array};
use stride_pipe::store::write_columns;

use crate::common::watch;
use crate::problem::{FEATURES, data};

const ROWS: usize = 1_000_000;
const SAMPLER: &str = "{ hmc: { transitions: 2, leapfrog: 4 } }";

fn prepare(directory: &Path) {
    let (x, y) = data(ROWS);
    let names: Vec<String> = (0..FEATURES).map(|column| format!("f{column:02}")).collect();
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("row_id", Arc::new(Int64Array::from_iter_values(0..ROWS as i64))),
        ("y", Arc::new(Float64Array::from(y.to_vec()))),
    ];
    for (name, column) in names.iter().zip(x.columns()) {
        columns.push((name, Arc::new(Float64Array::from(column.to_vec()))));
    }
    write_columns(&directory.join("rows.parquet"), columns).unwrap();
    let mut text = String::from("version: 1\nname: million\nstages:\n");
    text.push_str("  rows:\n    ingest: { path: rows.parquet, key: row_id, features: ['f*'], target: y }\n");
    text.push_str("  folds:\n    split: { input: rows, holdout: { test_fraction: 0.01 } }\n");
    text.push_str("  model:\n    train:\n      { input: folds, method: stride, inducing: { count: 100 },\n");
    writeln!(text, "        em: {{ iterations: 2, particles: 4, final_transitions: 0, sampler: {SAMPLER} }} }}")
        .unwrap();
    text.push_str("  predictions:\n    predict: { model: model, input: folds }\n");
    text.push_str("  metrics:\n    evaluate: { input: predictions }\n");
    std::fs::write(directory.join("million.yaml"), text).unwrap();
}

pub fn report() {
    println!("million: {ROWS} rows × {FEATURES}, m = 100, 4 chains, two EM iterations, {SAMPLER}");
    let directory = tempfile::tempdir().unwrap();
    prepare(directory.path());
    let mut command = Command::new(env!("CARGO_BIN_EXE_stride-pipe"));
    let (seconds, peak) = watch(command.args(["run", "million.yaml", "--quiet"]).current_dir(directory.path()));
    let gigabytes = peak as f64 / f64::from(1 << 30);
    println!("{seconds:.0} s in all, peak memory {gigabytes:.2} GiB (limit 8)");
    assert!(gigabytes < 8.0, "more than 8 GiB of memory");
}
