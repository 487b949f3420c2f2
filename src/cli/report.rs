//! `stride-pipe report`.

use super::exit::{self, Failure};
use super::runs::Where;
use super::{print, print_raw};
use crate::stages::report::{Subject, page, page_of_runs};
use crate::store::history::Run;
use crate::store::{sweep, write_atomic};
use crate::text::bytes;
use clap::Args as ClapArgs;
use std::path::{Path, PathBuf};

/// Arguments of `report`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Runs: ids, beginnings of them, or `last`; default: all runs of the results directory
    runs: Vec<String>,
    #[command(flatten)]
    place: Where,
    /// Write the page here, or to standard output with `-`; default: into the results directory
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn execute(args: &Args) -> Result<(), Failure> {
    let history = args.place.history()?;
    let mut runs: Vec<&Run> = Vec::new();
    for name in &args.runs {
        let run = history.find(name)?;
        if !runs.iter().any(|known| known.id == run.id) {
            runs.push(run);
        }
    }
    if args.runs.is_empty() {
        runs = history.runs.iter().collect();
    }
    runs.sort_by(|a, b| a.id.cmp(&b.id));
    let root = &history.results.place(history.results.root());
    let (html, inside) = match runs.as_slice() {
        [] => {
            let message = format!("stride-pipe: there are no runs in {}; run a pipeline first", root.display());
            return Err(Failure::new(exit::MISSING_INPUT, message));
        }
        [run] if !args.runs.is_empty() => {
            (page(&Subject::of(&history.results, run)), history.results.report_path(&run.id))
        }
        several => {
            let linked = args.output.is_none();
            (page_of_runs(&history, several, !args.runs.is_empty(), linked), history.results.root().join("report.html"))
        }
    };
    let path = args.output.clone().unwrap_or_else(|| history.results.place(&inside));
    if path == Path::new("-") {
        return print_raw(&html);
    }
    sweep(&path);
    let written = write_atomic(&path, html.as_bytes())?;
    print(&format!("{}: {} run(s), {}\n", path.display(), runs.len(), bytes(written.bytes)))
}
