//! Puts pieces together: side by side while their columns are new, below one another when they come again.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, StringArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::DataType;

use super::{ImportOptions, Piece};
use crate::store::StoreError;
use crate::store::input::{is_key, text};

/// Rows that belong together: one value of every column for each.
pub(super) struct RowBlock {
    pub rows: usize,
    pub columns: Vec<(String, ArrayRef)>,
    /// What it was made of, for messages.
    origin: String,
    path: PathBuf,
}

impl RowBlock {
    fn names(&self) -> BTreeSet<&str> {
        self.columns.iter().map(|(name, _)| name.as_str()).collect()
    }

    fn column(&self, name: &str) -> Option<&ArrayRef> {
        self.columns.iter().find(|(known, _)| known == name).map(|(_, column)| column)
    }
}

/// Blocks with the same columns, in the same order and of the same types, with a key.
pub(super) fn assemble(pieces: Vec<Piece>, options: &ImportOptions) -> Result<Vec<RowBlock>, StoreError> {
    let mut blocks: Vec<RowBlock> = Vec::new();
    for piece in pieces {
        add(&mut blocks, piece)?;
    }
    align(&mut blocks)?;
    add_parts(&mut blocks, options)?;
    add_key(&mut blocks, &options.key)?;
    Ok(blocks)
}

fn add(blocks: &mut Vec<RowBlock>, piece: Piece) -> Result<(), StoreError> {
    let mut seen = BTreeSet::new();
    if let Some((name, _)) = piece.columns.iter().find(|(name, _)| !seen.insert(name.as_str())) {
        let detail = format!("there are two columns of this name in {}", piece.origin);
        return Err(StoreError::invalid_column(&piece.path, name, detail, "choose other names with `--columns`"));
    }
    let known = blocks.last().map_or(0, |block| seen.intersection(&block.names()).count());
    match blocks.last_mut() {
        Some(block) if known == 0 => {
            if block.rows != piece.rows {
                let detail =
                    format!("{} has {} rows, but {} has {}", piece.origin, piece.rows, block.origin, block.rows);
                let hint = "what stands side by side must have the same rows; to append rows, give the same columns";
                return Err(StoreError::invalid(&piece.path, detail, hint));
            }
            block.columns.extend(piece.columns);
        }
        Some(block) if known < seen.len() => {
            let names = block.names();
            let shared = seen.iter().find(|name| names.contains(*name)).copied().unwrap_or_default();
            let fresh = seen.iter().find(|name| !names.contains(*name)).copied().unwrap_or_default();
            let detail = format!("already in {}, while `{fresh}` is not", block.origin);
            let hint = "give all the same columns to append rows, or all different names to put them side by side: \
                        see `--columns` and `--only`";
            return Err(StoreError::invalid_column(&piece.path, shared, detail, hint));
        }
        _ => {
            let Piece { origin, path, rows, columns, .. } = piece;
            blocks.push(RowBlock { rows, columns, origin, path });
        }
    }
    Ok(())
}

/// Gives every block the columns of the first: same order, same types.
fn align(blocks: &mut [RowBlock]) -> Result<(), StoreError> {
    let Some(first) = blocks.first() else { return Ok(()) };
    let names: Vec<String> = first.columns.iter().map(|(name, _)| name.clone()).collect();
    let origin = first.origin.clone();
    for block in blocks.iter() {
        if let Some(name) = names.iter().find(|name| block.column(name).is_none()) {
            let detail = format!("in the rows that begin with {origin}, but not in those of {}", block.origin);
            return Err(StoreError::invalid_column(&block.path, name, detail, "give every part the same inputs"));
        }
    }
    let mut types = Vec::with_capacity(names.len());
    for name in &names {
        types.push(common_type(blocks, name)?);
    }
    for block in blocks {
        let take = |(name, data_type): (&String, &DataType)| {
            let column = block.column(name).map(|column| convert(column, data_type));
            Some((name.clone(), column?))
        };
        let columns = names.iter().zip(&types).filter_map(take).collect();
        block.columns = columns;
    }
    Ok(())
}

/// The type that holds a column in every block. Columns without values fit any.
fn common_type(blocks: &[RowBlock], name: &str) -> Result<DataType, StoreError> {
    let mut common: Option<(&RowBlock, DataType)> = None;
    for block in blocks {
        let Some(column) = block.column(name).filter(|column| column.logical_null_count() < column.len()) else {
            continue;
        };
        let found = column.data_type();
        let widened = match &common {
            None => found.clone(),
            Some((_, known)) if known == found => continue,
            Some((_, DataType::Int64)) if *found == DataType::Float64 => DataType::Float64,
            Some((_, DataType::Float64)) if *found == DataType::Int64 => continue,
            Some((earlier, known)) => {
                let detail = format!("{found} in {}, but {known} in {}", block.origin, earlier.origin);
                let hint = "write it alike in all of them, or leave it out with `--only`";
                return Err(StoreError::invalid_column(&block.path, name, detail, hint));
            }
        };
        common = Some((block, widened));
    }
    let first = blocks.first().and_then(|block| block.column(name));
    Ok(common
        .map(|(_, found)| found)
        .or_else(|| first.map(|column| column.data_type().clone()))
        .unwrap_or(DataType::Utf8))
}

fn convert(column: &ArrayRef, data_type: &DataType) -> ArrayRef {
    if column.logical_null_count() == column.len() {
        return new_null_array(data_type, column.len());
    }
    // Only integers become floats here, which cannot fail.
    cast(column, data_type).unwrap_or_else(|_| Arc::clone(column))
}

/// The column that says which block a row is from.
fn add_parts(blocks: &mut [RowBlock], options: &ImportOptions) -> Result<(), StoreError> {
    let Some((name, values)) = &options.parts else { return Ok(()) };
    let path = blocks.first().map_or_else(PathBuf::new, |block| block.path.clone());
    if values.len() != blocks.len() {
        let rows: Vec<String> = blocks.iter().map(|block| block.rows.to_string()).collect();
        let detail = format!(
            "{} value(s) for `{name}`, but the inputs make {} part(s), of {} rows",
            values.len(),
            blocks.len(),
            rows.join(" and ")
        );
        return Err(StoreError::invalid(&path, detail, "give one value for each part in `--parts`"));
    }
    for (block, value) in blocks.iter_mut().zip(values) {
        if block.column(name).is_some() {
            let detail = "the inputs have such a column already";
            return Err(StoreError::invalid_column(&path, name, detail, "choose another name in `--parts`"));
        }
        let column = StringArray::from_iter_values(std::iter::repeat_n(value, block.rows));
        block.columns.push((name.clone(), Arc::new(column)));
    }
    Ok(())
}

/// Checks the key, or adds one.
fn add_key(blocks: &mut [RowBlock], key: &str) -> Result<(), StoreError> {
    if blocks.iter().any(|block| block.column(key).is_some()) {
        return check_key(blocks, key);
    }
    let mut next = 0_i64;
    for block in blocks {
        let end = next + block.rows as i64;
        block.columns.insert(0, (key.to_owned(), Arc::new(Int64Array::from_iter_values(next..end))));
        next = end;
    }
    Ok(())
}

fn check_key(blocks: &[RowBlock], key: &str) -> Result<(), StoreError> {
    let mut seen: HashMap<String, (&Path, usize)> = HashMap::new();
    for block in blocks {
        let Some(column) = block.column(key) else { continue };
        let hint = "choose another column with `--key`, or a new name to number the rows";
        if !is_key(column.data_type()) {
            let detail = format!("its type {} cannot identify rows", column.data_type());
            return Err(StoreError::invalid_column(&block.path, key, detail, hint));
        }
        let fail = |row: usize, detail: String| StoreError::Invalid {
            path: block.path.clone(),
            detail,
            column: Some(key.to_owned()),
            row: Some(row as u64),
            hint: hint.to_owned(),
        };
        let values =
            text(column).map_err(|error| StoreError::invalid_column(&block.path, key, error.to_string(), hint))?;
        for (row, value) in values.iter().enumerate() {
            let Some(value) = value else { return Err(fail(row, "the key is null".to_owned())) };
            if let Some((path, earlier)) = seen.insert(value.to_owned(), (&block.path, row)) {
                let place = if path == block.path { "this file".to_owned() } else { path.display().to_string() };
                return Err(fail(row, format!("the key `{value}` is also that of row {earlier} of {place}")));
            }
        }
    }
    Ok(())
}
