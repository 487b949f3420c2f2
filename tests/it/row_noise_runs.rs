//! `weight` and `noise_std` with every method that takes them, by the real program: runs, published models, caches, resumed.

use crate::deep_runs::checkpoint;
use crate::resume::{contents, start};
use crate::sandbox::Sandbox;
use arrow::array::{ArrayRef, AsArray as _, Float64Array, Int64Array};
use arrow::datatypes::{Float64Type, Int64Type};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stride_pipe::gp::random::{StreamKey, standard_normal, uniform};
use stride_pipe::store::{ModelFile, open_batches, read_predictions, read_table, write_columns};
use stride_pipe::tables::TimingRow;

const ROWS: usize = 150;
const EM: &str = "em: { iterations: 2, particles: 2, exchanges: 1, sampler: { hmc: { transitions: 3, leapfrog: 3 } }, \
                  final_transitions: 5, climb: 3 }";

fn prepared() -> Sandbox {
    let sandbox = Sandbox::new();
    let mut rng = StreamKey::new(3).generator();
    let (mut f1, mut f2, mut y, mut w, mut s) = (vec![], vec![], vec![], vec![], vec![]);
    for row in 0..ROWS {
        let (a, b) = (6.0 * uniform(&mut rng), uniform(&mut rng));
        let (weight, std) = ([1.0, 4.0, 0.5][row % 3], [0.01, 0.8][row % 2]);
        f1.push(a);
        f2.push(b);
        y.push(a.sin() + b + std * standard_normal(&mut rng) + 0.1 * standard_normal(&mut rng) / f64::sqrt(weight));
        w.push(weight);
        s.push(std);
    }
    let other: Vec<f64> = s.iter().map(|std| 0.5 * std).collect();
    let mut columns: Vec<(&str, ArrayRef)> = vec![("id", Arc::new(Int64Array::from_iter_values(0..ROWS as i64)))];
    for (name, values) in [("f1", f1), ("f2", f2), ("y", y), ("w", w), ("s", s), ("half", other)] {
        columns.push((name, Arc::new(Float64Array::from(values))));
    }
    write_columns(&sandbox.path("rows.parquet"), columns).unwrap();
    sandbox
}

fn write(sandbox: &Sandbox, columns: &str, method: &str) {
    sandbox.write(
        "noisy.yaml",
        &format!(
            "version: 1\nname: noisy\nseed: 5\nstages:\n  rows:\n    ingest: {{ path: rows.parquet, key: id, features: [f1, \
             f2], target: y{columns} }}\n  folds:\n    split: {{ input: rows, holdout: {{ test_fraction: 0.2 }} }}\n  model:\n    \
             train: {{ input: folds, {method}, publish: model }}\n  predictions:\n    predict: {{ model: model, input: folds \
             }}\n  metrics:\n    evaluate: {{ input: predictions }}\n"
        ),
    );
}

fn methods() -> [(&'static str, String); 5] {
    [
        ("stride", format!("method: stride, inducing: {{ count: 12 }}, {EM}")),
        (
            "convolution",
            format!("method: stride, inducing: {{ count: 12 }}, deep: {{ architecture: convolution }}, {EM}"),
        ),
        ("neighbours", format!("method: stride, top: {{ neighbours: 8 }}, {EM}")),
        ("sparse_gp", "method: sparse_gp, inducing: { count: 12 }".to_owned()),
        ("deep_gp", format!("method: deep_gp, {EM}")),
    ]
}

fn scored(sandbox: &Sandbox) -> BTreeMap<i64, [f64; 3]> {
    sandbox.run("score --model model --key id --input rows.parquet --output scores.parquet --quiet").succeeded();
    let mut all = BTreeMap::new();
    for batch in open_batches(&sandbox.path("scores.parquet")).unwrap().1 {
        let batch = batch.unwrap();
        let number = |name: &str| batch.column_by_name(name).unwrap().as_primitive::<Float64Type>().clone();
        let keys = batch.column_by_name("id").unwrap().as_primitive::<Int64Type>().clone();
        let columns = ["y_mean", "y_std", "noise_std"].map(number);
        all.extend((0..batch.num_rows()).map(|row| (keys.value(row), [0, 1, 2].map(|c: usize| columns[c].value(row)))));
    }
    all
}

fn trained_again(sandbox: &Sandbox) -> bool {
    let timings: Vec<TimingRow> = read_table(sandbox.table_files("timings").last().unwrap()).unwrap();
    timings.iter().any(|row| row.stage == "model" && row.phase == "offline" && !row.cached)
}

/// A published model says what the run's own predictions say, and columns are in the keys of caches.
#[test]
fn every_method_takes_weights_and_known_noise() {
    for (name, method) in methods() {
        let sandbox = prepared();
        let mut seen: Vec<BTreeMap<i64, [f64; 3]>> = Vec::new();
        for columns in ["", ", weight: w", ", noise_std: s", ", noise_std: half", ", weight: w, noise_std: s"] {
            write(&sandbox, columns, &method);
            sandbox.run("run noisy.yaml --quiet").succeeded();
            assert!(trained_again(&sandbox), "{name}{columns}");
            let scores = scored(&sandbox);
            let block = read_predictions(sandbox.table_files("predictions").last().unwrap()).unwrap();
            let (stds, noise) = (block.y_std.unwrap(), block.noise_std.unwrap());
            for (place, row) in block.row.iter().enumerate() {
                let found = scores[row].map(f64::to_bits);
                assert_eq!(
                    found,
                    [block.y_mean[place], stds[place], noise[place]].map(f64::to_bits),
                    "{name}{columns}"
                );
            }
            assert!(seen.iter().all(|other| *other != scores), "{name}{columns}: nothing has changed");
            seen.push(scores);
        }
        sandbox.run("run noisy.yaml --quiet").succeeded();
        assert!(!trained_again(&sandbox), "{name}");
        // Predictions add the usual known noise: the root of the mean of 0.01² and 0.8².
        let usual = seen[2][&0][2];
        assert!((0.5..0.7).contains(&usual), "{name}: {usual}");
        let local = ModelFile::load(&sandbox.path("model")).unwrap();
        let kept = local.tensors.keys().filter(|name| name.contains("row_")).count();
        assert!(kept > 0 || !local.meta.words.contains_key("local.kernel"), "{name}: {:?}", local.tensors.keys());
    }
}

#[test]
fn killed_and_resumed_it_ends_the_same() {
    let em = "em: { iterations: 30, particles: 2, exchanges: 1, sampler: { hmc: { transitions: 3, leapfrog: 3 } }, \
              final_transitions: 5 }";
    let method = format!("method: stride, inducing: {{ count: 12 }}, {em}");
    let whole = prepared();
    write(&whole, ", weight: w, noise_std: s", &method);
    whole.run("run noisy.yaml --quiet").succeeded();
    let sandbox = prepared();
    write(&sandbox, ", weight: w, noise_std: s", &method);
    let mut child = start(&sandbox, &["run", "noisy.yaml"]);
    let deadline = Instant::now() + Duration::from_secs(60);
    while checkpoint(&sandbox).is_none() && child.try_wait().unwrap().is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = child.kill();
    child.wait().unwrap();
    let resumed = sandbox.run("run noisy.yaml --resume").succeeded();
    assert!(resumed.stderr.contains("going on after EM iteration"), "{}", resumed.stderr);
    assert_eq!(contents(&sandbox), contents(&whole));
}
