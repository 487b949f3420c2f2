//! `warn_if` and `fail_if`: conditions on how far rows are from those of training.
//!
//! They do not count in any key: they are looked at whenever a run takes the drift of its rows, done now or found in the
//! cache.

use crate::eval::metrics::of_drift;
use crate::stages::train::gate::{ComparedWith, Condition, Gate};
use crate::tables::MetricRow;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;

/// What is warned of where nothing is written, of rows that are scored.
pub const WARNED_OF: [&str; 6] = [
    "variance_ratio > 3",
    "share_outside_range > 0.2",
    "nearest_distance_ratio > 5",
    "rows_invalid > 0.01",
    // New levels come by and by, and gaps may be usual: these are of columns that are written otherwise, or are gone.
    "share_unseen_levels > 0.5",
    "share_missing > 0.9",
];

/// One row of a handful is a fifth of it, and outside of some range now and then: the default is for more than that.
const FEWEST: i64 = 10;

/// How many features a message names.
const NAMED: usize = 3;

/// Conditions as they are written, each of which is enough: one text, a list, or false for none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ConditionList(pub Vec<String>);

impl<'de> Deserialize<'de> for ConditionList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Off(bool),
            One(String),
            Several(Vec<String>),
        }
        match Written::deserialize(deserializer)? {
            Written::Off(false) => Ok(Self::default()),
            Written::Off(true) => Err(serde::de::Error::custom("true is no condition")),
            Written::One(text) => Ok(Self(vec![text])),
            Written::Several(texts) => Ok(Self(texts)),
        }
    }
}

impl JsonSchema for ConditionList {
    fn schema_name() -> Cow<'static, str> {
        "ConditionList".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "a condition such as `variance_ratio > 3`, a list of them, or false",
            "anyOf": [
                { "type": "string", "minLength": 1 },
                { "type": "array", "items": { "type": "string", "minLength": 1 } },
                { "const": false },
            ]
        })
    }
}

/// The conditions in a text: alternatives, joined by `or`.
pub fn parse(text: &str) -> Result<Vec<Gate>, String> {
    let known: Vec<&str> = of_drift().map(|metric| metric.name).collect();
    text.split(" or ").map(|text| Gate::parse_among(&known, "variance_ratio > 3", text)).collect()
}

/// How conditions are written, for messages.
pub const HELP: &str = "write `METRIC > NUMBER` (or >=, <, <=); join by `and` what must hold together, and by `or`, or in a \
                        list, what is enough alone";

/// The conditions of a predict stage or of `score`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watch {
    warn: Vec<Gate>,
    fail: Vec<Gate>,
    /// Whether what is warned of is the default.
    by_default: bool,
}

/// A condition that held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldCondition {
    pub fails: bool,
    pub condition: String,
    /// What was found, in words.
    pub text: String,
}

impl Watch {
    /// For rows that are scored: with the default, unless something is written.
    pub fn of_scores(warn: Option<&ConditionList>, fail: Option<&ConditionList>) -> Self {
        let by_default = warn.is_none();
        let standard = ConditionList(WARNED_OF.map(str::to_owned).to_vec());
        Self { by_default, ..Self::written(Some(warn.unwrap_or(&standard)), fail) }
    }

    /// For test rows: only what is written. They are drawn from the rows that the model was trained on, and `evaluate`
    /// knows their true values: the default could only raise false alarms, of small folds above all.
    pub fn of_test_rows(warn: Option<&ConditionList>, fail: Option<&ConditionList>) -> Self {
        Self::written(warn, fail)
    }

    fn written(warn: Option<&ConditionList>, fail: Option<&ConditionList>) -> Self {
        // The rules of the language have refused what does not parse.
        let gates = |list: Option<&ConditionList>| -> Vec<Gate> {
            list.into_iter().flat_map(|list| &list.0).filter_map(|text| parse(text).ok()).flatten().collect()
        };
        Self { warn: gates(warn), fail: gates(fail), by_default: false }
    }

    /// Whether there is nothing to look at.
    pub const fn is_empty(&self) -> bool {
        self.warn.is_empty() && self.fail.is_empty()
    }

    /// The conditions that hold for rows of this drift. One whose metrics are all behind a failure is not warned of again.
    pub fn held(&self, drift: &[MetricRow]) -> Vec<HeldCondition> {
        let failed: Vec<&Gate> = self.fail.iter().filter(|gate| holds(gate, drift)).collect();
        let is_failed = |condition: &Condition| {
            failed.iter().flat_map(|gate| &gate.conditions).any(|known| known.metric == condition.metric)
        };
        let few = self.by_default && rows(drift) < FEWEST;
        let warned = self.warn.iter().filter(|gate| !few && holds(gate, drift));
        let warned = warned.filter(|gate| !gate.conditions.iter().all(is_failed));
        let held =
            |fails: bool, gate: &Gate| HeldCondition { fails, condition: gate.to_string(), text: found(gate, drift) };
        failed.iter().map(|gate| held(true, gate)).chain(warned.map(|gate| held(false, gate))).collect()
    }

    /// What is said of conditions that are written and cannot be looked at; nothing where there are no rows.
    pub fn unknown(&self, drift: &[MetricRow]) -> Vec<String> {
        let warn = if self.by_default { &[][..] } else { &self.warn };
        let written = self.fail.iter().chain(warn).flat_map(|gate| &gate.conditions);
        let usable = drift.iter().any(|row| row.metric == "share_outside_range" && row.rows > 0);
        let unknown = written.filter(|condition| usable && values(&condition.metric, drift).next().is_none());
        let mut said: Vec<String> = Vec::new();
        for condition in unknown {
            let why = match condition.metric.as_str() {
                "nearest_distance_ratio" => "the model has no local layer",
                "share_unseen_levels" | "share_missing" => "the model takes all columns as they are",
                _ => "it needs variances, and a model that knows those of its training",
            };
            let text = format!("`{condition}` cannot be looked at: {why}");
            if !said.contains(&text) {
                said.push(text);
            }
        }
        said
    }
}

/// Rows that were looked at, invalid ones included.
fn rows(drift: &[MetricRow]) -> i64 {
    drift.iter().filter(|row| row.metric == "rows_invalid").map(|row| row.rows).max().unwrap_or(0)
}

/// The known values of a metric.
fn values<'a>(metric: &'a str, drift: &'a [MetricRow]) -> impl Iterator<Item = (&'a MetricRow, f64)> {
    drift.iter().filter(move |row| row.metric == metric).filter_map(|row| Some((row, row.value?)))
}

fn holds(gate: &Gate, drift: &[MetricRow]) -> bool {
    gate.conditions.iter().all(|condition| breaking(condition, drift).next().is_some())
}

/// The values that meet a condition: of a feature each, or one.
fn breaking<'a>(condition: &'a Condition, drift: &'a [MetricRow]) -> impl Iterator<Item = (&'a MetricRow, f64)> {
    values(&condition.metric, drift).filter(move |(row, value)| {
        let is_share =
            condition.metric == "rows_invalid" && matches!(condition.bound, ComparedWith::Number(bound) if bound < 1.0);
        // Nothing is no share of no rows.
        let value = if is_share { value / row.rows.max(1) as f64 } else { *value };
        condition.holds(Some(value), None)
    })
}

/// What was found, in words.
fn found(gate: &Gate, drift: &[MetricRow]) -> String {
    let facts: Vec<String> = gate.conditions.iter().map(|condition| fact(condition, drift)).collect();
    format!("{} (`{gate}`)", facts.join(" and "))
}

fn fact(condition: &Condition, drift: &[MetricRow]) -> String {
    let mut all: Vec<(&MetricRow, f64)> = breaking(condition, drift).collect();
    all.sort_by(|left, right| right.1.total_cmp(&left.1));
    let Some((row, worst)) = all.first().copied() else { return String::new() };
    match condition.metric.as_str() {
        "share_outside_range" | "share_unseen_levels" | "share_missing" => {
            let named = |(row, share): &(&MetricRow, f64)| {
                format!("`{}` in {} of the rows", row.feature.as_deref().unwrap_or_default(), percent(*share))
            };
            let names: Vec<String> = all.iter().take(NAMED).map(named).collect();
            let more = all.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more features") } else { String::new() };
            let what = match condition.metric.as_str() {
                "share_unseen_levels" => "levels that training has not seen",
                "share_missing" => "no value",
                _ => "outside the range of training",
            };
            format!("{what}: {}{more}", names.join(", "))
        }
        "variance_ratio" => format!("the predictive variance is {} times that of training", significant(worst)),
        "nearest_distance_ratio" => {
            format!("the nearest training row is {} times as far away as in training", significant(worst))
        }
        _ => format!("{worst} of {} rows ({}) cannot be scored", row.rows, percent(worst / row.rows.max(1) as f64)),
    }
}

fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    let decimals = usize::from(percent < 99.95 && percent > 0.0);
    format!("{percent:.decimals$} %")
}

/// Three digits, as many as anybody reads.
fn significant(value: f64) -> String {
    if !(1e-3..1e6).contains(&value.abs()) {
        return format!("{value:.2e}");
    }
    let decimals = (2.0 - value.abs().log10().floor()).max(0.0) as usize;
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(metric: &str, feature: Option<&str>, value: f64, rows: i64) -> MetricRow {
        MetricRow {
            run_id: String::new(),
            stage: String::new(),
            case: String::new(),
            method: "gp".to_owned(),
            fold: Some(0),
            split: "score".to_owned(),
            metric: metric.to_owned(),
            stat: "value".to_owned(),
            feature: feature.map(str::to_owned),
            value: Some(value),
            rows,
        }
    }

    fn drift(rows: i64) -> Vec<MetricRow> {
        vec![
            row("rows_invalid", None, 2.0, rows),
            row("variance_ratio", None, 22.68, rows - 2),
            row("share_outside_range", Some("temperature"), 1.0, rows - 2),
            row("share_outside_range", Some("humidity"), 0.1, rows - 2),
        ]
    }

    fn list(texts: &[&str]) -> ConditionList {
        ConditionList(texts.iter().map(|text| (*text).to_owned()).collect())
    }

    fn texts(watch: &Watch, drift: &[MetricRow]) -> Vec<String> {
        watch.held(drift).into_iter().map(|held| format!("{} {}", held.fails, held.text)).collect()
    }

    #[test]
    fn the_default_warns_of_more_than_a_handful_of_rows() {
        let watch = Watch::of_scores(None, None);
        let said = texts(&watch, &drift(40));
        assert_eq!(
            said,
            [
                "false the predictive variance is 22.7 times that of training (`variance_ratio > 3`)",
                "false outside the range of training: `temperature` in 100 % of the rows (`share_outside_range > 0.2`)",
                "false 2 of 40 rows (5.0 %) cannot be scored (`rows_invalid > 0.01`)",
            ]
        );
        assert!(watch.held(&drift(9)).is_empty());
        assert!(Watch::of_test_rows(None, None).is_empty());
        assert!(Watch::of_scores(Some(&list(&[])), None).held(&drift(40)).is_empty());
    }

    #[test]
    fn what_fails_is_not_warned_of_again() {
        let watch = Watch::of_scores(None, Some(&list(&["variance_ratio > 10 or rows_invalid >= 2"])));
        let fails: Vec<bool> = watch.held(&drift(40)).iter().map(|held| held.fails).collect();
        assert_eq!(fails, [true, true, false]);
    }

    #[test]
    fn numbers_below_one_are_shares_of_rows() {
        let held = |text: &str| !Watch::of_scores(Some(&list(&[text])), None).held(&drift(40)).is_empty();
        assert!(held("rows_invalid > 0.04") && !held("rows_invalid > 0.05"));
        assert!(held("rows_invalid >= 2") && !held("rows_invalid > 2"));
        assert!(held("variance_ratio > 3 and rows_invalid > 0") && !held("variance_ratio > 3 and rows_invalid > 2"));
    }

    #[test]
    fn what_cannot_be_looked_at_is_said() {
        let watch = Watch::of_scores(Some(&list(&["nearest_distance_ratio > 5"])), None);
        assert_eq!(watch.unknown(&drift(40)).len(), 1);
        assert!(Watch::of_scores(None, None).unknown(&drift(40)).is_empty());
        assert!(watch.unknown(&[row("rows_invalid", None, 0.0, 0)]).is_empty());
    }
}
