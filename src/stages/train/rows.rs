//! What there is to say of training rows before a model is trained on them.

use crate::gp::scaling::is_constant;
use crate::stages::split::Division;
use crate::stages::{RowCheck, Said};
use crate::store::InputTable;
use crate::store::input::ColumnQuality;
use ndarray::Axis;

/// Names in a message.
const SHOWN: usize = 8;

/// Features and targets that are constant in these rows. Of columns that are constant in the whole input, the stage that
/// reads it warns once.
pub fn warnings(table: &InputTable, rows: &[usize]) -> Vec<String> {
    // One row is as constant as it can be.
    if rows.len() < 2 {
        return Vec::new();
    }
    let known = |name: &str| table.quality.iter().any(|column| column.name == name && column.is_constant());
    let columns = table.feature_names.iter().zip(table.features.axis_iter(Axis(1)));
    let constant: Vec<&str> = columns
        .filter(|(name, column)| !known(name) && is_constant(column.select(Axis(0), rows).view()))
        .map(|(name, _)| name.as_str())
        .collect();
    let mut warnings: Vec<String> = said(&constant).into_iter().collect();
    let target = table.target.as_ref().filter(|target| is_constant(target.select(Axis(0), rows).view()));
    if target.is_some() && !table.quality.last().is_some_and(ColumnQuality::is_constant) {
        warnings.push("the target is constant in the training rows: there is nothing to learn from it".to_owned());
    }
    warnings
}

/// The same of columns that were found to be constant, where rows are not at hand.
pub fn warnings_of(table: &InputTable, constant: &[usize]) -> Vec<String> {
    let known = |place: &usize| table.quality.get(*place).is_some_and(ColumnQuality::is_constant);
    let names = constant.iter().filter(|place| !known(place)).map(|place| table.feature_names[*place].as_str());
    said(&names.collect::<Vec<_>>()).into_iter().collect()
}

fn said(constant: &[&str]) -> Option<String> {
    (!constant.is_empty()).then(|| {
        let more = constant.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let names = constant[..constant.len().min(SHOWN)].join(", ");
        format!(
            "constant in the training rows: {names}{more}; the model learns nothing from such features, and where they \
             differ it guesses"
        )
    })
}

/// The same for every fold, before anything runs.
pub fn check(division: Division) -> RowCheck {
    let identity = format!("constant in the folds of {division:?}");
    let look = move |table: &InputTable, seed| {
        let folds = division.divide(table, seed)?;
        let count = folds.len();
        let of = |(fold, warning): (usize, String)| format!("fold {fold} (of {count}): {warning}");
        let all = folds
            .iter()
            .enumerate()
            .flat_map(|(fold, rows)| warnings(table, &rows.train).into_iter().map(move |warning| (fold, warning)));
        Ok(Said { split: None, warnings: all.map(of).collect() })
    };
    RowCheck { identity, look: Box::new(look) }
}
