//! Scoring a generated directory with a STRIDE model of Fashion's size (30 features, m = 50, S = 10): rows per second and
//! peak memory, as ratios to copying the same Parquet and to the same arithmetic in numpy.
//!
//!   cargo bench --bench scoring            10 million rows; `STRIDE_BENCH_ROWS=200000` for fewer
//!
//! numpy is looked for in `STRIDE_BENCH_PYTHON`, or python3.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a program for developers")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use stride_pipe::store::{ParquetSink, open_batches, write_columns};

const FEATURES: usize = 30;
const ROWS_PER_FILE: usize = 500_000;
const ROWS_PER_BATCH: usize = 50_000;

fn main() {
    // `cargo test --benches` only wants to know that it compiles.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let rows: usize = std::env::var("STRIDE_BENCH_ROWS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000_000);
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    train(here);
    let size = generate(&here.join("inbox"), rows);
    println!("{rows} rows × {FEATURES} features, {} MB of Parquet", size >> 20);
    let copied = copy(here);
    println!("copying them, without scoring:   {:>9.0} rows/s", rows as f64 / copied.as_secs_f64());
    let mut scored = None;
    for (name, more) in [("means and variances", &[][..]), ("means only", &["--no-variance"][..])] {
        let (took, peak) = score(here, more);
        println!(
            "scoring, {name:<22}: {:>9.0} rows/s, peak memory {} MB",
            rows as f64 / took.as_secs_f64(),
            peak >> 20
        );
        println!("  {:.2} times the time of copying", took.as_secs_f64() / copied.as_secs_f64());
        scored.get_or_insert(rows as f64 / took.as_secs_f64());
    }
    match numpy(here) {
        Some(speed) => {
            println!("the same arithmetic in numpy:    {speed:>9.0} rows/s, without reading and writing");
            println!("  scoring is {:.2} times as fast", scored.unwrap_or_default() / speed);
        }
        None => println!("no numpy found: set STRIDE_BENCH_PYTHON"),
    }
}

/// Numbers that look random, the same every time.
fn noise(row: usize, column: usize) -> f64 {
    let mut z = (row * FEATURES + column) as u64;
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

fn columns(first: usize, rows: usize) -> Vec<(String, ArrayRef)> {
    let keys = Int64Array::from_iter_values(first as i64..(first + rows) as i64);
    let mut all: Vec<(String, ArrayRef)> = vec![("row_id".to_owned(), Arc::new(keys))];
    for column in 0..FEATURES {
        let values: Float64Array = (first..first + rows).map(|row| Some(noise(row, column))).collect();
        all.push((format!("f{column:02}"), Arc::new(values)));
    }
    all
}

fn train(here: &Path) {
    let rows = 3000;
    let mut all = columns(0, rows);
    let wave = |row: usize| (3.0 * noise(row, 0)).sin() + noise(row, 1) * noise(row, 2);
    all.push(("y".to_owned(), Arc::new((0..rows).map(|row| Some(wave(row))).collect::<Float64Array>())));
    let named = all.iter().map(|(name, column)| (name.as_str(), Arc::clone(column))).collect();
    write_columns(&here.join("train.parquet"), named).unwrap();
    let text = "version: 1\nname: bench\nstages:\n  rows:\n    ingest: { path: train.parquet, key: row_id, features: ['f*'], \
        target: y }\n  everything:\n    split: { input: rows, all: {} }\n  model:\n    train: { input: everything, \
        method: stride, inducing: { count: 50 }, em: { iterations: 1, particles: 10, final_transitions: 0 }, publish: model }\n";
    std::fs::write(here.join("train.yaml"), text).unwrap();
    let program = env!("CARGO_BIN_EXE_stride-pipe");
    let trained =
        Command::new(program).args(["run", "train.yaml", "--quiet"]).current_dir(here).stdout(Stdio::null()).status();
    assert!(trained.unwrap().success());
}

fn generate(inbox: &Path, rows: usize) -> u64 {
    let mut bytes = 0;
    for first in (0..rows).step_by(ROWS_PER_FILE) {
        let last = (first + ROWS_PER_FILE).min(rows);
        let path = inbox.join(format!("part={}/rows.parquet", first / ROWS_PER_FILE));
        let mut sink: Option<ParquetSink> = None;
        for start in (first..last).step_by(ROWS_PER_BATCH) {
            let batch = RecordBatch::try_from_iter(columns(start, ROWS_PER_BATCH.min(last - start))).unwrap();
            let sink = sink.get_or_insert_with(|| ParquetSink::create(&path, &batch.schema(), &[]).unwrap());
            sink.write(&batch).unwrap();
        }
        bytes += sink.unwrap().finish().unwrap().bytes;
    }
    bytes
}

/// Reads all files and writes one.
fn copy(here: &Path) -> Duration {
    let start = Instant::now();
    let mut sink: Option<ParquetSink> = None;
    for entry in std::fs::read_dir(here.join("inbox")).unwrap() {
        let (schema, batches) = open_batches(&entry.unwrap().path().join("rows.parquet")).unwrap();
        let sink = sink.get_or_insert_with(|| ParquetSink::create(&here.join("copy.parquet"), &schema, &[]).unwrap());
        for batch in batches {
            sink.write(&batch.unwrap()).unwrap();
        }
    }
    sink.unwrap().finish().unwrap();
    let took = start.elapsed();
    std::fs::remove_file(here.join("copy.parquet")).unwrap();
    took
}

/// How long the program takes, and the most memory it had.
fn score(here: &Path, more: &[&str]) -> (Duration, u64) {
    let start = Instant::now();
    let arguments =
        ["score", "--model", "model", "--input", "inbox", "--output", "out.parquet", "--key", "row_id", "--quiet"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_stride-pipe"));
    let mut child = command.args(arguments).args(more).current_dir(here).stdout(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let ended = loop {
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        peak = peak.max(line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) * 1024);
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(ended.success());
    (start.elapsed(), peak)
}

/// Rows per second of the same products, exponentials and solves.
fn numpy(here: &Path) -> Option<f64> {
    const SCRIPT: &str = "
import time, numpy as np
rng = np.random.default_rng(1)
n, d, r, m, s, tile = 100_000, 30, 50, 50, 10, 10_000
x = rng.uniform(-1, 1, (n, d))
anchors, weights = rng.normal(size=(s, r, d)), rng.normal(size=(s, r, d)) / 50
tops, alpha = rng.normal(size=(s, m, d)), rng.normal(size=(s, m))
lower = np.linalg.inv(np.tril(rng.normal(size=(m, m))) / 50 + np.eye(m))
def kernel(a, b, length):
    square = (a * a).sum(1)[:, None] + (b * b).sum(1)[None] - 2 * a @ b.T
    return np.exp(-np.maximum(square, 0) / (2 * length * length))
start = time.perf_counter()
for first in range(0, n, tile):
    rows = x[first:first + tile]
    means, variances = [], []
    for i in range(s):
        hidden = rows + kernel(rows, anchors[i], 3.0) @ weights[i]
        k = kernel(hidden, tops[i], 3.0)
        means.append(k @ alpha[i])
        v = k @ lower.T
        w = v @ lower.T
        variances.append(1 - (v * v).sum(1) + (w * w).sum(1))
    means = np.array(means)
    mean, variance = means.mean(0), np.array(variances).mean(0) + means.var(0)
print(n / (time.perf_counter() - start))
";
    let python = std::env::var("STRIDE_BENCH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let output = Command::new(python).args(["-c", SCRIPT]).current_dir(here).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}
