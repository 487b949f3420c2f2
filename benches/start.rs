//! A start from a published model (`start_from`): energy without 5 % of its training rows is trained and published, then all
//! of them are trained, from scratch and from that model. Processor time of training, and error on the same test rows.
//!
//!   cargo bench --bench start -- [METHOD…]       of `METHODS`, all by default; `STRIDE_BENCH_SEEDS=3` for fewer
//!
//! To choose settings, `STRIDE_BENCH_VALIDATION=1` takes the test rows away and tests on others, and `STRIDE_BENCH_STARTED`
//! has further options of the started training, several of them with `;` between; `scratch` is one from scratch with another
//! seed.
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

/// Stands for a training from scratch with another seed.
const SCRATCH: &str = "scratch";

fn main() {
    // `cargo test --benches` only wants to know that it compiles.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let seeds: u64 = std::env::var("STRIDE_BENCH_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    let validation = std::env::var("STRIDE_BENCH_VALIDATION").is_ok_and(|text| text == "1");
    let tried = std::env::var("STRIDE_BENCH_STARTED").unwrap_or_default();
    let tried: Vec<&str> = tried.split(';').map(str::trim).collect();
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    println!("energy, {seeds} divisions of its rows: 10 % test, 5 % of the others new");
    println!(
        "{:<12} {:>26} {:>26} {:>8} {:>8}",
        "method", "from scratch: s, smse", "started: s, smse", "time", "error"
    );
    for (name, options) in METHODS.iter().filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|own| own == name))
    {
        let mut all = vec![Vec::new(); tried.len()];
        for seed in 0..seeds {
            for (started, found) in compare(options, &tried, seed, validation).into_iter().enumerate() {
                println!("  {seed:<10} {} {}", line(&found), tried[started]);
                all[started].push(found);
            }
        }
        for (started, found) in all.iter().enumerate() {
            println!("{name:<12} {} {}", summary(found), tried[started]);
        }
    }
}

fn line([full, full_smse, warm, warm_smse]: &[f64; 4]) -> String {
    let (time, error) = (warm / full, warm_smse / full_smse);
    format!("{full:>14.2} {full_smse:>11.5} {warm:>14.2} {warm_smse:>11.5} {time:>8.3} {error:>8.3}")
}

/// Means, and the mean ratio of the errors with its standard error, over the divisions.
fn summary(all: &[[f64; 4]]) -> String {
    let count = all.len() as f64;
    let mean = |of: &dyn Fn(&[f64; 4]) -> f64| all.iter().map(of).sum::<f64>() / count;
    let means = std::array::from_fn(|place| mean(&|found| found[place]));
    let ratio = |found: &[f64; 4]| (found[3] / found[1]).ln();
    let centre = mean(&ratio);
    let spread = (mean(&|found| (ratio(found) - centre).powi(2)) / (count - 1.0).max(1.0)).sqrt();
    format!("{} (paired {:.3} ± {:.3})", line(&means), centre.exp(), centre.exp() * spread)
}

/// Processor seconds and SMSE, from scratch and from a model of fewer rows, with each of these further options.
fn compare(options: &str, tried: &[&str], seed: u64, validation: bool) -> Vec<[f64; 4]> {
    let here = tempfile::tempdir().unwrap();
    let set = common::SETS.iter().find(|set| set.name == "energy").unwrap();
    let (x, y) = common::read(set);
    let order = permutation(&mut StreamKey::new(seed).with("rows").generator(), y.len());
    let (mut test, mut rest) = order.split_at(y.len() / 10);
    let mut gone: &[usize] = &[];
    if validation {
        gone = test;
        (test, rest) = rest.split_at(y.len() / 10);
    }
    let new = &rest[..rest.len() / 20];
    for (file, left_out) in [("old", new), ("all", &[][..])] {
        let rows: Vec<usize> = (0..y.len()).filter(|row| !left_out.contains(row) && !gone.contains(row)).collect();
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
    let started = |(number, more): (usize, &&str)| {
        let (seed, options) = match *more {
            SCRATCH => (seed + 1000, options.to_owned()),
            "" => (seed, format!("{options}, start_from: model")),
            more => (seed, format!("{options}, start_from: model, {more}")),
        };
        let (warm, warm_smse) = run(here.path(), "all", seed, &options, &format!("warm{number}"));
        [full, full_smse, warm, warm_smse]
    };
    tried.iter().enumerate().map(started).collect()
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
