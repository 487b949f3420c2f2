//! Hidden layers: curves over one coordinate, maps over two.

use crate::report::html::Text;
use crate::report::number::{pixel, significant};
use crate::report::plot::{Axis, Domain, Plot};
use crate::report::scale::range;
use crate::report::series::class;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Values of hidden layers at some places; all slices have the same length.
#[derive(Debug, Clone, Copy)]
pub struct HiddenPoints<'a> {
    /// First coordinate.
    pub x0: &'a [f64],
    /// Second coordinate; empty for inputs of one dimension.
    pub x1: &'a [f64],
    /// The layer of each value.
    pub layer: &'a [i32],
    /// The output of the layer.
    pub output: &'a [i32],
    /// The value.
    pub mean: &'a [f64],
    /// Its deviation over the chains; empty where it is not known.
    pub sd: &'a [f64],
}

/// Cells of a map along each side, where places are anywhere.
const CELLS: usize = 36;
/// Values of a coordinate up to which each has its own cells.
const GRID: usize = 64;
/// Points of a curve, at most.
const POINTS: usize = 300;

/// One figure per layer over one coordinate, one per layer and output over two. `names` are those of the coordinates.
pub fn hidden_charts(points: &HiddenPoints<'_>, names: (&str, &str)) -> Vec<String> {
    let count =
        [points.x0.len(), points.layer.len(), points.output.len(), points.mean.len()].into_iter().min().unwrap_or(0);
    let known: Vec<usize> =
        (0..count).filter(|row| points.x0[*row].is_finite() && points.mean[*row].is_finite()).collect();
    let layers: BTreeSet<i32> = known.iter().map(|row| points.layer[*row]).collect();
    let two = points.x1.len() >= count && !points.x1.is_empty();
    let of = |layer: i32| -> Vec<usize> { known.iter().copied().filter(|row| points.layer[*row] == layer).collect() };
    let mut charts = Vec::new();
    for layer in layers {
        let rows = of(layer);
        if two {
            let outputs: BTreeSet<i32> = rows.iter().map(|row| points.output[*row]).collect();
            for output in outputs {
                let own: Vec<usize> = rows.iter().copied().filter(|row| points.output[*row] == output).collect();
                charts.extend(map(points, &own, &format!("Layer {layer}, output {output}"), names));
            }
        } else {
            charts.push(curves(points, &rows, &format!("Layer {layer}"), names.0));
        }
    }
    charts
}

fn curves(points: &HiddenPoints<'_>, rows: &[usize], caption: &str, name: &str) -> String {
    let (left, right) = rows.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |ends, row| {
        (ends.0.min(points.x0[*row]), ends.1.max(points.x0[*row]))
    });
    let sd = |row: usize| points.sd.get(row).copied().filter(|sd| sd.is_finite()).unwrap_or(0.0);
    let (low, high) =
        range(rows.iter().flat_map(|row| [points.mean[*row] - sd(*row), points.mean[*row] + sd(*row)]), false);
    let mut plot = Plot::new(Axis::new(name, Domain::Linear(left, right)), Axis::new("", Domain::Linear(low, high)));
    let outputs: BTreeSet<i32> = rows.iter().map(|row| points.output[*row]).collect();
    for (series, output) in outputs.into_iter().enumerate() {
        let mut own: Vec<usize> = rows.iter().copied().filter(|row| points.output[*row] == output).collect();
        own.sort_by(|a, b| points.x0[*a].total_cmp(&points.x0[*b]));
        let every = own.len().div_ceil(POINTS).max(1);
        let own: Vec<usize> = own.into_iter().step_by(every).collect();
        let x: Vec<f64> = own.iter().map(|row| points.x0[*row]).collect();
        if !points.sd.is_empty() {
            let edge =
                |sign: f64| -> Vec<f64> { own.iter().map(|row| sign.mul_add(sd(*row), points.mean[*row])).collect() };
            plot.band(&x, &edge(-1.0), &edge(1.0), &class(series));
        }
        let line: Vec<(f64, f64)> = own.iter().map(|row| (points.x0[*row], points.mean[*row])).collect();
        plot.line(&line, &class(series));
        for row in own.iter().step_by((own.len() / 30).max(1)) {
            let words = format!(
                "output {output} at {}: {}",
                significant(points.x0[*row], 3),
                significant(points.mean[*row], 3)
            );
            let (x, y) = (pixel(plot.x(points.x0[*row])), pixel(plot.y(points.mean[*row])));
            plot.push(&format!("<circle class=hit cx={x} cy={y} r=6 data-t=\"{}\"/>", Text(&words)));
        }
    }
    plot.finish("hidden", caption, &format!("{caption}: hidden values along {name}"))
}

/// Mean values of cells, from blue (low) over grey to red (high).
fn map(points: &HiddenPoints<'_>, rows: &[usize], caption: &str, names: (&str, &str)) -> Option<String> {
    let finite = |row: &&usize| points.x1[**row].is_finite();
    let rows: Vec<usize> = rows.iter().filter(finite).copied().collect();
    let (across, up) = (Cells::new(&rows, points.x0)?, Cells::new(&rows, points.x1)?);
    let mut sums: BTreeMap<(usize, usize), (f64, u32)> = BTreeMap::new();
    for row in &rows {
        let sum = sums.entry((across.cell(points.x0[*row]), up.cell(points.x1[*row]))).or_default();
        *sum = (sum.0 + points.mean[*row], sum.1 + 1);
    }
    let (low, high) = rows.iter().map(|row| points.mean[*row]).fold(ENDS, ends);
    let mut plot = Plot::sized(
        (320.0, 300.0),
        Axis::new(names.0, Domain::Linear(across.edges[0], across.last())),
        Axis::new(names.1, Domain::Linear(up.edges[0], up.last())),
    );
    let mut cells = String::new();
    for ((column, row), (sum, count)) in sums {
        let mean = sum / f64::from(count);
        let part = if high > low { (mean - low) / (high - low) } else { 0.5 };
        let (left, right) = (plot.x(across.edges[column]), plot.x(across.edges[column + 1]));
        let (bottom, top) = (plot.y(up.edges[row]), plot.y(up.edges[row + 1]));
        let words = format!(
            "{} at ({}, {})",
            significant(mean, 3),
            significant(across.middle(column), 2),
            significant(up.middle(row), 2)
        );
        let _ = write!(
            cells,
            "<rect class=\"mark d{}\" x={} y={} width={} height={} data-t=\"{}\"/>",
            (10.0 * part).round().clamp(0.0, 10.0) as u8,
            pixel(left),
            pixel(top),
            pixel(right - left + 0.3),
            pixel(bottom - top + 0.3),
            Text(&words)
        );
    }
    plot.push(&cells);
    let caption = format!("{caption}: {} to {}", significant(low, 3), significant(high, 3));
    Some(plot.finish("hidden", &caption, &format!("{caption}: hidden values over {} and {}", names.0, names.1)))
}

/// What the colours of maps mean.
pub fn colour_key() -> String {
    let mut rects = String::new();
    for step in 0..=10 {
        let _ = write!(rects, "<rect class=d{step} x={} y=1 width=12.3 height=10 />", 12 * step);
    }
    format!(
        "<p class=quiet>Colours of each map: its lowest value <svg viewBox=\"0 0 132 12\" width=132 height=12 \
         aria-hidden=true>{rects}</svg> its highest, both in its title.</p>\n"
    )
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
    fn new(rows: &[usize], values: &[f64]) -> Option<Self> {
        let mut distinct: Vec<f64> = rows.iter().map(|row| values[*row]).collect();
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

    /// One layer of two outputs on a grid of one or two dimensions.
    fn charts(two: bool) -> Vec<String> {
        let side = 20_i32;
        let (mut x0, mut x1, mut layer, mut output, mut mean) = (vec![], vec![], vec![], vec![], vec![]);
        for out in 0..2 {
            for i in 0..side {
                for j in 0..(if two { side } else { 1 }) {
                    x0.push(f64::from(i) / 10.0);
                    x1.push(f64::from(j) / 10.0);
                    layer.push(1);
                    output.push(out);
                    mean.push((f64::from(i) / 5.0).sin() + f64::from(out * j));
                }
            }
        }
        mean[3] = f64::NAN;
        let (empty, sd) = (Vec::new(), vec![0.1; mean.len()]);
        let x1 = if two { &x1 } else { &empty };
        hidden_charts(&HiddenPoints { x0: &x0, x1, layer: &layer, output: &output, mean: &mean, sd: &sd }, ("a", "<b>"))
    }

    #[test]
    fn one_dimension_gives_curves_and_two_give_maps() {
        let curves = charts(false);
        assert_eq!(curves.len(), 1);
        assert_eq!(curves[0].matches("<polyline").count(), 2);
        assert_eq!(curves[0].matches("<polygon").count(), 2);
        let maps = charts(true);
        assert_eq!(maps.len(), 2);
        assert!(maps[1].matches("<rect class=\"mark d").count() >= 390);
        assert!(maps.iter().all(|map| map.contains("&lt;b&gt;") && !map.contains("<b>")));
    }

    #[test]
    fn every_place_of_a_grid_has_its_cell() {
        for side in [2, 33, 50, 64] {
            let at = |index: usize| index as f64 / (side - 1) as f64;
            let x0: Vec<f64> = (0..side * side).map(|point| at(point % side)).collect();
            let x1: Vec<f64> = (0..side * side).map(|point| 3.0 * at(point / side)).collect();
            let (ones, mean) = (vec![1; x0.len()], x0.clone());
            let points = HiddenPoints { x0: &x0, x1: &x1, layer: &ones, output: &ones, mean: &mean, sd: &[] };
            let maps = hidden_charts(&points, ("a", "b"));
            assert_eq!(maps[0].matches("<rect class=\"mark d").count(), side * side, "{side}");
        }
    }

    #[test]
    fn nothing_gives_nothing() {
        let none = HiddenPoints { x0: &[], x1: &[], layer: &[], output: &[], mean: &[], sd: &[] };
        assert!(hidden_charts(&none, ("", "")).is_empty());
        let one = HiddenPoints { x0: &[1.0], x1: &[2.0], layer: &[1], output: &[0], mean: &[3.0], sd: &[] };
        assert!(hidden_charts(&one, ("", "")).is_empty());
    }
}
