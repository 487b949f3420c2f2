//! Turns a pipeline file into a plan.

use super::{Case, Plan, PlannedStage};
use crate::pipeline::tree::{Entry, Node, Origin, Value, to_yaml};
use crate::pipeline::{CaseSpec, Diagnostics, Environment, FilePath, Loaded, PipelineText, Redactor, StageSpec};
use crate::stages::{Demand, KINDS, LANGUAGE, Placement, Stage};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::Path;

/// What a plan is made from.
pub struct PlanRequest<'a> {
    /// The pipeline file as the user named it; paths in it are relative to its directory.
    pub file: &'a Path,
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
    let loaded = LANGUAGE.load(request.text, request.sets, request.env)?;
    let base = request.file.parent().unwrap_or(Path::new(""));
    let cases: Vec<Case> = loaded.cases.iter().map(|case| plan_case(case, base)).collect();
    check_together(&loaded, &cases).map_err(|problems| problems.hiding(loaded.secrets.clone()))?;
    let results = request.results.map_or_else(
        || {
            let mut written = FilePath::from(loaded.results.clone().unwrap_or_else(|| "results".to_owned()));
            written.locate(base);
            written.path().to_owned()
        },
        Path::to_path_buf,
    );
    let file = request.file.display().to_string();
    let source = PipelineText { name: file.clone(), sets: request.sets.to_vec(), ..PipelineText::default() };
    Ok(Plan {
        warnings: loaded.warnings.lines(&source),
        note: loaded.note.clone(),
        file,
        name: loaded.name.clone(),
        seed: loaded.seed.unsigned_abs(),
        results,
        spec_hash: spec_hash(&loaded),
        resolved_yaml: resolved_yaml(&loaded),
        params: loaded.params.clone(),
        redactor: Redactor::new(&loaded.secrets, base),
        cases,
    })
}

fn plan_case(case: &CaseSpec, base: &Path) -> Case {
    let mut folds: HashMap<&str, u32> = HashMap::new();
    let mut stages: Vec<PlannedStage> = Vec::new();
    for (spec, mut stage) in case.stages.iter().filter_map(|spec| Some((spec, read(spec)?))) {
        stage.locate(base);
        let of = stage.folds(&|id| folds.get(id).copied().unwrap_or(1));
        folds.insert(&spec.id, of);
        stages.push(PlannedStage { id: spec.id.clone(), stage, folds: of, demand: Demand::default() });
    }
    // From the last stage to the first: what a stage asks of its rows depends on what is asked of its own.
    for index in (0..stages.len()).rev() {
        let (earlier, rest) = stages.split_at_mut(index);
        let Some(later) = rest.first() else { continue };
        let Some(input) = later.stage.inputs().last().copied() else { continue };
        if let Some(source) = earlier.iter_mut().find(|stage| stage.id == input) {
            source.demand.add(later.stage.demand(&later.demand));
        }
    }
    Case { label: case.label.clone(), values: case.values.clone(), stages }
}

/// The language has found these options to be in order.
fn read(spec: &StageSpec) -> Option<Box<dyn Stage>> {
    let kind = KINDS.iter().find(|kind| kind.language.name == spec.kind.name)?;
    (kind.read)(spec.options.clone()).ok()
}

/// Checks that need to know of all cases: what has one writer, for instance.
fn check_together(loaded: &Loaded, cases: &[Case]) -> Result<(), Diagnostics> {
    let (mut problems, mut seen) = (Diagnostics::default(), BTreeMap::new());
    for (index, (spec, case)) in loaded.cases.iter().zip(cases).enumerate() {
        for (written, stage) in spec.stages.iter().zip(&case.stages) {
            let (id, label) = (stage.id.as_str(), case.label.as_str());
            // What the matrix does not touch is the same work in every case, done once.
            let same = same_in_all(loaded, id);
            if same && index > 0 {
                continue;
            }
            let (node, cases, folds) = (&written.node, cases.len(), stage.folds);
            stage.stage.check_placement(
                &mut Placement { id, label, node, cases, same, folds, seen: &mut seen },
                &mut problems,
            );
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Whether a stage, and all that it takes, is written alike in every case.
fn same_in_all(loaded: &Loaded, id: &str) -> bool {
    let Some((first, others)) = loaded.cases.split_first() else { return true };
    let find = |case: &CaseSpec| case.stages.iter().position(|stage| stage.id == id);
    let Some(place) = find(first) else { return false };
    let stage = &first.stages[place];
    let written = stage.node.to_json();
    let alike = |case: &CaseSpec| find(case).is_some_and(|place| case.stages[place].node.to_json() == written);
    let inputs = || read(stage).map_or_else(Vec::new, |stage| stage.inputs().into_iter().map(str::to_owned).collect());
    // A stage takes earlier ones only.
    let earlier = |id: &String| first.stages[..place].iter().any(|stage| stage.id == *id);
    others.iter().all(alike) && inputs().iter().filter(|id| earlier(id)).all(|id| same_in_all(loaded, id))
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
