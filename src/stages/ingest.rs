//! Reads the features, target and key of an input.

use super::StageError;
use crate::plan::IngestStep;
use crate::store::input::{ColumnQuality, LARGEST, check_quality, check_unique_keys};
use crate::store::{InputFile, InputSchema, InputTable, InvalidPolicy, Selection, StoreError, discover, open, peek};

/// The files that the stage reads.
pub fn files(step: &IngestStep) -> Result<Vec<InputFile>, StageError> {
    Ok(discover(&step.path)?)
}

/// The columns that the stage reads.
pub fn selection(step: &IngestStep) -> Selection {
    Selection {
        key: step.key.clone(),
        features: step.features.clone(),
        target: step.target.clone(),
        extra: step.extra.clone(),
    }
}

/// What can be known without reading data; also checks that the columns are there.
pub fn look(step: &IngestStep) -> Result<InputSchema, StageError> {
    let schema = peek(&files(step)?)?;
    schema.resolve(&selection(step))?;
    Ok(schema)
}

/// How many rows these files have, by their footers. What is asked for by name must be there; patterns may match more
/// than a model needs.
pub fn rows(step: &IngestStep, files: &[InputFile]) -> Result<u64, StageError> {
    let schema = peek(files)?;
    let mut named = selection(step);
    named.features.retain(|name| !name.contains(['*', '?', '[', '{']));
    schema.resolve(&named)?;
    Ok(schema.rows())
}

/// Reads the rows.
pub fn run(step: &IngestStep, files: &[InputFile]) -> Result<InputTable, StageError> {
    let table = open(files, &selection(step), InvalidPolicy::Error)?;
    match problems(step, &table).into_iter().next() {
        Some(problem) => Err(problem),
        None => Ok(table),
    }
}

/// Why these rows are refused. Training refuses what scoring takes: no rows at all, and keys that repeat.
pub fn problems(step: &IngestStep, table: &InputTable) -> Vec<StageError> {
    let mut problems: Vec<StageError> = Vec::new();
    if !step.takes_invalid {
        problems.extend(check_quality(&table.quality).err().map(StageError::from));
    }
    if step.trains {
        if table.row_count == 0 {
            problems.push(StageError::Data {
                what: format!("{}: no rows to train on", step.written),
                hint: "check the path and the files' contents".to_owned(),
            });
        }
        problems.extend(check_unique_keys(table).err().map(StageError::from));
        problems.extend(check_sizes(table).err());
    }
    problems
}

fn check_sizes(table: &InputTable) -> Result<(), StageError> {
    let too_large = |quality: &&ColumnQuality| quality.range.is_some_and(|(low, high)| low.abs().max(high) > LARGEST);
    let Some(quality) = table.quality.iter().find(too_large) else { return Ok(()) };
    let feature = table.feature_names.iter().position(|name| *name == quality.name);
    let value = |row: usize| match (feature, &table.target) {
        (Some(column), _) => table.features[[row, column]],
        (None, Some(target)) => target[row],
        (None, None) => 0.0,
    };
    let row = (0..table.row_count).find(|row| value(*row).abs() > LARGEST).unwrap_or(0);
    let (path, place) = table.locate(row);
    Err(StageError::Store(StoreError::Invalid {
        path: path.to_owned(),
        detail: format!("{:e} is too large to compute with", value(row)),
        column: Some(quality.name.clone()),
        row: Some(place),
        hint: format!("remove it, or choose other units (at most {LARGEST:e})"),
    }))
}

/// Columns that say nothing.
pub fn warnings(step: &IngestStep, table: &InputTable) -> Vec<String> {
    if !step.trains {
        return Vec::new();
    }
    let features = table.feature_names.len();
    let constant: Vec<&str> =
        table.quality.iter().take(features).filter(|column| column.is_constant()).map(|c| c.name.as_str()).collect();
    let mut warnings = Vec::new();
    if !constant.is_empty() {
        let names = constant.join(", ");
        let advice = "say nothing to a model; leave them out of `features`";
        warnings.push(format!("{}: constant column(s) {names} {advice}", step.written));
    }
    if let Some(target) = table.quality.get(features).filter(|column| column.is_constant()) {
        let name = &target.name;
        warnings.push(format!("{}: the target `{name}` is constant: there is nothing to learn from it", step.written));
    }
    warnings
}
