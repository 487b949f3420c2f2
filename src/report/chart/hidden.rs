//! Hidden layers: curves over one coordinate, maps over two.

use crate::report::data::HiddenValue;
use crate::report::number::{pixel, significant};
use crate::report::plot::{Axis, Domain, Plot};
use crate::report::scale::range;
use crate::report::series::class;
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Cells of a map along each side, where places are anywhere.
const CELLS: usize = 36;
/// Values of a coordinate up to which each has its own cells.
const GRID: usize = 64;
/// Points of a curve, at most.
const POINTS: usize = 300;

/// One figure per layer over one coordinate, one per layer and output over two. `names` are those of the coordinates.
pub fn hidden_charts(points: &[HiddenValue], names: (&str, &str)) -> Vec<Markup> {
    let known = points.iter().filter(|point| point.x0.is_finite() && point.mean.is_finite());
    let mut layers: BTreeMap<i32, BTreeMap<i32, Vec<&HiddenValue>>> = BTreeMap::new();
    for point in known {
        layers.entry(point.layer).or_default().entry(point.output).or_default().push(point);
    }
    let two = points.iter().any(|point| point.x1.is_some());
    let mut charts = Vec::new();
    for (layer, outputs) in layers {
        if two {
            let chart = |(output, own): (&i32, &Vec<_>)| map(own, &format!("Layer {layer}, output {output}"), names);
            charts.extend(outputs.iter().filter_map(chart));
        } else {
            charts.push(curves(outputs, &format!("Layer {layer}"), names.0));
        }
    }
    charts
}

fn curves(outputs: BTreeMap<i32, Vec<&HiddenValue>>, caption: &str, name: &str) -> Markup {
    let all = || outputs.values().flatten();
    let (left, right) = all().map(|point| point.x0).fold(ENDS, ends);
    let sd = |point: &HiddenValue| point.std.filter(|sd| sd.is_finite()).unwrap_or(0.0);
    let (low, high) = range(all().flat_map(|point| [point.mean - sd(point), point.mean + sd(point)]), false);
    let mut plot = Plot::new(Axis::new(name, Domain::Linear(left, right)), Axis::new("", Domain::Linear(low, high)));
    let banded = all().any(|point| point.std.is_some());
    for (series, (output, mut own)) in outputs.into_iter().enumerate() {
        own.sort_by(|a, b| a.x0.total_cmp(&b.x0));
        let every = own.len().div_ceil(POINTS).max(1);
        let own: Vec<&HiddenValue> = own.into_iter().step_by(every).collect();
        if banded {
            let x: Vec<f64> = own.iter().map(|point| point.x0).collect();
            let edge =
                |sign: f64| -> Vec<f64> { own.iter().map(|point| sign.mul_add(sd(point), point.mean)).collect() };
            plot.band(&x, &edge(-1.0), &edge(1.0), &class(series));
        }
        plot.line(&own.iter().map(|point| (point.x0, point.mean)).collect::<Vec<_>>(), &class(series));
        for point in own.iter().step_by((own.len() / 30).max(1)) {
            let words = format!("output {output} at {}: {}", significant(point.x0, 3), significant(point.mean, 3));
            plot.hit((point.x0, point.mean), &words);
        }
    }
    plot.finish("hidden", caption, &format!("{caption}: hidden values along {name}"))
}

/// Mean values of cells, from blue (low) over grey to red (high).
fn map(points: &[&HiddenValue], caption: &str, names: (&str, &str)) -> Option<Markup> {
    let places: Vec<(f64, f64, f64)> =
        points.iter().filter_map(|point| Some((point.x0, point.x1.filter(|x1| x1.is_finite())?, point.mean))).collect();
    let across = Cells::new(places.iter().map(|place| place.0).collect())?;
    let up = Cells::new(places.iter().map(|place| place.1).collect())?;
    let mut sums: BTreeMap<(usize, usize), (f64, u32)> = BTreeMap::new();
    for (x0, x1, mean) in &places {
        let sum = sums.entry((across.cell(*x0), up.cell(*x1))).or_default();
        *sum = (sum.0 + mean, sum.1 + 1);
    }
    let (low, high) = places.iter().map(|place| place.2).fold(ENDS, ends);
    let mut plot = Plot::sized(
        (320.0, 300.0),
        Axis::new(names.0, Domain::Linear(across.edges[0], across.last())),
        Axis::new(names.1, Domain::Linear(up.edges[0], up.last())),
    );
    let cells = html! {
        @for ((column, row), (sum, count)) in sums {
            @let mean = sum / f64::from(count);
            @let part = if high > low { (mean - low) / (high - low) } else { 0.5 };
            @let (left, right) = (plot.x(across.edges[column]), plot.x(across.edges[column + 1]));
            @let (bottom, top) = (plot.y(up.edges[row]), plot.y(up.edges[row + 1]));
            @let (x, y) = (significant(across.middle(column), 2), significant(up.middle(row), 2));
            rect class={ "mark d" ((10.0 * part).round().clamp(0.0, 10.0)) } x=(pixel(left)) y=(pixel(top))
                width=(pixel(right - left + 0.3)) height=(pixel(bottom - top + 0.3))
                data-t={ (significant(mean, 3)) " at (" (x) ", " (y) ")" } {}
        }
    };
    plot.push(&cells);
    let caption = format!("{caption}: {} to {}", significant(low, 3), significant(high, 3));
    Some(plot.finish("hidden", &caption, &format!("{caption}: hidden values over {} and {}", names.0, names.1)))
}

/// What the colours of maps mean.
pub fn colour_key() -> Markup {
    html! {
        p.quiet {
            "Colours of each map: its lowest value "
            svg viewBox="0 0 132 12" width="132" height="12" aria-hidden="true" {
                @for step in 0..=10 { rect class={ "d" (step) } x=(12 * step) y="1" width="12.3" height="10" {} }
            }
            " its highest, both in its title."
        }
    }
}

const ENDS: (f64, f64) = (f64::INFINITY, f64::NEG_INFINITY);

fn ends((low, high): (f64, f64), value: f64) -> (f64, f64) {
    (low.min(value), high.max(value))
}

/// How one coordinate is cut into cells: around its values where they lie on a grid, evenly otherwise.
struct Cells {
    edges: Vec<f64>,
}

impl Cells {
    /// None when all values are the same.
    fn new(mut distinct: Vec<f64>) -> Option<Self> {
        distinct.sort_by(f64::total_cmp);
        distinct.dedup();
        let (first, last) = (*distinct.first()?, *distinct.last()?);
        if first >= last {
            return None;
        }
        let edges = if distinct.len() <= GRID {
            let between = distinct.windows(2).map(|pair| 0.5 * (pair[0] + pair[1]));
            let (start, end) = (distinct[1] - first, last - distinct[distinct.len() - 2]);
            std::iter::once(first - 0.5 * start).chain(between).chain([last + 0.5 * end]).collect()
        } else {
            (0..=CELLS).map(|edge| (last - first).mul_add(edge as f64 / CELLS as f64, first)).collect()
        };
        Some(Self { edges })
    }

    fn cell(&self, value: f64) -> usize {
        self.edges[1..self.edges.len() - 1].partition_point(|edge| *edge <= value)
    }

    fn middle(&self, cell: usize) -> f64 {
        0.5 * (self.edges[cell] + self.edges[cell + 1])
    }

    fn last(&self) -> f64 {
        self.edges[self.edges.len() - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(output: i32, x0: f64, x1: Option<f64>, mean: f64) -> HiddenValue {
        HiddenValue { layer: 1, output, x0, x1, mean, std: Some(0.1) }
    }

    /// One layer of two outputs on a grid of one or two dimensions.
    fn charts(two: bool) -> Vec<Markup> {
        let side = 20_i32;
        let mut points = Vec::new();
        for out in 0..2 {
            for i in 0..side {
                for j in 0..(if two { side } else { 1 }) {
                    let mean = (f64::from(i) / 5.0).sin() + f64::from(out * j);
                    points.push(value(out, f64::from(i) / 10.0, two.then_some(f64::from(j) / 10.0), mean));
                }
            }
        }
        points[3].mean = f64::NAN;
        hidden_charts(&points, ("a", "<b>"))
    }

    #[test]
    fn one_dimension_gives_curves_and_two_give_maps() {
        let curves = charts(false);
        assert_eq!(curves.len(), 1);
        assert_eq!(curves[0].0.matches("<polyline").count(), 2);
        assert_eq!(curves[0].0.matches("<polygon").count(), 2);
        let maps = charts(true);
        assert_eq!(maps.len(), 2);
        assert!(maps[1].0.matches("<rect class=\"mark d").count() >= 390);
        assert!(maps.iter().all(|map| map.0.contains("&lt;b&gt;") && !map.0.contains("<b>")));
    }

    #[test]
    fn every_place_of_a_grid_has_its_cell() {
        for side in [2, 33, 50, 64] {
            let at = |index: usize| index as f64 / (side - 1) as f64;
            let point = |place: usize| value(1, at(place % side), Some(3.0 * at(place / side)), at(place % side));
            let points: Vec<HiddenValue> = (0..side * side).map(point).collect();
            let maps = hidden_charts(&points, ("a", "b"));
            assert_eq!(maps[0].0.matches("<rect class=\"mark d").count(), side * side, "{side}");
        }
    }

    #[test]
    fn nothing_gives_nothing() {
        assert!(hidden_charts(&[], ("", "")).is_empty());
        assert!(hidden_charts(&[value(0, 1.0, Some(2.0), 3.0)], ("", "")).is_empty());
    }
}
