//! What a feature column is: its kind, and what happens where it has no value.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ColumnKind {
    /// Numbers, taken as they are.
    Number,
    /// True and false, taken as 1 and 0.
    Boolean,
    /// Levels: a column of 0 and 1 for each of few, the mean target of each of many.
    Category,
    /// Dates or times: the age, and month, weekday and hour as places on a circle.
    Timestamp,
}

impl ColumnKind {
    /// The word in the language.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Category => "category",
            Self::Timestamp => "timestamp",
        }
    }

    /// Whether both are read in the same way.
    pub fn reads_like(self, other: Self) -> bool {
        let is_plain = |kind| matches!(kind, Self::Number | Self::Boolean);
        self == other || (is_plain(self) && is_plain(other))
    }
}

/// What happens where a column has no value: null or NaN.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// The rows are refused.
    #[default]
    Error,
    /// What the column becomes has its mean over the training rows.
    Mean,
    /// What the column becomes has its median over the training rows.
    Median,
    /// The mean, and a further column that is 1 where there is no value.
    Indicator,
}

impl Missing {
    pub const fn is_error(&self) -> bool {
        matches!(self, Self::Error)
    }
}

/// Categories with at most so many levels get a column for each.
pub const ONE_HOT: u32 = 8;

/// A feature column, as it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureColumn {
    pub name: String,
    pub kind: ColumnKind,
    pub missing: Missing,
    /// The most levels that get a column each.
    pub one_hot: u32,
}

impl FeatureColumn {
    /// Numbers, none of which may be missing.
    pub fn number(name: &str) -> Self {
        Self { name: name.to_owned(), kind: ColumnKind::Number, missing: Missing::Error, one_hot: ONE_HOT }
    }

    /// Whether it goes to the model as it is.
    pub const fn is_plain(&self) -> bool {
        matches!(self.kind, ColumnKind::Number | ColumnKind::Boolean) && self.missing.is_error()
    }

    /// What it becomes, in a few words; `levels` is how many there are of a category.
    pub fn becomes(&self, levels: usize) -> String {
        let what = match self.kind {
            ColumnKind::Number => "itself".to_owned(),
            ColumnKind::Boolean => "0 or 1".to_owned(),
            ColumnKind::Category if levels <= self.one_hot as usize => format!("{levels} columns, one per level"),
            ColumnKind::Category => format!("the mean target of each of {levels} levels"),
            ColumnKind::Timestamp => "age and cyclic parts".to_owned(),
        };
        match self.missing {
            Missing::Error => what,
            Missing::Mean => format!("{what}; the mean where missing"),
            Missing::Median => format!("{what}; the median where missing"),
            Missing::Indicator => format!("{what}; the mean where missing, and where that is"),
        }
    }
}
