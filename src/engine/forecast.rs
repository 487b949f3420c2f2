//! What a run would do and why: the walk of a run without the work.

use super::error::RunError;
use super::plan::{Case, Plan, PlannedStage, Preview};
use super::run::{RunOptions, Selected};
use super::walk::{Reads, Visitor, fold, place, walk};
use crate::stages::job::{Key, Workload, reason};
use crate::stages::{Context, Frequency, Sources, StageError};
use crate::store::{Cache, ResultsDir};
use std::collections::HashMap;

/// What would happen to every stage of every case, in order. An input that cannot be looked at makes its stages run.
pub fn forecast(plan: &Plan, sources: &Sources, memory: u64) -> Vec<Vec<Preview>> {
    let mut sizes = StageSizes::default();
    let selected = Selected::default();
    plan.cases.iter().map(|case| of_case(plan, case, sources, &mut sizes, (&selected, memory))).collect()
}

/// What a run has to do, by what it will cost on so many threads; and what of it does not fit into memory.
pub fn workload(plan: &Plan, sources: &Sources, options: &RunOptions) -> (Workload, Vec<String>) {
    let (mut sizes, mut work, mut too_large) = (StageSizes::default(), Workload::default(), Vec::new());
    let memory = options.memory.unwrap_or(u64::MAX);
    for case in &plan.cases {
        let previews = of_case(plan, case, sources, &mut sizes, (&options.selected, memory));
        for (stage, preview) in case.stages.iter().zip(previews) {
            let effort = preview.effort.unwrap_or(0.0);
            if let Some(refusal) = preview.memory.as_ref().filter(|_| preview.run > 0).and_then(|it| it.refusal(memory))
            {
                too_large.push(format!("{} ({}) {refusal}", stage.id, case.label));
            }
            // About: which tasks are those of a shard is known when they are reached.
            let count = match options.shard {
                Some(_) if stage.stage.frequency() == Frequency::PerRun => 0.0,
                Some(shard) => f64::from(preview.run) * shard.share(),
                None => f64::from(preview.run),
            };
            work.add(&case.label, &stage.id, count, effort / options.threads.max(1) as f64);
            if options.selected.to.as_ref() == Some(&stage.id) {
                break;
            }
        }
    }
    (work, too_large)
}

/// Rows and features of inputs that were looked at, by the stage that opens them: cases share most of them.
type StageSizes = HashMap<String, Option<(u64, u64)>>;

fn of_case(
    plan: &Plan,
    case: &Case,
    sources: &Sources,
    sizes: &mut StageSizes,
    (selected, memory): (&Selected, u64),
) -> Vec<Preview> {
    let cache = Cache::new(&ResultsDir::new(&plan.results));
    let mut forecast = Forecast { plan, case, sizes, selected, memory, previews: Vec::new(), unknown: HashMap::new() };
    // Looking fails nowhere.
    let _ = walk(plan, case, (&cache, sources), &mut forecast);
    forecast.previews
}

struct Forecast<'a> {
    plan: &'a Plan,
    case: &'a Case,
    sizes: &'a mut StageSizes,
    selected: &'a Selected,
    memory: u64,
    previews: Vec<Preview>,
    /// Why nothing is known of a stage.
    unknown: HashMap<String, String>,
}

impl Forecast<'_> {
    /// Adds rows, memory and time; nothing where the input cannot be looked at yet.
    fn push(&mut self, stage: &PlannedStage, mut preview: Preview) {
        if let Some((rows, features)) = self.size(stage) {
            preview.rows = Some(rows);
            preview.memory = stage.stage.memory(&stage.demand, (rows, features), self.memory);
            preview.effort = Some(stage.stage.effort((rows as f64, features as f64), &self.case.pairs()));
        }
        self.previews.push(preview);
    }

    /// Rows and features that a stage works on.
    fn size(&mut self, stage: &PlannedStage) -> Option<(u64, u64)> {
        let opened = format!("{:?} {:?}", stage.stage, stage.demand);
        let own = *self.sizes.entry(opened).or_insert_with(|| stage.stage.size(&stage.demand));
        own.or_else(|| self.size(self.case.stage(stage.stage.inputs().last()?)?))
    }
}

impl Visitor for Forecast<'_> {
    fn passes_over(&mut self, stage: &PlannedStage) -> Result<bool, RunError> {
        if stage.stage.frequency() == Frequency::PerRun {
            // Written whenever there is a run, but no reason for one.
            let reason = "written once, when all cases are done".to_owned();
            let work = self.previews.iter().any(|preview| preview.run > 0);
            self.push(stage, Preview { run: u32::from(work), skip: u32::from(!work), reason, ..Preview::default() });
            return Ok(true);
        }
        let unknown = stage.stage.inputs().into_iter().find_map(|input| self.unknown.get(input)).cloned();
        if let Some(reason) = unknown {
            self.unknown.insert(stage.id.clone(), reason.clone());
            self.push(stage, Preview { run: stage.tasks(), reason, ..Preview::default() });
            return Ok(true);
        }
        Ok(false)
    }

    fn visit(
        &mut self,
        stage: &PlannedStage,
        context: &Context<'_>,
        (keys, _): (Vec<Key>, Reads),
    ) -> Result<(), RunError> {
        let mut preview = Preview { reason: "unchanged".to_owned(), ..Preview::default() };
        let forced = self.selected.forced(&self.case.stages, context.id).is_some();
        for (index, key) in keys.iter().enumerate() {
            if !forced && context.cache.contains(&key.hash) {
                preview.skip += 1;
                continue;
            }
            if preview.run == 0 {
                let place = place(context.pipeline, context.case, context.id, fold(stage, index));
                let parts = self.plan.redactor.clean_json(key.parts.clone());
                preview.reason = reason(context.cache.recall(&place).as_ref(), &parts);
            }
            preview.run += 1;
        }
        if preview.run == 0
            && let Some(path) = stage.stage.missing(context)
        {
            preview.reason = format!("{} is gone", self.plan.redactor.clean(&path.display().to_string()));
            (preview.run, preview.skip) = (1, preview.skip.saturating_sub(1));
        }
        self.push(stage, preview);
        Ok(())
    }

    fn fail(&mut self, stage: &PlannedStage, _: &Context<'_>, error: StageError) -> Result<(), RunError> {
        let reason = self.plan.redactor.clean(&error.to_string());
        self.unknown.insert(stage.id.clone(), reason.clone());
        self.push(stage, Preview { run: stage.tasks(), reason, ..Preview::default() });
        Ok(())
    }
}
