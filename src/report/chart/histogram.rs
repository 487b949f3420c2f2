//! Counts in equal bins: standardised residuals against the normal curve, and predicted means.

use crate::report::data::PredictionCounts;
use crate::report::number::{count, percent, significant};
use crate::report::plot::{Axis, Domain, Plot};
use crate::report::series::class;
use maud::Markup;

/// Residuals in units of the predictive deviation; a model that knows its errors follows the curve.
pub fn deviation_chart(predicted: &PredictionCounts, caption: &str, series: usize) -> Option<Markup> {
    let all: u64 = predicted.deviations.iter().sum();
    if all == 0 {
        return None;
    }
    let bins = predicted.deviations.len() as f64;
    let width = 8.0 / bins;
    let density = |rows: u64| rows as f64 / all as f64 / width;
    let normal = |z: f64| (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let highest = predicted.deviations.iter().map(|rows| density(*rows)).fold(normal(0.0), f64::max);
    let mut plot = Plot::new(
        Axis::new("(true − predicted) / predictive sd", Domain::Linear(-4.0, 4.0)),
        Axis::new("density", Domain::Linear(0.0, 1.06 * highest)),
    );
    for (position, rows) in predicted.deviations.iter().enumerate() {
        let (from, to) = (width.mul_add(position as f64, -4.0), width.mul_add(position as f64 + 1.0, -4.0));
        let place = match position {
            0 => format!("below {}", significant(to, 2)),
            _ if position + 1 == predicted.deviations.len() => format!("above {}", significant(from, 2)),
            _ => format!("between {} and {}", significant(from, 2), significant(to, 2)),
        };
        let words = format!("{} rows ({}) {place}", count(*rows), percent(*rows as f64 / all as f64));
        if *rows > 0 {
            plot.bar((from, to), (0.0, density(*rows)), &class(series), &words);
        }
    }
    let curve: Vec<(f64, f64)> = (0..=80).map(|step| -4.0 + 0.1 * f64::from(step)).map(|z| (z, normal(z))).collect();
    plot.line(&curve, "normal");
    Some(plot.finish("deviations", caption, &format!("{caption}: standardised residuals and the normal curve")))
}

/// How predicted means are distributed.
pub fn means_chart(predicted: &PredictionCounts, caption: &str, series: usize) -> Option<Markup> {
    let (low, high, counts) = predicted.means.as_ref()?;
    let size = low.abs().max(high.abs());
    let (mut low, mut high, mut counts) = (*low, *high, counts.clone());
    if high - low <= (1e-9 * size).max(f64::MIN_POSITIVE) {
        // All of them the same but for rounding: one bar in the middle that can be seen.
        let half = if size > f64::MIN_POSITIVE { 0.1 * size } else { 1.0 };
        (low, high, counts) = (low - half, high + half, vec![0, 0, 0, counts.iter().sum(), 0, 0, 0]);
    }
    let most = counts.iter().copied().max().filter(|most| *most > 0)?;
    let width = (high - low) / counts.len() as f64;
    let mut plot = Plot::new(
        Axis::new(&predicted.of_target("predicted"), Domain::Linear(low, high)),
        Axis::new("rows", Domain::Linear(0.0, 1.06 * most as f64)),
    );
    for (position, rows) in counts.iter().enumerate().filter(|(_, rows)| **rows > 0) {
        let (from, to) = (width.mul_add(position as f64, low), width.mul_add(position as f64 + 1.0, low));
        let words = format!("{} rows between {} and {}", count(*rows), significant(from, 3), significant(to, 3));
        plot.bar((from, to), (0.0, *rows as f64), &class(series), &words);
    }
    Some(plot.finish("means", caption, &format!("{caption}: distribution of the predicted means")))
}
