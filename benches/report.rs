//! Seconds that the report over many runs of one results directory takes, likewise pruning and views, and the report of one
//! run with many rows.
//!
//! `cargo bench --bench report -- runs=2000 rows=10000000`
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program for developers")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::best;
use stride_pipe::store::{Footer, ResultsDir, RunId};
use stride_pipe::tables::predictions::{self, PredictionBlock};
use stride_pipe::tables::{TableKind, Timestamp};

const ONE: &str = "version: 1\nname: one\nresults: results\nstages:\n  rows:\n    \
    ingest: { path: DATA/uci/energy.parquet, key: row_id, target: heating_load, features: [wall_area, roof_area] }\n  \
    folds:\n    split: { input: rows, kfold: { folds: 5 } }\n  model:\n    train: { input: folds, method: gp }\n  \
    predictions:\n    predict: { model: model, input: folds }\n  metrics:\n    evaluate: { input: predictions }\n";

fn stride_pipe(directory: &Path, arguments: &[&str]) {
    let status = Command::new(env!("CARGO_BIN_EXE_stride-pipe")).current_dir(directory).args(arguments).status();
    assert!(status.unwrap().success(), "{arguments:?}");
}

// The file of a run's table.
fn table(results: &Path, kind: TableKind, run: &RunId) -> PathBuf {
    results.join(format!("{kind}/pipeline=one/run_date={}/{run}.parquet", run.run_date()))
}

// The same run once more, some hours later.
fn copy(results: &Path, run: &RunId, hours: i64) {
    let later = Timestamp::from_micros(run.started().micros() + hours * 3_600_000_000);
    let name = RunId::new(later, &hours.to_le_bytes());
    let place = |run: &RunId| results.join("run").join(run.as_str());
    fs::create_dir_all(place(&name)).unwrap();
    for file in ["manifest.json", "events.jsonl", "resolved.yaml"] {
        let text = fs::read_to_string(place(run).join(file)).unwrap();
        // Without the hash of its own text, as an older program wrote it: it would not fit any more.
        let text = text.replace(run.as_str(), name.as_str()).replacen("\n  \"sha256\": ", "\n  \"earlier\": ", 1);
        fs::write(place(&name).join(file), text).unwrap();
    }
    for kind in TableKind::ALL {
        let (source, target) = (table(results, kind, run), table(results, kind, &name));
        if source.exists() {
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::hard_link(source, target).unwrap();
        }
    }
}

// Predictions of many rows in place of the run's own.
fn fill(results: &Path, run: &RunId, rows: usize) {
    const BLOCK: usize = 100_000;
    let schema = predictions::schema();
    let block = |fold: usize| {
        let truth: Vec<f64> = (0..BLOCK).map(|row| (row as f64 * 0.37 + fold as f64).sin()).collect();
        let block = PredictionBlock {
            stage: "predictions".to_owned(),
            case: "default".to_owned(),
            fold: fold as i32,
            split: "test".to_owned(),
            key: (0..BLOCK).map(|row| row.to_string()).collect(),
            row: (0..BLOCK as i64).collect(),
            y_mean: truth.iter().map(|truth| 0.9 * truth).collect(),
            y_std: Some(vec![0.1; BLOCK]),
            y_true: Some(truth),
            ..PredictionBlock::default()
        };
        Ok(block.batch(run.as_str(), &schema).unwrap())
    };
    let footer = Footer { version: String::new(), spec_hash: String::new(), seed: 0 };
    let place = (TableKind::Predictions, "one", run);
    ResultsDir::new(results).stream_table(place, &footer, &schema, (0..rows / BLOCK).map(block)).unwrap();
}

fn main() {
    let number = |name: &str, otherwise: usize| {
        let given = std::env::args().find_map(|argument| argument.strip_prefix(&format!("{name}="))?.parse().ok());
        given.unwrap_or(otherwise)
    };
    let (runs, rows) = (number("runs", 2000), number("rows", 10_000_000));
    let directory = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    fs::write(directory.path().join("one.yaml"), ONE.replace("DATA", &data.display().to_string())).unwrap();
    stride_pipe(directory.path(), &["run", "one.yaml", "--quiet"]);
    let results = directory.path().join("results");
    let first = fs::read_dir(results.join("run")).unwrap().next().unwrap().unwrap().file_name();
    let run: RunId = first.to_str().unwrap().parse().unwrap();
    (1..runs as i64).for_each(|hours| copy(&results, &run, hours));
    let seconds = best(3, || stride_pipe(directory.path(), &["report"]));
    let size = |file: &Path| fs::metadata(file).unwrap().len() / 1024;
    println!("{runs} runs: {seconds:.2} s, {} KiB", size(&results.join("report.html")));
    let keep = (runs / 2).to_string();
    for arguments in [&["runs", "prune", "--keep", &keep, "--dry-run"][..], &["views"], &["runs", "list"]] {
        let seconds = best(3, || stride_pipe(directory.path(), arguments));
        println!("{runs} runs, {}: {seconds:.2} s", arguments.join(" "));
    }
    fill(&results, &run, rows);
    let seconds = best(1, || stride_pipe(directory.path(), &["report", run.as_str()]));
    println!("{rows} rows: {seconds:.2} s, {} KiB", size(&results.join("run").join(run.as_str()).join("report.html")));
}
