//! Why a column is no feature, and what can be done about it today.

use crate::features::ColumnKind;
use crate::store::input::{ColumnInfo, DeclaredColumn};
use crate::text::one_line;
use arrow::datatypes::DataType;
use std::fmt;

/// What times among the features mean for rows that are held out at random.
pub fn later_rows(features: &[String], times: &[ColumnInfo], declared: &[DeclaredColumn]) -> Option<String> {
    let declared = declared.iter().filter(|one| one.kind == Some(ColumnKind::Timestamp)).map(|one| &one.name);
    let times: Vec<&String> = times.iter().map(|time| &time.name).chain(declared).collect();
    let name = one_line(features.iter().find(|name| times.contains(name))?);
    Some(format!(
        "`{name}` is a time, and rows are held out at random: later rows are harder to predict. `time: {{ key: {name}, \
         test_fraction: 0.2 }}` instead of the split in the pipeline file tests on those"
    ))
}

/// A column that the model does not see.
#[derive(Debug, Clone, PartialEq)]
pub struct OmittedColumn {
    pub name: String,
    pub reason: Reason,
}

impl OmittedColumn {
    pub fn new(name: &str, reason: Reason) -> Self {
        Self { name: name.to_owned(), reason }
    }
}

/// Why a column is left out.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// By `--exclude`.
    Asked,
    /// Text, with so many different values where they were counted.
    Text {
        levels: Option<usize>,
    },
    Time,
    /// From the name of a directory.
    Partition,
    /// Lists, structures, bytes.
    Type {
        data_type: String,
    },
    Constant,
    Gaps {
        missing: u64,
        rows: u64,
    },
    /// Values too large or too small to compute with.
    Extreme {
        size: f64,
    },
    /// The target once more.
    Target,
    /// Numbers of rows beside the key.
    RowNumber,
}

impl Reason {
    /// Why a column that holds no numbers is left out.
    pub(super) fn of_type(column: &ColumnInfo, levels: Option<usize>) -> Self {
        fn is_text(data_type: &DataType) -> bool {
            match data_type {
                DataType::Dictionary(_, value) => is_text(value),
                other => matches!(other, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View),
            }
        }
        match &column.data_type {
            _ if column.partition => Self::Partition,
            data_type if data_type.is_temporal() => Self::Time,
            data_type if is_text(data_type) => Self::Text { levels },
            data_type => Self::Type { data_type: data_type.to_string() },
        }
    }

    /// What to do so that it becomes a feature; nothing where there is nothing to gain.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Text { .. } => Some("hardly any value comes twice; make it the key, or shorten it to categories"),
            Self::Time => Some("convert it to dates, timestamps, or a number of hours"),
            Self::Partition => Some("declare it in the pipeline file: `- { name: COLUMN, kind: category }`"),
            Self::Type { .. } => Some("write its parts into columns of their own first"),
            Self::Gaps { .. } => {
                Some("infinite values, and columns without any, have no place: remove or fill them first")
            }
            Self::Extreme { .. } => Some("choose other units"),
            Self::Asked | Self::Constant | Self::Target | Self::RowNumber => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("as asked for"),
            Self::Text { levels: None } => f.write_str("text"),
            Self::Text { levels: Some(levels) } => write!(f, "text, {levels} different value(s)"),
            Self::Time => f.write_str("times without a date"),
            Self::Partition => f.write_str("names of directories"),
            Self::Type { data_type } => write!(f, "of type {data_type}"),
            Self::Constant => f.write_str("the same in every row"),
            Self::Gaps { missing, rows } => write!(f, "{missing} of {rows} values are missing, NaN or infinite"),
            Self::Extreme { size } => write!(f, "values of size {size:e}"),
            Self::Target => f.write_str("the target once more"),
            Self::RowNumber => f.write_str("numbers the rows, as the key does"),
        }
    }
}
