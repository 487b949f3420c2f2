//! Values that a model cannot use: null, NaN, infinite; and keys that are not unique.

use std::collections::HashMap;
use std::path::PathBuf;

use super::read::InputTable;
use crate::store::StoreError;

/// How many further columns a message lists.
const SHOWN: usize = 5;

/// What happens to null, NaN and infinite values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InvalidPolicy {
    #[default]
    Error,
    /// They stay in the table (null as NaN), and are counted.
    Mark,
}

/// What a numeric column holds.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnQuality {
    pub name: String,
    pub nulls: u64,
    pub nans: u64,
    pub infinities: u64,
    /// Smallest and largest finite value.
    pub range: Option<(f64, f64)>,
    /// File and row (from 0, within the file) of the first unusable value.
    pub first_invalid: Option<(PathBuf, u64)>,
    /// Whether rows without a value can be used all the same.
    pub fills_gaps: bool,
    /// Whether it is a feature rather than the target.
    pub is_feature: bool,
}

impl ColumnQuality {
    pub(super) fn new(name: &str, is_feature: bool, fills_gaps: bool) -> Self {
        let (nulls, nans, infinities) = (0, 0, 0);
        Self {
            name: name.to_owned(),
            nulls,
            nans,
            infinities,
            range: None,
            first_invalid: None,
            fills_gaps,
            is_feature,
        }
    }

    pub fn invalid(&self) -> u64 {
        self.nulls + self.nans + self.infinities
    }

    /// Whether all usable values are the same.
    #[expect(clippy::float_cmp, reason = "a constant column is exactly constant")]
    pub fn is_constant(&self) -> bool {
        self.range.is_some_and(|(low, high)| low == high)
    }

    /// Values that rows cannot be used with.
    pub fn unusable(&self) -> u64 {
        if self.fills_gaps { self.infinities } else { self.invalid() }
    }

    /// Counts a value; says whether it is unusable.
    pub(super) fn count(&mut self, value: Option<f64>) -> bool {
        match value {
            None => {
                self.nulls += 1;
                return !self.fills_gaps;
            }
            Some(value) if value.is_nan() => {
                self.nans += 1;
                return !self.fills_gaps;
            }
            Some(value) if value.is_infinite() => self.infinities += 1,
            Some(value) => {
                let (low, high) = self.range.unwrap_or((value, value));
                self.range = Some((low.min(value), high.max(value)));
                return false;
            }
        }
        true
    }

    /// "3 unusable values (1 null, 2 NaN)".
    fn describe(&self) -> String {
        let kinds = [(self.nulls, "null"), (self.nans, "NaN"), (self.infinities, "infinite")];
        let kinds: Vec<String> =
            kinds.iter().filter(|(count, _)| *count > 0).map(|(count, kind)| format!("{count} {kind}")).collect();
        let values = if self.invalid() == 1 { "value" } else { "values" };
        format!("{} unusable {values} ({})", self.invalid(), kinds.join(", "))
    }
}

/// Refuses an input with unusable values: names the first column that has some, and counts them all.
pub fn check_quality(columns: &[ColumnQuality]) -> Result<(), StoreError> {
    let mut bad = columns.iter().filter(|column| column.first_invalid.is_some());
    let Some((first, (path, row))) = bad.next().and_then(|column| Some((column, column.first_invalid.clone()?))) else {
        return Ok(());
    };
    let mut detail = format!("{} in the input, the first one here", first.describe());
    let others: Vec<&ColumnQuality> = bad.collect();
    if !others.is_empty() {
        let named: Vec<String> =
            others.iter().take(SHOWN).map(|column| format!("`{}` ({})", column.name, column.invalid())).collect();
        let more = others.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} more columns") } else { String::new() };
        detail = format!("{detail}; also in {}{more}", named.join(", "));
    }
    let fillable = first.is_feature && first.unusable() > first.infinities;
    let hint = if fillable {
        format!(
            "remove or fill these rows before, or let the model do it: write `{{ name: {}, missing: median }}` under `features` (or \
             mean, or indicator, which also says where)",
            first.name
        )
    } else {
        "remove or fill these rows before; every feature and target value must be a finite number".to_owned()
    };
    Err(StoreError::Invalid { path, detail, column: Some(first.name.clone()), row: Some(row), hint })
}

/// Refuses a key that occurs twice; names the first one, and both places.
pub fn check_unique_keys(table: &InputTable) -> Result<(), StoreError> {
    let Some(keys) = &table.key else { return Ok(()) };
    let mut seen: HashMap<&str, usize> = HashMap::with_capacity(keys.len());
    for (row, key) in keys.iter().enumerate() {
        let Some(earlier) = seen.insert(key, row) else { continue };
        let (path, row) = table.locate(row);
        let (earlier_path, earlier_row) = table.locate(earlier);
        let place = if path == earlier_path { "this file".to_owned() } else { earlier_path.display().to_string() };
        return Err(StoreError::Invalid {
            path: path.to_owned(),
            detail: format!("the key `{key}` is also that of row {earlier_row} of {place}"),
            column: table.key_name.clone(),
            row: Some(row),
            hint: "remove the repeated rows, or choose a `key` that is unique".to_owned(),
        });
    }
    Ok(())
}
