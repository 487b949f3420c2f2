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

/// Cells of a map along each side.
const CELLS: usize = 36;
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

/// Mean values of cells of a regular grid, from blue (low) over grey to red (high).
fn map(points: &HiddenPoints<'_>, rows: &[usize], caption: &str, names: (&str, &str)) -> Option<String> {
    let ends = |values: &[f64]| {
        rows.iter()
            .map(|row| values[*row])
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |ends, value| (ends.0.min(value), ends.1.max(value)))
    };
    let (x_ends, y_ends, z_ends) = (ends(points.x0), ends(points.x1), ends(points.mean));
    if !(x_ends.0 < x_ends.1 && y_ends.0 < y_ends.1) {
        return None;
    }
    let cell = |value: f64, (low, high): (f64, f64)| {
        ((value - low) / (high - low) * CELLS as f64).floor().clamp(0.0, CELLS as f64 - 1.0) as usize
    };
    let mut sums: BTreeMap<(usize, usize), (f64, u32)> = BTreeMap::new();
    for row in rows.iter().filter(|row| points.x1[**row].is_finite()) {
        let sum = sums.entry((cell(points.x0[*row], x_ends), cell(points.x1[*row], y_ends))).or_default();
        *sum = (sum.0 + points.mean[*row], sum.1 + 1);
    }
    let mut plot = Plot::sized(
        (320.0, 300.0),
        Axis::new(names.0, Domain::Linear(x_ends.0, x_ends.1)),
        Axis::new(names.1, Domain::Linear(y_ends.0, y_ends.1)),
    );
    let edge = |index: usize, (low, high): (f64, f64)| (high - low).mul_add(index as f64 / CELLS as f64, low);
    let mut cells = String::new();
    for ((column, row), (sum, count)) in sums {
        let mean = sum / f64::from(count);
        let part = if z_ends.1 > z_ends.0 { (mean - z_ends.0) / (z_ends.1 - z_ends.0) } else { 0.5 };
        let (left, right) = (plot.x(edge(column, x_ends)), plot.x(edge(column + 1, x_ends)));
        let (bottom, top) = (plot.y(edge(row, y_ends)), plot.y(edge(row + 1, y_ends)));
        let words = format!(
            "{} at ({}, {})",
            significant(mean, 3),
            significant(edge(column, x_ends), 2),
            significant(edge(row, y_ends), 2)
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
    let caption = format!("{caption}: {} to {}", significant(z_ends.0, 3), significant(z_ends.1, 3));
    Some(plot.finish("hidden", &caption, &format!("{caption}: hidden values over {} and {}", names.0, names.1)))
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
    fn nothing_gives_nothing() {
        let none = HiddenPoints { x0: &[], x1: &[], layer: &[], output: &[], mean: &[], sd: &[] };
        assert!(hidden_charts(&none, ("", "")).is_empty());
        let one = HiddenPoints { x0: &[1.0], x1: &[2.0], layer: &[1], output: &[0], mean: &[3.0], sd: &[] };
        assert!(hidden_charts(&one, ("", "")).is_empty());
    }
}
