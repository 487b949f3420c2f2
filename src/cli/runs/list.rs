//! `stride-pipe runs list`.

use super::{Where, to_the_second};
use crate::cli::exit::Failure;
use crate::cli::grid::Grid;
use crate::cli::{TextOrJson, print, print_raw};
use crate::eval::metrics::headline;
use crate::store::history::{History, Run, headline_ranges};
use crate::text::duration;
use clap::Args as ClapArgs;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Arguments of `runs list`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(flatten)]
    place: Where,
    /// How to show them
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    format: TextOrJson,
}

pub fn execute(args: &Args) -> Result<(), Failure> {
    let mut history = args.place.history()?;
    let (ranges, problems) = headline_ranges(&history.runs.iter().collect::<Vec<_>>());
    for run in &mut history.runs {
        run.problems.extend(problems.get(run.id.as_str()).cloned());
    }
    match args.format {
        TextOrJson::Text => print(&to_text(&history, &ranges)),
        TextOrJson::Json => {
            let runs: Vec<Json> = history.runs.iter().map(|run| to_json(run, ranges.get(run.id.as_str()))).collect();
            print_raw(&format!("{:#}\n", Json::from(runs)))
        }
    }
}

fn to_text(history: &History, ranges: &BTreeMap<String, (f64, f64)>) -> String {
    let root = history.results.place(history.results.root());
    let root = root.display();
    if history.runs.is_empty() {
        return format!("no runs in {root}\n");
    }
    let mut grid = Grid::new(["run", "pipeline", "status", "started", "duration", "cases", headline()], 4);
    for run in &history.runs {
        let unknown = || "-".to_owned();
        let range = ranges.get(run.id.as_str()).map_or_else(unknown, |(low, high)| {
            let (low, high) = (format!("{low:.4}"), format!("{high:.4}"));
            if low == high { low } else { format!("{low} … {high}") }
        });
        grid.push([
            run.id.to_string(),
            run.pipeline.clone().unwrap_or_else(unknown),
            run.status.name().to_owned(),
            to_the_second(run.id.started()),
            run.seconds().map_or_else(unknown, duration),
            run.manifest.as_ref().map_or_else(unknown, |manifest| manifest.cases.len().to_string()),
            range,
        ]);
    }
    let mut out = grid.to_text(0);
    for (run, problem) in history.runs.iter().flat_map(|run| run.problems.iter().map(move |text| (run, text))) {
        let _ = writeln!(out, "note: {}: {problem}", run.id);
    }
    for name in &history.foreign {
        let _ = writeln!(out, "note: run/{name} is not a run");
    }
    out
}

fn to_json(run: &Run, range: Option<&(f64, f64)>) -> Json {
    let manifest = run.manifest.as_ref();
    json!({
        "run_id": run.id, "pipeline": run.pipeline, "status": run.status.name(), "started_at": run.id.started(),
        "finished_at": manifest.map(|manifest| manifest.finished_at), "seconds": run.seconds(),
        "cases": manifest.map(|manifest| manifest.cases.len()),
        (format!("{}_lowest", headline())): range.map(|range| range.0),
        (format!("{}_highest", headline())): range.map(|range| range.1),
        "problems": run.problems,
    })
}
