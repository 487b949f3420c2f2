//! Hidden layers, from the table of that name where a run has one.

use super::Subject;
use super::columns::{BatchColumns, FitPlace, of_fit, value};
use crate::report::{HiddenFit, HiddenValue};
use crate::store::{StoreError, open_columns};
use crate::tables::TableKind;
use arrow::array::RecordBatch;

/// Fits that are shown.
const FITS: usize = 4;
/// Values of one fit; more are passed over.
const VALUES: usize = 200_000;

/// The hidden layers of the first fold of these stages and cases, or of any when none are named.
pub fn hidden(subject: &Subject<'_>, wanted: &[(String, String)]) -> Result<Vec<HiddenFit>, StoreError> {
    let Some(path) = subject.tables.get(&TableKind::Hidden) else { return Ok(Vec::new()) };
    subject.check(path)?;
    let columns = ["stage", "case", "fold", "layer", "output", "x1", "x2", "mean", "std"];
    let mut found: Vec<(FitPlace, Vec<HiddenValue>)> = Vec::new();
    for batch in open_columns(path, &columns)? {
        collect(&batch?, wanted, &mut found);
    }
    Ok(found.into_iter().map(|((stage, case, fold), points)| HiddenFit { stage, case, fold, points }).collect())
}

fn collect(
    batch: &RecordBatch,
    wanted: &[(String, String)],
    found: &mut Vec<(FitPlace, Vec<HiddenValue>)>,
) -> Option<()> {
    let columns = BatchColumns(batch);
    let (stages, cases, folds) = (columns.text("stage")?, columns.text("case")?, columns.whole("fold")?);
    let (layers, outputs) = (columns.whole("layer")?, columns.whole("output")?);
    let (x0, mean) = (columns.number("x1")?, columns.number("mean")?);
    let (x1, sd) = (columns.number("x2"), columns.number("std"));
    for row in 0..batch.num_rows() {
        let case = cases.value(row);
        if !(wanted.is_empty() || wanted.iter().any(|(_, of)| of == case)) {
            continue;
        }
        let Some(points) = of_fit(found, FITS, (stages.value(row), case, folds.value(row))) else { continue };
        if points.len() < VALUES {
            points.push(HiddenValue {
                layer: layers.value(row),
                output: outputs.value(row),
                x0: x0.value(row),
                x1: value(x1, row),
                mean: mean.value(row),
                std: value(sd, row),
            });
        }
    }
    Some(())
}
