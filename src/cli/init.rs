//! `stride-pipe init`: a small pipeline with its data, to start from.

use super::exit::{self, Failure};
use super::print;
use crate::datasets::hills;
use crate::pipeline::{NAME_HELP, is_name};
use crate::store::{write_atomic, write_columns};
use clap::Args as ClapArgs;
use std::path::{Path, PathBuf};

/// Arguments of `init`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Name of the pipeline: a small letter, then small letters, digits, `-` and `_`
    #[arg(value_parser = name)]
    name: String,
    /// Write the files here
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

const ROWS: usize = 300;
const SEED: u64 = 1;

/// The rule of the language for names, so that the pipeline is valid.
fn name(text: &str) -> Result<String, String> {
    if is_name(text) { Ok(text.to_owned()) } else { Err(format!("{NAME_HELP}, for example `my-pipeline`")) }
}

pub fn execute(args: &Args) -> Result<(), Failure> {
    let pipeline = args.dir.join(format!("{}.yaml", args.name));
    let data = args.dir.join(format!("{}-data.parquet", args.name));
    for path in [&pipeline, &data] {
        refuse_existing(path)?;
    }
    write_columns(&data, hills::columns(SEED, ROWS))?;
    if let Err(error) = write_atomic(&pipeline, TEMPLATE.replace("NAME", &args.name).as_bytes()) {
        // Half of it would stand in the way of the next try.
        let _ = std::fs::remove_file(&data);
        return Err(error.into());
    }
    let file = pipeline.strip_prefix(".").unwrap_or(&pipeline).display().to_string();
    let shown = data.strip_prefix(".").unwrap_or(&data).display().to_string();
    print(&format!(
        "{file}: a pipeline\n{shown}: {ROWS} rows\n\nNext:\n  stride-pipe validate {file} --data\n  \
         stride-pipe plan {file}\n  stride-pipe run {file}\n"
    ))
}

fn refuse_existing(path: &Path) -> Result<(), Failure> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    let message = format!(
        "stride-pipe: {} is there already and stays as it is; choose another name, or move it away",
        path.display()
    );
    Err(Failure::new(exit::CANNOT_WRITE, message))
}

const TEMPLATE: &str = "\
# A pipeline to start from. Check it: stride-pipe validate NAME.yaml --data
#                           Run it:   stride-pipe run NAME.yaml
version: 1                       # of this language
name: NAME                       # names the results
seed: 2505                       # same seed, same results
results: results                 # where they go, relative to this file, as every path

params:                          # used below as ${params.folds}
  folds: 5                       # change it for one run: --set folds=10

stages:                          # run in this order; each has an id, then its kind
  rows:
    ingest:                      # reads Parquet; `stride-pipe import` makes it from CSV, NPZ or IDX
      path: NAME-data.parquet    # a file, a directory, or a pattern such as data/*.parquet
      key: row_id                # identifies rows in the predictions
      features: [u, v]           # what the model sees: names, or patterns such as \"f*\"
      target: height             # what it learns to predict
  folds:
    split:                       # which rows train and which test
      input: rows                # the stage above
      kfold: { folds: \"${params.folds}\" }
  model:
    train:                       # one model per fold
      input: folds
      method: gp                 # exact Gaussian-process regression; sparse_gp for many rows; deep: stride, deep_gp
      kernel: rbf                # or matern12, matern32, matern52
  predictions:
    predict:                     # the test rows of every fold
      model: model
      input: folds
      intervals: [0.9]           # adds y_q05 and y_q95
  metrics:
    evaluate: { input: predictions }   # errors, likelihoods, coverage: per fold and over folds
";
