//! A throw-away directory with a small data set, pipelines, and the real binary to run on them.

use arrow::array::{ArrayRef, Float32Array, Float64Array, Int16Array, Int64Array, StringArray};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use stride_pipe::store::write_columns;
use tempfile::TempDir;

pub struct Sandbox {
    directory: TempDir,
}

/// What a command did.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// The binary under test.
pub fn stride_pipe() -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("stride-pipe"));
    command.env_remove("RUST_BACKTRACE");
    command
}

impl Sandbox {
    /// 60 rows of a smooth function of two columns of different widths, and one pipeline, `small.yaml`.
    pub fn new() -> Self {
        let sandbox = Self { directory: tempfile::tempdir().unwrap() };
        let n = 60_i64;
        let t = |i: i64| i as f64 / n as f64;
        let wiggle = |i: i64| ((i * 37) % 17) as f64 / 17.0;
        let target: Vec<f64> =
            (0..n).map(|i| (6.0 * t(i)).sin() + wiggle(i) + 0.01 * ((i * 7919) % 13) as f64).collect();
        let half: Vec<&str> = (0..n).map(|i| if i % 4 == 0 { "test" } else { "train" }).collect();
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("id", Arc::new(Int64Array::from_iter_values(100..100 + n))),
            ("a", Arc::new(Float32Array::from_iter_values((0..n).map(|i| t(i) as f32)))),
            ("b", Arc::new(Int16Array::from_iter_values((0..n).map(|i| ((i * 37) % 17) as i16)))),
            ("y", Arc::new(Float64Array::from(target))),
            ("half", Arc::new(StringArray::from(half))),
        ];
        write_columns(&sandbox.path("rows.parquet"), columns).unwrap();
        sandbox.write("small.yaml", SMALL);
        sandbox
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Runs the binary in the sandbox; its words are separated by spaces.
    pub fn run(&self, arguments: &str) -> Ran {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let output = self.command().args(arguments).output().unwrap();
        Ran::from(&output)
    }

    /// The same with loops of `OpenBLAS` that every x86 processor of ten years has: with others chains on few rows diverge.
    pub fn run_with_common_loops(&self, arguments: &str) -> Ran {
        let mut command = self.command();
        if cfg!(target_arch = "x86_64") {
            command.env("OPENBLAS_CORETYPE", "Haswell");
        }
        Ran::from(&command.args(arguments.split_whitespace()).output().unwrap())
    }

    /// The binary, to be run in the sandbox.
    pub fn command(&self) -> Command {
        let mut command = stride_pipe();
        command.current_dir(self.directory.path());
        command
    }

    /// All files below a directory, relative to it, sorted.
    pub fn files(&self, below: &str) -> Vec<String> {
        fn collect(directory: &Path, root: &Path, found: &mut Vec<String>) {
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    collect(&path, root, found);
                } else {
                    found.push(path.strip_prefix(root).unwrap().to_string_lossy().into_owned());
                }
            }
        }
        let root = self.path(below);
        let mut found = Vec::new();
        collect(&root, &root, &mut found);
        found.sort();
        found
    }

    /// The files of a results table, oldest run first.
    pub fn table_files(&self, table: &str) -> Vec<PathBuf> {
        let directory = format!("results/{table}");
        self.files(&directory).iter().map(|file| self.path(&directory).join(file)).collect()
    }
}

impl From<&Output> for Ran {
    fn from(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code().unwrap_or(-1), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }
}

impl Ran {
    #[track_caller]
    pub fn succeeded(self) -> Self {
        assert_eq!(self.code, 0, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }
}

/// Exact GP on the small data set, five folds.
pub const SMALL: &str = "\
version: 1
name: small
seed: 7
stages:
  rows:
    ingest: { path: rows.parquet, key: id, features: [a, b], target: y }
  folds:
    split: { input: rows, kfold: { folds: 5 } }
  model:
    train: { input: folds, method: gp }
  predictions:
    predict: { model: model, input: folds, intervals: [0.5, 0.95] }
  metrics:
    evaluate: { input: predictions }
";
