//! What is wrong with targets: values that have no place on the scale they are modelled on.

use super::TargetOption;
use crate::stages::StageError;
use crate::store::{InputTable, StoreError};

/// Refuses values outside of the scale, and names the first one.
pub(super) fn check(target: Option<&TargetOption>, table: &InputTable) -> Result<(), StageError> {
    let (Some(option), Some(values)) = (target, &table.target) else { return Ok(()) };
    let Some(above) = option.transform().above() else { return Ok(()) };
    let outside: Vec<usize> = (0..values.len()).filter(|row| values[*row] <= above).collect();
    let Some(first) = outside.first() else { return Ok(()) };
    let (path, row) = table.locate(*first);
    let (name, count) = (option.transform().name(), outside.len());
    Err(StageError::Store(StoreError::Invalid {
        path: path.to_owned(),
        detail: format!(
            "`transform: {name}` takes values above {above}, and this one is {}; {count} of {} values are not",
            values[*first],
            values.len()
        ),
        column: Some(option.name().to_owned()),
        row: Some(row),
        hint: match above {
            0.0 => "use log1p if there are zeros, yeo_johnson if there are negative values, or remove these rows"
                .to_owned(),
            _ => "use yeo_johnson, which takes any value, or remove these rows".to_owned(),
        },
    }))
}
