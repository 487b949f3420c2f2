//! How far the data of scoring runs are from those of training, over time.

use super::grid;
use crate::report::chart::{Moment, history_chart};
use crate::report::data::DriftPoint;
use crate::report::html::{Cell, Table};
use crate::report::number::{count, percent, significant};
use crate::report::series::{COLOURS, legend};
use std::collections::BTreeMap;

/// Features with a line of their own: those that are outside most.
const FEATURES: usize = 6;

/// Charts over time, and a table of the latest run.
pub fn drift(points: &[DriftPoint]) -> String {
    let Some(latest) = points.iter().max_by_key(|point| point.at).map(|point| point.run_id.clone()) else {
        return String::new();
    };
    let mut figures = String::new();
    let moments = |metric: &str, show: fn(f64) -> String| -> Vec<Moment> {
        let own = points.iter().filter(|point| point.metric == metric && point.feature.is_none());
        own.filter_map(|point| {
            let value = point.value.filter(|value| value.is_finite())?;
            let words = format!("{}: {} ({} rows)", point.run_id, show(value), count(point.rows.unsigned_abs()));
            Some(Moment { at: point.at, value, std: None, series: 0, words })
        })
        .collect()
    };
    figures.extend(history_chart(
        "drift",
        "Predictive variance over that of training",
        &moments("variance_ratio", |value| significant(value, 3)),
        Some((1.0, "as in training")),
    ));
    let mut worst: BTreeMap<&str, f64> = BTreeMap::new();
    for point in points.iter().filter(|point| point.metric == "share_outside_range") {
        if let (Some(feature), Some(value)) = (point.feature.as_deref(), point.value) {
            let most = worst.entry(feature).or_insert(0.0);
            *most = most.max(value);
        }
    }
    let mut ranked: Vec<(&str, f64)> = worst.into_iter().collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    let shown: Vec<&str> = ranked.iter().take(FEATURES.min(COLOURS)).map(|(feature, _)| *feature).collect();
    let outside: Vec<Moment> = points
        .iter()
        .filter(|point| point.metric == "share_outside_range")
        .filter_map(|point| {
            let (feature, value) = (point.feature.as_deref()?, point.value?);
            let series = shown.iter().position(|known| *known == feature)?;
            let words = format!("{feature}: {} outside the range of training ({})", percent(value), point.run_id);
            Some(Moment { at: point.at, value, std: None, series, words })
        })
        .collect();
    figures.extend(history_chart("drift", "Share of rows outside the range of training, by feature", &outside, None));
    figures.extend(history_chart(
        "drift",
        "Rows that could not be scored",
        &moments("rows_invalid", |value| count(value as u64)),
        None,
    ));
    let mut out = grid(3, &figures);
    let entries: Vec<(usize, String)> =
        shown.iter().enumerate().map(|(series, name)| (series, (*name).to_owned())).collect();
    if !entries.is_empty() {
        out.push_str(&legend(&entries));
    }
    let mut table = Table::new(
        "Features of the latest scoring run outside the range of training",
        true,
        &["feature", "latest run#", "most of any run#"],
    );
    for (feature, most) in ranked.iter().take(40) {
        let own = points.iter().find(|point| {
            point.run_id == latest && point.metric == "share_outside_range" && point.feature.as_deref() == Some(feature)
        });
        table.row([
            Cell::text(feature),
            Cell::number(own.and_then(|point| point.value), percent),
            Cell::number(Some(*most), percent),
        ]);
    }
    if !ranked.is_empty() {
        out.push_str(&table.finish());
    }
    out
}
