//! One fit by several processes: rank 0 says which fold it is about to train, and the others train it with it.

use super::checkpoint;
use super::fit;
use super::observer::FitObserver;
use super::options::{Method, Train};
use crate::gp::deep::Checkpoint;
use crate::gp::inducing::Candidates;
use crate::gp::observer::Observer;
use crate::gp::team::{Comm, Team, TeamObserver, Traffic, world};
use crate::stages::{Context, StageError};
use crate::store::CheckpointFile;
use crate::text;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Instant;

/// What the processes of a job do next.
#[derive(Debug, Serialize, Deserialize)]
pub enum TeamOrder {
    /// Train the model of a fold.
    Train {
        case: String,
        stage: String,
        fold: u32,
        /// Hash of what the work depends on, which all of them see.
        key: String,
        /// Bytes for what could be computed again.
        memory: u64,
        /// Whether the checkpoint to go on from comes next.
        resumes: bool,
    },
    /// There is nothing more to do.
    End,
}

impl TeamOrder {
    /// Says it to all other processes.
    pub fn send(&self, comm: &dyn Comm) {
        comm.broadcast(&mut serde_json::to_vec(self).unwrap_or_default());
    }

    /// Waits for what rank 0 says.
    pub fn receive(comm: &dyn Comm) -> Result<Self, StageError> {
        let mut bytes = Vec::new();
        comm.broadcast(&mut bytes);
        serde_json::from_slice(&bytes).map_err(|error| StageError::Bug(format!("an order of rank 0: {error}")))
    }
}

/// Why several processes cannot train with these options, and what to use instead.
pub fn refusal(stage: &Train) -> Option<String> {
    let (what, instead) = match stage.method {
        Method::Gp => ("`method: gp`", "`method: sparse_gp`"),
        Method::DeepGp => ("`method: deep_gp`", "`method: stride`"),
        Method::Stride if stage.deep.hidden.anchors_all_rows() => ("`hidden: full`", "`hidden: aca`"),
        Method::Stride | Method::SparseGp if stage.inducing.candidates == Candidates::All => {
            ("`candidates: all`", "a number of candidates")
        }
        _ => return None,
    };
    Some(format!("{what} cannot be spread over several processes: use {instead}, or start one process"))
}

/// The processes that train this together, if there are several; other methods are left to rank 0.
pub fn comm_of(stage: &Train) -> Option<&'static Arc<dyn Comm>> {
    let shares = matches!(stage.method, Method::SparseGp | Method::Stride);
    world().filter(|_| shares)
}

fn team(stage: &Train) -> Option<Arc<Team>> {
    comm_of(stage).map(|comm| Team::new(Arc::clone(comm)))
}

/// A fit on rank 0, with the other processes if there are any.
pub fn lead(
    (fold, inputs): (u32, &fit::FoldInputs<'_>),
    context: &Context<'_>,
    (resume, file): (Option<Checkpoint>, Option<CheckpointFile>),
    key: &str,
    observer: &mut FitObserver<'_>,
) -> Result<(fit::FittedFold, Option<String>), StageError> {
    let Some(team) = team(inputs.stage) else { return Ok((inputs.fit(resume, observer)?, None)) };
    let comm = world().ok_or_else(|| StageError::Bug("a team without processes".to_owned()))?;
    let memory = observer.memory();
    let (case, stage) = (context.case.to_owned(), context.id.to_owned());
    let state = file.filter(|_| resume.is_some()).map(|file| file.to_bytes()).transpose().map_err(StageError::Bug)?;
    TeamOrder::Train { case, stage, fold, key: key.to_owned(), memory, resumes: state.is_some() }.send(&**comm);
    if let Some(mut bytes) = state {
        comm.broadcast(&mut bytes);
    }
    let mut together = TeamObserver::new(&team, Some(observer), memory);
    let begun = Instant::now();
    let fitted = team.run(Ok(()), || inputs.fit(resume, &mut together))?;
    let Traffic { bytes, moving, waiting, calls } = team.traffic();
    let said = format!(
        "{}; {} sent in {calls} exchanges, {moving:.3} s of {:.3} s, and {waiting:.3} s of waiting for others",
        inputs.held_rows(comm.size()),
        text::bytes(bytes),
        begun.elapsed().as_secs_f64(),
    );
    Ok((fitted, Some(said)))
}

/// The same on another process: everything that rank 0 keeps is left to it.
pub fn follow(
    stage: &Train,
    context: &Context<'_>,
    (fold, known, own): (u32, &str, Option<&str>),
    memory: u64,
    state: Option<&[u8]>,
) -> Result<(), StageError> {
    let Some(team) = team(stage) else { return Err(StageError::Bug("a fit that is not shared".to_owned())) };
    let mut observer = TeamObserver::new(&team, None, memory);
    let prepare = || {
        if own != Some(known) {
            let what = "the input, or the pipeline file, is another one than that of rank 0".to_owned();
            return Err(StageError::Data { what, hint: "all processes must see the same files".to_owned() });
        }
        let resume = state.map(resumed).transpose()?;
        Ok((fit::FoldInputs::new(stage, context, fold)?, resume))
    };
    let (ready, prepared) = match prepare() {
        Ok(prepared) => (Ok(()), Some(prepared)),
        Err(error) => (Err(error), None),
    };
    team.run(ready, || {
        let (inputs, resume) = prepared.ok_or_else(|| StageError::Bug("nothing is prepared".to_owned()))?;
        inputs.fit(resume, &mut observer).map(drop)
    })
}

/// Tells the others that this process cannot take part in the fit that rank 0 has begun.
pub fn decline(error: StageError) -> Result<(), StageError> {
    match world() {
        Some(comm) => Team::new(Arc::clone(comm)).run(Err(error), || Ok(())),
        None => Err(error),
    }
}

fn resumed(bytes: &[u8]) -> Result<Checkpoint, StageError> {
    let file = CheckpointFile::received(bytes).map_err(StageError::Bug)?;
    checkpoint::from_tensors(&file.state).map_err(StageError::Bug)
}
