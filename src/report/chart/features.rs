//! Figures of features as bars with their spread, and predictions along a feature.

use crate::report::explained::{FeatureFigure, PartialCurve};
use crate::report::number::{pixel, significant};
use crate::report::plot::{Axis, Domain, Plot};
use crate::report::scale::range;
use crate::report::series::class;
use maud::{Markup, html};

/// One bar per feature and series, with a line as long as its spread on both sides.
pub fn feature_bars(caption: &str, label: &str, series: &[(&str, Vec<&FeatureFigure>)]) -> Option<Markup> {
    let names: Vec<String> = series.first()?.1.iter().map(|figure| figure.feature.clone()).collect();
    if names.is_empty() {
        return None;
    }
    let ends = |figure: &&FeatureFigure| {
        let std = figure.std.unwrap_or(0.0);
        [figure.value - std, figure.value + std]
    };
    let (low, high) = range(series.iter().flat_map(|(_, figures)| figures.iter().flat_map(ends)), true);
    let height = 46.0 + (18.0 * series.len() as f64).max(22.0) * names.len() as f64;
    let mut plot =
        Plot::sized((340.0, height), Axis::new(label, Domain::Linear(low, high)), Axis::new("", Domain::Names(names)));
    let room = 0.8 / series.len() as f64;
    for (number, (what, figures)) in series.iter().enumerate() {
        for (place, figure) in figures.iter().enumerate() {
            let from = place as f64 - 0.4 + room * number as f64;
            let spread = figure.std.map_or_else(String::new, |std| format!(" ± {}", significant(std, 2)));
            let words = format!("{}: {what} {}{spread}", figure.feature, significant(figure.value, 3));
            plot.bar((0.0, figure.value), (from, from + 0.9 * room), &class(number), &words);
            let Some(std) = figure.std.filter(|std| *std > 0.0) else { continue };
            let (left, right) = (plot.x(figure.value - std), plot.x(figure.value + std));
            let y = plot.y(from + 0.45 * room);
            let ends = [left, right].map(|x| format!("M{} {}v6", pixel(x), pixel(y - 3.0))).concat();
            let path = format!("M{} {}H{}{ends}", pixel(left), pixel(y), pixel(right));
            plot.push(&html! { path class={ "spread " (class(number)) } d=(path) {} });
        }
    }
    Some(plot.finish("features", caption, &format!("{caption}, by feature")))
}

/// Predictions along a feature: the mean with its band over thin lines of single rows; `ends` are those of all features.
pub fn partial_chart(curve: &PartialCurve, target: &str, ends: (f64, f64)) -> Option<Markup> {
    if curve.at.len() < 2 {
        return None;
    }
    let (from, to) = (curve.at.first().copied()?, curve.at.last().copied()?);
    let mut plot = Plot::sized(
        (230.0, 180.0),
        Axis::new("", Domain::Linear(from, to)),
        Axis::new(target, Domain::Linear(ends.0, ends.1)),
    );
    for row in &curve.individual {
        plot.line(row, "single");
    }
    let (below, above) = band(curve);
    if !below.is_empty() {
        plot.band(&curve.at, &below, &above, &class(0));
    }
    let mean: Vec<(f64, f64)> = curve.at.iter().copied().zip(curve.mean.iter().copied()).collect();
    plot.line(&mean, &class(0));
    for (place, (at, mean)) in mean.iter().enumerate() {
        let spread = curve.std.get(place).map_or_else(String::new, |std| format!(" ± {}", significant(*std, 2)));
        let words = format!("{} = {}: {}{spread}", curve.feature, significant(*at, 3), significant(*mean, 3));
        plot.hit((*at, *mean), &words);
    }
    let description = format!("The mean prediction along {}, with the predictions of some rows", curve.feature);
    Some(plot.finish("partial", &curve.feature, &description))
}

/// 95 % of the posterior around the mean.
fn band(curve: &PartialCurve) -> (Vec<f64>, Vec<f64>) {
    let edge =
        |sign: f64| curve.mean.iter().zip(&curve.std).map(|(mean, std)| (sign * 1.96).mul_add(*std, *mean)).collect();
    (edge(-1.0), edge(1.0))
}

/// The ends of an axis that all these curves fit on.
pub fn partial_range(curves: &[PartialCurve]) -> (f64, f64) {
    let bands = curves.iter().flat_map(|curve| {
        let (below, above) = band(curve);
        below.into_iter().chain(above).chain(curve.mean.iter().copied()).collect::<Vec<_>>()
    });
    let single = curves.iter().flat_map(|curve| curve.individual.iter().flatten().map(|(_, y)| *y));
    range(bands.chain(single), false)
}
