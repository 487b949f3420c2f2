//! Many runs at once: a line for each, and a few in detail.

use super::{Subject, VERSION, drift, run_report};
use crate::report::{Best, DriftPoint, Overview, ReportData, RunCase, RunLine, best_of, distinct, doubts, render};
use crate::store::history::{History, Run};
use crate::store::read_known;
use crate::tables::{MetricRow, TableKind};
use rayon::prelude::*;
use std::collections::BTreeSet;

/// Pipelines whose latest run is shown in detail.
const DETAILED: usize = 6;
/// Runs that were asked for by name and are all shown in detail.
const NAMED: usize = 4;

/// The page of these runs of a results directory, as HTML. `linked`: it will lie in that directory, and may point into
/// it.
pub fn page_of_runs(history: &History, runs: &[&Run], named: bool, linked: bool) -> String {
    let lines: Vec<(RunLine, Vec<DriftPoint>)> = runs.par_iter().map(|run| line(history, run, linked)).collect();
    let (lines, points): (Vec<RunLine>, Vec<Vec<DriftPoint>>) = lines.into_iter().unzip();
    let mut notes = Vec::new();
    let detailed: Vec<&Run> = if named && runs.len() <= NAMED {
        runs.to_vec()
    } else {
        let latest = latest(runs);
        if !latest.is_empty() {
            notes.push("In detail below: the latest successful run of each pipeline.".to_owned());
        }
        if latest.len() > DETAILED {
            let more = latest.len() - DETAILED;
            notes.push(format!("{more} more pipelines are in the table of runs only; name a run to see it in detail."));
        }
        latest.into_iter().take(DETAILED).collect()
    };
    notes.extend(history.foreign.iter().map(|name| format!("run/{name} is not a run and was passed over.")));
    let runs = detailed.iter().map(|run| run_report(&Subject::of(&history.results, run))).collect();
    let place = history.results.place(history.results.root()).display().to_string();
    let overview = Overview { place, runs: lines, drift: points.into_iter().flatten().collect() };
    render(&ReportData { title: "Runs".to_owned(), version: VERSION.to_owned(), overview: Some(overview), runs, notes })
}

/// The latest complete run of each pipeline, the newest first.
fn latest<'a>(runs: &[&'a Run]) -> Vec<&'a Run> {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut found = Vec::new();
    for run in runs.iter().rev().filter(|run| run.status.is_complete()) {
        if run.pipeline.as_deref().is_some_and(|pipeline| seen.insert(pipeline)) {
            found.push(*run);
        }
    }
    found
}

fn line(history: &History, run: &Run, linked: bool) -> (RunLine, Vec<DriftPoint>) {
    let mut problems = run.problems.clone();
    let mut rows: Vec<MetricRow> = Vec::new();
    if run.tables.contains_key(&TableKind::Metrics) {
        match run.table(TableKind::Metrics).and_then(read_known) {
            Ok(found) => rows = found,
            Err(error) => problems.push(error.to_string()),
        }
    } else if run.status.is_complete() {
        problems.push("its metrics table is missing".to_owned());
    }
    let page = history.results.report_path(&run.id);
    let link = (linked && page.exists()).then(|| format!("run/{}/report.html", run.id));
    let line = RunLine {
        id: run.id.to_string(),
        pipeline: run.pipeline.clone(),
        status: run.status.name().to_owned(),
        started: run.id.started(),
        seconds: run.seconds(),
        version: run.manifest.as_ref().map(|manifest| manifest.version.clone()),
        cases: run.manifest.as_ref().map(|manifest| manifest.cases.len()),
        best: best(&rows),
        link,
        problems,
        doubts: doubts(run.manifest.as_ref().is_some_and(|manifest| !manifest.alarms.is_empty()), &rows),
    };
    let points = drift::points(run.pipeline.as_deref().unwrap_or_default(), &run.id, &rows);
    (line, points)
}

fn best(rows: &[MetricRow]) -> Vec<Best> {
    let labels = distinct(rows.iter().map(|row| &row.case));
    let cases: Vec<RunCase> =
        labels.into_iter().map(|label| RunCase { label: label.clone(), values: Vec::new() }).collect();
    best_of(&cases, rows)
}
