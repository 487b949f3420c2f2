//! What a run would do and why, from keys alone: nothing is read but the contents' hashes.

use super::key::{self, Key};
use super::source::Source;
use crate::plan::{Case, ModelSource, Plan, Stage, Step};
use crate::stages::StageError;
use crate::store::{Cache, ModelFile, ResultsDir};
use std::collections::{BTreeMap, HashMap};

/// What would happen to a stage of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Pieces of work to do.
    pub run: u32,
    /// Pieces of work in the cache.
    pub skip: u32,
    /// Why.
    pub reason: String,
}

/// The hashes that later stages build on: one, or one per fold.
type Hashes = Vec<String>;

/// The decision for every stage of a case, in order. An input that cannot be looked at makes its stages run.
pub fn forecast(plan: &Plan, case: &Case) -> Vec<Decision> {
    let cache = Cache::new(&ResultsDir::new(&plan.results));
    let mut known: BTreeMap<&str, Result<Hashes, String>> = BTreeMap::new();
    let mut methods: HashMap<&str, String> = HashMap::new();
    let mut decisions = Vec::with_capacity(case.stages.len());
    for stage in &case.stages {
        if stage.step.per_run() {
            decisions.push(with_the_others(&decisions));
            continue;
        }
        let keys = keys(plan, stage, &known, &mut methods);
        let decision = match &keys {
            Ok(keys) => decide(plan, case, stage, &cache, keys),
            Err(reason) => Decision { run: stage.folds, skip: 0, reason: reason.clone() },
        };
        known.insert(&stage.id, keys.map(|keys| keys.into_iter().map(|key| key.hash).collect()));
        decisions.push(decision);
    }
    decisions
}

/// A report is written whenever there is a run, but is no reason for one.
fn with_the_others(others: &[Decision]) -> Decision {
    let reason = "written once, when all cases are done".to_owned();
    let work = others.iter().any(|decision| decision.run > 0);
    Decision { run: u32::from(work), skip: u32::from(!work), reason }
}

fn decide(plan: &Plan, case: &Case, stage: &Stage, cache: &Cache, keys: &[Key]) -> Decision {
    let mut decision = Decision { reason: "unchanged".to_owned(), ..Decision::default() };
    for (fold, key) in keys.iter().enumerate() {
        if cache.contains(&key.hash) {
            decision.skip += 1;
            continue;
        }
        if decision.run == 0 {
            let last = if stage.step.per_fold() { format!("fold{fold}") } else { "all".to_owned() };
            let last = cache.recall(&[&plan.name, &case.label, &stage.id, &last]);
            decision.reason = key::reason(last.as_ref(), &key.parts);
        }
        decision.run += 1;
    }
    decision
}

fn keys<'a>(
    plan: &Plan,
    stage: &'a Stage,
    known: &BTreeMap<&str, Result<Hashes, String>>,
    methods: &mut HashMap<&'a str, String>,
) -> Result<Vec<Key>, String> {
    let hashes = |id: &str| known.get(id).cloned().unwrap_or_else(|| Err(format!("`{id}` is not known")));
    let first = |id: &str| hashes(id).map(|all| all.into_iter().next().unwrap_or_default());
    let folds = 0..stage.folds;
    match &stage.step {
        Step::Ingest(step) => {
            let source = Source::new(step).map_err(|error: StageError| plan.redactor.clean(&error.to_string()))?;
            Ok(vec![source.key])
        }
        Step::Split(step) => Ok(vec![key::split(step, &first(&step.input)?, plan.seed)]),
        Step::Train(step) => {
            methods.insert(&stage.id, step.method.name().to_owned());
            let input = first(&step.input)?;
            Ok(folds.map(|fold| key::train(step, &input, fold, plan.seed)).collect())
        }
        Step::Predict(step) => {
            let models = match &step.model {
                ModelSource::Stage(model) => {
                    let method = methods.get(model.as_str()).cloned().unwrap_or_default();
                    methods.insert(&stage.id, method);
                    hashes(model)?
                }
                ModelSource::Published(path) => {
                    let (file, hash) =
                        ModelFile::load_hashed(path).map_err(|error| plan.redactor.clean(&error.to_string()))?;
                    methods.insert(&stage.id, file.meta.method);
                    vec![hash]
                }
            };
            let rows = first(&step.input)?;
            Ok((0..).zip(models).map(|(fold, model)| key::predict(step, &model, &rows, fold)).collect())
        }
        Step::Evaluate(step) => {
            let method = methods.get(step.input.as_str()).cloned().unwrap_or_default();
            Ok(vec![key::evaluate(&hashes(&step.input)?, &method)])
        }
        Step::Report(_) => Ok(Vec::new()),
    }
}
