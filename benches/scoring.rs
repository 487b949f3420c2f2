//! Scoring a generated directory with STRIDE models of Fashion-MNIST features (30 of them, m = 50): rows per second and peak
//! memory. Ten chains, as ratios to copying the same Parquet and to the same arithmetic in numpy; and the model of `make run`
//! (rank 200, two chains, 70,000 remembered rows) with and without its local layer.
//!
//!   cargo bench --bench scoring            10 million rows; `STRIDE_BENCH_ROWS=500000` for fewer
//!
//! It needs 6 GB of disk for 10 million rows, in `STRIDE_BENCH_DIR` (what is made there stays, and is used again) or the
//! directory for temporary files. numpy is looked for in `STRIDE_BENCH_PYTHON`, or python3.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a program for developers")]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use stride_pipe::store::{InvalidPolicy, ParquetSink, Selection, discover, open, open_batches, write_columns};

const FEATURES: usize = 30;
const ROWS_PER_FILE: usize = 500_000;
const ROWS_PER_BATCH: usize = 50_000;

fn main() {
    // `cargo test --benches` only wants to know that it compiles.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let rows: usize = std::env::var("STRIDE_BENCH_ROWS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000_000);
    let temporary = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("STRIDE_BENCH_DIR").map(PathBuf::from);
    let here = kept.as_deref().unwrap_or_else(|| temporary.path());
    std::fs::create_dir_all(here).unwrap();
    let (base, label) = fashion();
    for model in &MODELS {
        if !here.join(model.name).exists() {
            train(here, model, &base, &label);
        }
    }
    let inbox = format!("inbox-{rows}");
    if !here.join(&inbox).exists() {
        let _ = std::fs::remove_dir_all(here.join("unfinished"));
        generate(&here.join("unfinished"), &base, rows);
        std::fs::rename(here.join("unfinished"), here.join(&inbox)).unwrap();
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{rows} rows × {FEATURES} features, {} MB of Parquet, {cores} cores", size(&here.join(&inbox)) >> 20);
    let copied = copy(here, &inbox);
    println!("copying them, without scoring:  {:>9.0} rows/s, {:.1} s", rows as f64 / copied, copied);
    let speed = numpy(here);
    match speed {
        Some(speed) => println!("the same arithmetic in numpy:   {speed:>9.0} rows/s, without reading and writing"),
        None => println!("no numpy found: set STRIDE_BENCH_PYTHON"),
    }
    let [many, global, local] = &MODELS;
    let took = report(here, (many, &[]), &inbox, rows);
    println!("  {:.2} times the time of copying", took / copied);
    if let Some(speed) = speed {
        println!("  {:.2} times as fast as numpy", rows as f64 / took / speed);
    }
    let took = report(here, (many, &["--no-variance"]), &inbox, rows);
    println!("  {:.2} times the time of copying", took / copied);
    let without = report(here, (global, &[]), &inbox, rows);
    let with = report(here, (local, &[]), &inbox, rows);
    println!("  {:.2} of the rate without it", without / with);
}

/// Scores all rows, prints what it took, and gives the seconds.
fn report(here: &Path, (model, more): (&BenchModel, &[&str]), inbox: &str, rows: usize) -> f64 {
    let (took, peak) = score(here, model, inbox, more);
    let (what, mega) = (model.what, peak >> 20);
    let only = if more.is_empty() { "" } else { ", means only" };
    println!("scoring, {what}{only}: {:.0} rows/s, {took:.1} s, peak memory {mega} MB", rows as f64 / took);
    assert!(peak < 1 << 30, "more than 1 GiB of memory");
    took
}

/// A model to score with.
struct BenchModel {
    name: &'static str,
    what: &'static str,
    /// Trained on every so many-th row.
    every: usize,
    options: &'static str,
}

const MODELS: [BenchModel; 3] = [
    // Every tenth row is enough for a model of the same size: it does not hold them.
    BenchModel {
        name: "model",
        what: "ten chains",
        every: 10,
        options: "local: false, em: { iterations: 2, particles: 10, final_transitions: 0 }",
    },
    BenchModel {
        name: "global",
        what: "two chains, rank 200",
        every: 1,
        options: "local: false, deep: { hidden: { method: aca, rank: 200 } }, em: { iterations: 2, particles: 2, \
                  final_transitions: 10 }",
    },
    BenchModel {
        name: "local",
        what: "two chains, rank 200, local layer",
        every: 1,
        options: "deep: { hidden: { method: aca, rank: 200 } }, em: { iterations: 2, particles: 2, final_transitions: 10 }",
    },
];

/// Fashion-MNIST features, `[n, 30]` row by row, and labels.
fn fashion() -> (Vec<f64>, Vec<f64>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/fashion_vae.parquet");
    let selection =
        Selection { features: vec!["f*".to_owned()], target: Some("label".to_owned()), ..Selection::default() };
    let table = open(&discover(&path).unwrap(), &selection, InvalidPolicy::Error).unwrap();
    assert_eq!(table.features.ncols(), FEATURES);
    (table.features.into_raw_vec_and_offset().0, table.target.unwrap().to_vec())
}

/// Between -1 and 1; looks random, the same every time.
fn noise(row: usize, column: usize) -> f64 {
    let mut z = (row * FEATURES + column) as u64;
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

/// Rows of Fashion-MNIST again and again, no two of them equal.
fn columns(base: &[f64], first: usize, rows: usize) -> Vec<(String, ArrayRef)> {
    let keys = Int64Array::from_iter_values(first as i64..(first + rows) as i64);
    let mut all: Vec<(String, ArrayRef)> = vec![("row_id".to_owned(), Arc::new(keys))];
    let known = base.len() / FEATURES;
    for column in 0..FEATURES {
        let value = |row: usize| base[row % known * FEATURES + column] + 0.05 * noise(row, column);
        let values = Float64Array::from_iter_values((first..first + rows).map(value));
        all.push((format!("f{column:02}"), Arc::new(values)));
    }
    all
}

fn train(here: &Path, model: &BenchModel, base: &[f64], label: &[f64]) {
    let some: Vec<f64> = base.chunks_exact(FEATURES).step_by(model.every).flatten().copied().collect();
    let target: Float64Array = label.iter().step_by(model.every).map(|label| Some(*label)).collect();
    let mut all = columns(&some, 0, target.len());
    all.push(("y".to_owned(), Arc::new(target)));
    let named = all.iter().map(|(name, column)| (name.as_str(), Arc::clone(column))).collect();
    write_columns(&here.join("train.parquet"), named).unwrap();
    let (name, options) = (model.name, model.options);
    let text = format!(
        "version: 1\nname: bench\nstages:\n  rows:\n    ingest: {{ path: train.parquet, key: row_id, features: ['f*'], \
         target: y }}\n  everything:\n    split: {{ input: rows, all: {{}} }}\n  model:\n    train: {{ input: everything, \
         method: stride, scale: {{ features: global }}, inducing: {{ count: 50 }}, {options}, publish: {name} }}\n"
    );
    std::fs::write(here.join("train.yaml"), text).unwrap();
    let program = env!("CARGO_BIN_EXE_stride-pipe");
    let trained =
        Command::new(program).args(["run", "train.yaml", "--quiet"]).current_dir(here).stdout(Stdio::null()).status();
    assert!(trained.unwrap().success());
}

/// Bytes of the files of an inbox.
fn size(inbox: &Path) -> u64 {
    let parts = std::fs::read_dir(inbox).unwrap().map(|part| part.unwrap().path().join("rows.parquet"));
    parts.map(|file| std::fs::metadata(file).unwrap().len()).sum()
}

fn generate(inbox: &Path, base: &[f64], rows: usize) {
    for first in (0..rows).step_by(ROWS_PER_FILE) {
        let last = (first + ROWS_PER_FILE).min(rows);
        let path = inbox.join(format!("part={}/rows.parquet", first / ROWS_PER_FILE));
        let mut sink: Option<ParquetSink> = None;
        for start in (first..last).step_by(ROWS_PER_BATCH) {
            let batch = RecordBatch::try_from_iter(columns(base, start, ROWS_PER_BATCH.min(last - start))).unwrap();
            let sink = sink.get_or_insert_with(|| ParquetSink::create(&path, &batch.schema(), &[]).unwrap());
            sink.write(&batch).unwrap();
        }
        sink.unwrap().finish().unwrap();
    }
}

/// Seconds to read all files and write one.
fn copy(here: &Path, inbox: &str) -> f64 {
    let start = Instant::now();
    let mut sink: Option<ParquetSink> = None;
    for entry in std::fs::read_dir(here.join(inbox)).unwrap() {
        let (schema, batches) = open_batches(&entry.unwrap().path().join("rows.parquet")).unwrap();
        let sink = sink.get_or_insert_with(|| ParquetSink::create(&here.join("copy.parquet"), &schema, &[]).unwrap());
        for batch in batches {
            sink.write(&batch.unwrap()).unwrap();
        }
    }
    sink.unwrap().finish().unwrap();
    let took = start.elapsed().as_secs_f64();
    std::fs::remove_file(here.join("copy.parquet")).unwrap();
    took
}

/// How many seconds the program takes, and the most memory it had.
fn score(here: &Path, model: &BenchModel, inbox: &str, more: &[&str]) -> (f64, u64) {
    let arguments =
        ["score", "--model", model.name, "--input", inbox, "--output", "out.parquet", "--key", "row_id", "--quiet"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_stride-pipe"));
    common::watch(command.args(arguments).args(more).current_dir(here))
}

/// Rows per second of the same products, exponentials and solves: tiles side by side on all cores, the best of three.
fn numpy(here: &Path) -> Option<f64> {
    const SCRIPT: &str = "
import os
os.environ['OPENBLAS_NUM_THREADS'] = '1'
import time, numpy as np
from concurrent.futures import ThreadPoolExecutor
rng = np.random.default_rng(1)
n, d, r, m, s, tile = 100_000, 30, 50, 50, 10, 1_000
x = rng.uniform(-1, 1, (n, d))
anchors, weights = rng.normal(size=(r, d)), rng.normal(size=(s, r, d)) / 50
tops, alpha = rng.normal(size=(s, m, d)), rng.normal(size=(s, m))
lower = np.linalg.inv(np.tril(rng.normal(size=(m, m))) / 50 + np.eye(m))
def kernel(a, b, length):
    square = (a * a).sum(1)[:, None] + (b * b).sum(1)[None] - 2 * a @ b.T
    return np.exp(-np.maximum(square, 0) / (2 * length * length))
def score(first):
    rows = x[first:first + tile]
    means, variances = [], []
    bottom = kernel(rows, anchors, 3.0)
    for i in range(s):
        hidden = bottom @ weights[i]
        k = kernel(hidden, tops[i], 3.0)
        means.append(k @ alpha[i])
        v = k @ lower.T
        w = v @ lower.T
        variances.append(1 - (v * v).sum(1) + (w * w).sum(1))
    means = np.array(means)
    return means.mean(0), np.array(variances).mean(0) + means.var(0)
best = 0
with ThreadPoolExecutor(os.cpu_count()) as pool:
    for _ in range(3):
        start = time.perf_counter()
        list(pool.map(score, range(0, n, tile)))
        best = max(best, n / (time.perf_counter() - start))
print(best)
";
    let python = std::env::var("STRIDE_BENCH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let output = Command::new(python).args(["-c", SCRIPT]).current_dir(here).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}
