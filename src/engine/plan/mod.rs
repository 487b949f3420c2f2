//! What will happen: resolved cases × stages × folds, with every check that needs no data. Only a [`Plan`] can run.

mod build;
mod export;

pub use build::{PlanRequest, build};
pub use export::{Preview, to_dot, to_json, to_mermaid, to_text};

use crate::pipeline::{Param, Redactor};
use crate::stages::{Demand, Frequency, Stage};
use std::path::PathBuf;

/// A pipeline ready to run.
#[derive(Debug)]
pub struct Plan {
    /// The pipeline file as the user named it.
    pub file: String,
    pub name: String,
    /// The seed of everything random.
    pub seed: u64,
    pub results: PathBuf,
    /// Hash of everything that was resolved.
    pub spec_hash: String,
    /// The resolved pipeline as YAML, secrets masked.
    pub resolved_yaml: String,
    /// What the run was given, as it may be shown.
    pub params: Vec<Param>,
    pub cases: Vec<Case>,
    /// What is worth knowing of the file and no reason to refuse it, each with its place.
    pub warnings: Vec<String>,
    /// Options that count in some cases only.
    pub note: Option<String>,
    /// Hides what came from the environment.
    pub redactor: Redactor,
}

/// One case: a combination of matrix values.
#[derive(Debug)]
pub struct Case {
    /// `method=stride,m=50`, or `default`.
    pub label: String,
    /// Matrix names and values, as they may be shown.
    pub values: Vec<(String, String)>,
    pub stages: Vec<PlannedStage>,
}

/// One stage of a case.
#[derive(Debug)]
pub struct PlannedStage {
    pub id: String,
    pub stage: Box<dyn Stage>,
    pub folds: u32,
    /// What later stages ask of its rows.
    pub demand: Demand,
}

impl Plan {
    /// How many stage executions there are in all.
    pub fn tasks(&self) -> u64 {
        let of = |case: &Case, once: bool| -> u64 {
            let counted = case.stages.iter().filter(|stage| (stage.stage.frequency() == Frequency::PerRun) == once);
            counted.map(|stage| u64::from(stage.tasks())).sum()
        };
        let per_case: u64 = self.cases.iter().map(|case| of(case, false)).sum();
        per_case + self.cases.first().map_or(0, |case| of(case, true))
    }
}

impl PlannedStage {
    /// How often it runs in its case.
    pub fn tasks(&self) -> u32 {
        if self.stage.frequency() == Frequency::PerFold { self.folds } else { 1 }
    }

    /// The name of its kind.
    pub fn kind(&self) -> &'static str {
        self.stage.kind().language.name
    }
}

impl Case {
    pub fn stage(&self, id: &str) -> Option<&PlannedStage> {
        self.stages.iter().find(|stage| stage.id == id)
    }

    /// Ids and stages, as stages know each other.
    pub fn pairs(&self) -> Vec<(&str, &dyn Stage)> {
        self.stages.iter().map(|stage| (stage.id.as_str(), stage.stage.as_ref())).collect()
    }
}
