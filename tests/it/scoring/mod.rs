//! Scoring with a published model: the same bits however it is done, safe to repeat, refusing what it should.

mod alarm;
mod bits;
mod empty;
mod examples;
mod ipc;
mod kill;
mod origin;
mod pipelines;
mod refuse;
mod spark;

use crate::sandbox::Sandbox;
use arrow::array::{Array as _, ArrayRef, AsArray as _, Float64Array, Int64Array};
use arrow::datatypes::{Float64Type, Int64Type};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use stride_pipe::store::{open_batches, write_columns};

/// Exact process, quick to train and to score with.
pub const GP: &str = "method: gp";
/// A small deep one.
pub const STRIDE: &str = "method: stride, inducing: { count: 8 }, \
    em: { iterations: 1, particles: 2, sampler: { hmc: { transitions: 2, leapfrog: 2 } }, final_transitions: 0 }";

/// A sandbox with a model of the small data set in `models/m`.
pub fn published(method: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let text = format!(
        "version: 1\nname: train\nseed: 7\nstages:\n  rows:\n    ingest: {{ path: rows.parquet, key: id, features: [a, b], \
         target: y }}\n  everything:\n    split: {{ input: rows, all: {{}} }}\n  model:\n    \
         train: {{ input: everything, {method}, publish: models/m }}\n"
    );
    sandbox.write("train.yaml", &text);
    sandbox.run("run train.yaml --quiet").succeeded();
    sandbox
}

/// Row `i` of the data to score.
fn values(i: i64) -> (f64, f64) {
    ((i as f64 * 0.37).sin(), ((i * 37) % 17) as f64)
}

/// Writes these rows: key, a column to keep, features in another order than the model's, and one that it does not know.
pub fn rows(path: &Path, keys: impl IntoIterator<Item = i64>) {
    let keys: Vec<i64> = keys.into_iter().collect();
    let column =
        |value: fn(i64) -> f64| -> ArrayRef { Arc::new(keys.iter().map(|i| value(*i)).collect::<Float64Array>()) };
    let columns = vec![
        ("b", column(|i| values(i).1)),
        ("other", column(|i| i as f64)),
        ("id", Arc::new(Int64Array::from(keys.clone())) as ArrayRef),
        ("a", column(|i| values(i).0)),
    ];
    write_columns(path, columns).unwrap();
}

/// Everything in a Parquet file but its footer, which says when scores were made.
pub fn content(path: &Path) -> Vec<(String, ArrayRef)> {
    let (schema, batches) = open_batches(path).unwrap();
    let batches: Vec<_> = batches.map(Result::unwrap).collect();
    let whole = arrow::compute::concat_batches(&schema, &batches).unwrap();
    schema.fields().iter().zip(whole.columns()).map(|(field, column)| (field.name().clone(), column.clone())).collect()
}

/// Bits of mean and standard deviation by key; `None` where they are null.
pub type Scores = BTreeMap<i64, (Option<u64>, Option<u64>)>;

/// The scores in a file.
pub fn scores(path: &Path) -> Scores {
    let mut found = Scores::new();
    for batch in open_batches(path).unwrap().1 {
        let batch = batch.unwrap();
        let key = batch.column(0).as_primitive::<Int64Type>();
        let column = |name: &str| batch.column_by_name(name).unwrap().as_primitive::<Float64Type>().clone();
        let (mean, std) = (column("y_mean"), column("y_std"));
        let bits = |column: &Float64Array, row: usize| column.is_valid(row).then(|| column.value(row).to_bits());
        for row in 0..batch.num_rows() {
            assert!(found.insert(key.value(row), (bits(&mean, row), bits(&std, row))).is_none(), "a key twice");
        }
    }
    found
}
