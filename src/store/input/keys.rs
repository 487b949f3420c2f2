//! Columns that divide rows, read in the smallest form that will do: numbers of labels, times, hashes.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, AsArray as _};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Int64Type, TimeUnit, TimestampMicrosecondType};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::batches::FilePart;
use super::column::is_showable;
use crate::store::StoreError;

/// What a column that divides rows is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyForm {
    /// Any value as text, of which there may be many rows.
    Labels,
    /// Dates, timestamps, whole numbers, or either of them as text.
    Times,
    /// Any value as text, of which only the hash is kept.
    Hashes,
    /// Numbers.
    Numbers,
}

/// A column that divides rows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct KeyColumn {
    pub name: String,
    pub form: KeyForm,
    /// Whether patterns leave it out of the features, as they do the key.
    pub apart: bool,
}

/// What a number of a column of times counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeScale {
    /// Microseconds since 1970, UTC.
    Microseconds,
    /// Whatever the column counts: years, steps.
    Number,
}

/// The values of a column that divides rows.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyValues {
    /// The number of each row's label, and the labels by number.
    Labels {
        codes: Vec<u32>,
        labels: Vec<Option<String>>,
    },
    /// The time of each row; the scale is that of the first one.
    Times {
        times: Vec<i64>,
        scale: Option<TimeScale>,
    },
    /// The first eight bytes of the SHA-256 of each row's text.
    Hashes(Vec<u64>),
    Numbers(Vec<f64>),
}

/// The hash of a key: the first eight bytes of its SHA-256, the most significant first.
pub fn key_hash(text: &str) -> u64 {
    Sha256::digest(text).iter().take(8).fold(0, |hash, byte| (hash << 8) | u64::from(*byte))
}

impl KeyForm {
    /// Whether a column of this type can be read so, and what it would have to be.
    pub(super) fn takes(self, data_type: &DataType, partition: bool) -> Result<(), (&'static str, &'static str)> {
        let fits = match self {
            Self::Labels | Self::Hashes => is_showable(data_type),
            Self::Times => is_time(data_type),
            Self::Numbers => partition || super::column::is_number(data_type),
        };
        match self {
            _ if fits => Ok(()),
            Self::Times => Err((
                "tells no time",
                "choose a column of dates, timestamps, whole numbers, or text such as 2024-01-31",
            )),
            Self::Numbers => Err(("is not a number", "choose a column of numbers, or leave `quantiles` out")),
            Self::Labels | Self::Hashes => Err(("cannot be shown as text", "convert it to text, a number or a date")),
        }
    }
}

fn is_time(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => is_time(value),
        DataType::Date32
        | DataType::Date64
        | DataType::Timestamp(..)
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View => true,
        DataType::Decimal128(_, scale) => *scale == 0,
        other => other.is_integer(),
    }
}

/// Such a column while it is read.
#[derive(Debug)]
pub(super) struct KeyBuilder {
    column: KeyColumn,
    values: KeyValues,
    known: KnownLabels,
}

/// Numbers of the labels seen so far.
#[derive(Debug, Default)]
struct KnownLabels {
    texts: HashMap<String, u32>,
    null: Option<u32>,
}

impl KnownLabels {
    /// The number of a label; a new one is added to the list.
    fn code(&mut self, value: Option<&str>, labels: &mut Vec<Option<String>>) -> u32 {
        let known = value.map_or(self.null, |text| self.texts.get(text).copied());
        known.unwrap_or_else(|| {
            let code = labels.len() as u32;
            match value {
                Some(text) => drop(self.texts.insert(text.to_owned(), code)),
                None => self.null = Some(code),
            }
            labels.push(value.map(str::to_owned));
            code
        })
    }
}

impl KeyBuilder {
    pub(super) fn new(column: &KeyColumn) -> Self {
        let values = match column.form {
            KeyForm::Labels => KeyValues::Labels { codes: Vec::new(), labels: Vec::new() },
            KeyForm::Times => KeyValues::Times { times: Vec::new(), scale: None },
            KeyForm::Hashes => KeyValues::Hashes(Vec::new()),
            KeyForm::Numbers => KeyValues::Numbers(Vec::new()),
        };
        Self { column: column.clone(), values, known: KnownLabels::default() }
    }

    /// Adds the rows of a batch.
    pub(super) fn add(&mut self, part: &FilePart<'_>) -> Result<(), StoreError> {
        let name = self.column.name.as_str();
        let missing = |row: usize| problem(part, name, row, "the value is null", "give every row one");
        match &mut self.values {
            KeyValues::Labels { codes, labels } => {
                let text = part.column(name, &DataType::Utf8)?;
                codes.extend(text.as_string::<i32>().iter().map(|value| self.known.code(value, labels)));
            }
            KeyValues::Hashes(hashes) => {
                let text = part.column(name, &DataType::Utf8)?;
                for (row, value) in text.as_string::<i32>().iter().enumerate() {
                    hashes.push(key_hash(value.ok_or_else(|| missing(row))?));
                }
            }
            KeyValues::Numbers(numbers) => {
                for (row, value) in part.numbers(name)?.iter().enumerate() {
                    numbers.push(value.filter(|value| value.is_finite()).ok_or_else(|| {
                        problem(part, name, row, "the value is no finite number", "remove or fill these rows before")
                    })?);
                }
            }
            KeyValues::Times { times, scale } => {
                for (row, time) in read_times(part, name)?.into_iter().enumerate() {
                    let (time, found) = time.ok_or_else(|| missing(row))?;
                    if *scale.get_or_insert(found) != found {
                        let hint = "write all of them as dates, or all as whole numbers";
                        return Err(problem(part, name, row, "some values are dates and some are numbers", hint));
                    }
                    times.push(time);
                }
            }
        }
        Ok(())
    }

    pub(super) fn finish(self) -> (KeyColumn, KeyValues) {
        (self.column, self.values)
    }
}

pub(super) type Time = Option<(i64, TimeScale)>;

/// The times of a batch; none where there is none.
pub(super) fn read_times(part: &FilePart<'_>, name: &str) -> Result<Vec<Time>, StoreError> {
    let damaged = |error: arrow::error::ArrowError| {
        let hint = "the file is damaged, or this value is beyond what can be represented: check it";
        StoreError::invalid_column(&part.file.path, name, error.to_string(), hint)
    };
    let column = part.batch.column_by_name(name);
    let column: ArrayRef = match column.map(plain).transpose().map_err(damaged)? {
        Some(column) => column,
        None => part.column(name, &DataType::Utf8)?,
    };
    let kind = column.data_type();
    if kind.is_temporal() {
        // In the zone that instants have, so that an hour of the night is not there twice.
        let zone = matches!(kind, DataType::Timestamp(_, Some(_))).then(|| "+00:00".into());
        let micros = cast(&column, &DataType::Timestamp(TimeUnit::Microsecond, zone)).map_err(damaged)?;
        let micros = micros.as_primitive::<TimestampMicrosecondType>();
        return Ok(micros.iter().map(|time| Some((time?, TimeScale::Microseconds))).collect());
    }
    if kind.is_integer() || kind.is_decimal() {
        let numbers = cast_with_options(&column, &DataType::Int64, &CastOptions { safe: false, ..Default::default() });
        let numbers = numbers.map_err(damaged)?;
        let numbers = numbers.as_primitive::<Int64Type>();
        return Ok(numbers.iter().map(|number| Some((number?, TimeScale::Number))).collect());
    }
    let texts = super::column::text(&column).map_err(damaged)?;
    let parse = |(row, text): (usize, Option<&str>)| {
        let Some(text) = text.map(str::trim) else { return Ok(None) };
        let number = text.parse().ok().map(|number| (number, TimeScale::Number));
        let time = || arrow::compute::kernels::cast_utils::string_to_timestamp_nanos(text).ok();
        let time = number.or_else(|| Some((time()?.div_euclid(1000), TimeScale::Microseconds)));
        let hint = "write dates as 2024-01-31, times as 2024-01-31T12:00:00, or whole numbers";
        time.map(Some).ok_or_else(|| problem(part, name, row, &format!("`{text}` tells no time"), hint))
    };
    texts.iter().enumerate().map(parse).collect()
}

/// Values instead of numbers of values.
fn plain(column: &ArrayRef) -> Result<ArrayRef, arrow::error::ArrowError> {
    match column.data_type() {
        DataType::Dictionary(_, value) => cast(column, value),
        _ => Ok(std::sync::Arc::clone(column)),
    }
}

fn problem(part: &FilePart<'_>, name: &str, row: usize, detail: &str, hint: &str) -> StoreError {
    StoreError::Invalid {
        path: part.file.path.clone(),
        detail: detail.to_owned(),
        column: Some(name.to_owned()),
        row: Some(part.offset + row as u64),
        hint: hint.to_owned(),
    }
}
