//! What will happen: resolved cases × folds × stages, with every check that needs no data.
//!
//! `spec` says what may be written; here defaults are filled in and options become what the stages need. Only a
//! [`Plan`] can run.

mod build;
mod defaults;
mod export;
mod redact;
mod resolved;
mod step;
mod train;

pub use build::{PlanRequest, build};
pub use export::{Preview, to_dot, to_json, to_mermaid, to_text};
pub use redact::Redactor;
pub use resolved::{ResolvedStage, resolved_stages};
pub use step::{
    Architecture, Condition, DeepStep, EmStep, EvaluateStep, Features, FreeHyperparameters, Gate, GpStep, HiddenStep,
    InducingStep, IngestStep, Kernel, LayersStep, Method, ModelSource, OnInvalid, OutputStep, PredictStep, PriorMean,
    ReportStep, SamplerStep, SparseStep, SplitStep, SplitWay, StartStep, Step, StrideStep, TrainStep,
};

use std::path::PathBuf;

/// A pipeline ready to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The pipeline file as the user named it.
    pub file: String,
    /// The pipeline's name.
    pub name: String,
    /// The seed of everything random.
    pub seed: u64,
    /// The results directory.
    pub results: PathBuf,
    /// Hash of everything that was resolved.
    pub spec_hash: String,
    /// The resolved pipeline as YAML, secrets masked.
    pub resolved_yaml: String,
    /// The cases in order.
    pub cases: Vec<Case>,
    /// Hides what came from the environment.
    pub redactor: Redactor,
}

/// One case: a combination of matrix values.
#[derive(Clone, Debug)]
pub struct Case {
    /// `method=stride,m=50`, or `default`.
    pub label: String,
    /// Matrix names and values, as they may be shown.
    pub values: Vec<(String, String)>,
    /// The stages in order.
    pub stages: Vec<Stage>,
}

/// One stage of a case.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The stage's id.
    pub id: String,
    /// What it does.
    pub step: Step,
    /// How often it runs: once, or once per fold.
    pub folds: u32,
}

impl Plan {
    /// How many stage executions there are in all.
    pub fn tasks(&self) -> u64 {
        let of = |case: &Case, once: bool| -> u64 {
            case.stages.iter().filter(|stage| stage.step.per_run() == once).map(|stage| u64::from(stage.folds)).sum()
        };
        let per_case: u64 = self.cases.iter().map(|case| of(case, false)).sum();
        per_case + self.cases.first().map_or(0, |case| of(case, true))
    }
}

impl Case {
    /// The stage of that id.
    pub fn stage(&self, id: &str) -> Option<&Stage> {
        self.stages.iter().find(|stage| stage.id == id)
    }
}
