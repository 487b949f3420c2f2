//! Turns a checked specification into a plan: defaults, paths, folds.

use super::step::{
    EvaluateStep, IngestStep, ModelSource, OnInvalid, OutputStep, PredictStep, ReportStep, SplitStep, SplitWay, Step,
};
use super::train::plan_train;
use super::{Case, Plan, Redactor, Stage};
use crate::spec::language;
use crate::spec::tree::{Entry, Node, Origin, Value, to_yaml};
use crate::spec::{CaseSpec, Diagnostic, Diagnostics, Environment, Loaded, StageSpec, load};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

/// What a plan is made from.
pub struct PlanRequest<'a> {
    /// The pipeline file as the user named it; paths in it are relative to its directory.
    pub file: &'a Path,
    /// Its text.
    pub text: &'a str,
    /// The `--set` arguments.
    pub sets: &'a [String],
    /// `--results`, relative to the working directory.
    pub results: Option<&'a Path>,
    /// Where `${env.NAME}` is looked up.
    pub env: Environment<'a>,
}

/// The plan, or everything that is wrong with the file.
pub fn build(request: &PlanRequest<'_>) -> Result<Plan, Diagnostics> {
    let loaded = load(request.text, request.sets, request.env)?;
    let base = request.file.parent().unwrap_or(Path::new(""));
    let mut problems = Diagnostics::default();
    check_publish(&loaded, &mut problems);
    check_outputs(&loaded, base, &mut problems);
    let cases = loaded.cases.iter().map(|case| plan_case(case, base)).collect();
    if !problems.is_empty() {
        return Err(problems);
    }
    let results =
        request.results.map_or_else(|| join(base, loaded.results.as_deref().unwrap_or("results")), Path::to_path_buf);
    Ok(Plan {
        file: request.file.display().to_string(),
        name: loaded.name.clone(),
        seed: loaded.seed.unsigned_abs(),
        results,
        spec_hash: spec_hash(&loaded),
        resolved_yaml: resolved_yaml(&loaded),
        redactor: Redactor::new(loaded.secrets.clone()),
        cases,
    })
}

/// A path of the file, seen from the working directory. `pipelines/../data` becomes `data` where that is the same place:
/// not when `pipelines` is a link to somewhere else.
pub(super) fn join(base: &Path, path: &str) -> PathBuf {
    let (mut base, mut path) = (base.to_path_buf(), Path::new(path));
    while let Ok(rest) = path.strip_prefix("..") {
        let plain = matches!(base.components().next_back(), Some(Component::Normal(_))) && !base.is_symlink();
        if !plain {
            break;
        }
        base.pop();
        path = rest;
    }
    let joined = base.join(path.strip_prefix(".").unwrap_or(path));
    // An empty path is no directory: the current one has a name.
    if joined.as_os_str().is_empty() { PathBuf::from(".") } else { joined }
}

fn plan_case(case: &CaseSpec, base: &Path) -> Case {
    let stages: Vec<Stage> = case
        .stages
        .iter()
        .map(|stage| Stage { id: stage.id.clone(), step: step(stage, case, base), folds: folds(stage, case) })
        .collect();
    Case { label: case.label.clone(), values: case.values.clone(), stages }
}

fn find<'a>(case: &'a CaseSpec, id: &str) -> Option<&'a language::Stage> {
    case.stages.iter().find(|stage| stage.id == id).map(|stage| &stage.stage)
}

/// How many folds a stage runs over: those of the split it depends on.
fn folds(stage: &StageSpec, case: &CaseSpec) -> u32 {
    fn of(stage: &language::Stage, case: &CaseSpec) -> u32 {
        let upstream = match stage {
            // Metrics are computed for all folds at once.
            language::Stage::Ingest(_)
            | language::Stage::Split(_)
            | language::Stage::Evaluate(_)
            | language::Stage::Report(_) => return 1,
            language::Stage::Train(train) => &train.input,
            language::Stage::Predict(predict) => &predict.model,
        };
        match find(case, upstream) {
            Some(language::Stage::Split(split)) => way(split).count(),
            Some(upstream) => of(upstream, case),
            None => 1,
        }
    }
    of(&stage.stage, case)
}

fn step(stage: &StageSpec, case: &CaseSpec, base: &Path) -> Step {
    match &stage.stage {
        language::Stage::Ingest(ingest) => Step::Ingest(plan_ingest(&stage.id, ingest, case, base)),
        language::Stage::Split(split) => Step::Split(SplitStep { input: split.input.clone(), way: way(split) }),
        language::Stage::Train(train) => Step::Train(plan_train(train, base)),
        language::Stage::Predict(predict) => Step::Predict(plan_predict(predict, case, base)),
        language::Stage::Evaluate(evaluate) => Step::Evaluate(EvaluateStep { input: evaluate.input.clone() }),
        language::Stage::Report(report) => Step::Report(ReportStep { inputs: report.input.0.clone() }),
    }
}

fn plan_ingest(id: &str, ingest: &language::Ingest, case: &CaseSpec, base: &Path) -> IngestStep {
    let splits: Vec<(&str, &language::Split)> = case
        .stages
        .iter()
        .filter_map(|stage| match &stage.stage {
            language::Stage::Split(split) if split.input == id => Some((stage.id.as_str(), split)),
            _ => None,
        })
        .collect();
    let trains = case.stages.iter().any(|stage| match &stage.stage {
        language::Stage::Train(train) => splits.iter().any(|(split, _)| *split == train.input),
        _ => false,
    });
    let mut extra: Vec<String> =
        splits.iter().filter_map(|(_, split)| split.column.as_ref()).map(|column| column.name.clone()).collect();
    extra.sort();
    extra.dedup();
    IngestStep {
        written: ingest.path.clone(),
        path: join(base, &ingest.path),
        key: ingest.key.clone(),
        features: ingest.features.clone(),
        target: ingest.target.clone(),
        extra,
        trains,
        streams: splits.is_empty(),
        takes_invalid: splits.is_empty() && !refuses_invalid(id, case),
    }
}

/// Whether some predict stage wants only rows that its model can use.
fn refuses_invalid(ingest: &str, case: &CaseSpec) -> bool {
    case.stages.iter().any(|stage| match &stage.stage {
        language::Stage::Predict(predict) => predict.input == ingest && predict.on_invalid == OnInvalid::Error,
        _ => false,
    })
}

fn way(split: &language::Split) -> SplitWay {
    if let Some(holdout) = &split.holdout {
        SplitWay::Holdout { test_fraction: holdout.test_fraction, repeats: holdout.repeats.unwrap_or(1) }
    } else if let Some(kfold) = &split.kfold {
        SplitWay::Kfold { folds: kfold.folds, repeats: kfold.repeats.unwrap_or(1) }
    } else if let Some(column) = &split.column {
        let test = match &column.test.0 {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        SplitWay::Column { name: column.name.clone(), test }
    } else {
        SplitWay::All
    }
}

fn plan_predict(predict: &language::Predict, case: &CaseSpec, base: &Path) -> PredictStep {
    let model = if predict.model.contains('/') {
        ModelSource::Published(join(base, &predict.model))
    } else {
        ModelSource::Stage(predict.model.clone())
    };
    let mut intervals: Vec<f64> = predict.intervals.iter().flatten().map(|level| level.0).collect();
    intervals.sort_by(f64::total_cmp);
    intervals.dedup();
    PredictStep {
        model,
        input: predict.input.clone(),
        test_rows: matches!(find(case, &predict.input), Some(language::Stage::Split(_))),
        variance: predict.variance.unwrap_or(true),
        intervals,
        hidden: predict.hidden.unwrap_or(false),
        on_invalid: predict.on_invalid,
        keep: predict.keep.clone().unwrap_or_default(),
        output: predict.output.as_ref().map(|path| OutputStep::new(path, join(base, path))),
    }
}

/// A published model is one model: several cases or folds would overwrite each other.
fn check_publish(loaded: &Loaded, problems: &mut Diagnostics) {
    for case in &loaded.cases {
        for stage in &case.stages {
            let language::Stage::Train(train) = &stage.stage else { continue };
            if train.publish.is_none() {
                continue;
            }
            let origin: Origin = stage.node.origin_of(&["train", "publish"]);
            let (cases, folds) = (loaded.cases.len(), folds(stage, case));
            if cases > 1 || folds > 1 {
                let message =
                    format!("`publish` with {cases} case(s) and {folds} fold(s): only one model can be published");
                problems.push(
                    Diagnostic::new(origin, message).help("train it in a pipeline without matrix and with `all: {}`"),
                );
            }
        }
    }
}

/// A file of scores has one writer: several folds, cases or stages would overwrite each other.
fn check_outputs(loaded: &Loaded, base: &Path, problems: &mut Diagnostics) {
    let mut seen: BTreeMap<PathBuf, String> = BTreeMap::new();
    for case in &loaded.cases {
        for stage in &case.stages {
            let language::Stage::Predict(predict) = &stage.stage else { continue };
            let Some(output) = &predict.output else { continue };
            let origin: Origin = stage.node.origin_of(&["predict", "output"]);
            let folds = folds(stage, case);
            if folds > 1 {
                let message = format!("`output` with {folds} folds: only one model can write it");
                let help = "score with one model: split with `all: {}`, or use a published one";
                problems.push(Diagnostic::new(origin, message).help(help));
            }
            let place =
                if case.label == "default" { stage.id.clone() } else { format!("{} / {}", case.label, stage.id) };
            if let Some(other) = seen.insert(join(base, output), place) {
                let message = format!("`{output}` is also the output of `{other}`");
                let help = "give each its own, for instance with `${matrix.…}` in the path";
                problems.push(Diagnostic::new(origin, message).help(help));
            }
        }
    }
}

fn spec_hash(loaded: &Loaded) -> String {
    let mut hash = Sha256::new();
    hash.update(format!("{}\n{}\n", loaded.name, loaded.seed));
    for case in &loaded.cases {
        hash.update(format!("{}\n", case.label));
        for stage in &case.stages {
            hash.update(format!("{}\n{}\n", stage.id, stage.node.to_json()));
        }
    }
    let mut text = String::with_capacity(32);
    for byte in &hash.finalize()[..16] {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn resolved_yaml(loaded: &Loaded) -> String {
    let origin = Origin::START;
    let entry = |key: &str, node: Node| Entry { key: key.to_owned(), origin, node };
    let case = |case: &CaseSpec| {
        let stages = case.stages.iter().map(|stage| entry(&stage.id, stage.node.clone())).collect();
        entry(&case.label, Node::new(Value::Map(stages), origin))
    };
    let root = vec![
        entry("version", Node::new(Value::Int(1), origin)),
        entry("name", Node::new(Value::Text(loaded.name.clone()), origin)),
        entry("seed", Node::new(Value::Int(loaded.seed), origin)),
        entry("cases", Node::new(Value::Map(loaded.cases.iter().map(case).collect()), origin)),
    ];
    to_yaml(&Node::new(Value::Map(root), origin))
}
