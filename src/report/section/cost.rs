//! Where the time went, by stage and phase.

use super::{RunContext, facts, grid};
use crate::report::chart::{PhaseBar, phase_chart};
use crate::report::data::CaseCost;
use crate::report::number::{bytes, count, seconds};
use crate::report::select::distinct;
use crate::report::series::class;
use crate::report::table::{TableCell, table};
use maud::{Markup, html};

/// A chart and a table; `offline.…` phases are parts of `offline`.
pub fn cost(context: &RunContext<'_>) -> Markup {
    let sums = &context.run.total_costs;
    let top = || sums.iter().filter(|sum| !sum.phase.contains('.'));
    let whole = |stage: &str| -> f64 { top().filter(|sum| sum.stage == stage).map(|sum| sum.wall_s).sum() };
    let stages: Vec<&str> = distinct(sums.iter().map(|sum| sum.stage.as_str()));
    let total: f64 = stages.iter().map(|stage| whole(stage)).sum();
    let (large, small): (Vec<&str>, Vec<&str>) = stages.iter().partition(|stage| whole(stage) >= 0.01 * total);
    let mut phases: Vec<String> = Vec::new();
    let mut bars: Vec<PhaseBar> = large.iter().map(|stage| bar(stage, sums, &mut phases)).collect();
    if !small.is_empty() {
        let name =
            if small.len() == 1 { small[0].to_owned() } else { format!("{} other stages together", small.len()) };
        phases.push("others".to_owned());
        let parts = vec![("others".to_owned(), phases.len() - 1, small.iter().map(|stage| whole(stage)).sum())];
        bars.push(PhaseBar { name, parts });
    }
    let Some(chart) = phase_chart(&bars) else { return Markup::default() };
    let list = [
        ("wall clock of all stages", seconds(total)),
        ("processor time", seconds(top().map(|sum| sum.cpu_s).sum())),
        ("memory peak", bytes(sums.iter().map(|sum| sum.peak_rss_bytes).max().unwrap_or(0) as f64)),
        ("pieces of work", count(top().map(|sum| sum.pieces).sum())),
        ("of these from the cache", count(top().map(|sum| sum.cached).sum())),
    ];
    let figures = html! {
        div {
            (chart)
            ul.legend {
                @for (series, phase) in phases.iter().enumerate() {
                    li class=(class(series)) {
                        svg viewBox="0 0 14 12" width="14" height="12" aria-hidden="true" {
                            rect.bar x="1" y="1" width="12" height="10" {}
                        }
                        (phase)
                    }
                }
            }
        }
        div.aside {
            (facts(&list))
            p {
                "Times of work that came from the cache are those of the run that did it. Work that several cases share counts \
                once."
            }
        }
    };
    let caption = "Time and memory by stage and phase";
    html! {
        (grid(2, [figures]))
        details { summary { (caption) } (table(caption, &COLUMNS, sums.iter().map(row))) }
    }
}

const COLUMNS: [&str; 8] =
    ["stage", "phase", "pieces#", "from cache#", "wall clock#", "processor#", "rows#", "memory peak#"];

fn row(sum: &CaseCost) -> Vec<TableCell> {
    vec![
        TableCell::new(&sum.stage),
        TableCell::new(&sum.phase),
        TableCell::count(Some(sum.pieces)),
        TableCell::count(Some(sum.cached)),
        TableCell::number(Some(sum.wall_s), seconds),
        TableCell::number(Some(sum.cpu_s), seconds),
        TableCell::number(Some(sum.rows as f64), |value| count(value as u64)),
        TableCell::number(Some(sum.peak_rss_bytes as f64), bytes),
    ]
}

/// The parts of a stage: sub-phases where there are any, and what they leave of the phase they belong to.
fn bar(stage: &str, sums: &[CaseCost], phases: &mut Vec<String>) -> PhaseBar {
    let own: Vec<&CaseCost> = sums.iter().filter(|sum| sum.stage == stage).collect();
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
        let inner: Vec<&&CaseCost> = own.iter().filter(|other| other.phase.starts_with(&prefix)).collect();
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
