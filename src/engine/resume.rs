//! Finds the run to go on with.

use super::error::RunError;
use super::plan::Plan;
use crate::store::record::first_event;
use crate::store::{Manifest, ResultsDir, RunId, StoreError};

/// Whether a run begins or goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Resume {
    #[default]
    No,
    /// The latest unfinished run of the pipeline.
    Latest,
    Run(RunId),
}

/// The run to go on with; none when a new one is to begin.
pub fn find(results: &ResultsDir, plan: &Plan, resume: &Resume) -> Result<Option<RunId>, RunError> {
    match resume {
        Resume::No => Ok(None),
        Resume::Run(run_id) => check(results, plan, run_id).map(|()| Some(run_id.clone())),
        Resume::Latest => {
            let latest = results.run_ids()?.into_iter().rev().find(|run_id| is_unfinished(results, plan, run_id));
            let Some(run_id) = latest else { return Err(RunError::NothingToResume { pipeline: plan.name.clone() }) };
            check(results, plan, &run_id).map(|()| Some(run_id))
        }
    }
}

fn is_unfinished(results: &ResultsDir, plan: &Plan, run_id: &RunId) -> bool {
    let own = first_event(results, run_id).is_some_and(|event| event["pipeline"] == plan.name.as_str());
    let succeeded = Manifest::load(results, run_id).is_ok_and(|manifest| manifest.status == "succeeded");
    own && !succeeded
}

/// A run can only go on as what it began as.
fn check(results: &ResultsDir, plan: &Plan, run_id: &RunId) -> Result<(), RunError> {
    let Some(started) = first_event(results, run_id) else {
        return Err(StoreError::Missing {
            path: results.run_dir(run_id),
            detail: "there is no such run".to_owned(),
            hint: "check the name and `--results`".to_owned(),
        }
        .into());
    };
    if started["pipeline"] != plan.name.as_str() || started["spec_hash"] != plan.spec_hash.as_str() {
        return Err(RunError::Changed { run_id: run_id.to_string() });
    }
    match Manifest::load(results, run_id) {
        Ok(manifest) if manifest.status == "succeeded" => {
            Err(RunError::NothingToResume { pipeline: plan.name.clone() })
        }
        _ => Ok(()),
    }
}
