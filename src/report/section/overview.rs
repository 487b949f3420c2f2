//! Several runs side by side.

use super::drift::drift;
use super::{PagePart, grid, plus_minus, to_the_second};
use crate::report::chart::{Moment, history_chart};
use crate::report::data::{Overview, RunLine};
use crate::report::number::{count, seconds, significant};
use crate::report::select::distinct;
use crate::report::series::legend;
use crate::report::table::{TableCell, table};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// How runs went, how their metrics changed, and how the data of scoring runs drifted.
pub fn overview(overview: &Overview) -> Vec<PagePart> {
    let part = |id: &str, title, body| PagePart { id: id.to_owned(), title, body, folded: false };
    let parts = [
        part("runs", "Runs", runs(&overview.runs)),
        part("drift", "Drift over scoring runs", drift(&overview.drift)),
        part("missing", "What is missing", missing(&overview.runs)),
    ];
    parts.into_iter().filter(|part| !part.body.0.is_empty()).collect()
}

fn runs(runs: &[RunLine]) -> Markup {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for run in runs {
        *counts.entry(&run.status).or_default() += 1;
    }
    html! {
        p.chips { @for (status, runs) in counts { (chip(status, &format!("{} {status}", count(runs)))) " " } }
        (histories(runs))
        (lines(runs))
    }
}

fn missing(runs: &[RunLine]) -> Markup {
    let broken: Vec<&RunLine> = runs.iter().filter(|run| !run.problems.is_empty()).collect();
    html! {
        @if !broken.is_empty() {
            p { (count(broken.len() as u64)) " of " (count(runs.len() as u64)) " runs are not complete." }
            details open[broken.len() <= 10] {
                summary { "What is missing, run by run" }
                ul {
                    @for run in broken { @for problem in &run.problems { li { code { (run.id) } ": " (problem) } } }
                }
            }
        }
    }
}

/// A status in its colour, which is not green where there are doubts.
pub fn judged(status: &str, doubts: &[String]) -> Markup {
    if status == "succeeded" && !doubts.is_empty() {
        return chip("doubtful", &format!("{status}, {}", doubts.join(", ")));
    }
    chip(status, status)
}

/// A status in its colour.
fn chip(status: &str, words: &str) -> Markup {
    let class = match status {
        "succeeded" => "ok",
        "failed" | "damaged" | "alarm" => "no",
        _ => "so",
    };
    html! { span class={ "chip " (class) } { (words) } }
}

/// One chart per pipeline: the best of each evaluate stage, run by run.
fn histories(runs: &[RunLine]) -> Markup {
    let mut pipelines: Vec<&str> = runs.iter().filter_map(|run| run.pipeline.as_deref()).collect();
    pipelines.sort_unstable();
    pipelines.dedup();
    let history = |pipeline: &str| {
        let own = || {
            let own = runs.iter().filter(|run| run.pipeline.as_deref() == Some(pipeline));
            own.flat_map(|run| run.best.iter().map(move |best| (run, best)))
        };
        let stages: Vec<&str> = distinct(own().map(|(_, best)| best.stage.as_str()));
        let moment = |(run, best): (&RunLine, &crate::report::data::Best)| Moment {
            at: run.started,
            value: best.mean,
            std: best.std,
            series: stages.iter().position(|stage| *stage == best.stage).unwrap_or(0),
            words: format!("{}, {}, {}: {} {}", run.id, best.stage, best.case, best.metric, significant(best.mean, 4)),
        };
        let moments: Vec<Moment> = own().map(moment).collect();
        if moments.len() < 2 {
            return None;
        }
        let metric = own().next().map_or("", |(_, best)| best.metric.as_str());
        let chart = history_chart("history", &format!("{pipeline}: {metric} of the best case"), &moments, None)?;
        Some(if stages.len() > 1 {
            html! { div { (chart) (legend(stages.iter().enumerate())) } }
        } else {
            chart
        })
    };
    grid(3, pipelines.into_iter().filter_map(history))
}

fn lines(runs: &[RunLine]) -> Markup {
    let columns =
        ["run", "pipeline", "status", "started", "took#", "cases#", "version", "best case", "metric", "value#"];
    let line = |run: &RunLine| {
        let name = html! { code { (run.id) } };
        let name = html! { @if let Some(link) = &run.link { a href=(link) { (name) } } @else { (name) } };
        let best = run.best.first();
        let more = if run.best.len() > 1 { format!(" (+{})", run.best.len() - 1) } else { String::new() };
        let case = best.map_or_else(|| "–".to_owned(), |best| format!("{}: {}{more}", best.stage, best.case));
        let value = best.map_or_else(|| html! { "–" }, |best| plus_minus(best.mean, best.std, 4));
        vec![
            TableCell::new(name),
            TableCell::new(run.pipeline.as_deref().unwrap_or("–")),
            TableCell::new(judged(&run.status, &run.doubts)),
            TableCell::new(to_the_second(run.started)),
            TableCell::number(run.seconds, seconds),
            TableCell::count(run.cases.map(|cases| cases as u64)),
            TableCell::new(run.version.as_deref().unwrap_or("–")),
            TableCell::new(case),
            TableCell::new(best.map_or("–", |best| best.metric.as_str())),
            TableCell::new(value).by(best.map(|best| best.mean)).class("n"),
        ]
    };
    table("Runs, the newest first", &columns, runs.iter().rev().map(line))
}
