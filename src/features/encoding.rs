//! What feature columns become: fitted on the training rows of a fold, kept in the model, applied to any rows.

use super::levels::{LevelMeans, RowTargets};
use super::parts::TimePart;
use super::spec::{ColumnKind, FeatureColumn, Missing};
use ndarray::{Array2, ArrayView2, Axis};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};

/// Rows as they are read: a number for every value, and the levels that numbers of categories stand for.
#[derive(Debug, Clone, Copy)]
pub struct RawRows<'a> {
    /// `[n, columns]`; NaN where there is no value.
    pub values: ArrayView2<'a, f64>,
    /// The levels of each column, by number; none for columns that are no categories.
    pub levels: &'a [Vec<String>],
}

/// How the values of a column become numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoder {
    /// As they are.
    Value,
    /// A column of 0 and 1 for each of these levels.
    OneHot { levels: Vec<String> },
    /// The mean target of each of these levels.
    TargetMean {
        levels: Vec<String>,
        #[serde(flatten)]
        statistics: LevelMeans,
    },
    /// Parts of a time.
    Time {
        /// The earliest training row, in microseconds since 1970.
        origin: f64,
        parts: Vec<TimePart>,
    },
}

/// What a column becomes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnEncoding {
    pub name: String,
    pub kind: ColumnKind,
    #[serde(default, skip_serializing_if = "Missing::is_error")]
    pub missing: Missing,
    pub encoder: Encoder,
    /// What each of its columns is where there is no value; empty where that is an error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fill: Vec<f64>,
    /// Whether a further column says where there is no value.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub indicator: bool,
}

/// What all columns become.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Encoding {
    pub columns: Vec<ColumnEncoding>,
}

/// What was found in rows that were encoded: for each column the rows without a value, and those of a level that training
/// has not seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeenValues {
    pub missing: Vec<u64>,
    pub unseen: Vec<u64>,
}

impl Encoding {
    /// Fits on training rows; `target` is what the model sees of it, `folds` are those in which means of levels are made.
    /// The second is what the training rows become: unlike other rows, they must not see their own targets.
    pub fn fit<'t>(
        columns: &[FeatureColumn],
        rows: RawRows<'_>,
        target: impl Into<RowTargets<'t>>,
        folds: &[usize],
    ) -> (Self, Array2<f64>) {
        let target = target.into();
        let mut fitted: Vec<ColumnEncoding> = Vec::new();
        let mut encoded: Vec<Vec<f64>> = Vec::new();
        for (place, column) in columns.iter().enumerate() {
            let values: Vec<f64> = rows.values.column(place).to_vec();
            let texts = rows.levels.get(place).map_or(&[][..], Vec::as_slice);
            let encoder = Encoder::fit(column, &values, texts, target);
            let mut own = encoder.apply(&values, texts).0;
            if let Encoder::TargetMean { levels, .. } = &encoder {
                own = vec![LevelMeans::out_of_fold(&codes(&values, texts, levels), target, levels.len(), folds)];
            }
            let mut this = ColumnEncoding {
                name: column.name.clone(),
                kind: column.kind,
                missing: column.missing,
                encoder,
                fill: Vec::new(),
                indicator: false,
            };
            this.fill_gaps(&values, &mut own);
            encoded.extend(own);
            fitted.push(this);
        }
        (Self { columns: fitted }, assembled(rows.values.nrows(), &encoded))
    }

    /// Encodes rows whose columns are those of this encoding, in its order.
    pub fn apply(&self, rows: RawRows<'_>) -> (Array2<f64>, SeenValues) {
        let mut encoded: Vec<Vec<f64>> = Vec::new();
        let mut seen = SeenValues::default();
        for (place, column) in self.columns.iter().enumerate() {
            let values: Vec<f64> = rows.values.column(place).to_vec();
            let texts = rows.levels.get(place).map_or(&[][..], Vec::as_slice);
            let (mut own, unseen) = column.encoder.apply(&values, texts);
            column.put_fill(&values, &mut own);
            encoded.extend(own);
            seen.unseen.push(unseen);
            seen.missing.push(values.iter().filter(|value| value.is_nan()).count() as u64);
        }
        (assembled(rows.values.nrows(), &encoded), seen)
    }

    /// Whether every column goes to the model as it is.
    pub fn is_plain(&self) -> bool {
        self.columns.iter().all(ColumnEncoding::is_plain)
    }

    /// The feature that a column becomes, if it is a number and stays itself.
    pub fn place_of_number(&self, column: usize) -> Option<usize> {
        let own = &self.columns[column];
        let before = self.columns[..column].iter().map(|column| column.names().len()).sum();
        (own.encoder == Encoder::Value && own.kind == ColumnKind::Number).then_some(before)
    }

    /// Names of what the columns become, each once.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in self.columns.iter().flat_map(ColumnEncoding::names) {
            let mut unique = name;
            while names.contains(&unique) {
                unique.push('_');
            }
            names.push(unique);
        }
        names
    }

    /// Why this cannot be an encoding of so many features, if so.
    pub fn check(&self, features: usize) -> Result<(), String> {
        let width: usize = self.columns.iter().map(|column| column.names().len()).sum();
        if width != features {
            return Err(format!("the columns become {width} features, and there are {features}"));
        }
        for column in &self.columns {
            let own = column.encoder.suffixes().len();
            let fills = if column.missing.is_error() { 0 } else { own };
            if column.fill.len() != fills || !column.fill.iter().all(|value| value.is_finite()) {
                return Err(format!("the column `{}` has {} values for gaps", column.name, column.fill.len()));
            }
            if let Encoder::TargetMean { levels, statistics } = &column.encoder
                && (levels.len() != statistics.means.len() || !statistics.means.iter().all(|mean| mean.is_finite()))
            {
                return Err(format!("the levels of `{}` have no mean each", column.name));
            }
        }
        Ok(())
    }
}

impl ColumnEncoding {
    /// Whether it goes to the model as it is.
    pub fn is_plain(&self) -> bool {
        self.encoder == Encoder::Value && self.missing.is_error()
    }

    /// Names of what it becomes.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.encoder.suffixes().iter().map(|suffix| format!("{}{suffix}", self.name)).collect();
        if self.indicator {
            names.push(format!("{}.missing", self.name));
        }
        names
    }

    /// What it becomes, in words.
    pub fn becomes(&self) -> String {
        let what = self.values_become();
        self.gaps_become().map_or_else(|| what.clone(), |gaps| format!("{what}; {gaps}"))
    }

    /// What its values become, in words.
    pub fn values_become(&self) -> String {
        match &self.encoder {
            Encoder::Value if self.kind == ColumnKind::Boolean => "0 or 1".to_owned(),
            Encoder::Value => "itself".to_owned(),
            Encoder::OneHot { levels } => format!("{} columns, one per level", levels.len()),
            Encoder::TargetMean { levels, .. } => format!("the mean target of each of {} levels", levels.len()),
            Encoder::Time { .. } => {
                let names: Vec<String> =
                    self.encoder.suffixes().iter().map(|name| name.trim_start_matches('.').to_owned()).collect();
                names.join(", ")
            }
        }
    }

    /// What stands where there is no value, in words; none where that is an error.
    pub fn gaps_become(&self) -> Option<&'static str> {
        match (self.missing, self.indicator) {
            (Missing::Error, _) => None,
            (Missing::Median, _) => Some("the median where missing"),
            (_, true) => Some("the mean where missing, and where that is"),
            (_, false) => Some("the mean where missing"),
        }
    }

    /// Finds out what to put where there is no value, and puts it there.
    fn fill_gaps(&mut self, values: &[f64], encoded: &mut Vec<Vec<f64>>) {
        if self.missing.is_error() {
            return;
        }
        let known = |column: &Vec<f64>| -> Vec<f64> {
            column.iter().zip(values).filter(|(_, value)| !value.is_nan()).map(|(own, _)| *own).collect()
        };
        let middle = if self.missing == Missing::Median { median } else { mean };
        self.fill = encoded.iter().map(|column| middle(&known(column))).collect();
        // One that is the same in every training row would say nothing, and much where it differs.
        let gaps = values.iter().filter(|value| value.is_nan()).count();
        self.indicator = self.missing == Missing::Indicator && gaps > 0 && gaps < values.len();
        self.put_fill(values, encoded);
    }

    fn put_fill(&self, values: &[f64], encoded: &mut Vec<Vec<f64>>) {
        for (column, fill) in encoded.iter_mut().zip(&self.fill) {
            column.iter_mut().zip(values).filter(|(_, value)| value.is_nan()).for_each(|(own, _)| *own = *fill);
        }
        if self.indicator {
            encoded.push(values.iter().map(|value| f64::from(u8::from(value.is_nan()))).collect());
        }
    }
}

impl Encoder {
    fn fit(column: &FeatureColumn, values: &[f64], texts: &[String], target: RowTargets<'_>) -> Self {
        match column.kind {
            ColumnKind::Number | ColumnKind::Boolean => Self::Value,
            ColumnKind::Timestamp => {
                let known: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
                let origin = known.iter().copied().reduce(f64::min).unwrap_or(0.0);
                Self::Time { origin, parts: TimePart::of(&known) }
            }
            ColumnKind::Category => {
                let levels = levels_of(values, texts);
                if levels.len() <= column.one_hot as usize {
                    return Self::OneHot { levels };
                }
                let statistics = LevelMeans::fit(&codes(values, texts, &levels), target, levels.len());
                Self::TargetMean { levels, statistics }
            }
        }
    }

    /// What is put behind the name of the column, for each of the columns that it becomes.
    fn suffixes(&self) -> Vec<String> {
        match self {
            Self::Value | Self::TargetMean { .. } => vec![String::new()],
            Self::OneHot { levels } => levels.iter().map(|level| format!("={level}")).collect(),
            Self::Time { parts, .. } => {
                parts.iter().flat_map(|part| part.suffixes()).map(|suffix| format!(".{suffix}")).collect()
            }
        }
    }

    /// The columns, and how many rows have a level that is not known.
    fn apply(&self, values: &[f64], texts: &[String]) -> (Vec<Vec<f64>>, u64) {
        let unknown = |codes: &[Option<usize>]| {
            let unseen = |(code, value): &(&Option<usize>, &f64)| code.is_none() && !value.is_nan();
            codes.iter().zip(values).filter(unseen).count() as u64
        };
        match self {
            Self::Value => (vec![values.to_vec()], 0),
            Self::OneHot { levels } => {
                let codes = codes(values, texts, levels);
                let column =
                    |level: usize| codes.iter().map(|code| f64::from(u8::from(*code == Some(level)))).collect();
                ((0..levels.len()).map(column).collect(), unknown(&codes))
            }
            Self::TargetMean { levels, statistics } => {
                let codes = codes(values, texts, levels);
                (vec![codes.iter().map(|code| statistics.mean(*code)).collect()], unknown(&codes))
            }
            Self::Time { origin, parts } => {
                let width: usize = parts.iter().map(|part| part.suffixes().len()).sum();
                let mut columns = vec![Vec::with_capacity(values.len()); width];
                for value in values {
                    let own = parts.iter().flat_map(|part| part.columns(*value, *origin));
                    columns.iter_mut().zip(own).for_each(|(column, value)| column.push(value));
                }
                (columns, 0)
            }
        }
    }
}

/// The levels that occur, in the order of their text, so that it does not matter which row came first.
fn levels_of(values: &[f64], texts: &[String]) -> Vec<String> {
    let mut used = vec![false; texts.len()];
    values.iter().filter(|value| !value.is_nan()).for_each(|value| {
        if let Some(used) = used.get_mut(*value as usize) {
            *used = true;
        }
    });
    let levels: BTreeSet<&String> = texts.iter().zip(used).filter(|(_, used)| *used).map(|(text, _)| text).collect();
    levels.into_iter().cloned().collect()
}

/// The number of each row's level among `levels`; none where it has no value, or another one.
fn codes(values: &[f64], texts: &[String], levels: &[String]) -> Vec<Option<usize>> {
    let known: HashMap<&str, usize> = levels.iter().enumerate().map(|(code, level)| (level.as_str(), code)).collect();
    let places: Vec<Option<usize>> = texts.iter().map(|text| known.get(text.as_str()).copied()).collect();
    let code = |value: &f64| if value.is_nan() { None } else { places.get(*value as usize).copied().flatten() };
    values.iter().map(code).collect()
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        length if length % 2 == 1 => sorted[half],
        _ => f64::midpoint(sorted[half - 1], sorted[half]),
    }
}

/// A matrix of these columns.
fn assembled(rows: usize, columns: &[Vec<f64>]) -> Array2<f64> {
    let mut all = Array2::zeros((rows, columns.len()));
    for (mut own, column) in all.axis_iter_mut(Axis(1)).zip(columns) {
        own.iter_mut().zip(column).for_each(|(cell, value)| *cell = *value);
    }
    all
}
