//! Looks at the data of a plan without running it: what is there, and what training would refuse.

use std::collections::BTreeMap;
use std::path::Path;

use crate::plan::{Case, IngestStep, Method, ModelSource, Plan, SplitStep, Step};
use crate::stages::{StageError, ingest, split, train};
use crate::store::input::ColumnQuality;
use crate::store::{InputSchema, InputTable, InvalidPolicy, ModelFile, open, peek};

/// What is known of one input.
#[derive(Debug, Default)]
pub struct Inspection {
    /// The stage that reads it.
    pub stage: String,
    /// The cases that read it this way.
    pub cases: Vec<String>,
    /// The path as it is written in the pipeline.
    pub written: String,
    /// Files, as far as they could be found.
    pub files: usize,
    /// Rows of all files.
    pub rows: u64,
    /// Size of all files.
    pub bytes: u64,
    /// The columns that are read: key, features, target, others.
    pub columns: Vec<Inspected>,
    /// How the rows are divided.
    pub splits: Vec<String>,
    /// What is worth knowing and no reason to refuse.
    pub warnings: Vec<String>,
    /// Why a run would fail.
    pub problems: Vec<StageError>,
}

/// A column that is read.
#[derive(Debug)]
pub struct Inspected {
    /// Name.
    pub name: String,
    /// `key`, `feature`, `target` or `split`.
    pub role: &'static str,
    /// Type, as Arrow calls it.
    pub data_type: String,
    /// What it holds, if it is read as numbers.
    pub quality: Option<ColumnQuality>,
    /// How often each value occurs, most frequent first, if it divides the rows.
    pub values: Vec<(Option<String>, u64)>,
}

/// Opens every input of every case; inputs that cases share are opened once.
pub fn inspect(plan: &Plan) -> Vec<Inspection> {
    let mut found: Vec<(&IngestStep, Uses<'_>, Inspection)> = Vec::new();
    for case in &plan.cases {
        for stage in &case.stages {
            let Step::Ingest(step) = &stage.step else { continue };
            let uses = Uses {
                splits: splits_of(case, &stage.id),
                models: models_of(case, &stage.id),
                one_feature: one_feature(case, &stage.id),
            };
            let same = |(other, how, seen): &&mut (&IngestStep, Uses<'_>, Inspection)| {
                *other == step && *how == uses && seen.stage == stage.id
            };
            if let Some((_, _, seen)) = found.iter_mut().find(same) {
                seen.cases.push(case.label.clone());
                continue;
            }
            let (stage, cases) = (stage.id.clone(), vec![case.label.clone()]);
            let mut seen = Inspection { stage, cases, written: step.written.clone(), ..Inspection::default() };
            if let Err(problem) = seen.look(step, &uses, plan.seed) {
                seen.problems.push(problem);
            }
            found.push((step, uses, seen));
        }
    }
    found.into_iter().map(|(_, _, seen)| seen).collect()
}

/// What a case does with an input.
#[derive(PartialEq)]
struct Uses<'a> {
    splits: Vec<&'a SplitStep>,
    /// Published models that predict its rows.
    models: Vec<&'a Path>,
    /// A method that takes one feature only, if one is trained on its rows.
    one_feature: Option<&'a Method>,
}

fn splits_of<'a>(case: &'a Case, input: &str) -> Vec<&'a SplitStep> {
    let of_input = |step: &'a Step| match step {
        Step::Split(split) if split.input == input => Some(split),
        _ => None,
    };
    case.stages.iter().filter_map(|stage| of_input(&stage.step)).collect()
}

/// A method trained on rows of an input that takes one feature only.
fn one_feature<'a>(case: &'a Case, input: &str) -> Option<&'a Method> {
    let reads = |id: &str| matches!(case.stage(id).map(|stage| &stage.step), Some(Step::Split(s)) if s.input == input);
    case.stages.iter().find_map(|stage| match &stage.step {
        Step::Train(train) if reads(&train.input) => Some(&train.method).filter(|method| method.takes_one_feature()),
        _ => None,
    })
}

/// Published models that predict rows of an input.
fn models_of<'a>(case: &'a Case, input: &str) -> Vec<&'a Path> {
    let splits = |stage: &crate::plan::Stage| matches!(&stage.step, Step::Split(split) if split.input == input);
    let reads = |id: &str| id == input || case.stage(id).is_some_and(splits);
    let published_here = |path: &Path| {
        case.stages
            .iter()
            .any(|stage| matches!(&stage.step, Step::Train(train) if train.publish.as_deref() == Some(path)))
    };
    let model = |step: &'a Step| match step {
        Step::Predict(predict) if reads(&predict.input) => match &predict.model {
            ModelSource::Published(path) if !published_here(path) => Some(path.as_path()),
            _ => None,
        },
        _ => None,
    };
    case.stages.iter().filter_map(|stage| model(&stage.step)).collect()
}

impl Inspection {
    /// Footers, then data, then what later stages would say; the error is what ends the look early.
    fn look(&mut self, step: &IngestStep, uses: &Uses<'_>, seed: u64) -> Result<(), StageError> {
        let files = ingest::files(step)?;
        let schema = peek(&files)?;
        self.files = files.len();
        self.rows = schema.rows();
        self.bytes = schema.files.iter().map(|file| file.bytes).sum();
        let table = open(&files, &ingest::selection(step), InvalidPolicy::Mark)?;
        self.columns = columns(step, &schema, &table);
        self.problems.extend(ingest::problems(step, &table));
        self.warnings = ingest::warnings(step, &table);
        for way in &uses.splits {
            match split::run(way, &table, seed) {
                Ok(folds) => self.splits.push(describe(&folds)),
                Err(problem) => self.problems.push(problem),
            }
        }
        if let Some(method) = uses.one_feature {
            self.problems.extend(train::check_features(method, &table.feature_names).err());
        }
        for path in &uses.models {
            self.problems.extend(check_model(path, &table).err());
        }
        Ok(())
    }
}

fn columns(step: &IngestStep, schema: &InputSchema, table: &InputTable) -> Vec<Inspected> {
    let known = |name: &str| schema.columns().iter().find(|column| column.name == name);
    let column = |name: &str, role: &'static str| Inspected {
        name: name.to_owned(),
        role,
        data_type: known(name).map_or_else(String::new, |column| {
            if column.partition { "partition".to_owned() } else { column.data_type.to_string() }
        }),
        quality: table
            .quality
            .iter()
            .find(|quality| quality.name == name && matches!(role, "feature" | "target"))
            .cloned(),
        values: Vec::new(),
    };
    let mut all: Vec<Inspected> = step.key.iter().map(|name| column(name, "key")).collect();
    all.extend(table.feature_names.iter().map(|name| column(name, "feature")));
    all.extend(step.target.iter().map(|name| column(name, "target")));
    all.extend(step.extra.iter().map(|name| Inspected { values: counts(table, name), ..column(name, "split") }));
    all
}

fn counts(table: &InputTable, name: &str) -> Vec<(Option<String>, u64)> {
    let mut counts: BTreeMap<&Option<String>, u64> = BTreeMap::new();
    for value in table.extra.get(name).into_iter().flatten() {
        *counts.entry(value).or_default() += 1;
    }
    let mut counts: Vec<(Option<String>, u64)> =
        counts.into_iter().map(|(value, count)| (value.clone(), count)).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

/// "5 fold(s): 48 training rows, 12 test rows".
fn describe(folds: &[crate::eval::folds::Fold]) -> String {
    let range = |lengths: Vec<usize>| match (lengths.iter().min(), lengths.iter().max()) {
        (Some(low), Some(high)) if low != high => format!("{low} to {high}"),
        (Some(low), _) => low.to_string(),
        _ => "0".to_owned(),
    };
    let train = range(folds.iter().map(|fold| fold.train.len()).collect());
    let test = range(folds.iter().map(|fold| fold.test.len()).collect());
    format!("{} fold(s): {train} training rows, {test} test rows", folds.len())
}

/// A published model can be read, and its features are there.
fn check_model(path: &Path, table: &InputTable) -> Result<(), StageError> {
    let model = ModelFile::load(path)?;
    let missing: Vec<&str> = model
        .meta
        .feature_names
        .iter()
        .filter(|name| !table.feature_names.contains(name))
        .map(String::as_str)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(StageError::Data {
        what: format!("the model {} needs the feature(s) {}", path.display(), missing.join(", ")),
        hint: "add them to `features` of the ingest stage".to_owned(),
    })
}
