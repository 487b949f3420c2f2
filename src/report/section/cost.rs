//! Where the time went, by stage and phase.

use super::{Context, facts, grid};
use crate::report::chart::{PhaseBar, phase_chart};
use crate::report::data::Cost;
use crate::report::html::{Cell, Table, Text};
use crate::report::number::{bytes, count, seconds};
use crate::report::series::{COLOURS, class};
use std::fmt::Write as _;

/// A chart and a table; `offline.…` phases are parts of `offline`.
pub fn cost(context: &Context<'_>) -> String {
    let mut sums: Vec<Cost> = Vec::new();
    for cost in &context.run.costs {
        match sums.iter_mut().find(|sum| sum.stage == cost.stage && sum.phase == cost.phase) {
            Some(sum) => {
                sum.pieces += cost.pieces;
                sum.cached += cost.cached;
                sum.wall_s += cost.wall_s;
                sum.cpu_s += cost.cpu_s;
                sum.rows += cost.rows;
                sum.peak_rss_bytes = sum.peak_rss_bytes.max(cost.peak_rss_bytes);
            }
            None => sums.push(cost.clone()),
        }
    }
    let whole = |stage: &str| -> f64 {
        sums.iter().filter(|sum| sum.stage == stage && !sum.phase.contains('.')).map(|sum| sum.wall_s).sum()
    };
    let mut stages: Vec<&str> = Vec::new();
    for sum in &sums {
        if !stages.contains(&sum.stage.as_str()) {
            stages.push(&sum.stage);
        }
    }
    let total: f64 = stages.iter().map(|stage| whole(stage)).sum();
    let (large, small): (Vec<&str>, Vec<&str>) = stages.iter().partition(|stage| whole(stage) >= 0.01 * total);
    let mut phases: Vec<String> = Vec::new();
    let mut bars: Vec<PhaseBar> = large.iter().map(|stage| bar(stage, &sums, &mut phases)).collect();
    if !small.is_empty() {
        let name =
            if small.len() == 1 { small[0].to_owned() } else { format!("{} other stages together", small.len()) };
        phases.push("others".to_owned());
        let parts = vec![("others".to_owned(), phases.len() - 1, small.iter().map(|stage| whole(stage)).sum())];
        bars.push(PhaseBar { name, parts });
    }
    let Some(chart) = phase_chart(&bars) else { return String::new() };
    let mut legend = "<ul class=legend>".to_owned();
    for (series, phase) in phases.iter().enumerate() {
        let _ = write!(
            legend,
            "<li class=\"{}\"><svg viewBox=\"0 0 14 12\" width=14 height=12 aria-hidden=true><rect class=bar x=1 y=1 width=12 height=10 /></svg>{}</li>",
            class(series % COLOURS),
            Text(phase)
        );
    }
    legend.push_str("</ul>\n");
    let top = || sums.iter().filter(|sum| !sum.phase.contains('.'));
    let list = [
        ("wall clock of all stages", seconds(total)),
        ("processor time", seconds(top().map(|sum| sum.cpu_s).sum())),
        ("memory peak", bytes(sums.iter().map(|sum| sum.peak_rss_bytes).max().unwrap_or(0) as f64)),
        ("pieces of work", count(top().map(|sum| sum.pieces).sum())),
        ("of these from the cache", count(top().map(|sum| sum.cached).sum())),
    ];
    let mut out = grid(
        2,
        &format!(
            "<div>{chart}{legend}</div><div class=aside>{}<p>Times of work that came from the cache are those of the run that did it.</p></div>",
            facts(&list)
        ),
    );
    let mut table = Table::new(
        "Time and memory by stage and phase",
        true,
        &["stage", "phase", "pieces#", "from cache#", "wall clock#", "processor#", "rows#", "memory peak#"],
    );
    for sum in &sums {
        table.row([
            Cell::text(&sum.stage),
            Cell::text(&sum.phase),
            Cell::number(Some(sum.pieces as f64), |value| count(value as u64)),
            Cell::number(Some(sum.cached as f64), |value| count(value as u64)),
            Cell::number(Some(sum.wall_s), seconds),
            Cell::number(Some(sum.cpu_s), seconds),
            Cell::number(Some(sum.rows as f64), |value| count(value as u64)),
            Cell::number(Some(sum.peak_rss_bytes as f64), bytes),
        ]);
    }
    let _ = writeln!(out, "<details><summary>Time and memory by stage and phase</summary>{}</details>", table.finish());
    out
}

/// The parts of a stage: sub-phases where there are any, and what they leave of the phase they belong to.
fn bar(stage: &str, sums: &[Cost], phases: &mut Vec<String>) -> PhaseBar {
    let own: Vec<&Cost> = sums.iter().filter(|sum| sum.stage == stage).collect();
    let mut parts = Vec::new();
    let mut add = |phase: &str, time: f64| {
        let series = phases.iter().position(|known| known == phase).unwrap_or_else(|| {
            phases.push(phase.to_owned());
            phases.len() - 1
        });
        parts.push((phase.to_owned(), series, time));
    };
    for cost in own.iter().filter(|cost| !cost.phase.contains('.')) {
        let prefix = format!("{}.", cost.phase);
        let inner: Vec<&&Cost> = own.iter().filter(|other| other.phase.starts_with(&prefix)).collect();
        let mut rest = cost.wall_s;
        for part in &inner {
            add(&part.phase, part.wall_s);
            rest -= part.wall_s;
        }
        if inner.is_empty() {
            add(&cost.phase, cost.wall_s);
        } else if rest > 0.02 * cost.wall_s {
            add(&format!("{} (rest)", cost.phase), rest);
        }
    }
    PhaseBar { name: stage.to_owned(), parts }
}
