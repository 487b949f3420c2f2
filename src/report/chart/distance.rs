//! Error with and without the local layer, along the distance to the nearest training row.

use crate::report::data::{DistanceBin, PredictionCounts};
use crate::report::moments::Moments;
use crate::report::number::{count, significant};
use crate::report::plot::{Axis, Domain, Plot};
use crate::report::scale::{log_range, range};
use crate::report::series::class;
use maud::Markup;

/// The series of predictions without the local layer: grey, whatever colour the case has.
pub const WITHOUT: usize = 7;
/// Deviations on either side of a band.
const BAND: f64 = 1.96;

/// Squared errors of a bin, with or without the layer.
type ErrorsOf = fn(&DistanceBin) -> &Moments;

/// The chart of a case, its errors in the units of the target; nothing for less than two bins.
pub fn distance_chart(predicted: &PredictionCounts, caption: &str, series: usize, target: &str) -> Option<Markup> {
    let bins = &predicted.by_distance;
    if bins.len() < 2 {
        return None;
    }
    let at: Vec<f64> = bins.iter().map(|bin| bin.distance.mean()).collect();
    let edges = |of: ErrorsOf| -> (Vec<f64>, Vec<f64>) {
        let edge = |bin: &DistanceBin| {
            let error = of(bin).mean().sqrt();
            let room = BAND * error_of_rmse(of(bin));
            ((error - room).max(0.0), error + room)
        };
        bins.iter().map(edge).unzip()
    };
    let lines: [(&str, usize, ErrorsOf); 2] =
        [("without the local layer", WITHOUT, |bin| &bin.without), ("with the local layer", series, |bin| &bin.with)];
    let ends = lines.iter().map(|(_, _, of)| edges(*of)).flat_map(|(below, above)| below.into_iter().chain(above));
    let (low, high) = range(ends, true);
    // Copies of training rows are at distance zero, which has no place on a logarithmic axis.
    let spread = at.iter().copied().fold(0.0, f64::max) > 30.0 * at[0];
    let across = if spread && at[0] > 0.0 {
        let (low, high) = log_range(at.iter().copied());
        Domain::Log(low, high)
    } else {
        let (low, high) = range(at.iter().copied(), true);
        Domain::Linear(low, high)
    };
    let up = if target.is_empty() { "RMSE".to_owned() } else { format!("RMSE ({target})") };
    let mut plot = Plot::sized(
        (320.0, 250.0),
        Axis::new("distance to the nearest training row, 1 = usual", across),
        Axis::new(&up, Domain::Linear(low, high)),
    );
    for (_, series, of) in &lines {
        let (below, above) = edges(*of);
        plot.band(&at, &below, &above, &class(*series));
    }
    for (words, series, of) in &lines {
        let points: Vec<(f64, f64)> = at.iter().copied().zip(bins.iter().map(|bin| of(bin).mean().sqrt())).collect();
        plot.line(&points, &class(*series));
        for (point, bin) in points.iter().zip(bins) {
            let words = format!(
                "{words}: RMSE {} at {} times the usual distance ({} rows)",
                significant(point.1, 3),
                significant(point.0, 3),
                count(bin.rows())
            );
            plot.point(*point, *series, &words);
        }
    }
    let description =
        format!("{caption}: error with and without the local layer, by distance to the nearest training row");
    Some(plot.finish("distance", caption, &description))
}

/// Standard error of a root mean square, from squares; zero where it is not known.
fn error_of_rmse(squares: &Moments) -> f64 {
    let rmse = squares.mean().sqrt();
    if rmse > 0.0 { squares.standard_error().unwrap_or(0.0) / (2.0 * rmse) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_both_lines_is_on_the_axes() {
        let moments = |mean: f64| Moments { count: 100, sum: 100.0 * mean, squares: 104.0 * mean * mean };
        let bin = |distance: f64, with: f64, without: f64| DistanceBin {
            distance: moments(distance),
            with: moments(with * with),
            without: moments(without * without),
            gain: moments(without * without - with * with),
        };
        let by_distance = vec![bin(0.5, 1.7, 1.95), bin(1.0, 1.86, 2.1), bin(1.7, 1.98, 2.37)];
        let predicted = PredictionCounts { by_distance, ..PredictionCounts::default() };
        let chart = distance_chart(&predicted, "STRIDE", 0, "label").map(Markup::into_string).unwrap_or_default();
        let bottom: f64 = 250.0 - 37.0;
        let lines = chart.split("polyline class=\"line").skip(1).chain(chart.split("polygon class=\"band").skip(1));
        let mut seen = 0;
        for line in lines {
            let points = line.split("points=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
            for (_, y) in points.split(' ').filter_map(|point| point.split_once(',')) {
                assert!(
                    y.parse::<f64>().is_ok_and(|y| (24.0..=bottom).contains(&y)),
                    "{y} is beyond the axes: {points}"
                );
                seen += 1;
            }
        }
        assert_eq!(seen, 2 * 3 + 2 * 6);
    }
}
