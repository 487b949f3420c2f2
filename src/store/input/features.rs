//! Feature columns of every kind, read as numbers: see [`crate::features`].

use std::collections::HashMap;

use arrow::array::{Array as _, AsArray as _, Float64Array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;

use super::batches::FilePart;
use super::keys::{TimeScale, read_times};
use crate::features::{ColumnKind, FeatureColumn};
use crate::store::StoreError;

/// A feature while it is read: the levels of a category are numbered as they come.
#[derive(Debug)]
pub(super) struct FeatureReader {
    column: FeatureColumn,
    known: HashMap<String, u32>,
    levels: Vec<String>,
}

impl FeatureReader {
    pub(super) fn new(column: &FeatureColumn) -> Self {
        Self { column: column.clone(), known: HashMap::new(), levels: Vec::new() }
    }

    /// The values of a batch; null where there is none.
    pub(super) fn read(&mut self, part: &FilePart<'_>) -> Result<Float64Array, StoreError> {
        let name = self.column.name.as_str();
        match self.column.kind {
            ColumnKind::Number => part.numbers(name),
            ColumnKind::Boolean => booleans(part, name),
            ColumnKind::Category => {
                let text = part.column(name, &DataType::Utf8)?;
                let codes = text.as_string::<i32>().iter().map(|value| value.map(|value| f64::from(self.code(value))));
                Ok(codes.collect::<Vec<Option<f64>>>().into())
            }
            ColumnKind::Timestamp => {
                let time = |time: Option<(i64, TimeScale)>| match time {
                    Some((_, TimeScale::Number)) => Err(no_unit(part, name)),
                    time => Ok(time.map(|(micros, _)| micros as f64)),
                };
                let times = read_times(part, name)?.into_iter().map(time);
                Ok(times.collect::<Result<Vec<Option<f64>>, _>>()?.into())
            }
        }
    }

    fn code(&mut self, level: &str) -> u32 {
        if let Some(code) = self.known.get(level) {
            return *code;
        }
        let code = self.levels.len() as u32;
        self.known.insert(level.to_owned(), code);
        self.levels.push(level.to_owned());
        code
    }

    /// The levels, by number.
    pub(super) fn finish(self) -> Vec<String> {
        self.levels
    }
}

/// True and false as 1 and 0.
fn booleans(part: &FilePart<'_>, name: &str) -> Result<Float64Array, StoreError> {
    let is_number = |column: &&arrow::array::ArrayRef| super::column::is_number(column.data_type());
    if part.batch.column_by_name(name).as_ref().is_some_and(is_number) {
        return part.numbers(name);
    }
    let text = part.column(name, &DataType::Utf8)?;
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let values = cast_with_options(&text, &DataType::Boolean, &strict).map_err(|_| {
        let text = text.as_string::<i32>();
        let says = |row: &usize| {
            let alone = text.slice(*row, 1);
            cast_with_options(&alone, &DataType::Boolean, &strict).is_err()
        };
        let row = (0..text.len()).find(says).unwrap_or(0);
        StoreError::Invalid {
            path: part.file.path.clone(),
            detail: format!("`{}` is neither true nor false", text.value(row)),
            column: Some(name.to_owned()),
            row: Some(part.offset + row as u64),
            hint: "write true and false, or declare `kind: category`".to_owned(),
        }
    })?;
    let values = values.as_boolean();
    Ok(values.iter().map(|value| value.map(|value| f64::from(u8::from(value)))).collect())
}

fn no_unit(part: &FilePart<'_>, name: &str) -> StoreError {
    let hint = "write times as dates, timestamps or text such as 2024-01-31; numbers do not say what they count";
    StoreError::invalid_column(&part.file.path, name, "whole numbers instead of times", hint)
}
