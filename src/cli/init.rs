//! `stride-pipe init`: a small pipeline with its data, to start from.

use super::csv::CsvArgs;
use super::exit::{self, Failure};
use super::fit::{check_output, described};
use super::print;
use super::run::{duration, usage};
use crate::datasets::hills;
use crate::fit::{self, ColumnWishes, FitFailure, FittedPipeline, SplitChoice};
use crate::pipeline::{NAME_HELP, is_name};
use crate::store::{write_atomic, write_columns};
use clap::Args as ClapArgs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `init`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Name of the pipeline: a small letter, then small letters, digits, `-` and `_`
    #[arg(value_parser = name, required_unless_present = "data")]
    name: Option<String>,
    /// Write the files here
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Write a pipeline for these rows, as `fit` would, without training: Parquet, CSV, or what else `import` reads
    #[arg(long, value_name = "FILE", requires = "target")]
    data: Option<PathBuf>,
    /// With `--data`: the column to predict
    #[arg(long, value_name = "COLUMN", requires = "data")]
    target: Option<String>,
    /// With `--data`: the column that identifies rows; default: one that looks like it
    #[arg(long, value_name = "COLUMN", requires = "data")]
    key: Option<String>,
    /// With `--data`: leave these columns out
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', requires = "data")]
    exclude: Vec<String>,
    /// With `--data`: how long a run may take: `30s`, `5m`, `2h`
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    time_limit: Duration,
    /// With `--data`: replace the pipeline file even if it was changed or written by somebody else
    #[arg(long, requires = "data")]
    force: bool,
    #[command(flatten)]
    csv: CsvArgs,
}

const ROWS: usize = 300;
const SEED: u64 = 1;

/// The rule of the language for names, so that the pipeline is valid.
fn name(text: &str) -> Result<String, String> {
    if is_name(text) { Ok(text.to_owned()) } else { Err(format!("{NAME_HELP}, for example `my-pipeline`")) }
}

pub fn execute(args: &Args) -> Result<(), Failure> {
    if let (Some(data), Some(target)) = (&args.data, &args.target) {
        return for_data(args, data, target);
    }
    if !args.csv.is_default() {
        return Err(usage(
            "`--delimiter`, `--decimal-comma` and `--dates` say how the file of `--data` is written: give it, too",
        ));
    }
    let name = args.name.as_deref().unwrap_or_default();
    let pipeline = args.dir.join(format!("{name}.yaml"));
    let data = args.dir.join(format!("{name}-data.parquet"));
    for path in [&pipeline, &data] {
        refuse_existing(path)?;
    }
    write_columns(&data, hills::columns(SEED, ROWS))?;
    if let Err(error) = write_atomic(&pipeline, TEMPLATE.replace("NAME", name).as_bytes()) {
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

/// The pipeline that the rule of `fit` chooses for these rows.
fn for_data(args: &Args, data: &Path, target: &str) -> Result<(), Failure> {
    if args.exclude.iter().chain(&args.key).any(|name| name == target) {
        return Err(usage(&format!("`{target}` is the target; it cannot be the key or left out")));
    }
    let name = args.name.clone().unwrap_or_else(|| fit::name_of(data));
    let directory = args.dir.strip_prefix(".").unwrap_or(&args.dir);
    let file = directory.join(format!("{name}.yaml"));
    check_output(&file, args.force)?;
    let prepared = fit::prepare(data, (directory, &name), &args.csv.options(), args.force)?;
    for note in &prepared.notes {
        exit::say(&format!("note: {note}"));
    }
    let wishes = ColumnWishes { key: args.key.clone(), exclude: args.exclude.clone() };
    let columns = prepared.own(fit::choose(&prepared.path, target, &wishes)?);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let candidate = fit::unseen(&columns, args.time_limit, threads, false);
    let remark = format!(
        "Predicts `{target}` from {} columns of {}: {}, by the number of rows and columns alone.",
        columns.features.len(),
        data.display(),
        candidate.label
    );
    let text = FittedPipeline {
        name: &name,
        data: &fit::relative_to(directory, &prepared.path),
        columns: &columns,
        split: SplitChoice::of(columns.rows),
        methods: vec![candidate.method, "knn", "ridge", "mean"],
        candidate: &candidate,
        publish: None,
        report: true,
        remarks: &[remark],
    };
    if let Err(FitFailure::Refused(problems)) = fit::plan(&file, &text.text(), None) {
        return Err(Failure::new(exit::BUG, problems));
    }
    write_atomic(&file, text.file().as_bytes())?;
    let shown = file.display();
    print(&format!(
        "{}\n{shown}: a pipeline that trains {}\n\nNext:\n  stride-pipe validate {shown} --data\n  stride-pipe run {shown}\n",
        described(data, &columns),
        candidate.label
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
