//! `ard: true` of deep models: features are divided by lengths of their own before training.

use crate::sandbox::Sandbox;
use arrow::array::{ArrayRef, AsArray as _, Float64Array, Int64Array, StringArray};
use arrow::datatypes::Float64Type;
use std::sync::Arc;
use stride_pipe::store::{ModelFile, ModelMeta, open_batches, read_known, write_columns};
use stride_pipe::tables::MetricRow;

const ROWS: usize = 240;
const FEATURES: usize = 4;

/// Uniform on (−1, 1), and nothing to do with other features.
fn feature(row: usize, column: usize) -> f64 {
    let mut state = (row * FEATURES + column) as u64 + 1;
    for _ in 0..3 {
        state = (state ^ (state >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

/// The first feature matters most, the second a little, the others not at all.
fn target(row: usize) -> f64 {
    (5.0 * feature(row, 0)).sin() + 0.5 * feature(row, 1) + 0.02 * feature(row, FEATURES)
}

fn write(sandbox: &Sandbox, name: &str, value: &dyn Fn(usize, usize) -> f64) {
    let part = (0..ROWS).map(|row| if row % 4 == 0 { "test" } else { "train" });
    let names: Vec<String> = (0..FEATURES).map(|column| format!("x{column}")).collect();
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..ROWS as i64))),
        ("y", Arc::new(Float64Array::from_iter_values((0..ROWS).map(target)))),
        ("part", Arc::new(StringArray::from_iter_values(part))),
    ];
    for (column, name) in names.iter().enumerate() {
        columns.push((name, Arc::new(Float64Array::from_iter_values((0..ROWS).map(|row| value(row, column))))));
    }
    write_columns(&sandbox.path(name), columns).unwrap();
}

/// Trains on a file; test error and means.
fn train(sandbox: &Sandbox, file: &str, options: &str) -> (f64, Vec<f64>) {
    let text = format!(
        "version: 1\nname: ard\nseed: 3\nstages:\n  rows:\n    ingest: {{ path: {file}, key: id, features: ['x*'], target: y }}\n  \
         parts:\n    split: {{ input: rows, column: {{ name: part, test: test }} }}\n  model:\n    train: {{ input: parts, publish: \
         models/m, {options} }}\n  predictions:\n    predict: {{ model: model, input: parts }}\n  metrics:\n    evaluate: {{ \
         input: predictions }}\n"
    );
    sandbox.write("ard.yaml", &text);
    sandbox.run("run ard.yaml --quiet").succeeded();
    let rows: Vec<MetricRow> = read_known(sandbox.table_files("metrics").last().unwrap()).unwrap();
    let smse = rows.iter().find(|row| row.metric == "smse" && row.stat == "value").unwrap().value.unwrap();
    let (_, batches) = open_batches(sandbox.table_files("predictions").last().unwrap()).unwrap();
    let means = batches
        .flat_map(|batch| {
            let batch = batch.unwrap();
            batch.column_by_name("y_mean").unwrap().as_primitive::<Float64Type>().values().to_vec()
        })
        .collect();
    (smse, means)
}

fn model(sandbox: &Sandbox) -> ModelMeta {
    ModelFile::load(&sandbox.path("models/m/model.safetensors")).unwrap().meta
}

const STRIDE: &str = "method: stride, inducing: { count: 30 }, deep: { hidden: { rank: 20 } }, \
    em: { iterations: 3, particles: 2, final_transitions: 10, sampler: { hmc: { transitions: 6, leapfrog: 6 } } }";

/// Relevance is the inverse of the lengths of an exact process, but for a common factor; and it pays.
#[test]
fn features_that_do_not_matter_are_told_apart() {
    let sandbox = Sandbox::new();
    write(&sandbox, "own.parquet", &|row, column| feature(row, column) * 10_f64.powi(column as i32));
    train(&sandbox, "own.parquet", "method: gp, ard: true");
    let lengths = model(&sandbox).hyperparameters;
    let length = |column: usize| lengths[&format!("length[x{column}]")];
    for options in
        [STRIDE.to_owned(), "method: deep_gp, em: { iterations: 2, particles: 2, final_transitions: 0 }".to_owned()]
    {
        let (plain, _) = train(&sandbox, "own.parquet", &options);
        assert!(model(&sandbox).feature_scaling.relevance.is_empty());
        let scale = model(&sandbox).feature_scaling.scale;
        let (told_apart, _) = train(&sandbox, "own.parquet", &format!("{options}, ard: true"));
        assert!(told_apart < 0.5 * plain, "{options}: {told_apart} with lengths, {plain} without");
        let scaling = model(&sandbox).feature_scaling;
        let relevance = &scaling.relevance;
        let ratio = (relevance[0] / relevance[1]) / (length(1) / length(0));
        assert!((ratio - 1.0).abs() < 0.02, "{relevance:?} {lengths:?}");
        assert!(relevance[2].max(relevance[3]) < 0.1 * relevance[1], "{relevance:?}");
        // What rows are divided by is the deviation over the relevance.
        for ((found, scale), relevance) in scaling.scale.iter().zip(&scale).zip(relevance) {
            assert!((found * relevance / scale - 1.0).abs() < 1e-12);
        }
    }
}

/// The model is that of rows which somebody else has scaled.
#[test]
fn features_are_scaled_and_nothing_else_changes() {
    let sandbox = Sandbox::new();
    write(&sandbox, "own.parquet", &feature);
    // Nothing random: points are given, and chains stay where they start.
    let points: Vec<String> = (0..ROWS).filter(|row| row % 4 != 0).step_by(6).map(|row| row.to_string()).collect();
    let still = format!(
        "method: stride, calibrate: none, inducing: {{ rows: [{}] }}, deep: {{ prior_mean: identity, hidden: {{ method: full }} }}, \
         em: {{ iterations: 1, particles: 1, final_transitions: 0, sampler: {{ hmc: {{ transitions: 0 }} }} }}",
        points.join(", ")
    );
    let (_, expected) = train(&sandbox, "own.parquet", &format!("{still}, ard: true"));
    let scaling = model(&sandbox).feature_scaling;
    write(&sandbox, "scaled.parquet", &|row, column| {
        (feature(row, column) - scaling.centre[column]) / scaling.scale[column]
    });
    let (_, found) = train(&sandbox, "scaled.parquet", &format!("{still}, scale: {{ features: none }}"));
    for (found, expected) in found.iter().zip(&expected) {
        // Hyper-parameters are searched for, and end where rounding leads them.
        assert!((found - expected).abs() < 1e-4, "{found} {expected}");
    }
}

/// A start from a published model keeps what is known.
#[test]
fn a_start_keeps_the_relevance() {
    let sandbox = Sandbox::new();
    write(&sandbox, "own.parquet", &feature);
    let options = format!("{STRIDE}, ard: true");
    train(&sandbox, "own.parquet", &options);
    let before = model(&sandbox).feature_scaling.relevance;
    // Other targets would have other lengths.
    write(&sandbox, "own.parquet", &|row, column| feature(row, FEATURES - 1 - column));
    train(&sandbox, "own.parquet", &format!("{options}, start_from: models/m"));
    assert_eq!(model(&sandbox).feature_scaling.relevance, before);
}
