//! Which numbers belong together: cases, their repetitions, and the cases that are shown in detail.

use super::data::Best;
use crate::eval::metrics::{METRICS, Metric};
use crate::tables::MetricRow;
use std::collections::{BTreeMap, BTreeSet};

/// A case of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunCase {
    pub label: String,
    pub values: Vec<(String, String)>,
}

/// Matrix variables of these names repeat an experiment: their cases are averaged like folds.
const REPEATS: [&str; 8] = ["draw", "seed", "repeat", "repeats", "replicate", "rep", "trial", "split"];

/// Whether a variable only repeats the experiment.
pub fn is_repeat(name: &str) -> bool {
    REPEATS.contains(&name)
}

/// A case shown in detail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panel {
    pub case: String,
    pub title: String,
    pub series: usize,
}

/// Cases that differ in repetitions only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// What they have in common, as `stride, m = 50`.
    pub name: String,
    /// Their values, without repetitions.
    pub values: Vec<(String, String)>,
    pub cases: Vec<String>,
}

impl Group {
    /// The value of a variable, or a dash.
    pub fn value(&self, variable: &str) -> &str {
        self.values.iter().find(|(name, _)| name == variable).map_or("–", |(_, value)| value.as_str())
    }
}

/// Every value once, in the order of first appearance.
pub fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found: Vec<T> = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// The cases by what they have in common, in order.
pub fn groups(cases: &[RunCase]) -> Vec<Group> {
    let mut found: Vec<Group> = Vec::new();
    for case in cases {
        let values: Vec<(String, String)> = case.values.iter().filter(|(name, _)| !is_repeat(name)).cloned().collect();
        match found.iter_mut().find(|group| group.values == values) {
            Some(group) => group.cases.push(case.label.clone()),
            None => found.push(Group { name: name(&values), values, cases: vec![case.label.clone()] }),
        }
    }
    found
}

/// `stride, m = 50`: the method speaks for itself.
pub fn name(values: &[(String, String)]) -> String {
    let part = |(name, value): &(String, String)| {
        if name == "method" { method_name(value).to_owned() } else { format!("{name} = {value}") }
    };
    if values.is_empty() { "all rows".to_owned() } else { values.iter().map(part).collect::<Vec<_>>().join(", ") }
}

/// Methods as the documentation writes them.
pub fn method_name(method: &str) -> &str {
    match method {
        "gp" => "exact GP",
        "sparse_gp" => "sparse GP",
        "deep_gp" => "deep GP",
        "stride" => "STRIDE",
        "mean" => "mean (baseline)",
        "ridge" => "ridge regression (baseline)",
        "knn" => "nearest neighbours (baseline)",
        other => other,
    }
}

/// Whether a method is there to be beaten.
pub fn is_baseline(method: &str) -> bool {
    method_name(method).ends_with("(baseline)")
}

/// Mean and sample standard deviation of some numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanStd {
    pub mean: f64,
    /// Sample standard deviation, of two numbers or more.
    pub std: Option<f64>,
    pub count: usize,
}

impl MeanStd {
    /// Of these numbers; none of them, no statistics.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        if count == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let std = (count > 1).then(|| (squares / (count - 1) as f64).sqrt());
        Some(Self { mean, std, count })
    }
}

/// Stage, case and name of a metric.
type MetricPlace<'a> = (&'a str, &'a str, &'a str);

/// The metrics of a run by stage, case and name, one value per fold.
#[derive(Debug, Default)]
pub struct FoldValues<'a> {
    values: BTreeMap<MetricPlace<'a>, Vec<f64>>,
    /// Fold and rows of each of the values.
    folds: BTreeMap<MetricPlace<'a>, Vec<(Option<i32>, i64)>>,
    methods: BTreeMap<(&'a str, &'a str), &'a str>,
    stages: Vec<&'a str>,
}

impl<'a> FoldValues<'a> {
    pub fn new(rows: &'a [MetricRow]) -> Self {
        let mut measured = Self::default();
        for row in rows.iter().filter(|row| row.stat == "value" && row.feature.is_none()) {
            let place = (row.stage.as_str(), row.case.as_str(), row.metric.as_str());
            measured.methods.insert((place.0, place.1), &row.method);
            let Some(value) = row.value.filter(|value| value.is_finite()) else { continue };
            measured.values.entry(place).or_default().push(value);
            measured.folds.entry(place).or_default().push((row.fold, row.rows));
            let evaluates = row.split != "train"
                && METRICS.iter().any(|known| known.headline.is_some() && known.name == row.metric);
            if evaluates && !measured.stages.contains(&place.0) {
                measured.stages.push(place.0);
            }
        }
        measured
    }

    /// The stages that compare predictions with true values, in order.
    pub fn stages(&self) -> &[&'a str] {
        &self.stages
    }

    /// The fold values of some cases, pooled.
    pub fn values(&self, stage: &str, cases: &[String], metric: &str) -> Vec<f64> {
        let mut found = Vec::new();
        for case in cases {
            found.extend(self.values.get(&(stage, case.as_str(), metric)).into_iter().flatten());
        }
        found
    }

    /// The values of a case with their folds, and the rows of each.
    pub fn by_fold(&self, stage: &str, case: &str, metric: &str) -> Vec<(Option<i32>, i64, f64)> {
        let place = (stage, case, metric);
        let values = self.values.get(&place).into_iter().flatten();
        let folds = self.folds.get(&place).into_iter().flatten();
        folds.zip(values).map(|((fold, rows), value)| (*fold, *rows, *value)).collect()
    }

    pub fn stat(&self, stage: &str, cases: &[String], metric: &str) -> Option<MeanStd> {
        MeanStd::of(&self.values(stage, cases, metric))
    }

    /// The metrics of a stage, in the order of the documentation.
    pub fn metrics(&self, stage: &str) -> impl Iterator<Item = &'static Metric> {
        let found: BTreeSet<&str> = self.values.keys().filter(|place| place.0 == stage).map(|place| place.2).collect();
        METRICS.iter().filter(move |metric| found.contains(metric.name))
    }

    /// The metric that a stage is judged by.
    pub fn headline(&self, stage: &str) -> Option<&'static Metric> {
        self.metrics(stage).filter(|metric| metric.headline.is_some()).min_by_key(|metric| metric.headline)
    }

    /// How far some cases are from the best that a metric can be.
    pub fn badness(&self, stage: &str, cases: &[String], metric: &Metric) -> Option<f64> {
        metric.badness(self.stat(stage, cases, metric.name)?.mean)
    }

    /// The method of a stage's cases, where they have one in common.
    pub fn method(&self, stage: &str, cases: &[String]) -> Option<&'a str> {
        let mut found: BTreeSet<&'a str> = BTreeSet::new();
        for case in cases {
            found.extend(self.methods.get(&(stage, case.as_str())).copied());
        }
        if found.len() == 1 { found.into_iter().next() } else { None }
    }
}

/// The best case of every evaluate stage.
pub fn best_of(cases: &[RunCase], rows: &[MetricRow]) -> Vec<Best> {
    let measured = FoldValues::new(rows);
    let best = |stage: &&str| {
        let metric = measured.headline(stage)?;
        let own = |case: &RunCase| measured.badness(stage, std::slice::from_ref(&case.label), metric);
        let found = cases.iter().filter_map(|case| Some((own(case)?, case)));
        let (_, RunCase { label, .. }) = found.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let MeanStd { mean, std, .. } = measured.stat(stage, std::slice::from_ref(label), metric.name)?;
        Some(Best { stage: (*stage).to_owned(), case: label.clone(), metric: metric.name.to_owned(), mean, std })
    };
    measured.stages().iter().filter_map(best).collect()
}

/// Cases shown in detail, at most.
const SHOWN: usize = 4;

/// The cases of an evaluate stage that are shown in detail: the best of each method, or the best few of one method.
pub fn panels(cases: &[RunCase], rows: &[MetricRow], stage: &str) -> Vec<Panel> {
    let measured = FoldValues::new(rows);
    let groups = groups(cases);
    let Some(metric) = measured.headline(stage) else { return Vec::new() };
    let score = |group: &Group| measured.badness(stage, &group.cases, metric);
    let method = |group: &Group| measured.method(stage, &group.cases).unwrap_or_default().to_owned();
    let methods: Vec<String> = distinct(groups.iter().filter(|group| score(group).is_some()).map(method));
    let mut ranked: Vec<(f64, &Group)> = groups.iter().filter_map(|group| Some((score(group)?, group))).collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    let chosen: Vec<(usize, &Group)> = if methods.len() > 1 {
        let best = |name: &String| ranked.iter().find(|(_, group)| method(group) == *name).map(|(_, group)| *group);
        methods.iter().enumerate().filter_map(|(series, name)| Some((series, best(name)?))).take(SHOWN).collect()
    } else {
        ranked.iter().take(SHOWN).map(|(_, group)| *group).enumerate().collect()
    };
    let panel = |(series, group): (usize, &Group)| {
        let case =
            group.cases.iter().find(|case| !measured.values(stage, std::slice::from_ref(case), metric.name).is_empty());
        let case = case.cloned().unwrap_or_default();
        let values =
            cases.iter().find(|known| known.label == case).map(|known| known.values.clone()).unwrap_or_default();
        let title = if values.is_empty() { method_name(&method(group)).to_owned() } else { name(&values) };
        Panel { case, title, series }
    };
    chosen.into_iter().map(panel).collect()
}
