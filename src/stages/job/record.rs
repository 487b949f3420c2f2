//! What a run leaves behind, filled by its stages: rows of tables, events, files that were read and written.

use super::task::{Listener, Task};
use crate::pipeline::Redactor;
use crate::stages::predict::Predicted;
use crate::store::lock::real;
use crate::store::record::{Alarm, FileRecord};
use crate::store::{EventLog, InputTable, Manifest, ResultsDir, RunId, StoreError};
use crate::tables::{TableKind, TableRow, Timestamp, relabel};
use arrow::array::RecordBatch;
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A run in progress.
pub struct Record<'a> {
    pub pipeline: &'a str,
    /// Hides what came from the environment.
    pub redactor: &'a Redactor,
    pub listener: &'a dyn Listener,
    pub results: ResultsDir,
    pub run_id: RunId,
    pub events: EventLog,
    /// Rows of the small tables.
    pub tables: BTreeMap<TableKind, Vec<RecordBatch>>,
    /// Predictions, which may be larger than memory.
    pub predictions: Vec<Predicted>,
    pub inputs: BTreeMap<String, FileRecord>,
    pub files: Vec<FileRecord>,
    /// Conditions on rows that held.
    pub alarms: Vec<Alarm>,
    /// Cache entries that were made or used.
    pub cached: BTreeSet<String>,
}

impl Record<'_> {
    /// Forgets what stages left, because they are all visited again.
    pub fn begin_again(&mut self) {
        self.tables.clear();
        self.predictions.clear();
        self.alarms.clear();
        // The first is the resolved pipeline, which is no stage's.
        self.files.truncate(1);
    }

    pub fn event(&self, name: &str, fields: Json) -> Result<(), StoreError> {
        let fields = match self.redactor.clean_json(fields) {
            Json::Object(fields) => fields,
            _ => Map::new(),
        };
        self.events.append(Timestamp::now(), name, fields)
    }

    /// Something happened to a piece of work.
    pub fn task_event(&self, name: &str, task: &Task, more: Json) -> Result<(), StoreError> {
        let fold = task.fold_number();
        let mut fields = json!({ "case": task.case, "stage": task.stage, "kind": task.kind, "fold": fold });
        if let (Json::Object(fields), Json::Object(more)) = (&mut fields, more) {
            fields.extend(more);
        }
        self.event(name, fields)
    }

    /// A piece of work goes on where an earlier attempt left it.
    pub fn task_resumed(&self, task: &Task, iteration: u64) -> Result<(), StoreError> {
        self.listener.task_resumed(task, iteration);
        self.task_event("task_resumed", task, json!({ "iteration": iteration }))
    }

    /// Something that is as it should be, and worth a line.
    pub fn note(&self, text: &str) -> Result<(), StoreError> {
        let text = self.redactor.clean(text);
        self.listener.note(&text);
        self.event("note", json!({ "text": text }))
    }

    /// Something the user should know.
    pub fn warn(&self, text: &str) -> Result<(), StoreError> {
        let text = self.redactor.clean(text);
        self.listener.warning(&text);
        self.event("warning", json!({ "text": text }))
    }

    /// A condition on the rows of a predict stage holds.
    pub fn alarm(&mut self, task: &Task, fails: bool, condition: &str, text: &str) -> Result<(), StoreError> {
        let option = if fails { "fail_if" } else { "warn_if" };
        let text = self.redactor.clean(&format!("{task}: {text}"));
        self.listener.warning(&text);
        let condition = self.redactor.clean(condition);
        self.task_event("warning", task, json!({ "text": text, option: condition }))?;
        let (stage, case, fold) = (task.stage.clone(), task.case.clone(), task.fold_number());
        self.alarms.push(Alarm { stage, case, fold, fails, condition, text });
        Ok(())
    }

    /// Notes which files were read.
    pub fn add_input(&mut self, table: &InputTable) {
        for file in &table.files {
            let path = self.redactor.clean(&file.path.display().to_string());
            let record = FileRecord { path: path.clone(), sha256: file.sha256.clone(), rows: Some(file.rows) };
            self.inputs.insert(path, record);
        }
    }

    /// Notes a file that the run depends on, also when its contents come from the cache and need not be read.
    pub fn add_input_file(&mut self, path: &Path, sha256: &str) {
        let path = self.redactor.clean(&path.display().to_string());
        let record = FileRecord { path: path.clone(), sha256: sha256.to_owned(), rows: None };
        self.inputs.entry(path).or_insert(record);
    }

    /// Notes a file that was written; one outside the results by its whole path.
    pub fn add_file(&mut self, path: &Path, sha256: String) {
        // Within the results names are as they are, as those of tables: they are looked for there, and compared.
        let path = match path.strip_prefix(self.results.root()) {
            Ok(inside) => inside.display().to_string(),
            Err(_) => self.redactor.clean(&real(path).unwrap_or_else(|_| path.to_owned()).display().to_string()),
        };
        self.files.push(FileRecord { path, sha256, rows: None });
    }

    /// Adds rows to a table. They may come from the cache, and so from another run, case or stage of the same content.
    pub fn add_rows<R: TableRow>(&mut self, task: &Task, rows: &[R]) -> Result<(), StoreError> {
        let batch = R::batch(rows)?;
        let labels = (self.run_id.as_str(), task.stage.as_str(), task.case.as_str());
        let batch = relabel(&batch, labels, &batch.schema(), R::KIND.name())?;
        self.tables.entry(R::KIND).or_default().push(batch);
        Ok(())
    }
}

/// A run whose tables are written.
pub struct FinishedRun<'a> {
    pub record: &'a Record<'a>,
    /// Its manifest as far as it goes.
    pub manifest: &'a Manifest,
    pub tables: BTreeMap<TableKind, PathBuf>,
    /// The inputs of all stages of this kind.
    pub inputs: &'a [String],
}
