//! How far the data of scoring runs are from those of training, over time.

use super::grid;
use crate::eval::metrics::{Metric, NumberFormat, of_drift};
use crate::report::chart::{Moment, history_chart};
use crate::report::data::DriftPoint;
use crate::report::number::{count, of_metric, percent};
use crate::report::series::{COLOURS, legend};
use crate::report::table::{TableCell, table};
use maud::{Markup, html};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Features with a line of their own: those that are outside most.
const FEATURES: usize = 6;

/// Charts over time, one line per pipeline (and feature), and a table of the latest runs.
pub fn drift(points: &[DriftPoint]) -> Markup {
    let points = by_run(points);
    let mut latest: BTreeMap<&str, &DriftPoint> = BTreeMap::new();
    for point in &points {
        let last = latest.entry(&point.pipeline).or_insert(point);
        if point.at > last.at {
            *last = point;
        }
    }
    let mut pipelines: Vec<&str> = latest.keys().copied().collect();
    pipelines.sort_by_key(|name| std::cmp::Reverse(latest[name].at));
    pipelines.truncate(COLOURS);
    let several = pipelines.len() > 1;
    let moments = |metric: &Metric| -> Vec<Moment> {
        let own = points.iter().filter(|point| point.metric == metric.name && point.feature.is_none());
        own.filter_map(|point| {
            let series = pipelines.iter().position(|known| *known == point.pipeline)?;
            let value = point.value.filter(|value| value.is_finite())?;
            let rows = count(point.rows.unsigned_abs());
            let words = format!("{}{}: {} ({rows} rows)", point.pipeline, place(point), of_metric(metric, value));
            Some(Moment { at: point.at, value, std: None, series, words })
        })
        .collect()
    };
    let chart = |metric: &Metric| {
        let reference = metric.nominal().map(|value| (value, "as in training"));
        history_chart("drift", metric.caption?, &moments(metric), reference)
    };
    html! {
        (grid(3, of_drift().filter_map(chart)))
        @if several { (legend(pipelines.iter().enumerate())) }
        (by_feature(&points, &latest, several))
    }
}

/// Whether a metric is a number of rows.
fn adds_up(name: &str) -> bool {
    of_drift().any(|metric| metric.name == name && metric.format == NumberFormat::Count)
}

/// What all cases of a run say together: the sum of numbers of rows, the most of everything else.
fn by_run(points: &[DriftPoint]) -> Vec<DriftPoint> {
    let mut runs: BTreeMap<(&str, &str, Option<&str>), DriftPoint> = BTreeMap::new();
    for point in points {
        match runs.entry((&point.run_id, &point.metric, point.feature.as_deref())) {
            Entry::Vacant(place) => drop(place.insert(point.clone())),
            Entry::Occupied(place) => {
                let known = place.into_mut();
                known.rows += point.rows;
                if adds_up(&known.metric) {
                    known.value = Some(known.value.unwrap_or(0.0) + point.value.unwrap_or(0.0));
                } else if point.value > known.value {
                    (known.value, known.case) = (point.value, point.case.clone());
                }
            }
        }
    }
    runs.into_values().collect()
}

/// The case that a value is of, where there are several, and the run.
fn place(point: &DriftPoint) -> String {
    let case = if point.case == "default" || adds_up(&point.metric) { "" } else { &point.case };
    format!("{}{case}, {}", if case.is_empty() { "" } else { ", " }, point.run_id)
}

/// Shares of rows outside the range of training: the features that are outside most, over time and in the latest runs.
fn by_feature(points: &[DriftPoint], latest: &BTreeMap<&str, &DriftPoint>, several: bool) -> Markup {
    let shares: Vec<(&DriftPoint, &str, f64)> = points
        .iter()
        .filter(|point| point.metric == "share_outside_range")
        .filter_map(|point| Some((point, point.feature.as_deref()?, point.value?)))
        .collect();
    let mut worst: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for (point, feature, value) in &shares {
        let most = worst.entry((&point.pipeline, feature)).or_insert(0.0);
        *most = most.max(*value);
    }
    let mut ranked: Vec<((&str, &str), f64)> = worst.into_iter().collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    if ranked.is_empty() {
        return Markup::default();
    }
    let name = |(pipeline, feature): (&str, &str)| {
        if several { format!("{pipeline}: {feature}") } else { feature.to_owned() }
    };
    let shown: Vec<(&str, &str)> = ranked.iter().take(FEATURES.min(COLOURS)).map(|(key, _)| *key).collect();
    let moment = |(point, feature, value): &(&DriftPoint, &str, f64)| {
        let series = shown.iter().position(|known| *known == (point.pipeline.as_str(), feature))?;
        let words = format!("{feature}: {} outside the range of training{}", percent(*value), place(point));
        Some(Moment { at: point.at, value: *value, std: None, series, words })
    };
    let moments: Vec<Moment> = shares.iter().filter_map(moment).collect();
    let chart = history_chart("drift", "Share of rows outside the range of training, by feature", &moments, None);
    let row = |(key, most): &((&str, &str), f64)| {
        let last = latest.get(key.0).map(|point| point.run_id.as_str());
        let own = shares.iter().find(|(point, feature, _)| {
            Some(point.run_id.as_str()) == last && (point.pipeline.as_str(), *feature) == *key
        });
        let last = TableCell::number(own.map(|(_, _, value)| *value), percent);
        vec![TableCell::new(name(*key)), last, TableCell::number(Some(*most), percent)]
    };
    html! {
        (grid(3, chart))
        (legend(shown.iter().map(|key| name(*key)).enumerate()))
        (table(
            "Features outside the range of training: the latest run of each pipeline, and the most of any",
            &["feature", "latest run#", "most of any run#"],
            ranked.iter().take(40).map(row),
        ))
    }
}
