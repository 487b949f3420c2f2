//! A start from a published model (`start_from`): energy without 5 % of its training rows is trained and published, then all
//! of them are trained, from scratch and from that model. Processor time of training, and error on the same test rows.
//!
//!   cargo bench --bench start -- [METHOD…]       of `METHODS`, all by default; `STRIDE_BENCH_SEEDS=3` for fewer
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a program for developers")]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, StringArray};
use stride_pipe::gp::random::{StreamKey, permutation};
use stride_pipe::store::{read_known, write_columns};
use stride_pipe::tables::{MetricRow, TimingRow};

/// What each name stands for.
const METHODS: [(&str, &str); 5] = [
    ("gp", "method: gp"),
    ("sparse_gp", "method: sparse_gp"),
    ("deep_gp", "method: deep_gp, em: { particles: 4 }"),
    ("stride", "method: stride"),
    ("neighbours", "method: stride, top: { neighbours: 16 }"),
];

fn main() {
    // `cargo test --benches` only wants to know that it compiles.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let seeds: u64 = std::env::var("STRIDE_BENCH_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    println!("energy, {seeds} divisions of its rows: 10 % test, 5 % of the others new");
    println!(
        "{:<12} {:>26} {:>26} {:>8} {:>10}",
        "method", "from scratch: s, smse", "started: s, smse", "time", "error"
    );
    for (name, options) in METHODS.iter().filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|own| own == name))
    {
        let mut sums = [0.0; 4];
        for seed in 0..seeds {
            let found = compare(options, seed);
            sums.iter_mut().zip(found).for_each(|(sum, value)| *sum += value / seeds as f64);
            let [full, full_smse, warm, warm_smse] = found;
            println!(
                "  seed {seed:<5} {full:>14.2} {full_smse:>11.5} {warm:>14.2} {warm_smse:>11.5} {:>8.3} {:>10.3}",
                warm / full,
                warm_smse / full_smse
            );
        }
        let [full, full_smse, warm, warm_smse] = sums;
        println!(
            "{name:<12} {full:>14.2} {full_smse:>11.5} {warm:>14.2} {warm_smse:>11.5} {:>8.3} {:>10.3}",
            warm / full,
            warm_smse / full_smse
        );
    }
}

/// Processor seconds and SMSE, from scratch and from a model of fewer rows.
fn compare(options: &str, seed: u64) -> [f64; 4] {
    let here = tempfile::tempdir().unwrap();
    let set = common::SETS.iter().find(|set| set.name == "energy").unwrap();
    let (x, y) = common::read(set);
    let order = permutation(&mut StreamKey::new(seed).with("rows").generator(), y.len());
    let (test, rest) = order.split_at(y.len() / 10);
    let new = &rest[..rest.len() / 20];
    for (file, left_out) in [("old", new), ("all", &[][..])] {
        let rows: Vec<usize> = (0..y.len()).filter(|row| !left_out.contains(row)).collect();
        let mut columns: Vec<(String, ArrayRef)> = (0..x.ncols())
            .map(|column| {
                let values = Float64Array::from_iter_values(rows.iter().map(|row| x[[*row, column]]));
                (format!("f{column}"), Arc::new(values) as ArrayRef)
            })
            .collect();
        let part = |row: &usize| if test.contains(row) { "test" } else { "train" };
        columns.push(("y".into(), Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| y[*row])))));
        columns.push(("part".into(), Arc::new(StringArray::from_iter_values(rows.iter().map(part)))));
        let columns = columns.iter().map(|(name, column)| (name.as_str(), Arc::clone(column))).collect();
        write_columns(&here.path().join(format!("{file}.parquet")), columns).unwrap();
    }
    run(here.path(), "old", seed, &format!("{options}, publish: model"), "before");
    let (full, full_smse) = run(here.path(), "all", seed, options, "full");
    let (warm, warm_smse) = run(here.path(), "all", seed, &format!("{options}, start_from: model"), "warm");
    [full, full_smse, warm, warm_smse]
}

/// Processor seconds of training, and SMSE of the test rows.
fn run(here: &Path, file: &str, seed: u64, options: &str, results: &str) -> (f64, f64) {
    let text = format!(
        "version: 1\nname: bench\nseed: {seed}\nresults: {results}\nstages:\n  rows:\n    ingest: {{ path: {file}.parquet, \
         features: ['f*'], target: y }}\n  folds:\n    split: {{ input: rows, column: {{ name: part, test: test }} }}\n  \
         model:\n    train: {{ input: folds, {options} }}\n  predictions:\n    predict: {{ model: model, input: folds }}\n  \
         metrics:\n    evaluate: {{ input: predictions }}\n"
    );
    let pipeline = here.join(format!("{results}.yaml"));
    std::fs::write(&pipeline, text).unwrap();
    let program = env!("CARGO_BIN_EXE_stride-pipe");
    let done = Command::new(program).arg("run").arg(&pipeline).arg("--quiet").stderr(Stdio::piped()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let timings: Vec<TimingRow> = read_known(&table(&here.join(results).join("timings"))).unwrap();
    let metrics: Vec<MetricRow> = read_known(&table(&here.join(results).join("metrics"))).unwrap();
    let seconds = timings.iter().filter(|row| row.phase == "offline").map(|row| row.cpu_s).sum();
    let smse = metrics.iter().find(|row| row.metric == "smse" && row.stat == "value").and_then(|row| row.value);
    (seconds, smse.unwrap())
}

/// The one file below a directory.
fn table(directory: &Path) -> PathBuf {
    let mut place = directory.to_owned();
    while place.is_dir() {
        place = std::fs::read_dir(&place).unwrap().next().unwrap().unwrap().path();
    }
    place
}
