//! How a run begins and ends on disk: its directory and events first, then all tables, the reports, and last the manifest.

use super::error::RunError;
use super::plan::{Case, Plan, PlannedStage};
use super::resume;
use super::run::RunOptions;
use crate::pipeline::Param;
use crate::stages::job::{Finished, Listener, Record, Spans, Task};
use crate::stages::predict::write_predictions_of_run;
use crate::stages::{FinishedRun, loops};
use crate::store::record::{FileRecord, set_manifest_aside, write_resolved};
use crate::store::{EventLog, Footer, Manifest, ResultsDir, RunId, StoreError, WrittenTable, write_views};
use crate::tables::{CaseRow, MetricRow, ParamRow, RunRow, TableKind, TableRow as _};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Opens the run's directory and writes down what will be done.
pub fn open<'a>(plan: &'a Plan, options: &RunOptions, listener: &'a dyn Listener) -> Result<Record<'a>, RunError> {
    let results = ResultsDir::new(&plan.results);
    results.prepare()?;
    let resumed = resume::find(&results, plan, options)?;
    let beginning = if resumed.is_some() { "run_resumed" } else { "run_started" };
    let run_id = resumed.unwrap_or_else(RunId::generate);
    let events = EventLog::open(&results, &run_id)?;
    set_manifest_aside(&results, &run_id)?;
    let resolved = write_resolved(&results, &run_id, &plan.resolved_yaml)?;
    let files = vec![FileRecord::file(&results, &resolved)];
    let record = Record {
        pipeline: &plan.name,
        redactor: &plan.redactor,
        listener,
        results,
        run_id,
        events,
        tables: BTreeMap::new(),
        predictions: Vec::new(),
        inputs: BTreeMap::new(),
        files,
        alarms: Vec::new(),
        cached: BTreeSet::new(),
    };
    let tasks = options.shard.map_or_else(|| plan.tasks(), |shard| shard.of(plan.tasks()));
    record.listener.run_started(record.run_id.as_str(), tasks);
    let mut begun = json!({ "pipeline": plan.name, "tasks": tasks, "spec_hash": plan.spec_hash });
    if let Some(shard) = options.shard {
        begun["shard"] = shard.to_string().into();
    }
    record.event(beginning, begun)?;
    for warning in &plan.warnings {
        record.warn(warning)?;
    }
    plan.note.iter().for_each(|note| record.listener.note(&plan.redactor.clean(note)));
    Ok(record)
}

/// A piece of work is done.
pub fn finished(record: &Record<'_>, task: &Task, finished: &Finished) -> Result<(), StoreError> {
    let clean = |text: &str| record.redactor.clean(text);
    let finished = Finished { reason: clean(&finished.reason), outcome: clean(&finished.outcome), ..finished.clone() };
    record.listener.task_finished(task, &finished);
    let Finished { seconds, cached, reason, outcome } = finished;
    let fields = json!({ "seconds": seconds, "cached": cached, "reason": reason, "outcome": outcome });
    record.task_event("task_finished", task, fields)
}

/// Writes all tables, then what stages make of them, then the manifest, last. Returns the metrics and the last file that
/// such a stage has written.
pub fn complete(
    record: &mut Record<'_>,
    plan: &Plan,
    options: &RunOptions,
    status: &str,
    of_run: &[&PlannedStage],
) -> Result<(Vec<MetricRow>, Option<PathBuf>), RunError> {
    let whole = Task::of_run("run", "run");
    let mut spans = Spans::open(&whole);
    spans.phase("write");
    let footer = footer(plan);
    let table = write_predictions_of_run(&record.results, &plan.name, &record.run_id, &footer, &record.predictions)?;
    let rows = table.rows as usize;
    let mut tables = vec![table];
    add_cases(record, plan)?;
    for kind in TableKind::ALL {
        // Written apart: the large one, those that are about the writing, and those that failed runs have, too.
        if matches!(kind, TableKind::Predictions | TableKind::Runs | TableKind::Timings | TableKind::Params) {
            continue;
        }
        tables.extend(write_table(record, plan, kind)?);
    }
    record.add_rows(&whole, &spans.timings(rows))?;
    tables.extend(write_table(record, plan, TableKind::Timings)?);
    record.files.extend(tables.iter().map(|table| FileRecord::table(&record.results, table)).collect::<Vec<_>>());
    let tables = tables.iter().map(|table| (table.kind, table.path.clone())).collect();
    let metrics = record.tables.get(&TableKind::Metrics).into_iter().flatten();
    let metrics = metrics.map(MetricRow::rows).collect::<Result<Vec<_>, _>>().map_err(StoreError::from)?.concat();
    let written = finish(record, plan, options, status, Some(tables), of_run)?;
    Ok((metrics, written))
}

/// Writes down how a run ended that has no tables.
pub fn end(record: &mut Record<'_>, plan: &Plan, options: &RunOptions, status: &str) -> Result<(), RunError> {
    finish(record, plan, options, status, None, &[]).map(drop)
}

/// A run's file of a small table; tables that not every pipeline fills are only there where they have rows.
fn write_table(record: &Record<'_>, plan: &Plan, kind: TableKind) -> Result<Option<WrittenTable>, StoreError> {
    let batches = record.tables.get(&kind).map_or(&[][..], Vec::as_slice);
    if !kind.is_always_written() && batches.iter().all(|batch| batch.num_rows() == 0) {
        return Ok(None);
    }
    let schema = kind.schema();
    record.results.write_table(kind, &plan.name, &record.run_id, &footer(plan), &schema, batches).map(Some)
}

/// Writes what the run was given, its row of `runs`, what stages make of the tables, then the manifest, last.
fn finish(
    record: &mut Record<'_>,
    plan: &Plan,
    options: &RunOptions,
    status: &str,
    tables: Option<BTreeMap<TableKind, PathBuf>>,
    of_run: &[&PlannedStage],
) -> Result<Option<PathBuf>, RunError> {
    let mut manifest = Manifest {
        pipeline_file: plan.file.clone(),
        seed: plan.seed,
        spec_hash: plan.spec_hash.clone(),
        command: plan.redactor.clean(&options.command),
        threads: options.threads as u32,
        shard: options.shard.map(|shard| shard.to_string()),
        to: options.selected.to.clone(),
        openblas: loops(),
        cases: plan.cases.iter().map(|case| case.label.clone()).collect(),
        inputs: record.inputs.values().cloned().collect(),
        alarms: record.alarms.clone(),
        cache: record.cached.iter().cloned().collect(),
        ..Manifest::new(&record.run_id, &plan.name, status, record.run_id.started())
    };
    let row = RunRow::from(&manifest);
    if options.shard.is_some() {
        manifest.files.clone_from(&record.files);
        record.event("run_finished", json!({ "status": status }))?;
        manifest.save(&record.results)?;
        return Ok(None);
    }
    for table in [
        record.results.write_rows(&plan.name, &record.run_id, &footer(plan), &params(record, plan))?,
        record.results.write_rows(&plan.name, &record.run_id, &footer(plan), &[row])?,
    ] {
        record.files.push(FileRecord::table(&record.results, &table));
    }
    write_views(&record.results)?;
    manifest.files.clone_from(&record.files);
    let mut last = None;
    if let Some(tables) = tables {
        let mut kinds: Vec<&str> = of_run.iter().map(|stage| stage.kind()).collect();
        kinds.dedup();
        for kind in kinds {
            let stages: Vec<&PlannedStage> = of_run.iter().copied().filter(|stage| stage.kind() == kind).collect();
            last = write_of_run(record, &mut manifest, tables.clone(), &stages)?.or(last);
        }
    }
    record.event("run_finished", json!({ "status": status }))?;
    manifest.save(&record.results)?;
    Ok(last)
}

/// Writes what the stages of a kind that run once for all cases are for: one file for all of them together.
fn write_of_run(
    record: &Record<'_>,
    manifest: &mut Manifest,
    tables: BTreeMap<TableKind, PathBuf>,
    stages: &[&PlannedStage],
) -> Result<Option<PathBuf>, RunError> {
    let Some(first) = stages.first() else { return Ok(None) };
    let task = Task::of_run(&first.id, first.kind());
    let spans = Spans::open(&task);
    record.listener.task_started(&task);
    record.task_event("task_started", &task, json!({ "key": record.run_id }))?;
    let inputs: Vec<String> = stages.iter().flat_map(|stage| stage.stage.inputs()).map(str::to_owned).collect();
    let run = FinishedRun { record, manifest, tables, inputs: &inputs };
    let written = first.stage.write(&run).map_err(|error| RunError::of_own_files(&task, error))?;
    let Some(written) = written else { return Ok(None) };
    let outcome = format!("{} kB", written.bytes.div_ceil(1000));
    let (seconds, reason) = (spans.seconds(), "all cases are done".to_owned());
    finished(record, &task, &Finished { seconds, cached: false, reason, outcome })?;
    manifest.files.push(FileRecord::file(&record.results, &written));
    Ok(Some(record.results.place(&written.path)))
}

fn footer(plan: &Plan) -> Footer {
    Footer { version: crate::VERSION.to_owned(), spec_hash: plan.spec_hash.clone(), seed: plan.seed }
}

fn params(record: &Record<'_>, plan: &Plan) -> Vec<ParamRow> {
    let row = |param: &Param| ParamRow {
        run_id: record.run_id.to_string(),
        name: param.name.clone(),
        value: plan.redactor.clean(&param.value),
        origin: if param.is_set { "set" } else { "file" }.to_owned(),
    };
    plan.params.iter().map(row).collect()
}

fn add_cases(record: &mut Record<'_>, plan: &Plan) -> Result<(), StoreError> {
    let row = |case: &str, (name, value): &(String, String)| CaseRow {
        run_id: record.run_id.to_string(),
        case: case.to_owned(),
        name: name.clone(),
        value: value.clone(),
    };
    let of = |case: &Case| case.values.iter().map(|entry| row(&case.label, entry)).collect::<Vec<_>>();
    let rows: Vec<CaseRow> = plan.cases.iter().flat_map(of).collect();
    record.tables.entry(TableKind::Cases).or_default().push(CaseRow::batch(&rows)?);
    Ok(())
}
