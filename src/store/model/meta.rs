//! What a model file says about its model.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::FORMAT_VERSION;
use crate::eval::sketch::RowSketch;
use crate::eval::transform::Transform;
use crate::features::parts::TimePart;
use crate::features::spec::ONE_HOT;
use crate::features::{ColumnKind, Encoding, FeatureColumn};
use crate::tables::Timestamp;

/// The description of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelMeta {
    /// Version of the file format: 1.
    pub format_version: u32,
    /// The name of the method: `gp`, `stride`, `ridge`.
    pub method: String,
    /// The covariance function; empty for methods without one.
    pub kernel: String,
    /// Features, in the order of the tensors' columns.
    pub feature_names: Vec<String>,
    /// From features to what the model sees.
    pub feature_scaling: CentreAndScale,
    /// From targets to what the model sees.
    pub target_scaling: TargetScaling,
    /// How it came to be.
    pub training: TrainingSummary,
    /// Hyper-parameters by name, in scaled units.
    pub hyperparameters: BTreeMap<String, f64>,
    /// Metrics of the training run by name; none where not defined.
    pub metrics: BTreeMap<String, Option<f64>>,
    /// Smallest and largest training value of each feature.
    pub feature_ranges: Vec<Range>,
    /// The options it was trained with, for the reader.
    pub options: Value,
    /// Words that a method needs beside its numbers; files of methods without any do not have the key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub words: BTreeMap<String, String>,
    /// Mean predictive variance at training rows, in squared units of the target: what scoring compares its own with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predictive_variance: Option<f64>,
    /// The columns that it takes and what they become, which is what `feature_names` names; files of models that take
    /// columns as they are do not have the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Encoding>,
    /// The scale on which the target is modelled, if it is not its own; `target_scaling` is on that scale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_transform: Option<Transform>,
    /// How it came to be published, if there was a condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
    /// What its training started from, where `start_from` asks for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<StartedFrom>,
    /// The rows that it was trained on, as far as it takes to recognise them; older files do not have the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<RowSketch>,
}

/// What a training started from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedFrom {
    /// What the training depended on beside its start, as a hash.
    pub work: String,
    /// SHA-256 of the model's file; none where nothing was published yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// The condition that a published model has met.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The condition, as `smse < 0.25`.
    pub condition: String,
    /// Test metrics of the run that published it, by name; none where not defined.
    pub metrics: BTreeMap<String, Option<f64>>,
}

/// `(x - centre) / scale`, feature by feature.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CentreAndScale {
    pub centre: Vec<f64>,
    /// Divided by; positive.
    pub scale: Vec<f64>,
    /// What features were multiplied by for their relevance, which is in `scale`; empty where all count the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relevance: Vec<f64>,
}

/// `(y - mean) / std`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TargetScaling {
    pub mean: f64,
    /// Divided by; positive.
    pub std: f64,
}

/// Smallest and largest value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Range {
    pub min: f64,
    pub max: f64,
}

/// What a model was trained on, by which run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainingSummary {
    pub rows: u64,
    pub inputs: Vec<InputDigest>,
    pub seed: u64,
    pub case: String,
    pub fold: i32,
    pub run_id: String,
    pub version: String,
    /// Wall clock when the training ended.
    pub created: Timestamp,
}

/// A file a model was trained on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputDigest {
    pub path: String,
    /// SHA-256, in hexadecimal.
    pub sha256: String,
    pub rows: u64,
}

impl ModelMeta {
    /// The columns that the model takes.
    pub fn inputs(&self) -> Vec<FeatureColumn> {
        let Some(encoding) = &self.columns else {
            return self.feature_names.iter().map(|name| FeatureColumn::number(name)).collect();
        };
        let column = |column: &crate::features::ColumnEncoding| FeatureColumn {
            name: column.name.clone(),
            kind: column.kind,
            missing: column.missing,
            one_hot: ONE_HOT,
        };
        encoding.columns.iter().map(column).collect()
    }

    /// Refuses a description that contradicts itself, or numbers that JSON has not.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.format_version != FORMAT_VERSION {
            return Err(format!("format version {} instead of {FORMAT_VERSION}", self.format_version));
        }
        let features = self.feature_names.len();
        let lengths = [
            ("feature_scaling.centre", self.feature_scaling.centre.len()),
            ("feature_scaling.scale", self.feature_scaling.scale.len()),
            ("feature_ranges", self.feature_ranges.len()),
        ];
        let relevance = &self.feature_scaling.relevance;
        let lengths = lengths
            .into_iter()
            .chain((!relevance.is_empty()).then_some(("feature_scaling.relevance", relevance.len())));
        for (what, length) in lengths {
            if length != features {
                return Err(format!("{what} has {length} entries for {features} features"));
            }
        }
        self.columns.as_ref().map_or(Ok(()), |columns| columns.check(features))?;
        let mut names: Vec<&String> = self.feature_names.iter().collect();
        names.sort_unstable();
        if let Some([name, _]) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("the feature `{name}` occurs twice"));
        }
        self.check_numbers()
    }

    /// The ranges that new rows are compared with. Time goes on: the age of a time has no upper end.
    pub fn ranges_of_new_rows(&self) -> Vec<Range> {
        let times = self.columns.iter().flat_map(|encoding| &encoding.columns);
        let times = times.filter(|column| column.kind == ColumnKind::Timestamp);
        let ages: Vec<String> =
            times.map(|column| format!("{}.{}", column.name, TimePart::Age.suffixes()[0])).collect();
        let named = self.feature_names.iter().zip(&self.feature_ranges);
        named
            .map(|(name, range)| Range { max: if ages.contains(name) { f64::INFINITY } else { range.max }, ..*range })
            .collect()
    }

    fn check_numbers(&self) -> Result<(), String> {
        let all_finite = |values: &[f64]| values.iter().all(|value| value.is_finite());
        let positive = |value: f64| value > 0.0 && value.is_finite();
        let CentreAndScale { centre, scale, relevance } = &self.feature_scaling;
        if !all_finite(centre) || !scale.iter().chain(relevance).copied().all(positive) {
            return Err(
                "the feature scaling has a centre that is not finite or a scale that is not positive".to_owned()
            );
        }
        if !self.target_scaling.mean.is_finite() || !positive(self.target_scaling.std) {
            return Err("the target scaling has a mean that is not finite or a std that is not positive".to_owned());
        }
        if !self.feature_ranges.iter().all(|range| range.min <= range.max && all_finite(&[range.min, range.max])) {
            return Err("a feature range is not finite, or empty".to_owned());
        }
        if self.predictive_variance.is_some_and(|variance| !positive(variance)) {
            return Err("the predictive variance of training is not positive".to_owned());
        }
        match self.hyperparameters.iter().find(|(_, value)| !value.is_finite()) {
            Some((name, value)) => Err(format!("the hyper-parameter `{name}` is {value}")),
            None => Ok(()),
        }
    }
}
