//! The report stage: one page over the whole run, once its tables are there.

use super::{Subject, page};
use crate::pipeline::{Kind, Link, OneOrMore};
use crate::stages::{Context, FinishedRun, Frequency, Output, Preparation, Stage, StageError, StageKind};
use crate::store::{Written, write_atomic};
use schemars::JsonSchema;
use serde::Deserialize;

/// The declaration of the kind.
pub static KIND: StageKind = StageKind {
    language: Kind {
        links: &[Link::to("input", &["evaluate"])],
        ..Kind::new::<Report>("report", "Writes an HTML report of the run.")
    },
    version: 1,
    read: crate::stages::read::<Report>,
};

/// Writes an HTML report of the run, once all cases are done.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The evaluate stage that is reported on, or a list of them.
    input: OneOrMore,
}

impl Stage for Report {
    fn kind(&self) -> &'static StageKind {
        &KIND
    }

    fn inputs(&self) -> Vec<&str> {
        self.input.0.iter().map(String::as_str).collect()
    }

    fn frequency(&self) -> Frequency {
        Frequency::PerRun
    }

    fn prepare(&self, _: &Context<'_>) -> Result<Preparation, StageError> {
        Ok(Preparation::new(Output::Nothing, Vec::new()))
    }

    fn write(&self, run: &FinishedRun<'_>) -> Result<Option<Written>, StageError> {
        let subject = Subject {
            results: &run.record.results,
            id: &run.record.run_id,
            pipeline: Some(run.record.pipeline),
            status: &run.manifest.status,
            manifest: Some(run.manifest),
            tables: run.tables.clone(),
            problems: Vec::new(),
            only: run.inputs,
        };
        let path = run.record.results.report_path(&run.record.run_id);
        Ok(Some(write_atomic(&path, page(&subject).as_bytes())?))
    }
}
