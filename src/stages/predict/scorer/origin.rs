//! Where scores come from: in the footer of every file and stream of scores, and as columns where that is asked for.

use crate::store::{ModelMeta, RunId};
use crate::tables::Timestamp;
use crate::tables::predictions::constant;
use arrow::array::{ArrayRef, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, TimeUnit};
use std::sync::Arc;

/// The model and the run that scores come from.
#[derive(Clone, Debug)]
pub struct ScoreOrigin {
    /// SHA-256 of the model's file.
    model_sha256: String,
    /// The run that trained it, and the version of the program that did.
    model_run_id: String,
    model_version: String,
    /// The run that scored, if it is one.
    run_id: Option<String>,
    scored_at: Timestamp,
}

impl ScoreOrigin {
    /// Scores that this model gives now.
    pub fn new(meta: &ModelMeta, model_sha256: String, run_id: Option<&RunId>) -> Self {
        Self {
            model_sha256,
            model_run_id: meta.training.run_id.clone(),
            model_version: meta.training.version.clone(),
            run_id: run_id.map(ToString::to_string),
            scored_at: Timestamp::now(),
        }
    }

    /// Entries of a footer.
    pub fn footer(&self) -> Vec<(String, String)> {
        let entry = |name: &str, value: &str| (format!("stride.{name}"), value.to_owned());
        let mut footer = vec![
            entry("model_sha256", &self.model_sha256),
            entry("model_run_id", &self.model_run_id),
            entry("model_version", &self.model_version),
            entry("scored_at", &self.scored_at.to_string()),
            entry("version", crate::VERSION),
        ];
        footer.extend(self.run_id.iter().map(|run_id| entry("run_id", run_id)));
        footer
    }

    /// The columns, in order.
    pub fn fields() -> [Field; 5] {
        let text = |name: &str, nullable: bool| Field::new(name, DataType::Utf8, nullable);
        let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        [
            text("model_sha256", false),
            text("model_run_id", false),
            text("model_version", false),
            text("run_id", true),
            Field::new("scored_at", time, false),
        ]
    }

    /// The same for so many rows.
    pub fn columns(&self, rows: usize) -> [ArrayRef; 5] {
        let run_id: ArrayRef = match &self.run_id {
            Some(run_id) => constant(run_id, rows),
            None => Arc::new(StringArray::new_null(rows)),
        };
        let time = TimestampMicrosecondArray::from_value(self.scored_at.micros(), rows).with_timezone("UTC");
        [
            constant(&self.model_sha256, rows),
            constant(&self.model_run_id, rows),
            constant(&self.model_version, rows),
            run_id,
            Arc::new(time),
        ]
    }
}
