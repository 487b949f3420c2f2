//! The pipeline whose settings are searched: which stage, and the pipelines that are made of it.

use super::candidate::Setting;
use super::space::{Dimension, SearchScope, dimensions};
use crate::engine::plan::{Case, PlanRequest, PlannedStage, build};
use crate::engine::{Plan, forecast};
use crate::fit::{FitFailure, marked};
use crate::pipeline::tree::{Entry, Node, Origin, Value, parse, to_yaml};
use crate::pipeline::{Diagnostics, PipelineText};
use crate::stages::split::Split;
use crate::stages::train::Train;
use crate::stages::{LANGUAGE, Sources};
use crate::text::one_line;
use std::any::Any;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub struct TuneRequest {
    /// The pipeline file, and its text.
    pub file: PathBuf,
    pub text: String,
    pub sets: Vec<String>,
    pub results: Option<PathBuf>,
    /// The train stages; none for the only one, or for all that are written alike.
    pub stages: Vec<String>,
    /// Options that stay as they are.
    pub keep: Vec<String>,
}

/// Why a pipeline cannot be tuned as it is.
#[derive(Debug, Error)]
pub enum TuneMistake {
    #[error(
        "the pipeline has {0} cases, and settings are searched for one: choose it, such as `--set matrix.method=[stride]`"
    )]
    Cases(usize),
    #[error("the pipeline has no train stage")]
    NoTraining,
    #[error("`{name}` is no train stage of the pipeline; there are {known}")]
    NoStage { name: String, known: String },
    #[error("the train stages {known} differ: say with `--stage` which to tune")]
    Several { known: String },
    #[error("`{stage}`: there is nothing to search for `method: {method}`{kept}")]
    Nothing { stage: String, method: &'static str, kept: &'static str },
    #[error("`--keep {name}`: no such option is searched; those that are: {known}")]
    NotSearched { name: String, known: String },
}

/// A pipeline, and what is searched in it.
#[derive(Debug)]
pub struct TuneSubject {
    file: PathBuf,
    results: Option<PathBuf>,
    /// As written, with what was set; and the same with its defaults in every stage.
    written: Node,
    laid: Node,
    pub name: String,
    pub seed: u64,
    /// The train stages, the one that is tried first.
    pub stages: Vec<String>,
    /// The split stage it takes, and how it divides the rows.
    split: String,
    way: InnerSplit,
    /// Folds of that split.
    pub folds: u32,
    /// Training rows of a fold, about.
    pub rows: f64,
    pub dimensions: Vec<Dimension>,
}

/// How training rows are divided again: as the rows are.
#[derive(Debug)]
enum InnerSplit {
    Random,
    /// The options that name groups or times.
    Group(Node),
    Time(Node),
}

/// How much a trial knows of the training rows: some train, others judge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rung {
    /// Share of the training rows of a fold that judge.
    pub test_fraction: f64,
    /// How often they are drawn.
    pub repeats: u32,
}

/// Stages of a trial; none of the file's own is called so.
const ROWS: &str = "tune-rows";
pub const MODEL: &str = "tune-model";
const PREDICTIONS: &str = "tune-predictions";
pub const METRICS: &str = "tune-metrics";
/// Options that say where a model comes from and goes to, not what it is.
const PLACES: [&str; 4] = ["input", "publish", "publish_if", "publish_keep"];
/// From so many training rows on, a part of them is enough to compare settings by.
const MANY_ROWS: f64 = 4_000.0;
/// Of fewer, so many divisions are wanted at the last, over all folds.
const DIVISIONS: [u32; 3] = [2, 5, 12];

impl TuneSubject {
    /// Finds what is to be searched.
    pub fn new(request: &TuneRequest, plan: &Plan) -> Result<Self, TuneMistake> {
        let [case] = &plan.cases[..] else { return Err(TuneMistake::Cases(plan.cases.len())) };
        // The plan has found the text to be in order.
        let written = LANGUAGE.written(&request.text, &request.sets).unwrap_or_else(|_| map(Vec::new()));
        let laid = LANGUAGE.with_defaults(written.clone());
        let stages = chosen(&request.stages, case, &laid)?;
        let first = stages.first().and_then(|id| case.stage(id)).ok_or(TuneMistake::NoTraining)?;
        let train = of_kind::<Train>(first).ok_or(TuneMistake::NoTraining)?;
        let split = case.stage(&train.input);
        let all = forecast(plan, &Sources::default(), u64::MAX);
        let of_first =
            case.stages.iter().zip(all.first().into_iter().flatten()).find(|(stage, _)| stage.id == first.id);
        let rows = of_first.and_then(|(_, preview)| preview.rows).unwrap_or(0) as f64 * training_share(case, first);
        let scope = SearchScope { method: train.method, rows, has_rank: train.has_rank() };
        let known: Vec<&str> = dimensions(scope, &[]).iter().map(|dimension| dimension.name).collect();
        if let Some(name) = request.keep.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(TuneMistake::NotSearched { name: name.clone(), known: known.join(", ") });
        }
        let dimensions = dimensions(scope, &request.keep);
        if dimensions.is_empty() {
            let kept = if known.is_empty() { "" } else { ": all that is searched is kept" };
            return Err(TuneMistake::Nothing { stage: first.id.clone(), method: train.method.name(), kept });
        }
        let way = split
            .and_then(|split| laid.find(&["stages", &split.id, "split"]))
            .map_or(InnerSplit::Random, InnerSplit::of);
        Ok(Self {
            file: request.file.clone(),
            results: request.results.clone(),
            way,
            written,
            laid,
            name: plan.name.clone(),
            seed: plan.seed,
            split: train.input.clone(),
            folds: split.map_or(1, |split| split.folds),
            stages,
            rows,
            dimensions,
        })
    }

    /// From few rows to many. Of a small table all rows are needed, and the choice gets firmer by dividing them again.
    pub fn rungs(&self) -> Vec<Rung> {
        if matches!(self.way, InnerSplit::Time(_)) {
            return vec![Rung { test_fraction: 0.2, repeats: 1 }];
        }
        if self.rows >= MANY_ROWS {
            return [0.75, 0.5, 0.15].map(|test_fraction| Rung { test_fraction, repeats: 1 }).to_vec();
        }
        let mut rungs: Vec<Rung> = DIVISIONS
            .iter()
            .map(|wanted| Rung { test_fraction: 0.2, repeats: wanted.div_ceil(self.folds.max(1)) })
            .collect();
        rungs.dedup();
        rungs
    }

    /// The pipeline of a trial.
    pub fn trial(&self, setting: &Setting, rung: Rung) -> String {
        let mut entries: Vec<Entry> = ["version", "seed", "results", "params", "matrix"]
            .iter()
            .filter_map(|key| self.laid.entry(key).cloned())
            .collect();
        entries.push(entry("name", text(&format!("{}-tune", self.name))));
        let mut stages: Vec<Entry> = self.before(&self.split);
        stages.push(stage(ROWS, "split", vec![entry("input", text(&self.split)), self.way.divides(rung)]));
        let mut model = self.options(&self.stages[0], setting, &self.laid);
        if let Value::Map(options) = &mut model.value {
            options.retain(|option| !PLACES.contains(&option.key.as_str()) && option.key != "calibrate");
            options.push(entry("input", text(ROWS)));
            // Intervals are no part of what is compared.
            options.push(entry("calibrate", text("none")));
        }
        stages.push(entry(MODEL, map(vec![entry("train", model)])));
        stages.push(stage(PREDICTIONS, "predict", vec![entry("model", text(MODEL)), entry("input", text(ROWS))]));
        stages.push(stage(METRICS, "evaluate", vec![entry("input", text(PREDICTIONS))]));
        entries.push(entry("stages", map(stages)));
        to_yaml(&map(entries))
    }

    /// The file with a setting in it, with remarks on top.
    pub fn tuned(&self, setting: &Setting, remarks: &[String]) -> String {
        let mut root = self.written.clone();
        for id in &self.stages {
            let options = self.options(id, setting, &self.written);
            if let Some(train) = find_mut(&mut root, &["stages", id, "train"]) {
                *train = options;
            }
        }
        let mut body = String::new();
        for remark in remarks {
            let _ = writeln!(body, "# {}", one_line(remark));
        }
        body.push_str(&to_yaml(&root));
        marked(&body)
    }

    /// The options of a train stage with a setting.
    fn options(&self, id: &str, setting: &Setting, root: &Node) -> Node {
        let own = root.find(&["stages", id, "train"]).cloned().unwrap_or_else(|| map(Vec::new()));
        setting.values(&self.dimensions).fold(own, |options, (_, value)| {
            match parse(&value.options, &mut Diagnostics::default()) {
                Some(overlay) => LANGUAGE.over(&options, &overlay),
                None => options,
            }
        })
    }

    /// A stage and all that it takes, in their order.
    fn before(&self, id: &str) -> Vec<Entry> {
        let all = self.laid.entry("stages").map_or(&[][..], |stages| stages.node.entries());
        let mut wanted = vec![id.to_owned()];
        let mut found: Vec<Entry> = Vec::new();
        for stage in all.iter().rev() {
            if wanted.contains(&stage.key) {
                let inputs = stage.node.entries().iter().filter_map(|kind| kind.node.entry("input"));
                wanted.extend(inputs.filter_map(|input| input.node.text()).map(str::to_owned));
                found.push(stage.clone());
            }
        }
        found.reverse();
        found
    }

    /// Plans a pipeline as if it stood in the file.
    pub fn plan(&self, text: &str) -> Result<Plan, FitFailure> {
        let env = |variable: &str| std::env::var(variable).ok();
        let request = PlanRequest { file: &self.file, text, sets: &[], results: self.results.as_deref(), env: &env };
        build(&request).map_err(|problems| {
            let (name, text) = (self.file.display().to_string(), text.to_owned());
            FitFailure::Refused(problems.render(&PipelineText { name, text, sets: Vec::new() }))
        })
    }

    pub fn file(&self) -> &Path {
        &self.file
    }
}

impl InnerSplit {
    fn of(split: &Node) -> Self {
        match (split.entry("group"), split.entry("time")) {
            (Some(group), _) => Self::Group(group.node.clone()),
            (_, Some(time)) => Self::Time(time.node.clone()),
            _ => Self::Random,
        }
    }

    fn divides(&self, rung: Rung) -> Entry {
        let fraction = entry("test_fraction", Node::new(Value::Float(rung.test_fraction), Origin::START));
        let repeats = entry("repeats", Node::new(Value::Int(i64::from(rung.repeats)), Origin::START));
        let named = |node: &Node, names: &[&str]| names.iter().filter_map(|name| node.entry(name).cloned()).collect();
        match self {
            Self::Random => entry("holdout", map(vec![fraction, repeats])),
            Self::Group(group) => {
                let mut options: Vec<Entry> = named(group, &["key"]);
                options.extend([fraction, repeats]);
                entry("group", map(options))
            }
            Self::Time(time) => {
                let mut options: Vec<Entry> = named(time, &["key", "gap"]);
                options.push(fraction);
                entry("time", map(options))
            }
        }
    }
}

/// The train stages that are asked for; else the only one, or all where they are alike.
fn chosen(asked: &[String], case: &Case, laid: &Node) -> Result<Vec<String>, TuneMistake> {
    let all: Vec<&str> =
        case.stages.iter().filter(|stage| of_kind::<Train>(stage).is_some()).map(|stage| stage.id.as_str()).collect();
    let known = || all.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ");
    if let Some(name) = asked.iter().find(|name| !all.contains(&name.as_str())) {
        return Err(TuneMistake::NoStage { name: name.clone(), known: known() });
    }
    if !asked.is_empty() {
        return Ok(asked.to_vec());
    }
    let described = |id: &str| {
        let mut options = laid.find(&["stages", id, "train"]).map(Node::to_json);
        if let Some(options) = options.as_mut().and_then(serde_json::Value::as_object_mut) {
            options.retain(|key, _| !PLACES.contains(&key.as_str()));
        }
        options
    };
    match all.split_first() {
        None => Err(TuneMistake::NoTraining),
        Some((first, others)) if others.iter().all(|id| described(id) == described(first)) => {
            Ok(all.iter().map(|id| (*id).to_owned()).collect())
        }
        _ => Err(TuneMistake::Several { known: known() }),
    }
}

/// The share of a table's rows that a stage trains on, all divisions before it included.
fn training_share(case: &Case, stage: &PlannedStage) -> f64 {
    let input = stage.stage.inputs().last().and_then(|input| case.stage(input));
    let Some(input) = input else { return 1.0 };
    of_kind::<Split>(input).map_or(1.0, Split::training_share) * training_share(case, input)
}

fn of_kind<S: Any>(stage: &PlannedStage) -> Option<&S> {
    (stage.stage.as_ref() as &dyn Any).downcast_ref::<S>()
}

fn find_mut<'n>(node: &'n mut Node, path: &[&str]) -> Option<&'n mut Node> {
    let Some((key, rest)) = path.split_first() else { return Some(node) };
    let Value::Map(entries) = &mut node.value else { return None };
    find_mut(&mut entries.iter_mut().find(|entry| entry.key == *key)?.node, rest)
}

fn entry(key: &str, node: Node) -> Entry {
    Entry { key: key.to_owned(), origin: Origin::START, node }
}

fn map(entries: Vec<Entry>) -> Node {
    Node::new(Value::Map(entries), Origin::START)
}

fn text(text: &str) -> Node {
    Node::new(Value::Text(text.to_owned()), Origin::START)
}

fn stage(id: &str, kind: &str, options: Vec<Entry>) -> Entry {
    entry(id, map(vec![entry(kind, map(options))]))
}
