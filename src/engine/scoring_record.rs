//! Notes a scoring without a pipeline in a results directory, as a run of its own: drift in `metrics`, time in `timings`,
//! what it was given in `params`, its row of `runs`, and the manifest, last.

use super::error::RunError;
use super::scoring::{ScoreInput, ScoreOutput, ScoreRequest, ScoreSummary};
use crate::VERSION;
use crate::stages::job::Spans;
use crate::stages::loops;
use crate::stages::predict::HeldCondition;
use crate::store::history::Status;
use crate::store::record::{Alarm, FileRecord, write_resolved};
use crate::store::{EventLog, Footer, Manifest, ResultsDir, RunId, StoreError, hex, write_views};
use crate::tables::{MetricRow, ParamRow, RunRow, Timestamp, TimingRow};
use serde_json::{Map, Value as Json, json};
use sha2::{Digest as _, Sha256};
use std::path::PathBuf;

/// Where to note it, and as what.
#[derive(Clone, Debug)]
pub struct ScoringRecord {
    pub results: PathBuf,
    /// What the job is called, in the place of a pipeline's name.
    pub name: String,
    pub command: String,
    pub threads: usize,
}

/// What `stage` and `case` are called.
const STAGE: &str = "score";
const CASE: &str = "default";

impl ScoringRecord {
    /// Makes the results directory, so that a place that cannot be written is found out before hours of scoring.
    pub fn prepare(&self) -> Result<(), RunError> {
        let results = ResultsDir::new(&self.results);
        results.prepare()?;
        let runs = results.runs_dir();
        std::fs::create_dir_all(&runs).map_err(|source| StoreError::Write { path: runs, source })?;
        Ok(())
    }

    /// The name of a run that begins now.
    pub fn name_run(&self) -> RunId {
        RunId::new(Timestamp::now(), format!("{} {}", std::process::id(), self.command).as_bytes())
    }

    /// Writes everything down.
    pub fn write(
        &self,
        request: &ScoreRequest,
        summary: &ScoreSummary,
        model: FileRecord,
        (run_id, spans): (&RunId, &mut Spans),
    ) -> Result<(), RunError> {
        let mut timings = spans.timings(summary.tally.rows as usize);
        let mut metrics = summary.tally.metrics(&summary.features, &summary.columns, &summary.method, "score", 0);
        for row in &mut metrics {
            (row.run_id, row.stage, row.case) = (run_id.to_string(), STAGE.to_owned(), CASE.to_owned());
        }
        for row in &mut timings {
            (row.run_id, row.stage, row.case) = (run_id.to_string(), STAGE.to_owned(), CASE.to_owned());
            row.fold = Some(0);
        }
        let alarms = alarms(summary);
        let status = if alarms.iter().any(|alarm| alarm.fails) { Status::Alarm } else { Status::Succeeded };
        let said = summary.warnings.iter().chain(alarms.iter().map(|alarm| &alarm.text)).cloned().collect();
        self.note(
            request,
            run_id,
            NotedScoring { status, model: Some(model), alarms, said, rows: Some((metrics, timings)) },
        )
    }

    /// Writes down that it failed, and why: who looks at the runs in the morning does not see the terminal.
    pub fn write_failure(&self, request: &ScoreRequest, error: &RunError, run_id: &RunId) -> Result<(), RunError> {
        let status = if matches!(error, RunError::Interrupted { .. }) { Status::Interrupted } else { Status::Failed };
        let said = vec![error.to_string()];
        self.note(request, run_id, NotedScoring { status, model: None, alarms: Vec::new(), said, rows: None })
    }

    fn note(&self, request: &ScoreRequest, run_id: &RunId, scoring: NotedScoring) -> Result<(), RunError> {
        let NotedScoring { status, model, alarms, said, rows } = scoring;
        let results = ResultsDir::new(&self.results);
        let resolved = format!("{:#}\n", json!({ "name": self.name, "cases": { CASE: options(request) } }));
        let spec_hash = hex(&Sha256::digest(&resolved));
        let footer = Footer { version: VERSION.to_owned(), spec_hash: spec_hash.clone(), seed: 0 };
        let mut files = vec![FileRecord::file(&results, &write_resolved(&results, run_id, &resolved)?)];
        if !said.is_empty() {
            let events = EventLog::open(&results, run_id)?;
            let fields = |text: String| Map::from_iter([("text".to_owned(), json!(text))]);
            said.into_iter().try_for_each(|text| events.append(Timestamp::now(), "warning", fields(text)))?;
        }
        let mut manifest = Manifest {
            spec_hash,
            command: self.command.clone(),
            threads: self.threads as u32,
            openblas: loops(),
            inputs: model.into_iter().collect(),
            alarms,
            ..Manifest::new(run_id, &self.name, status.name(), run_id.started())
        };
        let mut tables = Vec::new();
        if let Some((metrics, timings)) = rows {
            tables.push(results.write_rows(&self.name, run_id, &footer, &metrics)?);
            tables.push(results.write_rows(&self.name, run_id, &footer, &timings)?);
        }
        tables.push(results.write_rows(&self.name, run_id, &footer, &params(request, run_id))?);
        tables.push(results.write_rows(&self.name, run_id, &footer, &[RunRow::from(&manifest)])?);
        files.extend(tables.iter().map(|table| FileRecord::table(&results, table)));
        write_views(&results)?;
        manifest.files = files;
        manifest.save(&results)?;
        Ok(())
    }
}

/// How a scoring ended.
struct NotedScoring {
    status: Status,
    model: Option<FileRecord>,
    alarms: Vec<Alarm>,
    /// Warnings, and why it failed.
    said: Vec<String>,
    /// Its tables, if it came to them.
    rows: Option<(Vec<MetricRow>, Vec<TimingRow>)>,
}

fn alarms(summary: &ScoreSummary) -> Vec<Alarm> {
    let alarm = |held: &HeldCondition| Alarm {
        stage: STAGE.to_owned(),
        case: CASE.to_owned(),
        fold: Some(0),
        fails: held.fails,
        condition: held.condition.clone(),
        text: held.text.clone(),
    };
    summary.held.iter().map(alarm).collect()
}

/// The options as parameters: all of them come from the command line.
fn params(request: &ScoreRequest, run_id: &RunId) -> Vec<ParamRow> {
    let options = options(request);
    let row = |(name, value): (&String, &Json)| ParamRow {
        run_id: run_id.to_string(),
        name: name.clone(),
        value: value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        origin: "set".to_owned(),
    };
    options[STAGE].as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()).map(row).collect()
}

/// What was asked for, to be shown and compared as the options of a pipeline are. JSON is YAML.
fn options(request: &ScoreRequest) -> Json {
    let stream = || "-".to_owned();
    json!({ STAGE: {
        "model": request.model.display().to_string(),
        "input": match &request.input {
            ScoreInput::Path(path) => path.display().to_string(),
            ScoreInput::Stdin => stream(),
        },
        "output": match &request.output {
            ScoreOutput::File(path) | ScoreOutput::Directory(path) => path.display().to_string(),
            ScoreOutput::Stdout => stream(),
        },
        "key": request.key,
        "keep": request.keep,
        "intervals": request.intervals,
        "variance": request.variance,
        "origin": request.origin.then_some(true),
        "on_invalid": request.on_invalid.name(),
    } })
}
