//! Several runs side by side.

use super::drift::drift;
use super::grid;
use crate::report::chart::{Moment, history_chart};
use crate::report::data::{Overview, RunLine};
use crate::report::html::{Cell, Table, Text};
use crate::report::number::{count, fixed, seconds, significant};
use crate::report::series::legend;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How runs went, how their metrics changed, and how the data of scoring runs drifted.
pub fn overview(overview: &Overview) -> String {
    let runs = &overview.runs;
    let mut out = String::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for run in runs {
        *counts.entry(&run.status).or_default() += 1;
    }
    out.push_str("<section id=runs><h2>Runs</h2>\n<p class=chips>");
    for (status, runs) in counts {
        let _ = write!(
            out,
            "<span class=\"chip {}\">{} {}</span> ",
            status_class(status),
            count(runs as u64),
            Text(status)
        );
    }
    out.push_str("</p>\n");
    out.push_str(&histories(runs));
    out.push_str(&table(runs));
    out.push_str("</section>\n");
    let body = drift(&overview.drift);
    if !body.is_empty() {
        let _ = write!(out, "<section id=drift><h2>Drift over scoring runs</h2>\n{body}</section>\n");
    }
    let broken: Vec<&RunLine> = runs.iter().filter(|run| !run.problems.is_empty()).collect();
    if !broken.is_empty() {
        let list: String = broken
            .iter()
            .flat_map(|run| {
                run.problems
                    .iter()
                    .map(move |problem| format!("<li><code>{}</code>: {}</li>", Text(&run.id), Text(problem)))
            })
            .collect();
        let _ = write!(
            out,
            "<section id=missing><h2>What is missing</h2>\n<p>{} of {} runs are not complete.</p>\n<details{}><summary>What is missing, run by run</summary><ul>{list}</ul></details></section>\n",
            count(broken.len() as u64),
            count(runs.len() as u64),
            if broken.len() <= 10 { " open" } else { "" }
        );
    }
    out
}

/// The class of a status.
pub fn status_class(status: &str) -> &'static str {
    match status {
        "succeeded" => "ok",
        "failed" | "damaged" => "no",
        _ => "so",
    }
}

/// One chart per pipeline: the best of each evaluate stage, run by run.
fn histories(runs: &[RunLine]) -> String {
    let mut pipelines: Vec<&str> = runs.iter().filter_map(|run| run.pipeline.as_deref()).collect();
    pipelines.sort_unstable();
    pipelines.dedup();
    let mut out = String::new();
    for pipeline in pipelines {
        let own: Vec<&RunLine> = runs.iter().filter(|run| run.pipeline.as_deref() == Some(pipeline)).collect();
        let mut stages: Vec<&str> = Vec::new();
        for best in own.iter().flat_map(|run| &run.best) {
            if !stages.contains(&best.stage.as_str()) {
                stages.push(&best.stage);
            }
        }
        let metric = own.iter().flat_map(|run| &run.best).map(|best| best.metric.clone()).next().unwrap_or_default();
        let moments: Vec<Moment> = own
            .iter()
            .flat_map(|run| run.best.iter().map(move |best| (run, best)))
            .map(|(run, best)| Moment {
                at: run.started,
                value: best.mean,
                std: best.std,
                series: stages.iter().position(|stage| *stage == best.stage).unwrap_or(0),
                words: format!(
                    "{}, {}, {}: {} {}",
                    run.id,
                    best.stage,
                    best.case,
                    best.metric,
                    significant(best.mean, 4)
                ),
            })
            .collect();
        if moments.len() < 2 {
            continue;
        }
        let caption = format!("{pipeline}: {metric} of the best case");
        let chart: String = history_chart("history", &caption, &moments, None).into_iter().collect();
        let names: Vec<(usize, String)> =
            stages.iter().enumerate().map(|(series, stage)| (series, (*stage).to_owned())).collect();
        if names.len() > 1 {
            let _ = write!(out, "<div>{chart}{}</div>", legend(&names));
        } else {
            out.push_str(&chart);
        }
    }
    grid(3, &out)
}

fn table(runs: &[RunLine]) -> String {
    let columns =
        ["run", "pipeline", "status", "started", "took#", "cases#", "version", "best case", "metric", "value#"];
    let mut table = Table::new("Runs, the newest first", true, &columns);
    for run in runs.iter().rev() {
        let name = match &run.link {
            Some(link) => format!("<a href=\"{}\"><code>{}</code></a>", Text(link), Text(&run.id)),
            None => format!("<code>{}</code>", Text(&run.id)),
        };
        let best = run.best.first();
        let more = if run.best.len() > 1 { format!(" (+{})", run.best.len() - 1) } else { String::new() };
        let started = run.started.to_string();
        let started = started.split('.').next().unwrap_or_default().replace('T', " ");
        let case = best.map_or_else(|| "–".to_owned(), |best| format!("{}: {}{more}", best.stage, best.case));
        let value = best.map_or_else(
            || "–".to_owned(),
            |best| {
                let std =
                    best.std.map_or_else(String::new, |std| format!(" <span class=pm>± {}</span>", fixed(std, 4)));
                format!("{}{std}", fixed(best.mean, 4))
            },
        );
        table.row([
            Cell::markup(name),
            Cell::text(run.pipeline.as_deref().unwrap_or("–")),
            Cell::markup(format!("<span class=\"chip {}\">{}</span>", status_class(&run.status), Text(&run.status))),
            Cell::text(&started),
            Cell::number(run.seconds, seconds),
            Cell::number(run.cases.map(|cases| cases as f64), |value| count(value as u64)),
            Cell::text(run.version.as_deref().unwrap_or("–")),
            Cell::text(&case),
            Cell::text(best.map_or("–", |best| best.metric.as_str())),
            Cell::markup(value).by(best.map(|best| best.mean)).class("n"),
        ]);
    }
    table.finish()
}
