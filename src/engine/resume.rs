//! Finds the run to go on with.

use super::error::RunError;
use super::plan::Plan;
use super::run::RunOptions;
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

/// The run to go on with; none when a new one is to begin: one was asked for, or the latest was killed before it said what it
/// was, or lost its log, and none has done what is asked for. A scheduler takes the end of this one for that of the work.
pub fn find(results: &ResultsDir, plan: &Plan, options: &RunOptions) -> Result<Option<RunId>, RunError> {
    match &options.resume {
        Resume::No => Ok(None),
        Resume::Run(run_id) => check(results, plan, run_id).map(|()| Some(run_id.clone())),
        Resume::Latest => {
            let latest = results.run_ids()?.into_iter().rev().find(|run_id| is_unfinished(results, plan, run_id));
            match latest {
                Some(run_id) => check(results, plan, &run_id).map(|()| Some(run_id)),
                None if has_succeeded(results, plan, options)? => {
                    Err(RunError::NothingToResume { pipeline: plan.name.clone() })
                }
                None => Ok(None),
            }
        }
    }
}

fn is_unfinished(results: &ResultsDir, plan: &Plan, run_id: &RunId) -> bool {
    // A shard is begun again rather than resumed: what it did is in the cache.
    let is_own = |event: serde_json::Value| event["pipeline"] == plan.name.as_str() && event["shard"].is_null();
    let own = first_event(results, run_id).is_some_and(is_own);
    // A run that ended with an alarm did all it had to; asked for again it is a new one, and says so again.
    let complete = |manifest: Manifest| ["succeeded", "alarm"].contains(&manifest.status.as_str());
    own && !Manifest::load(results, run_id).is_ok_and(complete)
}

/// Whether a run has done all that is asked for.
fn has_succeeded(results: &ResultsDir, plan: &Plan, options: &RunOptions) -> Result<bool, RunError> {
    let did = |manifest: Manifest| {
        (manifest.pipeline == plan.name && manifest.spec_hash == plan.spec_hash)
            && (manifest.status == "succeeded" && manifest.to == options.selected.to)
    };
    Ok(results.run_ids()?.iter().rev().any(|run_id| Manifest::load(results, run_id).is_ok_and(did)))
}

/// A run can only go on as what it began as.
fn check(results: &ResultsDir, plan: &Plan, run_id: &RunId) -> Result<(), RunError> {
    let Some(started) = first_event(results, run_id) else {
        let path = results.run_dir(run_id);
        let (detail, hint) = if path.is_dir() {
            let hint = "run without `--resume`: what is done is in the cache, and not done again";
            ("this run has lost its log, events.jsonl", hint)
        } else {
            ("there is no such run", "check the name and `--results`")
        };
        return Err(StoreError::Missing { path, detail: detail.to_owned(), hint: hint.to_owned() }.into());
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
