//! Everything a run leaves behind: rows of the tables, events, models, the manifest.

use super::clock::{Measured, Stopwatch};
use super::error::RunError;
use super::listener::{Finished, Listener, Task};
use super::predicted::{self, Predicted};
use super::resume;
use super::run::RunOptions;
use crate::plan::Plan;
use crate::stages::report;
use crate::store::lock::real;
use crate::store::record::{FileRecord, set_manifest_aside, write_resolved};
use crate::store::{EventLog, Footer, InputTable, Manifest, ResultsDir, RunId, StoreError, write_atomic, write_views};
use crate::tables::{CaseRow, HiddenRow, MetricRow, RunRow, TableKind, Timestamp, TimingRow, TraceRow};
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A run in progress.
pub struct Record<'a> {
    plan: &'a Plan,
    options: &'a RunOptions,
    listener: &'a dyn Listener,
    /// Where everything goes.
    pub results: ResultsDir,
    /// The run's name.
    pub run_id: RunId,
    events: EventLog,
    started_at: Timestamp,
    predictions: Vec<Predicted>,
    /// Rows of `metrics`.
    pub metrics: Vec<MetricRow>,
    timings: Vec<TimingRow>,
    traces: Vec<TraceRow>,
    hidden: Vec<HiddenRow>,
    inputs: BTreeMap<String, FileRecord>,
    files: Vec<FileRecord>,
    cache: BTreeSet<String>,
    reports: Vec<(String, Vec<String>)>,
}

impl<'a> Record<'a> {
    /// Opens the run's directory and writes down what will be done.
    pub fn open(plan: &'a Plan, options: &'a RunOptions, listener: &'a dyn Listener) -> Result<Self, RunError> {
        let results = ResultsDir::new(&plan.results);
        let resumed = resume::find(&results, plan, &options.resume)?;
        let beginning = if resumed.is_some() { "run_resumed" } else { "run_started" };
        let run_id = resumed.unwrap_or_else(RunId::generate);
        let events = EventLog::open(&results, &run_id)?;
        set_manifest_aside(&results, &run_id)?;
        let resolved = write_resolved(&results, &run_id, &plan.resolved_yaml)?;
        let files = vec![FileRecord::file(&results, &resolved)];
        let record = Self {
            plan,
            options,
            listener,
            started_at: run_id.started(),
            results,
            run_id,
            events,
            predictions: Vec::new(),
            metrics: Vec::new(),
            timings: Vec::new(),
            traces: Vec::new(),
            hidden: Vec::new(),
            inputs: BTreeMap::new(),
            files,
            cache: BTreeSet::new(),
            reports: Vec::new(),
        };
        record.listener.run_started(record.run_id.as_str(), plan.tasks());
        record
            .event(beginning, json!({ "pipeline": plan.name, "tasks": plan.tasks(), "spec_hash": plan.spec_hash }))?;
        Ok(record)
    }

    fn event(&self, name: &str, fields: Json) -> Result<(), StoreError> {
        let fields = match self.clean(fields) {
            Json::Object(fields) => fields,
            _ => Map::new(),
        };
        self.events.append(Timestamp::now(), name, fields)
    }

    /// Secrets may hide in any text.
    fn clean(&self, value: Json) -> Json {
        match value {
            Json::String(text) => self.plan.redactor.clean(&text).into(),
            Json::Array(items) => items.into_iter().map(|item| self.clean(item)).collect(),
            Json::Object(fields) => fields.into_iter().map(|(name, value)| (name, self.clean(value))).collect(),
            other => other,
        }
    }

    /// A piece of work begins; the event has its key, so that pruning knows what a run without manifest used.
    pub fn task_started(&self, task: &Task, key: &str) -> Result<(), StoreError> {
        self.listener.task_started(task);
        let mut fields = task_fields(task);
        fields["key"] = key.into();
        self.event("task_started", fields)
    }

    /// A piece of work goes on where an earlier attempt left it.
    pub fn task_resumed(&self, task: &Task, iteration: u64) -> Result<(), StoreError> {
        self.listener.task_resumed(task, iteration);
        let mut fields = task_fields(task);
        fields["iteration"] = iteration.into();
        self.event("task_resumed", fields)
    }

    /// Notes that a cache entry was made or used.
    pub fn use_cache(&mut self, key: &str) {
        self.cache.insert(key.to_owned());
    }

    /// A piece of work is done.
    pub fn task_finished(&self, task: &Task, finished: &Finished) -> Result<(), StoreError> {
        self.listener.task_finished(task, finished);
        let mut fields = task_fields(task);
        fields["seconds"] = finished.seconds.into();
        fields["cached"] = finished.cached.into();
        fields["reason"] = finished.reason.clone().into();
        fields["outcome"] = finished.outcome.clone().into();
        self.event("task_finished", fields)
    }

    /// Something the user should know.
    pub fn warn(&self, text: &str) -> Result<(), StoreError> {
        let text = self.plan.redactor.clean(text);
        self.listener.warning(&text);
        self.event("warning", json!({ "text": text }))
    }

    /// Notes which files were read.
    pub fn add_input(&mut self, table: &InputTable) {
        for file in &table.files {
            let path = self.plan.redactor.clean(&file.path.display().to_string());
            let record = FileRecord { path: path.clone(), sha256: file.sha256.clone(), rows: Some(file.rows) };
            self.inputs.insert(path, record);
        }
    }

    /// Notes a file that the run depends on, also when its contents come from the cache and need not be read.
    pub fn add_input_file(&mut self, path: &Path, sha256: &str) {
        let path = self.plan.redactor.clean(&path.display().to_string());
        let record = FileRecord { path: path.clone(), sha256: sha256.to_owned(), rows: None };
        self.inputs.entry(path).or_insert(record);
    }

    /// Adds a timing of a piece of work.
    pub fn add_timing(&mut self, task: &Task, phase: &str, measured: Measured, rows: usize) {
        let row = self.timing(task, phase, measured, rows);
        self.timings.push(row);
    }

    /// A row of `timings`.
    pub fn timing(&self, task: &Task, phase: &str, measured: Measured, rows: usize) -> TimingRow {
        TimingRow {
            run_id: self.run_id.to_string(),
            stage: task.stage.clone(),
            case: task.case.clone(),
            fold: fold_number(task),
            phase: phase.to_owned(),
            started_at: measured.started_at,
            wall_s: measured.wall_s,
            cpu_s: measured.cpu_s,
            peak_rss_bytes: measured.peak_rss_bytes,
            rows: rows as i64,
            cached: false,
        }
    }

    /// Adds rows that may come from the cache, and so from another run, case or stage of the same content.
    pub fn add_timings(&mut self, task: &Task, rows: Vec<TimingRow>, cached: bool) {
        let run_id = self.run_id.to_string();
        self.timings.extend(rows.into_iter().map(|row| TimingRow {
            run_id: run_id.clone(),
            stage: task.stage.clone(),
            case: task.case.clone(),
            fold: fold_number(task),
            cached,
            ..row
        }));
    }

    /// The same for traces.
    pub fn add_traces(&mut self, task: &Task, rows: Vec<TraceRow>) {
        let run_id = self.run_id.to_string();
        self.traces.extend(rows.into_iter().map(|row| TraceRow {
            run_id: run_id.clone(),
            stage: task.stage.clone(),
            case: task.case.clone(),
            fold: fold_number(task).unwrap_or(0),
            ..row
        }));
    }

    /// The same for hidden layers.
    pub fn add_hidden(&mut self, task: &Task, rows: Vec<HiddenRow>) {
        let run_id = self.run_id.to_string();
        self.hidden.extend(rows.into_iter().map(|row| HiddenRow {
            run_id: run_id.clone(),
            stage: task.stage.clone(),
            case: task.case.clone(),
            ..row
        }));
    }

    /// Adds predictions.
    pub fn add_predictions(&mut self, predicted: Predicted) {
        self.predictions.push(predicted);
    }

    /// Adds metrics, which may come from the cache.
    pub fn add_metrics(&mut self, task: &Task, rows: Vec<MetricRow>) {
        let run_id = self.run_id.to_string();
        self.metrics.extend(rows.into_iter().map(|row| MetricRow {
            run_id: run_id.clone(),
            stage: task.stage.clone(),
            case: task.case.clone(),
            ..row
        }));
    }

    /// Notes a file that was written; one outside the results by its whole path.
    pub fn add_file(&mut self, path: &Path, sha256: String) {
        let inside = path.strip_prefix(self.results.root()).map(Path::to_owned);
        let named = inside.or_else(|_| real(path)).unwrap_or_else(|_| path.to_owned());
        let path = self.plan.redactor.clean(&named.display().to_string());
        self.files.push(FileRecord { path, sha256, rows: None });
    }

    /// Notes that a report stage was reached, and what it is about.
    pub fn want_report(&mut self, stage: &str, inputs: &[String]) {
        if !self.reports.iter().any(|(known, _)| known == stage) {
            self.reports.push((stage.to_owned(), inputs.to_vec()));
        }
    }

    /// Where the report of the run is, if it has one.
    pub fn report(&self) -> Option<PathBuf> {
        (!self.reports.is_empty()).then(|| self.results.report_path(&self.run_id))
    }

    /// Writes all tables, then the manifest, last.
    pub fn complete(mut self, status: &str) -> Result<Self, RunError> {
        let watch = Stopwatch::start();
        let footer = self.footer();
        let (pipeline, run_id) = (self.plan.name.clone(), self.run_id.clone());
        let table = predicted::write(&self.results, &pipeline, &run_id, &footer, &self.predictions)?;
        let rows = table.rows as usize;
        let mut tables = vec![table];
        tables.push(self.results.write_rows(&pipeline, &run_id, &footer, &self.metrics)?);
        tables.push(self.results.write_rows(&pipeline, &run_id, &footer, &self.traces)?);
        if !self.hidden.is_empty() {
            tables.push(self.results.write_rows(&pipeline, &run_id, &footer, &self.hidden)?);
        }
        tables.push(self.results.write_rows(&pipeline, &run_id, &footer, &self.case_rows())?);
        let whole = Task { case: "default".to_owned(), stage: "run".to_owned(), kind: "run", fold: None };
        self.add_timing(&whole, "write", watch.read(), rows);
        tables.push(self.results.write_rows(&pipeline, &run_id, &footer, &self.timings)?);
        self.files.extend(tables.iter().map(|table| FileRecord::table(&self.results, table)));
        let tables = tables.iter().map(|table| (table.kind, table.path.clone())).collect();
        self.finish(status, Some(tables))?;
        Ok(self)
    }

    /// Writes down how a run ended that has no tables.
    pub fn end(&mut self, status: &str) -> Result<(), RunError> {
        self.finish(status, None)
    }

    /// Writes the run's row of `runs`, its report if it has tables and one is wanted, then the manifest, last.
    fn finish(&mut self, status: &str, tables: Option<BTreeMap<TableKind, PathBuf>>) -> Result<(), RunError> {
        let mut manifest = Manifest {
            pipeline_file: self.plan.file.clone(),
            seed: self.plan.seed,
            spec_hash: self.plan.spec_hash.clone(),
            command: self.plan.redactor.clean(&self.options.command),
            threads: self.options.threads as u32,
            cases: self.plan.cases.iter().map(|case| case.label.clone()).collect(),
            inputs: self.inputs.values().cloned().collect(),
            cache: self.cache.iter().cloned().collect(),
            ..Manifest::new(&self.run_id, &self.plan.name, status, self.started_at)
        };
        let rows = [RunRow::from(&manifest)];
        let table = self.results.write_rows(&self.plan.name, &self.run_id, &self.footer(), &rows)?;
        self.files.push(FileRecord::table(&self.results, &table));
        manifest.files.clone_from(&self.files);
        write_views(&self.results)?;
        if let Some(tables) = tables.filter(|_| !self.reports.is_empty()) {
            manifest.files.push(self.write_report(&manifest, tables)?);
        }
        self.event("run_finished", json!({ "status": status }))?;
        manifest.save(&self.results)?;
        Ok(())
    }

    /// Writes the report of a run whose tables are there.
    fn write_report(&self, manifest: &Manifest, tables: BTreeMap<TableKind, PathBuf>) -> Result<FileRecord, RunError> {
        let stage = self.reports.first().map(|(stage, _)| stage.clone()).unwrap_or_default();
        let task = Task { case: "default".to_owned(), stage, kind: "report", fold: None };
        let watch = Stopwatch::start();
        self.task_started(&task, self.run_id.as_str())?;
        let only: Vec<String> = self.reports.iter().flat_map(|(_, inputs)| inputs.clone()).collect();
        let subject = report::Subject {
            results: &self.results,
            id: &self.run_id,
            pipeline: Some(&self.plan.name),
            status: &manifest.status,
            manifest: Some(manifest),
            tables,
            problems: Vec::new(),
            only: &only,
        };
        let path = self.results.report_path(&self.run_id);
        let written = write_atomic(&path, report::page(&subject).as_bytes())?;
        let outcome = format!("{} kB", written.bytes.div_ceil(1000));
        let reason = "all cases are done".to_owned();
        self.task_finished(&task, &Finished { seconds: watch.read().wall_s, cached: false, reason, outcome })?;
        Ok(FileRecord::file(&self.results, &written))
    }

    fn footer(&self) -> Footer {
        Footer { version: VERSION.to_owned(), spec_hash: self.plan.spec_hash.clone(), seed: self.plan.seed }
    }

    fn case_rows(&self) -> Vec<CaseRow> {
        let row = |case: &str, name: &str, value: &str| CaseRow {
            run_id: self.run_id.to_string(),
            case: case.to_owned(),
            name: name.to_owned(),
            value: value.to_owned(),
        };
        let of =
            |case: &'a crate::plan::Case| case.values.iter().map(move |(name, value)| row(&case.label, name, value));
        self.plan.cases.iter().flat_map(of).collect()
    }
}

/// The version that results are marked with.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The fold of a task as tables count it.
pub fn fold_number(task: &Task) -> Option<i32> {
    task.fold.map(|(fold, _)| fold as i32)
}

fn task_fields(task: &Task) -> Json {
    json!({ "case": task.case, "stage": task.stage, "kind": task.kind, "fold": fold_number(task) })
}
