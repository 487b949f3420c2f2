//! Ways of splitting as they are written, and the rules that the schema cannot express.

use super::gap::{Gap, WrittenGap};
use crate::pipeline::tree::{Entry, Node, Value};
use crate::pipeline::{Diagnostic, Diagnostics, Scalar, contains_reference};
use crate::store::input::{KeyColumn, KeyForm};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;

/// Ways of splitting, of which a stage has one.
pub(super) const WAYS: &[&str] = &["holdout", "kfold", "group", "time", "hash", "column", "all"];
/// Of which ways a part of the rows, or every row once.
pub(super) const PARTS: &[&str] = &["folds", "test_fraction"];
/// Ways that may be stratified.
const STRATIFIED: &[&str] = &["holdout", "kfold"];

/// Divides rows into training and test rows: one of `holdout`, `kfold`, `group`, `time`, `hash`, `column` or `all`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// The ingest stage; or a split stage, whose training rows are divided again, fold by fold.
    pub input: String,
    /// A random part of the rows for testing.
    pub(super) holdout: Option<Holdout>,
    /// Every row is tested once per repeat.
    pub(super) kfold: Option<Kfold>,
    /// With `holdout` and `kfold`: every value of this column has its share on both sides.
    pub(super) stratify: Option<Stratify>,
    /// Rows with the same key are all on one side; with one of `folds` and `test_fraction`.
    pub(super) group: Option<GroupSplit>,
    /// Training rows come before test rows; with one of `folds` and `test_fraction`.
    pub(super) time: Option<TimeSplit>,
    /// The key of a row decides its side, so that rows stay where they are when others are added.
    pub(super) hash: Option<HashSplit>,
    /// A column says which rows are for testing.
    pub(super) column: Option<SplitColumn>,
    /// Every row trains, none is tested: for a model to publish.
    pub(super) all: Option<AllRows>,
}

/// A random part of the rows for testing.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Holdout {
    /// Share of the rows used for testing.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    test_fraction: f64,
    /// How often, with a new draw each time.
    #[schemars(range(min = 1, max = 10_000))]
    #[serde(default = "once")]
    repeats: u32,
}

/// Every row is tested once per repeat.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kfold {
    /// Number of folds.
    #[schemars(range(min = 2, max = 10_000))]
    folds: u32,
    /// How often, with a new shuffle each time.
    #[schemars(range(min = 1, max = 10_000))]
    #[serde(default = "once")]
    repeats: u32,
}

/// Rows with the same key are all on one side; one of `folds` and `test_fraction`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupSplit {
    /// Column of the groups: customers, patients, machines. Of any type that can be shown as text.
    key: String,
    /// Number of folds, about equally large; every row is tested once per repeat.
    #[schemars(range(min = 2, max = 10_000))]
    folds: Option<u32>,
    /// Share of the rows used for testing, as near as whole groups come to it.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    test_fraction: Option<f64>,
    /// How often, with a new draw each time.
    #[schemars(range(min = 1, max = 10_000))]
    #[serde(default = "once")]
    repeats: u32,
}

/// Training rows come before test rows; one of `folds` and `test_fraction`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimeSplit {
    /// Column of the time: dates, timestamps, whole numbers, or text such as `2024-01-31`.
    key: String,
    /// Time before the test rows whose rows do not train: `7d`, `12h`, or a number where `key` holds numbers. Default: none.
    gap: Option<WrittenGap>,
    /// Number of folds: test blocks of about equally many rows, one after the other, each with all rows from before to train
    /// on.
    #[schemars(range(min = 1, max = 10_000))]
    folds: Option<u32>,
    /// Share of the rows used for testing, the latest ones.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    test_fraction: Option<f64>,
}

/// The key of a row decides its side: by the hash of the key as text, whatever the seed.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HashSplit {
    /// Column that decides. Of any type that can be shown as text.
    key: String,
    /// Share of the keys used for testing.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    test_fraction: f64,
}

/// A column says which rows are for testing.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SplitColumn {
    /// Name of the column.
    name: String,
    /// Its value on test rows; all other rows train.
    test: Scalar,
}

const fn once() -> u32 {
    1
}

/// Nothing to set.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllRows {}

/// What has its share on both sides: the values of a column, or ranges of its numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stratify {
    pub(super) column: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) quantiles: Option<u32>,
}

/// A column whose values, or ranges of values, have their share on both sides.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StratifyOptions {
    /// Name of the column, which may be the target.
    column: String,
    /// For a column of numbers: into how many ranges of about equally many rows it is cut.
    #[schemars(range(min = 2, max = 1000))]
    quantiles: Option<u32>,
}

impl<'de> Deserialize<'de> for Stratify {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(column) => Ok(Self { column, quantiles: None }),
            written => {
                let StratifyOptions { column, quantiles } =
                    serde_json::from_value(written).map_err(D::Error::custom)?;
                Ok(Self { column, quantiles })
            }
        }
    }
}

impl JsonSchema for Stratify {
    fn schema_name() -> Cow<'static, str> {
        "Stratify".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let options = generator.subschema_for::<StratifyOptions>();
        json_schema!({ "description": "the name of a column, or options", "anyOf": [{ "type": "string" }, options] })
    }
}

/// How rows are divided, as it counts in the key.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Way {
    Holdout {
        test_fraction: f64,
        repeats: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        stratify: Option<Stratify>,
    },
    Kfold {
        folds: u32,
        repeats: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        stratify: Option<Stratify>,
    },
    Group {
        key: String,
        part: TestPart,
        repeats: u32,
    },
    Time {
        key: String,
        gap: Gap,
        part: TestPart,
    },
    Hash {
        key: String,
        test_fraction: f64,
    },
    Column {
        name: String,
        test: String,
    },
    All,
}

/// Every row once, or a part of the rows.
#[derive(Clone, Copy, Debug, Serialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(super) enum TestPart {
    Folds(u32),
    TestFraction(f64),
}

impl TestPart {
    /// The rules have found that one is written.
    fn new(folds: Option<u32>, test_fraction: Option<f64>) -> Self {
        folds.map_or_else(|| Self::TestFraction(test_fraction.unwrap_or_default()), Self::Folds)
    }

    fn folds(self) -> u32 {
        match self {
            Self::Folds(folds) => folds,
            Self::TestFraction(_) => 1,
        }
    }

    fn training_share(self) -> f64 {
        match self {
            Self::Folds(folds) => 1.0 - 1.0 / f64::from(folds.max(1)),
            Self::TestFraction(share) => 1.0 - share,
        }
    }
}

impl Way {
    /// How many folds there are of the rows.
    pub(super) fn folds(&self) -> u32 {
        match self {
            Self::Holdout { repeats, .. } => *repeats,
            Self::Kfold { folds, repeats, .. } => folds.saturating_mul(*repeats),
            Self::Group { part, repeats, .. } => part.folds().saturating_mul(*repeats),
            Self::Time { part, .. } => part.folds(),
            Self::Hash { .. } | Self::Column { .. } | Self::All => 1,
        }
    }

    /// The column that divides rows, but for the one that names sides.
    pub(super) fn key(&self) -> Option<KeyColumn> {
        let apart = |name: &String, form| Some(KeyColumn { name: name.clone(), form, apart: true });
        match self {
            Self::Group { key, .. } => apart(key, KeyForm::Labels),
            Self::Time { key, .. } => apart(key, KeyForm::Times),
            Self::Hash { key, .. } => apart(key, KeyForm::Hashes),
            Self::Holdout { stratify, .. } | Self::Kfold { stratify, .. } => {
                let Stratify { column, quantiles } = stratify.as_ref()?;
                let form = if quantiles.is_some() { KeyForm::Numbers } else { KeyForm::Labels };
                // To be represented is no reason not to be a feature.
                Some(KeyColumn { name: column.clone(), form, apart: false })
            }
            Self::Column { .. } | Self::All => None,
        }
    }
}

impl Split {
    pub(super) fn way(&self) -> Way {
        if let Some(Holdout { test_fraction, repeats }) = self.holdout {
            Way::Holdout { test_fraction, repeats, stratify: self.stratify.clone() }
        } else if let Some(Kfold { folds, repeats }) = self.kfold {
            Way::Kfold { folds, repeats, stratify: self.stratify.clone() }
        } else if let Some(GroupSplit { key, folds, test_fraction, repeats }) = &self.group {
            Way::Group { key: key.clone(), part: TestPart::new(*folds, *test_fraction), repeats: *repeats }
        } else if let Some(TimeSplit { key, gap, folds, test_fraction }) = &self.time {
            let gap = gap.as_ref().and_then(|gap| Gap::parse(&gap.0)).unwrap_or_default();
            Way::Time { key: key.clone(), gap, part: TestPart::new(*folds, *test_fraction) }
        } else if let Some(HashSplit { key, test_fraction }) = &self.hash {
            Way::Hash { key: key.clone(), test_fraction: *test_fraction }
        } else if let Some(SplitColumn { name, test }) = &self.column {
            let test = test.0.as_str().map_or_else(|| test.0.to_string(), str::to_owned);
            Way::Column { name: name.clone(), test }
        } else {
            Way::All
        }
    }

    /// The column that names the sides.
    pub(super) fn named_column(&self) -> Option<String> {
        self.column.as_ref().map(|column| column.name.clone())
    }

    /// The share of the rows that train, where it is known before they are read, or a guess.
    pub fn training_share(&self) -> f64 {
        match self.way() {
            Way::Holdout { test_fraction, .. } | Way::Hash { test_fraction, .. } => 1.0 - test_fraction,
            Way::Kfold { folds, .. } => TestPart::Folds(folds).training_share(),
            // Folds train on what is before them: half of the rows on average.
            Way::Time { part: TestPart::Folds(_), .. } => 0.5,
            Way::Group { part, .. } | Way::Time { part, .. } => part.training_share(),
            Way::Column { .. } => 0.8,
            Way::All => 1.0,
        }
    }

    /// Whether every row trains and none is tested.
    pub fn takes_all(&self) -> bool {
        self.way() == Way::All
    }
}

pub(super) fn check(stage: &Entry, options: &Node, _: &[Entry], problems: &mut Diagnostics) {
    let given: Vec<&Entry> = options.entries().iter().filter(|entry| WAYS.contains(&entry.key.as_str())).collect();
    let help = format!("write exactly one of {}", WAYS.join(", "));
    match given[..] {
        [] => problems
            .push(Diagnostic::new(stage.origin, format!("`{}` does not say how to split", stage.key)).help(help)),
        [way] => {
            check_folds(way, problems);
            check_parts(way, problems);
            check_gap(way, problems);
            check_stratify(way, options, problems);
        }
        [_, second, ..] => problems.push(Diagnostic::new(second.origin, "more than one way to split").help(help)),
    }
}

/// More models than this are a mistake.
const MAX_FOLDS: i64 = 10_000;

/// Folds and repeats are each within bounds by the schema; their product must be, too.
fn check_folds(way: &Entry, problems: &mut Diagnostics) {
    let number = |key: &str| match way.node.entry(key).map(|entry| &entry.node.value) {
        Some(Value::Int(number)) => *number,
        _ => 1,
    };
    if number("folds").saturating_mul(number("repeats")) > MAX_FOLDS {
        let message = format!("`folds` times `repeats` is more than {MAX_FOLDS}");
        problems.push(Diagnostic::new(way.origin, message).help("use fewer repeats, or several pipelines"));
    }
}

/// Every row once, or a part of the rows.
fn check_parts(way: &Entry, problems: &mut Diagnostics) {
    if !["group", "time"].contains(&way.key.as_str()) || way.node.entries().is_empty() {
        return;
    }
    let given: Vec<&Entry> = PARTS.iter().filter_map(|key| way.node.entry(key)).collect();
    match given[..] {
        [] => {
            let message = format!("`{}` does not say which part of the rows is tested", way.key);
            problems.push(Diagnostic::new(way.origin, message).help("add `folds` or `test_fraction`"));
        }
        [_, second, ..] => {
            problems.push(Diagnostic::new(second.origin, "`folds` and `test_fraction` exclude each other"));
        }
        _ => {}
    }
}

fn check_gap(way: &Entry, problems: &mut Diagnostics) {
    let Some(gap) = way.node.entry("gap").filter(|_| way.key == "time") else { return };
    let written = gap.node.to_json();
    if written.as_str().is_some_and(contains_reference) || Gap::parse(&written).is_some() {
        return;
    }
    let message = format!("`gap` is {written}, which is no time");
    let help = "write a whole number and a unit, such as 7d, 12h or 30m; a number alone where `key` holds numbers";
    problems.push(Diagnostic::new(gap.node.origin, message).help(help));
}

fn check_stratify(way: &Entry, options: &Node, problems: &mut Diagnostics) {
    if let Some(stratify) = options.entry("stratify").filter(|_| !STRATIFIED.contains(&way.key.as_str())) {
        let message = format!("`stratify` does nothing with `{}`", way.key);
        let help = format!("leave it out, or split with {}", STRATIFIED.join(" or "));
        problems.push(Diagnostic::new(stratify.origin, message).help(help));
    }
}
