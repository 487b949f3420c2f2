//! The stages of a pipeline and who takes whose output, from left to right.

use crate::report::data::GraphStage;
use crate::report::number::pixel;
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Height of a box.
const HIGH: f64 = 40.0;
/// Longest id that is shown whole.
const LONGEST: usize = 24;
/// Room between boxes.
const GAP: (f64, f64) = (38.0, 18.0);

/// The drawing; nothing for no stages.
pub fn graph_chart(stages: &[GraphStage]) -> Option<Markup> {
    if stages.is_empty() {
        return None;
    }
    let places = layout(stages);
    let longest = stages.iter().map(|stage| stage.id.chars().count()).max().unwrap_or(0).min(LONGEST);
    let wide = (7.4 * longest as f64 + 18.0).max(104.0);
    let size = |pick: fn(&(usize, usize)) -> usize| places.values().map(pick).max().unwrap_or(0) as f64 + 1.0;
    let (columns, rows) = (size(|place| place.0), size(|place| place.1));
    let (width, height) = (columns * (wide + GAP.0) - GAP.0 + 4.0, rows * (HIGH + GAP.1) + 4.0);
    let corner = |id: &str| {
        let (column, row) = places.get(id).copied().unwrap_or_default();
        (2.0 + column as f64 * (wide + GAP.0), GAP.1 + 2.0 + row as f64 * (HIGH + GAP.1))
    };
    let edges = stages.iter().flat_map(|stage| stage.inputs.iter().map(move |input| (input, stage)));
    let short = |id: &str| -> String {
        let long = id.chars().count() > LONGEST;
        if long { id.chars().take(LONGEST - 1).chain(['…']).collect() } else { id.to_owned() }
    };
    let (w, h) = (pixel(width), pixel(height));
    Some(html! {
        figure class="chart wide" data-chart="graph" {
            figcaption { "Stages" }
            div.scroll tabindex="0" role="region" aria-label="Stages of the pipeline" {
                svg.graph viewBox={ "0 0 " (w) " " (h) } width=(w) height=(h) role="img"
                    aria-label="Stages of the pipeline and their inputs" {
                    @for (input, stage) in edges.filter(|(input, _)| places.contains_key(input.as_str())) {
                        (edge(corner(input), corner(&stage.id), wide))
                    }
                    @for stage in stages {
                        @let (x, y) = corner(&stage.id);
                        @let middle = pixel(x + 0.5 * wide);
                        g class="node mark" data-t={ (stage.id) ": " (stage.kind) } {
                            rect x=(pixel(x)) y=(pixel(y)) width=(wide) height=(HIGH) rx="6" {}
                            text x=(middle) y=(pixel(y + 17.0)) text-anchor="middle" { (short(&stage.id)) }
                            text.kind x=(middle) y=(pixel(y + 31.0)) text-anchor="middle" { (stage.kind) }
                        }
                    }
                }
            }
        }
    })
}

/// An arrow from box to box; over a box that stands between the two in their row.
fn edge(from: (f64, f64), to: (f64, f64), wide: f64) -> Markup {
    let (start, end) = ((from.0 + wide, from.1 + 0.5 * HIGH), (to.0, to.1 + 0.5 * HIGH));
    let at = |x: f64, y: f64| format!("{} {}", pixel(x), pixel(y));
    let beside = end.0 - start.0 < 1.5 * GAP.0;
    let (line, tip) = if beside || (from.1 - to.1).abs() > 1.0 {
        let bend = 0.5 * (end.0 - start.0).max(20.0);
        let (out, into) = (at(start.0 + bend, start.1), at(end.0 - bend, end.1));
        let line = format!("M{}C{out} {into} {}", at(start.0, start.1), at(end.0 - 5.0, end.1));
        (line, format!("M{}l-7 -3.5v7z", at(end.0, end.1)))
    } else {
        let (left, right, top) = (start.0 - 18.0, end.0 + 18.0, from.1);
        let (out, into) = (at(left + 18.0, top - 15.0), at(right - 18.0, top - 15.0));
        let line = format!("M{}C{out} {into} {}", at(left, top), at(right, top - 5.0));
        (line, format!("M{}l-3.5 -7h7z", at(right, top)))
    };
    html! { path.edge d=(line) {} path.tip d=(tip) {} }
}

/// Column and row of every stage: to the right of all its inputs, and in the row of the first one where that is free.
fn layout(stages: &[GraphStage]) -> BTreeMap<&str, (usize, usize)> {
    let mut places: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut taken: std::collections::BTreeSet<(usize, usize)> = std::collections::BTreeSet::new();
    let mut next_row = 0;
    for stage in stages {
        let inputs: Vec<(usize, usize)> =
            stage.inputs.iter().filter_map(|input| places.get(input.as_str()).copied()).collect();
        let column = inputs.iter().map(|(column, _)| column + 1).max().unwrap_or(0);
        let wanted = inputs.iter().map(|(_, row)| *row).min().unwrap_or(next_row);
        let row = (wanted..=wanted + stages.len()).find(|row| !taken.contains(&(column, *row))).unwrap_or(wanted);
        taken.insert((column, row));
        next_row = next_row.max(row + 1);
        places.insert(&stage.id, (column, row));
    }
    places
}
