//! Object storage, against stores on this machine: moto and s3s-fs for S3, Azurite for Azure, moto behind Google's way of
//! speaking, and a web server.

mod faults;
mod proxy;
mod pruning;
mod servers;
mod web;
mod whole;

use crate::sandbox::{Ran, Sandbox};
use arrow::array::{ArrayRef, Float64Array, Int64Array};
use servers::{Kind, Server};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use stride_pipe::store::{open_batches, write_columns};

/// A sandbox, a store, and the program in an environment in which it finds the store.
pub struct Place {
    pub sandbox: Sandbox,
    pub server: Server,
}

impl Place {
    pub fn new(kind: Kind) -> Self {
        Self { sandbox: Sandbox::new(), server: Server::start(kind) }
    }

    /// The program on a machine of its own, with a cache of this name, that finds the store at this port.
    pub fn command(&self, machine: &str, port: u16, arguments: &str) -> Command {
        let mut command = self.sandbox.command();
        // Nothing of the user who runs the tests may matter.
        for (name, _) in std::env::vars_os() {
            if name
                .to_str()
                .is_some_and(|name| ["AWS_", "AZURE", "GOOGLE_"].iter().any(|start| name.starts_with(start)))
            {
                command.env_remove(name);
            }
        }
        command.env("HOME", self.sandbox.path("home")).env("STRIDE_PIPE_CACHE", self.sandbox.path(machine));
        command.env("STRIDE_PIPE_STORAGE_TIMEOUT", "20s").envs(self.server.environment(port));
        command.args(arguments.split_whitespace());
        command
    }

    /// Runs the program on the first machine.
    pub fn run(&self, arguments: &str) -> Ran {
        self.run_on("machine", arguments)
    }

    pub fn run_on(&self, machine: &str, arguments: &str) -> Ran {
        Ran::from(&self.command(machine, self.server.port, arguments).output().unwrap())
    }

    /// `s3://bucket/…`
    pub fn url(&self, key: &str) -> String {
        format!("{}://bucket/{key}", self.server.scheme())
    }

    /// Puts rows of two days there, and below `local/data` as well.
    pub fn put_days(&self) {
        for day in 0..2 {
            let below = format!("data/day={day}/rows.parquet");
            let path = rows(&self.sandbox, &format!("local/{below}"), day, 120);
            self.server.put(&below, &path);
        }
    }

    /// Trains a model of the sandbox's rows and publishes it there.
    pub fn publish(&self, directory: &str) {
        let text = PUBLISH.replace("PLACE", &self.url(directory));
        self.sandbox.write("publish.yaml", &text);
        self.run("run publish.yaml --quiet").succeeded();
    }
}

/// Rows of a plane in two features, and some more columns, in a file of the sandbox.
pub fn rows(sandbox: &Sandbox, name: &str, seed: i64, count: i64) -> PathBuf {
    let path = sandbox.path(name);
    let at = move |i: i64, k: i64| (((i + 1_000 * seed) * 7919 + k * 104_729) % 10_007) as f64 / 10_007.0;
    let column = |k: i64| (0..count).map(|i| at(i, k)).collect::<Vec<f64>>();
    let target = (0..count).map(|i| 2.0 * at(i, 1) - at(i, 2) + 0.01 * at(i, 3)).collect::<Vec<f64>>();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values((0..count).map(|i| i + 1_000_000 * seed)))),
        ("a", Arc::new(Float64Array::from(column(1)))),
        ("b", Arc::new(Float64Array::from(column(2)))),
        ("y", Arc::new(Float64Array::from(target))),
    ];
    write_columns(&path, columns).unwrap();
    path
}

/// An object has the columns and rows of a file of the sandbox; footers say when they were made.
#[track_caller]
pub fn assert_same_rows(place: &Place, key: &str, file: &str) {
    let got = place.sandbox.path("got.parquet");
    std::fs::write(&got, place.server.get(key)).unwrap();
    let all = |path: PathBuf| {
        let (schema, batches) = open_batches(&path).unwrap();
        (schema, batches.map(Result::unwrap).collect::<Vec<_>>())
    };
    let ((left, left_rows), (right, right_rows)) = (all(got), all(place.sandbox.path(file)));
    assert_eq!(left.fields(), right.fields(), "{key}");
    assert!(left_rows == right_rows && !left_rows.is_empty(), "{key} has other rows than {file}");
}

const PUBLISH: &str = "\
version: 1
name: publish
stages:
  rows: { ingest: { path: rows.parquet, key: id, features: [a, b], target: y } }
  every: { split: { input: rows, all: {} } }
  model: { train: { input: every, method: ridge, publish: \"PLACE\" } }
";
