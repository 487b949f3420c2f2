//! What the other processes of a job do while rank 0 runs the pipeline: they train with it what it trains, and leave the rest to it.

use super::error::RunError;
use super::plan::{Plan, PlannedStage};
use super::walk::{Reads, Visitor, walk};
use crate::ranks::Comm;
use crate::stages::job::Key;
use crate::stages::train::{TeamOrder, Train, decline, follow as train};
use crate::stages::{Context, Frequency, Sources, StageError};
use crate::store::{Cache, ResultsDir};
use std::any::Any;

/// Follows rank 0 until it is done; `say` what went wrong here. Without a plan nothing can be trained, and rank 0 hears of it.
pub fn follow(plan: Result<&Plan, &str>, comm: &dyn Comm, say: &dyn Fn(&str)) -> Result<(), StageError> {
    let sources = Sources::default();
    loop {
        let order = match TeamOrder::receive(comm)? {
            TeamOrder::End => return Ok(()),
            order @ TeamOrder::Train { .. } => order,
        };
        let mut state = Vec::new();
        if matches!(order, TeamOrder::Train { resumes: true, .. }) {
            comm.broadcast(&mut state);
        }
        let done = match plan {
            Ok(plan) => obey(plan, &sources, &order, &state),
            Err(why) => decline(StageError::Data { what: why.to_owned(), hint: "see rank 0".to_owned() }),
        };
        match done {
            Ok(()) | Err(StageError::Interrupted { .. }) => {}
            Err(error) => say(&error.to_string()),
        }
    }
}

fn obey(plan: &Plan, sources: &Sources, order: &TeamOrder, state: &[u8]) -> Result<(), StageError> {
    let TeamOrder::Train { case, .. } = order else { return Ok(()) };
    let cache = Cache::new(&ResultsDir::new(&plan.results));
    let mut follower = Follower { order, state, outcome: None };
    if let Some(case) = plan.cases.iter().find(|known| known.label == *case) {
        // What goes wrong is in the outcome.
        let _ = walk(plan, case, (&cache, sources), &mut follower);
    }
    let lost = || decline(StageError::Data { what: "no such fold".to_owned(), hint: "see rank 0".to_owned() });
    follower.outcome.unwrap_or_else(lost)
}

struct Follower<'a> {
    order: &'a TeamOrder,
    state: &'a [u8],
    outcome: Option<Result<(), StageError>>,
}

impl Visitor for Follower<'_> {
    fn passes_over(&mut self, stage: &PlannedStage) -> Result<bool, RunError> {
        Ok(self.outcome.is_some() || stage.stage.frequency() == Frequency::PerRun)
    }

    fn visit(
        &mut self,
        stage: &PlannedStage,
        context: &Context<'_>,
        (keys, _): (Vec<Key>, Reads),
    ) -> Result<(), RunError> {
        let TeamOrder::Train { stage: id, fold, key, memory, resumes, .. } = self.order else { return Ok(()) };
        if stage.id == *id
            && let Some(options) = (&*stage.stage as &dyn Any).downcast_ref::<Train>()
        {
            let own = keys.get(*fold as usize).map(|key| key.hash.as_str());
            let state = resumes.then_some(self.state);
            self.outcome = Some(train(options, context, (*fold, key, own), *memory, state));
        }
        Ok(())
    }

    fn fail(&mut self, _: &PlannedStage, _: &Context<'_>, error: StageError) -> Result<(), RunError> {
        self.outcome = Some(decline(error));
        Ok(())
    }
}
