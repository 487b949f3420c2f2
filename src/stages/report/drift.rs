//! What scoring runs said about their data, run after run.

use super::Subject;
use crate::eval::metrics::of_drift;
use crate::report::DriftPoint;
use crate::store::{Manifest, RunId, StoreError, read_known};
use crate::tables::{MetricRow, TableKind};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Earlier runs that are looked at.
const RUNS: usize = 200;
/// Features of a case that are kept: those that are outside most.
const FEATURES: usize = 40;

/// The drift metrics among these rows.
pub fn points(pipeline: &str, id: &RunId, rows: &[MetricRow]) -> Vec<DriftPoint> {
    let of = |row: &&MetricRow| {
        row.stat == "value" && row.split == "score" && of_drift().any(|metric| metric.name == row.metric)
    };
    let weight = |row: &MetricRow| if row.feature.is_some() { row.value.unwrap_or(0.0) } else { f64::INFINITY };
    let mut by_case: BTreeMap<(&str, &str), Vec<&MetricRow>> = BTreeMap::new();
    for row in rows.iter().filter(of) {
        by_case.entry((&row.stage, &row.case)).or_default().push(row);
    }
    for rows in by_case.values_mut() {
        rows.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        rows.truncate(FEATURES + of_drift().count());
    }
    let point = |row: &MetricRow| DriftPoint {
        pipeline: pipeline.to_owned(),
        run_id: id.to_string(),
        at: id.started(),
        stage: row.stage.clone(),
        case: row.case.clone(),
        metric: row.metric.clone(),
        feature: row.feature.clone(),
        value: row.value,
        rows: row.rows,
    };
    by_case.into_values().flatten().map(point).collect()
}

/// The drift of this run and of earlier ones of its pipeline; nothing for a run that scores nothing.
pub fn of_pipeline(subject: &Subject<'_>, rows: &[MetricRow]) -> Vec<DriftPoint> {
    let Some(pipeline) = subject.pipeline else { return Vec::new() };
    let own = points(pipeline, subject.id, rows);
    let Some(directory) =
        subject.tables.get(&TableKind::Metrics).and_then(|path| path.parent()?.parent()).filter(|_| !own.is_empty())
    else {
        return own;
    };
    let mut earlier: Vec<(RunId, PathBuf)> = names(directory)
        .into_iter()
        .flat_map(|date| names(&date))
        .filter_map(|path| {
            let id: RunId = path.file_name()?.to_str()?.strip_suffix(".parquet")?.parse().ok()?;
            (id < *subject.id).then_some((id, path))
        })
        .collect();
    earlier.sort();
    let first = earlier.len().saturating_sub(RUNS);
    let mut all = Vec::new();
    for (id, path) in &earlier[first..] {
        // Damaged tables of other runs are their own problem.
        let whole = Manifest::load(subject.results, id).and_then(|manifest| manifest.check_file(path));
        let damaged = matches!(whole, Err(StoreError::Invalid { .. }));
        let rows = if damaged { Vec::new() } else { read_known(path).unwrap_or_default() };
        all.extend(points(pipeline, id, &rows));
    }
    all.extend(own);
    all
}

fn names(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
