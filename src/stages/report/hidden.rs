//! Hidden layers, from the table of that name where a run has one.

use super::Subject;
use crate::report::{Hidden, HiddenValue};
use crate::store::{StoreError, open_columns};
use crate::tables::TableKind;
use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::{Float64Type, Int32Type};

/// Fits that are shown.
const FITS: usize = 4;
/// Values of one fit; more are passed over.
const VALUES: usize = 200_000;

/// The hidden layers of the first fold of these stages and cases, or of any when none are named.
pub fn hidden(subject: &Subject<'_>, wanted: &[(String, String)]) -> Result<Vec<Hidden>, StoreError> {
    let Some(path) = subject.tables.get(&TableKind::Hidden) else { return Ok(Vec::new()) };
    let columns = ["stage", "case", "fold", "layer", "output", "x1", "x2", "mean", "std"];
    let mut found: Vec<Hidden> = Vec::new();
    for batch in open_columns(path, &columns)? {
        collect(&batch?, wanted, &mut found);
    }
    Ok(found)
}

fn collect(batch: &RecordBatch, wanted: &[(String, String)], found: &mut Vec<Hidden>) -> Option<()> {
    let text = |name: &str| batch.column_by_name(name)?.as_string_opt::<i32>();
    let whole = |name: &str| Some(batch.column_by_name(name)?.as_primitive_opt::<Int32Type>()?.values());
    let number = |name: &str| batch.column_by_name(name)?.as_primitive_opt::<Float64Type>();
    let (stages, cases, folds) = (text("stage")?, text("case")?, whole("fold")?);
    let (layers, outputs) = (whole("layer")?, whole("output")?);
    let (x0, mean, x1, sd) = (number("x1")?, number("mean")?, number("x2"), number("std"));
    for row in 0..batch.num_rows() {
        let (stage, case, fold) = (stages.value(row), cases.value(row), folds[row]);
        if !(wanted.is_empty() || wanted.iter().any(|(_, of)| of == case)) {
            continue;
        }
        let place = found.iter().position(|fit| fit.stage == stage && fit.case == case);
        let fit = match place {
            Some(place) if found[place].fold == fold => &mut found[place],
            Some(_) => continue,
            None if found.len() >= FITS => continue,
            None => {
                found.push(Hidden { stage: stage.to_owned(), case: case.to_owned(), fold, points: Vec::new() });
                let last = found.len() - 1;
                &mut found[last]
            }
        };
        let optional = |column: Option<&arrow::array::Float64Array>| {
            column.filter(|column| !column.is_null(row)).map(|column| column.value(row))
        };
        if fit.points.len() < VALUES {
            fit.points.push(HiddenValue {
                layer: layers[row],
                output: outputs[row],
                x0: x0.value(row),
                x1: optional(x1),
                mean: mean.value(row),
                std: optional(sd),
            });
        }
    }
    Some(())
}
