//! A number against a variable: one line per method, bars for the spread over folds.

use crate::report::number::pixel;
use crate::report::plot::{Axis, Domain, Plot};
use crate::report::scale::{log_range, range};
use crate::report::series::class;
use maud::{Markup, PreEscaped};

/// What is across the chart.
#[derive(Debug, Clone)]
pub enum Across {
    Numbers(Vec<f64>),
    Names(Vec<String>),
}

/// One line.
#[derive(Debug, Clone)]
pub struct Line {
    pub series: usize,
    /// Its points, in order.
    pub points: Vec<LinePoint>,
}

/// A point of a line.
#[derive(Debug, Clone)]
pub struct LinePoint {
    /// Which of the values across.
    pub at: usize,
    pub mean: f64,
    pub std: Option<f64>,
    pub words: String,
}

/// Names, and the line that matters across the chart.
pub struct Labels<'a> {
    pub caption: &'a str,
    pub x: &'a str,
    /// A value that matters, and its name.
    pub reference: Option<(f64, &'a str)>,
}

/// The chart; times are shown by powers of ten.
pub fn line_chart(labels: &Labels<'_>, across: &Across, lines: &[Line], is_time: bool) -> Markup {
    let points = || lines.iter().flat_map(|line| &line.points);
    let ends = |point: &LinePoint| {
        let std = point.std.unwrap_or(0.0);
        [point.mean - std, point.mean + std, point.mean]
    };
    let reference = labels.reference.map(|(value, _)| value);
    let y = if is_time {
        // Bars that would reach down to zero are cut off a little below their mean.
        let lower = |point: &LinePoint| (point.mean - point.std.unwrap_or(0.0)).max(0.4 * point.mean);
        let (low, high) = log_range(points().flat_map(|point| [lower(point), point.mean + point.std.unwrap_or(0.0)]));
        Domain::Log(low, high)
    } else {
        let (low, high) = range(points().flat_map(ends).chain(reference), true);
        Domain::Linear(low, high)
    };
    let domain = match across {
        Across::Names(names) => Domain::Names(names.clone()),
        Across::Numbers(values) => numbers(values),
    };
    let up = if is_time { "log scale" } else { "" };
    let mut plot = Plot::new(Axis::new(labels.x, domain), Axis::new(up, y));
    if let Some((value, name)) = labels.reference {
        plot.reference(value, name);
    }
    let place = |point: &LinePoint| match across {
        Across::Names(_) => point.at as f64,
        Across::Numbers(values) => values.get(point.at).copied().unwrap_or(f64::NAN),
    };
    let mut places_used: Vec<usize> = points().map(|point| point.at).collect();
    places_used.sort_unstable();
    let crowded = places_used.windows(2).any(|pair| pair[0] == pair[1]);
    for (position, line) in lines.iter().enumerate() {
        // Marks of several lines at one place stand side by side, so that their bars can be told apart.
        let between = match across {
            Across::Names(_) if crowded => 14.0,
            Across::Numbers(_) if crowded => 4.0,
            _ => 0.0,
        };
        let aside = between * (position as f64 - 0.5 * (lines.len() as f64 - 1.0));
        // What follows is pushed into the group until it is closed.
        plot.push(&PreEscaped(format!("<g transform=\"translate({} 0)\">", pixel(aside))));
        if matches!(across, Across::Numbers(_)) {
            let places: Vec<(f64, f64)> = line.points.iter().map(|point| (place(point), point.mean)).collect();
            plot.line(&places, &class(line.series));
        }
        let floor = plot.y_ends().0;
        for point in &line.points {
            if let Some(std) = point.std {
                plot.error(place(point), ((point.mean - std).max(floor), point.mean + std), line.series);
            }
        }
        for point in &line.points {
            plot.point((place(point), point.mean), line.series, &point.words);
        }
        plot.push(&PreEscaped("</g>".to_owned()));
    }
    let kind = if is_time { "time" } else { "metric" };
    plot.finish(kind, labels.caption, &format!("{} against {}", labels.caption, labels.x))
}

/// An axis with names at the values that were used, when they are few.
fn numbers(values: &[f64]) -> Domain {
    let positive = values.iter().all(|value| *value > 0.0);
    let (low, high) =
        values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |ends, value| (ends.0.min(*value), ends.1.max(*value)));
    let log = positive && high / low > 30.0;
    let ends = if log { log_range(values.iter().copied()) } else { range(values.iter().copied(), false) };
    if values.len() <= 8 {
        let name = |value: &f64| (*value, crate::report::number::significant(*value, 4));
        return Domain::At(ends, log, values.iter().map(name).collect());
    }
    if log { Domain::Log(ends.0, ends.1) } else { Domain::Linear(ends.0, ends.1) }
}
