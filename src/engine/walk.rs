//! One case, stage by stage: the same walk for `plan`, which only looks, and for `run`, which does the work.

use super::error::RunError;
use super::plan::{Case, Plan, PlannedStage};
use crate::stages::job::Key;
use crate::stages::{Context, Frequency, Output, Preparation, Sources, Stage, StageError};
use crate::store::Cache;
use std::collections::HashMap;

/// What is done at the stages of a case.
pub trait Visitor {
    /// Whether to pass over a stage.
    fn passes_over(&mut self, _stage: &PlannedStage) -> Result<bool, RunError> {
        Ok(false)
    }

    /// At a stage that knows what it has to do; its own output is among those of the context.
    fn visit(&mut self, stage: &PlannedStage, context: &Context<'_>, work: (Vec<Key>, Reads)) -> Result<(), RunError>;

    /// At a stage that cannot know what it has to do.
    fn fail(&mut self, stage: &PlannedStage, context: &Context<'_>, error: StageError) -> Result<(), RunError>;

    /// Whether this stage is the last one.
    fn ends_at(&self, _stage: &PlannedStage) -> bool {
        false
    }

    /// After the last stage, once for each stage of the case.
    fn conclude(&mut self, _stage: &PlannedStage, _context: &Context<'_>) -> Result<(), RunError> {
        Ok(())
    }
}

/// Files that a stage found, and their hashes.
pub type Reads = Vec<(std::path::PathBuf, String)>;

/// What the contexts of all stages of a case share.
struct Place<'a> {
    plan: &'a Plan,
    case: &'a Case,
    stages: &'a [(&'a str, &'a dyn Stage)],
    cache: &'a Cache,
    sources: &'a Sources,
}

impl<'a> Place<'a> {
    fn context<'c>(&'c self, stage: &'c PlannedStage, outputs: &'c HashMap<&'a str, Output>) -> Context<'c>
    where
        'a: 'c,
    {
        Context {
            pipeline: &self.plan.name,
            seed: self.plan.seed,
            case: &self.case.label,
            id: &stage.id,
            folds: stage.folds,
            demand: &stage.demand,
            stages: self.stages,
            outputs,
            cache: self.cache,
            sources: self.sources,
        }
    }
}

/// Walks over the stages of a case in order.
pub fn walk(
    plan: &Plan,
    case: &Case,
    (cache, sources): (&Cache, &Sources),
    visitor: &mut dyn Visitor,
) -> Result<(), RunError> {
    let stages = case.pairs();
    let mut outputs: HashMap<&str, Output> = HashMap::new();
    let place = Place { plan, case, stages: &stages, cache, sources };
    for stage in &case.stages {
        if !visitor.passes_over(stage)? {
            match stage.stage.prepare(&place.context(stage, &outputs)) {
                Ok(Preparation { output, keys, reads }) => {
                    outputs.insert(&stage.id, output);
                    visitor.visit(stage, &place.context(stage, &outputs), (keys, reads))?;
                }
                Err(error) => visitor.fail(stage, &place.context(stage, &outputs), error)?,
            }
        }
        if visitor.ends_at(stage) {
            break;
        }
    }
    for stage in &case.stages {
        visitor.conclude(stage, &place.context(stage, &outputs))?;
    }
    Ok(())
}

/// Where the cache remembers what a piece of work depended on.
pub fn place(pipeline: &str, case: &str, stage: &str, fold: Option<u32>) -> [String; 4] {
    let last = fold.map_or_else(|| "all".to_owned(), |fold| format!("fold{fold}"));
    [pipeline.to_owned(), case.to_owned(), stage.to_owned(), last]
}

/// The fold of the n-th piece of work of a stage.
pub fn fold(stage: &PlannedStage, index: usize) -> Option<u32> {
    (stage.stage.frequency() == Frequency::PerFold).then_some(index as u32)
}
