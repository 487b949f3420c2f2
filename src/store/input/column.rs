//! Columns of any type as numbers or as text.

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use arrow::error::ArrowError;

use crate::features::ColumnKind;
use crate::store::atomic::hex;

/// Types that become `f64`: all integers, floats and decimals; booleans as 0 and 1.
pub(crate) fn is_number(data_type: &DataType) -> bool {
    match data_type {
        DataType::Boolean => true,
        DataType::Dictionary(_, value) => is_number(value),
        other => other.is_numeric(),
    }
}

/// What a column of this type is taken for where nothing is declared; none where it can be no feature.
pub(crate) fn inferred_kind(data_type: &DataType) -> Option<ColumnKind> {
    match data_type {
        DataType::Dictionary(_, value) => inferred_kind(value),
        DataType::Boolean => Some(ColumnKind::Boolean),
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => Some(ColumnKind::Timestamp),
        other if is_number(other) => Some(ColumnKind::Number),
        other if is_text(other) => Some(ColumnKind::Category),
        _ => None,
    }
}

/// Whether a column of this type can be read as this kind.
pub(super) fn takes_kind(data_type: &DataType, kind: ColumnKind) -> bool {
    // A column without values has the type of none.
    if *data_type == DataType::Null {
        return true;
    }
    match (data_type, kind) {
        (DataType::Dictionary(_, value), kind) => takes_kind(value, kind),
        (other, ColumnKind::Number) => is_number(other),
        (other, ColumnKind::Boolean) => *other == DataType::Boolean || other.is_integer() || is_text(other),
        (other, ColumnKind::Category) => is_key(other),
        (DataType::Date32 | DataType::Date64 | DataType::Timestamp(..), ColumnKind::Timestamp) => true,
        (other, ColumnKind::Timestamp) => is_text(other),
    }
}

/// Whether both types can be read as this kind, with the same values.
pub(super) fn same_as(kind: ColumnKind) -> fn(&DataType, &DataType) -> bool {
    match kind {
        ColumnKind::Number => same_number,
        ColumnKind::Boolean => |left, right| [left, right].iter().all(|side| takes_kind(side, ColumnKind::Boolean)),
        ColumnKind::Category => |left, right| same_kind(left, right) || (left.is_integer() && right.is_integer()),
        ColumnKind::Timestamp => |left, right| [left, right].iter().all(|side| takes_kind(side, ColumnKind::Timestamp)),
    }
}

/// Bytes of a UUID, which is what readers of Parquet get for one.
const UUID: i32 = 16;

/// Types that identify rows: UUIDs, integers, text, booleans, dates, decimals (databases export ids as such).
pub(crate) fn is_key(data_type: &DataType) -> bool {
    match data_type {
        // A table without rows may not know the types of its columns.
        DataType::Null | DataType::Boolean | DataType::Date32 | DataType::Date64 | DataType::FixedSizeBinary(UUID) => {
            true
        }
        DataType::Dictionary(_, value) => is_key(value),
        other => other.is_integer() || other.is_decimal() || is_text(other),
    }
}

/// Types that can be shown as text.
pub(super) fn is_showable(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => is_showable(value),
        other => is_key(other) || other.is_numeric() || other.is_temporal(),
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Equal but for how text is laid out in memory.
pub(super) fn same_kind(left: &DataType, right: &DataType) -> bool {
    fn plain(data_type: &DataType) -> &DataType {
        match data_type {
            DataType::Dictionary(_, value) => plain(value),
            other if is_text(other) => &DataType::Utf8,
            other => other,
        }
    }
    plain(left) == plain(right)
}

/// The same, or both numbers, which all become `f64`.
pub(super) fn same_number(left: &DataType, right: &DataType) -> bool {
    same_kind(left, right) || (is_number(left) && is_number(right))
}

/// A column as numbers; nulls stay nulls.
pub(super) fn numbers(column: &ArrayRef) -> Result<Float64Array, ArrowError> {
    Ok(cast(column, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}

/// A column as text; nulls stay nulls.
pub(crate) fn text(column: &ArrayRef) -> Result<StringArray, ArrowError> {
    if *column.data_type() == DataType::Null {
        return Ok(StringArray::new_null(column.len()));
    }
    if let Some(ids) = column.as_fixed_size_binary_opt().filter(|ids| ids.value_length() == UUID) {
        return Ok(ids.iter().map(|id| id.map(uuid)).collect());
    }
    Ok(cast(column, &DataType::Utf8)?.as_string::<i32>().clone())
}

/// `01234567-89ab-cdef-0123-456789abcdef`
fn uuid(bytes: &[u8]) -> String {
    let digits = hex(bytes);
    let part = |range: std::ops::Range<usize>| digits.get(range).unwrap_or_default();
    [part(0..8), part(8..12), part(12..16), part(16..20), part(20..32)].join("-")
}
