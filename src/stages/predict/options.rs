//! The options of the predict stage.

use super::alarm::{ConditionList, Watch};
use crate::pipeline::FilePath;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Predicts the test rows of every fold, or all rows of an input.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own in the language")]
pub struct Predict {
    /// A train stage, or, with a slash, the directory of a published model.
    pub model: String,
    /// That directory, once it is known where the pipeline file is.
    #[serde(skip)]
    pub published: Option<FilePath>,
    /// The model's split stage (its test rows), or an ingest stage (all its rows).
    pub input: String,
    /// Central intervals to add as quantile columns: 0.9 adds `y_q05` and `y_q95`.
    #[serde(default)]
    pub intervals: Vec<IntervalLevel>,
    /// false: means only, faster.
    #[serde(default = "yes")]
    pub variance: bool,
    /// false: predictions of the global model alone, without its local layer. A model whose top layer is by neighbours has
    /// nothing else, and predicts as it is.
    #[serde(default = "yes")]
    pub local: bool,
    /// true: the values of the hidden layers at the test rows go to the table `hidden`; for deep methods.
    #[serde(default)]
    pub hidden: bool,
    /// What happens to rows with a null, NaN or infinite feature: the run fails, their predictions are null, or they are
    /// left out; counted in every case.
    #[serde(default)]
    pub on_invalid: OnInvalid,
    /// When to warn of rows unlike those of training: conditions on `variance_ratio`, `share_outside_range` (of any feature),
    /// `nearest_distance_ratio`, `rows_invalid` (below 1 a share of the rows, else a number of rows), `share_unseen_levels` and
    /// `share_missing` (of any column), one or a list. Default for the rows of an ingest stage: `[variance_ratio > 3,
    /// share_outside_range > 0.2, nearest_distance_ratio > 5, rows_invalid > 0.01, share_unseen_levels > 0.5,
    /// share_missing > 0.9]`, from 10 rows on; for test rows: none. `false`: none.
    pub warn_if: Option<ConditionList>,
    /// When to end the run with exit code 4, after all results are written: conditions like those of `warn_if`.
    pub fail_if: Option<ConditionList>,
    /// Columns of the input that are passed through with their own types; for the rows of an ingest stage.
    #[serde(default)]
    pub keep: Vec<String>,
    /// true: columns of the output say where its scores come from: `model_sha256`, `model_run_id` and `model_version` of the
    /// model, `run_id` and `scored_at` of the scoring. The footer of the file always does.
    #[serde(default)]
    pub origin: bool,
    /// A Parquet file that gets the predictions, replaced in one step; with a slash at its end, a directory that gets one
    /// file per input file. For the rows of an ingest stage.
    #[schemars(length(min = 1))]
    pub output: Option<FilePath>,
}

const fn yes() -> bool {
    true
}

impl Predict {
    /// Levels of the central intervals, each once, in increasing order.
    pub fn levels(&self) -> Vec<f64> {
        let mut levels: Vec<f64> = self.intervals.iter().map(|level| level.0).collect();
        levels.sort_by(f64::total_cmp);
        levels.dedup();
        levels
    }

    /// What is watched in its rows: test rows, or those of an input.
    pub fn watch(&self, test_rows: bool) -> Watch {
        let watch = if test_rows { Watch::of_test_rows } else { Watch::of_scores };
        watch(self.warn_if.as_ref(), self.fail_if.as_ref())
    }

    /// Whether the output is a directory with one file per input file.
    pub fn writes_directory(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.written().ends_with('/'))
    }
}

/// How much of the predictive distribution a central interval holds.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(transparent)]
#[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
pub struct IntervalLevel(pub f64);

impl IntervalLevel {
    /// Whether it lies between 0 and 1 and has at most six decimals: more have no column name of their own.
    pub fn has_name(self) -> bool {
        let rounded = format!("{:.6}", self.0).parse::<f64>();
        self.0 > 0.0 && self.0 < 1.0 && rounded.is_ok_and(|rounded| (rounded - self.0).abs() < 1e-12)
    }
}

/// What happens to rows that a model cannot use.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum OnInvalid {
    /// The input is refused.
    #[default]
    Error,
    /// Their predictions are null.
    Null,
    /// They are left out.
    Skip,
}

/// The words of [`OnInvalid`].
const ON_INVALID: [(&str, OnInvalid); 3] =
    [("error", OnInvalid::Error), ("null", OnInvalid::Null), ("skip", OnInvalid::Skip)];

impl OnInvalid {
    /// The word in the language.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Null => "null",
            Self::Skip => "skip",
        }
    }
}

impl std::str::FromStr for OnInvalid {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = ON_INVALID.iter().find(|(word, _)| *word == text);
        known.map(|(_, policy)| *policy).ok_or_else(|| format!("`{text}` is none of error, null, skip"))
    }
}

impl<'de> Deserialize<'de> for OnInvalid {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // In YAML the word null, without quotes, is no word: here it means what it says.
        match Option::<String>::deserialize(deserializer)? {
            None => Ok(Self::Null),
            Some(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

impl JsonSchema for OnInvalid {
    fn schema_name() -> Cow<'static, str> {
        "OnInvalid".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "What happens to rows that a model cannot use: error, null or skip.",
            "anyOf": [{ "type": "string", "enum": ["error", "null", "skip"] }, { "type": "null" }]
        })
    }
}
