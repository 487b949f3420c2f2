//! `stride-pipe runs`: the runs of a results directory.

mod diff;
mod list;
mod prune;
mod published;
mod show;
mod table;

use super::exit::Failure;
use super::pipeline::{PipelineArgs, load};
use crate::store::history::History;
use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;

/// Arguments of `runs`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    what: RunsCommand,
}

#[derive(Debug, Subcommand)]
enum RunsCommand {
    /// List all runs, the newest last
    List(list::Args),
    /// Show what a run did and what came out
    Show(show::Args),
    /// Show what differs between two runs
    Diff(diff::Args),
    /// Show a metric as a table over matrix variables
    Table(table::Args),
    /// Remove runs, and what no other run needs
    Prune(prune::Args),
}

/// Which runs a command is about.
#[derive(Debug, ClapArgs)]
pub struct Where {
    /// The results directory; default: `results`
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Take the results directory from this pipeline file
    #[arg(long, value_name = "PIPELINE", conflicts_with = "results")]
    file: Option<PathBuf>,
    /// Only runs of the pipeline of this name
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
}

impl Where {
    fn directory(&self) -> Result<PathBuf, Failure> {
        match &self.file {
            Some(file) => {
                let plan = load(&PipelineArgs { file: file.clone(), sets: Vec::new(), results: None })?;
                Ok(plan.results)
            }
            None => Ok(self.results.clone().unwrap_or_else(|| PathBuf::from("results"))),
        }
    }

    pub fn history(&self) -> Result<History, Failure> {
        let mut history = History::open(&self.directory()?)?;
        if let Some(name) = &self.pipeline {
            history.runs.retain(|run| run.pipeline.as_ref() == Some(name));
        }
        Ok(history)
    }
}

pub fn execute(args: &Args) -> Result<(), Failure> {
    match &args.what {
        RunsCommand::List(args) => list::execute(args),
        RunsCommand::Show(args) => show::execute(args),
        RunsCommand::Diff(args) => diff::execute(args),
        RunsCommand::Table(args) => table::execute(args),
        RunsCommand::Prune(args) => prune::execute(args),
    }
}

/// `0.0032 ± 0.0005`, as far as it is known.
fn mean_std(mean: Option<f64>, std: Option<f64>) -> String {
    match (mean, std) {
        (Some(mean), Some(std)) => format!("{mean:.4} ± {std:.4}"),
        (Some(mean), None) => format!("{mean:.4}"),
        _ => "-".to_owned(),
    }
}

/// A time to the second: `2026-11-16 03:36:52Z`.
fn to_the_second(time: crate::tables::Timestamp) -> String {
    let text = time.to_string();
    format!("{}Z", text.split('.').next().unwrap_or_default().replace('T', " "))
}
