//! Looks at the columns of an input: which can be features, which identifies the rows, what is left out and why.

use super::reason::{OmittedColumn, Reason, later_rows};
use crate::eval::transform::TransformName;
use crate::features::spec::ONE_HOT;
use crate::features::{ColumnKind, Missing};
use crate::import::{PANDAS_INDEX, is_called_key};
use crate::store::input::{
    ColumnInfo, ColumnQuality, DeclaredColumn, LARGEST, SMALLEST, check_unique_keys, inferred_kind, is_key, is_number,
};
use crate::store::{InputSchema, InputTable, InvalidPolicy, Selection, StoreError, discover, open, peek};
use crate::text::one_line;
use ndarray::{ArrayView1, Axis};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

/// With fewer rows nothing can be held out and still be learnt from.
pub const FEWEST_ROWS: usize = 4;
/// Among fewer rows, counts differ by chance.
const FEWEST_FOR_KEY: usize = 20;
/// Text of longer inputs is not looked at: it may take more memory than there is.
const MOST_ROWS_OF_TEXT: u64 = 2_000_000;
/// What `import` calls the numbers that it gives to rows.
const COUNTED: &str = "row_id";
/// Feature and target that agree more closely than this are the same thing in other units.
const SAME_BUT_FOR_UNITS: f64 = 0.999_999;

/// What the user wants of the columns.
#[derive(Debug, Default)]
pub struct ColumnWishes {
    pub key: Option<String>,
    pub exclude: Vec<String>,
}

/// What is made of the columns of an input.
#[derive(Debug)]
pub struct ColumnChoice {
    pub rows: usize,
    /// How many columns the input has.
    pub columns: usize,
    pub target: String,
    /// The scale on which the target is modelled.
    pub transform: TransformName,
    pub key: Option<String>,
    pub features: Vec<String>,
    /// What has to be said of features beside their names.
    pub declared: Vec<DeclaredColumn>,
    /// How many numbers a model sees of a row.
    pub width: usize,
    /// `features` as they are written down: names, and patterns for columns that are numbered.
    pub written: Vec<String>,
    pub left_out: Vec<OmittedColumn>,
    /// What the user may want to look at.
    pub notes: Vec<String>,
}

/// Reads the input and decides.
pub fn choose(path: &Path, target: &str, wishes: &ColumnWishes) -> Result<ColumnChoice, StoreError> {
    let schema = peek(&discover(path)?)?;
    check_names(&schema, target, wishes)?;
    let others = |column: &&ColumnInfo| column.name != target;
    let excluded = |column: &ColumnInfo| wishes.exclude.contains(&column.name);
    let (mut numbers, mut times, mut texts, mut left_out) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for column in schema.columns().iter().filter(others) {
        if excluded(column) {
            left_out.push(OmittedColumn::new(&column.name, Reason::Asked));
        } else if is_number(&column.data_type) && !column.partition {
            numbers.push(column.clone());
        } else if inferred_kind(&column.data_type) == Some(ColumnKind::Timestamp) && !column.partition {
            times.push(column.clone());
        } else {
            texts.push(column.clone());
        }
    }
    let looked_at =
        |column: &&ColumnInfo| !column.partition && is_key(&column.data_type) && schema.rows() <= MOST_ROWS_OF_TEXT;
    let selection = Selection {
        key: wishes.key.clone(),
        features: names(numbers.iter().chain(&times).filter(|column| Some(&column.name) != wishes.key.as_ref())),
        target: Some(target.to_owned()),
        extra: names(texts.iter().filter(looked_at).filter(|column| Some(&column.name) != wishes.key.as_ref())),
        ..Selection::default()
    };
    let table = open(&discover(path)?, &selection, InvalidPolicy::Mark)?;
    check_target(path, &table, target)?;
    check_unique_keys(&table)?;
    let key = wishes.key.clone().or_else(|| find_key(&table, &numbers));
    let (mut features, mut notes, mut declared, mut width) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for column in texts.iter().filter(|column| Some(&column.name) != key.as_ref()) {
        match of_text(column, table.extra.get(&column.name).map(Vec::as_slice)) {
            Ok((declaration, numbers)) => {
                declared.extend(declaration);
                width += numbers;
                features.push(column.name.clone());
            }
            Err(reason) => left_out.push(OmittedColumn::new(&column.name, reason)),
        }
    }
    for (column, quality) in table.features.axis_iter(Axis(1)).zip(&table.quality) {
        let name = &quality.name;
        if Some(name) == key.as_ref() {
            continue;
        }
        if let Some(reason) = unusable(quality, &column, &table) {
            left_out.push(OmittedColumn::new(name, reason));
            continue;
        }
        if key.is_some() && is_row_number(name, &column, &numbers) {
            left_out.push(OmittedColumn::new(name, Reason::RowNumber));
            continue;
        }
        notes.extend(note(name, &column, &table));
        width += if times.iter().any(|time| time.name == *name) { NUMBERS_OF_TIME } else { 1 };
        if quality.invalid() > 0 {
            declared.push(with_gaps(name, None));
            width += 1;
        }
        features.push(name.clone());
    }
    let place = |name: &String| schema.columns().iter().position(|column| column.name == *name);
    features.sort_by_key(place);
    notes.extend(later_rows(&features, &times, &declared));
    if features.is_empty() {
        return Err(no_features(path, &left_out));
    }
    let order: BTreeMap<&str, usize> =
        schema.columns().iter().enumerate().map(|(place, column)| (column.name.as_str(), place)).collect();
    left_out.sort_by_key(|left| order.get(left.name.as_str()).copied());
    let written = abbreviate(&features, schema.columns());
    let (rows, columns) = (table.row_count, schema.columns().len());
    let transform = table.target.as_ref().map_or(TransformName::None, |target| scale_of(&target.view()));
    let target = target.to_owned();
    Ok(ColumnChoice { rows, columns, target, transform, key, features, declared, width, written, left_out, notes })
}

/// Numbers that a model sees of a time, about.
const NUMBERS_OF_TIME: usize = 5;
/// Skewness from which a target is modelled by its logarithm, if that makes it less than half as skewed.
const SKEWED: f64 = 1.0;

fn with_gaps(name: &str, kind: Option<ColumnKind>) -> DeclaredColumn {
    DeclaredColumn { name: name.to_owned(), kind, missing: Missing::Indicator, one_hot: None }
}

/// What is to be said of a column of text as a feature, and how many numbers it becomes; or why it is none.
fn of_text(column: &ColumnInfo, values: Option<&[Option<String>]>) -> Result<(Option<DeclaredColumn>, usize), Reason> {
    let Some(values) = values else { return Err(Reason::of_type(column, None)) };
    let levels: HashSet<&String> = values.iter().flatten().collect();
    if levels.is_empty() {
        let rows = values.len() as u64;
        return Err(Reason::Gaps { missing: rows, rows });
    }
    let gaps = values.iter().any(Option::is_none);
    let missing = if gaps { Missing::Indicator } else { Missing::Error };
    let extra = usize::from(gaps);
    // Formats without types write dates as text.
    if levels.iter().all(|value| is_date(value)) {
        let kind = Some(ColumnKind::Timestamp);
        let declared = DeclaredColumn { name: column.name.clone(), kind, missing, one_hot: None };
        return Ok((Some(declared), NUMBERS_OF_TIME + extra));
    }
    if inferred_kind(&column.data_type) != Some(ColumnKind::Category) || column.partition {
        return Err(Reason::of_type(column, Some(levels.len())));
    }
    if levels.len() < 2 {
        return Err(Reason::Constant);
    }
    // Where hardly any level comes twice, there is nothing to learn from it.
    if 2 * levels.len() > values.len() {
        return Err(Reason::Text { levels: Some(levels.len()) });
    }
    let numbers = if levels.len() <= ONE_HOT as usize { levels.len() } else { 1 };
    Ok((gaps.then(|| with_gaps(&column.name, None)), numbers + extra))
}

/// The logarithm for targets that are positive and skewed, if it makes them less than half as skewed; of one more where some
/// are zero.
fn scale_of(target: &ArrayView1<'_, f64>) -> TransformName {
    let least = target.iter().copied().fold(f64::INFINITY, f64::min);
    let (name, scaled): (TransformName, fn(f64) -> f64) = match least {
        least if least > 0.0 => (TransformName::Log, f64::ln),
        0.0 => (TransformName::Log1p, f64::ln_1p),
        _ => return TransformName::None,
    };
    let (own, other) = (skewness(target), skewness(&target.mapv(scaled).view()));
    if own > SKEWED && other.abs() < 0.5 * own { name } else { TransformName::None }
}

fn skewness(values: &ArrayView1<'_, f64>) -> f64 {
    let mean = values.mean().unwrap_or(0.0);
    let moment = |power: i32| values.iter().map(|value| (value - mean).powi(power)).sum::<f64>() / values.len() as f64;
    moment(3) / moment(2).powf(1.5)
}

fn names<'a>(columns: impl Iterator<Item = &'a ColumnInfo>) -> Vec<String> {
    columns.map(|column| column.name.clone()).collect()
}

/// Target and columns that are named on the command line are there, and can be what they are to be.
fn check_names(schema: &InputSchema, target: &str, wishes: &ColumnWishes) -> Result<(), StoreError> {
    let (key, extra) = (wishes.key.clone(), wishes.exclude.clone());
    // Asked for as text, so that any type is good enough to be left out.
    let missing: Vec<String> =
        extra.into_iter().filter(|name| !schema.columns().iter().any(|column| column.name == *name)).collect();
    let target = Some(target.to_owned());
    schema.resolve(&Selection { key, target, extra: missing, ..Selection::default() }).map(drop)
}

fn check_target(path: &Path, table: &InputTable, target: &str) -> Result<(), StoreError> {
    let rows = table.row_count;
    if rows < FEWEST_ROWS {
        let hint = format!("at least {FEWEST_ROWS} are needed, some to learn from and some to test; check the path");
        return Err(StoreError::invalid(path, format!("{rows} row(s)"), hint));
    }
    let Some(quality) = table.quality.iter().find(|quality| quality.name == target) else { return Ok(()) };
    if quality.invalid() > 0 {
        let detail = format!("{} of {rows} values of the target are missing, NaN or infinite", quality.invalid());
        let hint = "remove these rows first: there is nothing to learn from them";
        return Err(StoreError::invalid_column(path, target, detail, hint));
    }
    if is_constant(quality) {
        let detail = "the target is the same in every row";
        return Err(StoreError::invalid_column(path, target, detail, "there is nothing to learn; check `--target`"));
    }
    if let Some(size) = extreme(quality) {
        let hint = format!("choose other units (between {SMALLEST:e} and {LARGEST:e})");
        return Err(StoreError::invalid_column(path, target, format!("values of size {size:e}"), hint));
    }
    Ok(())
}

fn no_features(path: &Path, left_out: &[OmittedColumn]) -> StoreError {
    let shown: Vec<String> =
        left_out.iter().take(8).map(|left| format!("`{}` ({})", one_line(&left.name), left.reason)).collect();
    let mut advice: Vec<&str> = left_out.iter().filter_map(|left| left.reason.advice()).collect();
    advice.dedup();
    let (detail, hint) = if shown.is_empty() {
        ("there is no column beside the target and the key".to_owned(), String::new())
    } else {
        (format!("no column can be a feature: {}", shown.join(", ")), advice.join("; "))
    };
    StoreError::invalid(path, detail, if hint.is_empty() { "a model needs features".to_owned() } else { hint })
}

/// Why numbers are no feature.
fn unusable(quality: &ColumnQuality, column: &ArrayView1<'_, f64>, table: &InputTable) -> Option<Reason> {
    let rows = table.row_count as u64;
    if quality.infinities > 0 || quality.invalid() == rows {
        return Some(Reason::Gaps { missing: quality.invalid(), rows });
    }
    if is_constant(quality) {
        return Some(Reason::Constant);
    }
    if let Some(size) = extreme(quality) {
        return Some(Reason::Extreme { size });
    }
    let target = table.target.as_ref()?;
    (*column == target.view()).then_some(Reason::Target)
}

/// All values are the same but for rounding.
fn is_constant(quality: &ColumnQuality) -> bool {
    quality.range.is_some_and(|(low, high)| high - low <= 1e-12 * high.abs().max(low.abs()))
}

/// The size of the largest value, if that is too large or too small to compute with.
fn extreme(quality: &ColumnQuality) -> Option<f64> {
    let size = quality.range.map_or(0.0, |(low, high)| low.abs().max(high.abs()));
    (size > LARGEST || (size > 0.0 && size < SMALLEST)).then_some(size)
}

/// The column that identifies rows: one that is called so, or else numbers the rows; one that `import` counted comes last.
fn find_key(table: &InputTable, numbers: &[ColumnInfo]) -> Option<String> {
    let unique_texts = table.extra.iter().filter(|(_, values)| {
        let known: HashSet<&String> = values.iter().flatten().collect();
        known.len() == table.row_count && !known.iter().all(|value| is_date(value))
    });
    let texts = unique_texts.map(|(name, _)| name);
    let columns = table.feature_names.iter().zip(table.features.axis_iter(Axis(1)));
    let integers = columns.filter(|(name, values)| is_row_number(name, values, numbers)).map(|(name, _)| name);
    let found: Vec<&String> = integers.chain(texts).filter(|_| table.row_count >= FEWEST_FOR_KEY).collect();
    let rank = |name: &&&String| (name.as_str() == COUNTED || name.starts_with(PANDAS_INDEX), !is_called_key(name));
    found.iter().min_by_key(rank).map(|name| (*name).clone())
}

/// Whether a column of different whole numbers is called a key, or counts the rows.
fn is_row_number(name: &str, values: &ArrayView1<'_, f64>, numbers: &[ColumnInfo]) -> bool {
    let is_integer = numbers.iter().any(|column| column.name == name && column.data_type.is_integer());
    if !is_integer || values.len() < FEWEST_FOR_KEY || !are_different(values) {
        return false;
    }
    let (low, high) =
        values.iter().fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(*value), high.max(*value)));
    is_called_key(name) || (high - low) as usize == values.len() - 1
}

fn are_different(values: &ArrayView1<'_, f64>) -> bool {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.windows(2).all(|pair| pair[0] < pair[1])
}

/// `2026-11-18`, with or without a time.
fn is_date(text: &str) -> bool {
    let pattern = b"0000-00-00";
    let digits = |(found, wanted): (&u8, &u8)| if *wanted == b'0' { found.is_ascii_digit() } else { found == wanted };
    text.len() >= pattern.len() && text.as_bytes().iter().zip(pattern).all(digits)
}

/// What is worth a second look in a feature.
fn note(name: &str, column: &ArrayView1<'_, f64>, table: &InputTable) -> Option<String> {
    let target = table.target.as_ref()?;
    let correlation = correlation(column, &target.view());
    (table.row_count > FEWEST_FOR_KEY && correlation.abs() > SAME_BUT_FOR_UNITS).then(|| {
        format!(
            "feature `{}` is the target in other units (correlation {correlation:.6}): if it is not known when the model \
             is used, leave it out with `--exclude`",
            one_line(name)
        )
    })
}

fn correlation(left: &ArrayView1<'_, f64>, right: &ArrayView1<'_, f64>) -> f64 {
    let mean = |values: &ArrayView1<'_, f64>| values.mean().unwrap_or(0.0);
    let (a, b) = (mean(left), mean(right));
    let (mut both, mut of_left, mut of_right) = (0.0, 0.0, 0.0);
    for (x, y) in left.iter().zip(right) {
        both += (x - a) * (y - b);
        of_left += (x - a).powi(2);
        of_right += (y - b).powi(2);
    }
    both / (of_left * of_right).sqrt()
}

/// More numbered columns than this are written as a pattern.
const MOST_NUMBERED: usize = 8;

/// Names as they are written down: `f00` to `f29` are `f*`, where all columns that fit are features.
fn abbreviate(features: &[String], columns: &[ColumnInfo]) -> Vec<String> {
    let stem = |name: &str| name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
    let chosen: HashSet<&String> = features.iter().collect();
    let mut written: Vec<String> = Vec::new();
    for name in features {
        let stem = stem(name);
        let plain = !stem.is_empty() && stem.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let numbered = features.iter().filter(|other| other.starts_with(&stem)).count();
        let all =
            columns.iter().filter(|column| column.name.starts_with(&stem)).all(|column| chosen.contains(&column.name));
        let short =
            if plain && stem != *name && numbered > MOST_NUMBERED && all { format!("{stem}*") } else { name.clone() };
        if written.last() != Some(&short) && !written.contains(&short) {
            written.push(short);
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::DataType;

    #[test]
    fn numbered_columns_become_a_pattern() {
        let column = |name: String| ColumnInfo { name, data_type: DataType::Float64, partition: false };
        let features: Vec<String> = (0..30).map(|i| format!("f{i:02}")).chain(["width".to_owned()]).collect();
        let mut columns: Vec<ColumnInfo> = features.iter().cloned().map(column).collect();
        assert_eq!(abbreviate(&features, &columns), ["f*", "width"]);
        // A column that fits the pattern and is no feature.
        columns.push(column("frame".to_owned()));
        assert_eq!(abbreviate(&features, &columns), features);
        assert_eq!(abbreviate(&features[25..], &columns[25..]), features[25..]);
    }
}
