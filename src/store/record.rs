//! What a run leaves about itself: the manifest, the resolved pipeline, and a log of events.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::atomic::{Written, hex, host, sweep, write_atomic};
use super::input::sha256_file;
use super::seal::{Sealing, sealed, sealed_line, sealing};
use super::{ResultsDir, RunId, StoreError, WrittenTable};
use crate::tables::{RunRow, Timestamp};
use sha2::{Digest as _, Sha256};

/// `manifest.json`: written last, so that a run with a manifest is complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub run_id: RunId,
    pub pipeline: String,
    /// The pipeline file, as given on the command line.
    pub pipeline_file: String,
    pub status: String,
    pub version: String,
    /// The commit that the program was built from, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The version of `OpenBLAS` and the processor whose loops it ran: chains of other loops diverge.
    #[serde(default)]
    pub openblas: String,
    pub seed: u64,
    /// Hash of the resolved pipeline.
    pub spec_hash: String,
    /// Wall clock at the start.
    pub started_at: Timestamp,
    /// Wall clock at the end.
    pub finished_at: Timestamp,
    pub command: String,
    pub host: String,
    pub threads: u32,
    /// The share of the work that it was told to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// The stage after which it was told to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The cases, in order.
    pub cases: Vec<String>,
    pub files: Vec<FileRecord>,
    pub inputs: Vec<FileRecord>,
    /// Conditions on the rows of its predict stages that held.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alarms: Vec<Alarm>,
    /// Hashes of the cache entries it used; pruning keeps them as long as the run.
    #[serde(default)]
    pub cache: Vec<String>,
}

/// A condition on the rows of a predict stage that held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    pub stage: String,
    pub case: String,
    pub fold: Option<i32>,
    /// Whether it is a `fail_if` condition.
    pub fails: bool,
    /// The condition, as `variance_ratio > 3`.
    pub condition: String,
    /// What was found, in words.
    pub text: String,
}

/// One file in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Where: relative to the results directory for what lies in it.
    pub path: String,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// Rows, for files that have rows.
    pub rows: Option<u64>,
}

impl FileRecord {
    pub fn table(results: &ResultsDir, table: &WrittenTable) -> Self {
        Self { path: relative(results, &table.path), sha256: table.sha256.clone(), rows: Some(table.rows) }
    }

    /// The record of any other file.
    pub fn file(results: &ResultsDir, written: &Written) -> Self {
        Self { path: relative(results, &written.path), sha256: written.sha256.clone(), rows: None }
    }
}

/// Results directories get moved; what lies inside is named from there.
fn relative(results: &ResultsDir, path: &Path) -> String {
    path.strip_prefix(results.root()).unwrap_or(path).to_string_lossy().into_owned()
}

impl Manifest {
    /// What every run that ends now says of itself; the rest is empty, as for a run without a pipeline file or a seed.
    pub fn new(run_id: &RunId, pipeline: &str, status: &str, started_at: Timestamp) -> Self {
        Self {
            run_id: run_id.clone(),
            pipeline: pipeline.to_owned(),
            pipeline_file: "-".to_owned(),
            status: status.to_owned(),
            version: crate::VERSION.to_owned(),
            commit: Some(crate::COMMIT.to_owned()).filter(|commit| !commit.is_empty()),
            openblas: String::new(),
            seed: 0,
            spec_hash: String::new(),
            started_at,
            finished_at: Timestamp::now(),
            command: String::new(),
            host: host(),
            threads: 0,
            shard: None,
            to: None,
            cases: Vec::new(),
            files: Vec::new(),
            inputs: Vec::new(),
            alarms: Vec::new(),
            cache: Vec::new(),
        }
    }

    /// Writes the manifest to its run's directory.
    pub fn save(&self, results: &ResultsDir) -> Result<Written, StoreError> {
        let path = results.manifest_path(&self.run_id);
        let mut text = sealed(self).map_err(|error| StoreError::write(&path, error.into()))?.into_bytes();
        text.push(b'\n');
        results.share(self)?;
        // Where others find it first: a run that is complete here is so for them. `--resume` ends one that is not.
        let shared = results.place(&path);
        if shared != path {
            let written = write_atomic(&shared, &text)?;
            results.note_stored(&path, written.sha256)?;
        }
        write_atomic(&path, &text)
    }

    pub fn load(results: &ResultsDir, run_id: &RunId) -> Result<Self, StoreError> {
        let path = results.manifest_path(run_id);
        let text = fs::read(&path).map_err(|source| match StoreError::read(&path, source) {
            StoreError::Missing { path, .. } => StoreError::missing(
                &path,
                "this run has no manifest",
                "it did not finish: resume it, or choose another run",
            ),
            other => other,
        })?;
        let damaged = |detail: String| {
            let hint = "the file is damaged, or of a newer stride-pipe";
            StoreError::invalid(&path, format!("not a manifest: {detail}"), hint)
        };
        let manifest = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        match str::from_utf8(&text).map_or(Sealing::Broken, sealing) {
            Sealing::Broken => Err(damaged("its text does not fit the hash in it".to_owned())),
            Sealing::Whole | Sealing::Unsealed => Ok(manifest),
        }
    }

    /// The record of a file that the run has written, by where it is now.
    fn record_of(&self, path: &Path) -> Option<&FileRecord> {
        self.files.iter().find(|file| path.ends_with(&file.path))
    }

    /// Refuses a file of the run that is not as the run has written it.
    pub fn check_file(&self, path: &Path) -> Result<(), StoreError> {
        let Some(record) = self.record_of(path) else { return Ok(()) };
        if sha256_file(path)? == record.sha256 {
            return Ok(());
        }
        let detail = format!("not as run {} has written it: its hash is another one", self.run_id);
        let hint = "the file is damaged, or somebody changed it: remove it and run again";
        Err(StoreError::invalid(path, detail, hint))
    }
}

impl From<&Manifest> for RunRow {
    fn from(manifest: &Manifest) -> Self {
        Self {
            run_id: manifest.run_id.to_string(),
            pipeline_file: manifest.pipeline_file.clone(),
            status: manifest.status.clone(),
            started_at: manifest.started_at,
            finished_at: manifest.finished_at,
            version: manifest.version.clone(),
            seed: manifest.seed as i64,
            host: manifest.host.clone(),
            threads: manifest.threads as i32,
            command: manifest.command.clone(),
            spec_hash: manifest.spec_hash.clone(),
        }
    }
}

/// Writes the resolved pipeline of a run; one that is resumed has it already, unless it was damaged.
pub fn write_resolved(results: &ResultsDir, run_id: &RunId, yaml: &str) -> Result<Written, StoreError> {
    let path = results.resolved_path(run_id);
    match fs::read(&path) {
        Ok(bytes) if bytes == yaml.as_bytes() => {
            let sha256 = hex(&Sha256::digest(&bytes));
            Ok(Written { path, bytes: bytes.len() as u64, sha256 })
        }
        _ => write_atomic(&path, yaml.as_bytes()),
    }
}

/// `events.jsonl`: one JSON object per line, in the file as soon as it happened. Threads may share it.
#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    file: Mutex<File>,
}

impl EventLog {
    /// Opens a run's log, or continues it: nothing that is there is changed.
    pub fn open(results: &ResultsDir, run_id: &RunId) -> Result<Self, StoreError> {
        let path = results.events_path(run_id);
        let directory = results.run_dir(run_id);
        fs::create_dir_all(&directory).map_err(|source| StoreError::write(&directory, source))?;
        let fail = |source| StoreError::write(&path, source);
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(&path).map_err(fail)?;
        if lacks_newline(&mut file).map_err(fail)? {
            // The last run of this log was cut off within a line; the next event must not be glued to it.
            file.write_all(b"\n").map_err(fail)?;
        }
        Ok(Self { path, file: Mutex::new(file) })
    }

    /// Appends an event: `at` and `event` first, then `fields`.
    pub fn append(&self, at: Timestamp, event: &str, fields: Map<String, Value>) -> Result<(), StoreError> {
        let mut object = Map::new();
        object.insert("at".to_owned(), Value::String(at.to_string()));
        object.insert("event".to_owned(), Value::String(event.to_owned()));
        // The two names above are ours; fields cannot replace them.
        for (name, value) in fields {
            object.entry(name).or_insert(value);
        }
        let line = format!("{}\n", sealed_line(&Value::Object(object)));
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // One call per line: with append mode, lines of two processes do not mix.
        file.write_all(line.as_bytes())
            .and_then(|()| file.flush())
            .map_err(|source| StoreError::write(&self.path, source))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The event that a run began with; none when the run or its log is not there.
pub fn first_event(results: &ResultsDir, run_id: &RunId) -> Option<Value> {
    let log = fs::read(results.events_path(run_id)).ok()?;
    event(log.split(|byte| *byte == b'\n').next()?)
}

/// The event in a line of a log, if it is whole.
pub(super) fn event(line: &[u8]) -> Option<Value> {
    let text = str::from_utf8(line).ok()?;
    serde_json::from_str(text).ok().filter(|_| sealing(text) != Sealing::Broken)
}

/// Keeps the manifest of an attempt that ended early, before the run goes on: `manifest-1.json`, `manifest-2.json`, …
pub fn set_manifest_aside(results: &ResultsDir, run_id: &RunId) -> Result<(), StoreError> {
    let manifest = results.manifest_path(run_id);
    // What an attempt that was killed was writing.
    for path in [&manifest, &results.resolved_path(run_id), &results.report_path(run_id)] {
        sweep(path);
    }
    if !manifest.exists() {
        return Ok(());
    }
    let name = |attempt: u32| results.run_dir(run_id).join(format!("manifest-{attempt}.json"));
    let free = (1..=u32::MAX).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(0));
    fs::rename(&manifest, &free).map_err(|source| StoreError::write(&free, source))
}

fn lacks_newline(file: &mut File) -> std::io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0_u8; 1];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}
