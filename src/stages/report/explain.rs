//! What models make of their features, from the table `explanations` where a run has one.

use super::Subject;
use crate::report::{Explanation, FeatureFigure, PartialCurve};
use crate::store::{StoreError, read_known};
use crate::tables::{ExplanationRow, TableKind};
use std::collections::{BTreeMap, BTreeSet};

/// Stages and cases that are shown.
const SHOWN: usize = 6;
/// Curves of single rows.
const SINGLE: usize = 20;

/// What explain stages say of these cases, or of any when none are named.
pub fn explanations(subject: &Subject<'_>, wanted: &[(String, String)]) -> Result<Vec<Explanation>, StoreError> {
    let Some(path) = subject.tables.get(&TableKind::Explanations) else { return Ok(Vec::new()) };
    subject.check(path)?;
    let rows: Vec<ExplanationRow> = read_known(path)?;
    let mut found: Vec<(&str, &str, Vec<&ExplanationRow>)> = Vec::new();
    for row in &rows {
        if !wanted.is_empty() && !wanted.iter().any(|(_, case)| *case == row.case) {
            continue;
        }
        match found.iter().position(|(stage, case, _)| *stage == row.stage && *case == row.case) {
            Some(place) => found[place].2.push(row),
            None if found.len() < SHOWN => found.push((&row.stage, &row.case, vec![row])),
            None => {}
        }
    }
    Ok(found.into_iter().map(|(stage, case, rows)| explanation(stage, case, &rows)).collect())
}

fn explanation(stage: &str, case: &str, rows: &[&ExplanationRow]) -> Explanation {
    let folds: BTreeSet<Option<i32>> = rows.iter().map(|row| row.fold).collect();
    let mut importance = figures(rows, ("permutation", "mean"));
    let total = figures(rows, ("sobol", "total"));
    // The order of all charts is that of the first figure there is.
    let ranked = if importance.is_empty() { &total } else { &importance };
    let mut order: Vec<(String, f64)> = ranked.iter().map(|figure| (figure.feature.clone(), figure.value)).collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    let place = |feature: &str| order.iter().position(|(name, _)| name == feature).unwrap_or(order.len());
    importance.sort_by_key(|figure| place(&figure.feature));
    let mut sobol: Vec<(FeatureFigure, FeatureFigure)> =
        figures(rows, ("sobol", "first")).into_iter().zip(total.clone()).collect();
    sobol.sort_by_key(|(first, _)| place(&first.feature));
    let mut sensitivity = figures(rows, ("sensitivity", "mean_absolute"));
    sensitivity.sort_by_key(|figure| place(&figure.feature));
    let mut partial = curves(rows);
    partial.sort_by_key(|curve| place(&curve.feature));
    let (stage, case, folds) = (stage.to_owned(), case.to_owned(), folds.len());
    Explanation { stage, case, folds, importance, sobol, sensitivity, partial }
}

/// A figure of every feature: its mean over the folds.
fn figures(rows: &[&ExplanationRow], (kind, stat): (&str, &str)) -> Vec<FeatureFigure> {
    let mut found: Vec<(&str, Vec<&ExplanationRow>)> = Vec::new();
    for row in rows.iter().filter(|row| row.kind == kind && row.stat == stat) {
        match found.iter_mut().find(|(feature, _)| *feature == row.feature) {
            Some((_, own)) => own.push(row),
            None => found.push((&row.feature, vec![row])),
        }
    }
    let figure = |(feature, own): (&str, Vec<&ExplanationRow>)| {
        let count = own.len() as f64;
        let value = own.iter().map(|row| row.value).sum::<f64>() / count;
        let between = own.iter().map(|row| (row.value - value).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
        let std = if own.len() > 1 { Some(between.sqrt()) } else { own[0].std };
        FeatureFigure { feature: feature.to_owned(), value, std }
    };
    found.into_iter().map(figure).collect()
}

/// Partial dependence of the first fold.
fn curves(rows: &[&ExplanationRow]) -> Vec<PartialCurve> {
    let first = rows.iter().map(|row| row.fold).min().flatten();
    let own = rows.iter().filter(|row| row.kind == "partial" && row.fold == first);
    let mut found: Vec<PartialCurve> = Vec::new();
    let mut single: BTreeMap<(&str, i64), Vec<(f64, f64)>> = BTreeMap::new();
    for row in own {
        let Some(at) = row.at else { continue };
        if let Some(number) = row.row {
            single.entry((&row.feature, number)).or_default().push((at, row.value));
            continue;
        }
        let place = found.iter().position(|curve| curve.feature == row.feature).unwrap_or_else(|| {
            found.push(PartialCurve { feature: row.feature.clone(), ..PartialCurve::default() });
            found.len() - 1
        });
        let curve = &mut found[place];
        curve.at.push(at);
        curve.mean.push(row.value);
        curve.std.extend(row.std);
    }
    for ((feature, _), points) in single {
        let curve = found.iter_mut().find(|curve| curve.feature == feature);
        if let Some(curve) = curve.filter(|curve| curve.individual.len() < SINGLE) {
            curve.individual.push(points);
        }
    }
    found
}
