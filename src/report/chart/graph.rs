//! The stages of a pipeline and who takes whose output, from left to right.

use crate::report::data::GraphStage;
use crate::report::html::Text;
use crate::report::number::pixel;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Height of a box.
const HIGH: f64 = 40.0;
/// Longest id that is shown whole.
const LONGEST: usize = 24;
/// Room between boxes.
const GAP: (f64, f64) = (38.0, 18.0);

/// The drawing; nothing for no stages.
pub fn graph_chart(stages: &[GraphStage]) -> Option<String> {
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
    let mut out = format!(
        "<figure class=\"chart wide\" data-chart=graph><figcaption>Stages</figcaption><div class=scroll tabindex=0 role=region aria-label=\"Stages of the pipeline\">\
         <svg class=graph viewBox=\"0 0 {w} {h}\" width={w} height={h} role=img aria-label=\"Stages of the pipeline and their inputs\">",
        w = pixel(width),
        h = pixel(height)
    );
    for stage in stages {
        for input in stage.inputs.iter().filter(|input| places.contains_key(input.as_str())) {
            out.push_str(&edge(corner(input), corner(&stage.id), wide));
        }
    }
    for stage in stages {
        let (x, y) = corner(&stage.id);
        let short: String = if stage.id.chars().count() > LONGEST {
            stage.id.chars().take(LONGEST - 1).chain(['…']).collect()
        } else {
            stage.id.clone()
        };
        let words = format!("{}: {}", stage.id, stage.kind);
        let _ = write!(
            out,
            "<g class=\"node mark\" data-t=\"{}\"><rect x={} y={} width={} height={} rx=6 /><text x={tx} y={} text-anchor=middle>{}</text><text class=kind x={tx} y={} text-anchor=middle>{}</text></g>",
            Text(&words),
            pixel(x),
            pixel(y),
            wide,
            HIGH,
            pixel(y + 17.0),
            Text(&short),
            pixel(y + 31.0),
            Text(&stage.kind),
            tx = pixel(x + 0.5 * wide)
        );
    }
    out.push_str("</svg></div></figure>\n");
    Some(out)
}

/// An arrow from box to box; over a box that stands between the two in their row.
fn edge(from: (f64, f64), to: (f64, f64), wide: f64) -> String {
    let (start, end) = ((from.0 + wide, from.1 + 0.5 * HIGH), (to.0, to.1 + 0.5 * HIGH));
    let beside = end.0 - start.0 < 1.5 * GAP.0;
    if beside || (from.1 - to.1).abs() > 1.0 {
        let bend = 0.5 * (end.0 - start.0).max(20.0);
        return format!(
            "<path class=edge d=\"M{} {}C{} {} {} {} {} {}\"/><path class=tip d=\"M{} {}l-7 -3.5v7z\"/>",
            pixel(start.0),
            pixel(start.1),
            pixel(start.0 + bend),
            pixel(start.1),
            pixel(end.0 - bend),
            pixel(end.1),
            pixel(end.0 - 5.0),
            pixel(end.1),
            pixel(end.0),
            pixel(end.1)
        );
    }
    let (left, right, top) = (start.0 - 18.0, end.0 + 18.0, from.1);
    format!(
        "<path class=edge d=\"M{} {y}C{} {h} {} {h} {} {}\"/><path class=tip d=\"M{} {y}l-3.5 -7h7z\"/>",
        pixel(left),
        pixel(left + 18.0),
        pixel(right - 18.0),
        pixel(right),
        pixel(top - 5.0),
        pixel(right),
        y = pixel(top),
        h = pixel(top - 15.0)
    )
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
