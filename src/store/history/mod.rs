//! The runs of a results directory, in whatever state they are.
//!
//! A run may be half-written, failed, partly deleted by hand, or not ours at all: everything that can be told about it is,
//! with what is missing, and no run keeps the others from being seen.

mod events;
mod prune;
mod remove;
mod sizes;
mod stored;
mod summary;
mod table;

pub use events::{EventNotes, read_events};
pub use prune::{CacheAction, KeptBack, Prune, PruneConditions, RunToRemove};
pub use remove::Removal;
pub use summary::{MetricSummary, PhaseCost, headline_ranges, phase_costs, summaries};
pub use table::{Measures, Pivot, PivotCell, TIMED};

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::object::is_address;
use super::{Manifest, ResultsDir, RunId, StoreError};
use crate::tables::TableKind;

/// A run whose removal has begun has this instead of a manifest: it is not complete any more, and the next pruning ends it.
pub(in crate::store) const TOMBSTONE: &str = "pruned.json";

/// What became of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    Succeeded,
    /// Everything was done and written, and a `fail_if` condition held.
    Alarm,
    Failed,
    Interrupted,
    /// It did its share, which is in the cache until a run collects it; it has no tables.
    Shard,
    /// No manifest: in progress, or killed.
    Unfinished,
    /// The manifest cannot be read.
    Damaged,
    /// Its directory is gone; only tables are left.
    Deleted,
    /// Its removal has begun and did not end.
    Pruning,
}

impl Status {
    /// The name, as in the `runs` table where it is there.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Alarm => "alarm",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Shard => "shard",
            Self::Unfinished => "unfinished",
            Self::Damaged => "damaged",
            Self::Deleted => "deleted",
            Self::Pruning => "pruning",
        }
    }

    /// Whether the run did all it had to, so that it has all tables.
    pub const fn is_complete(self) -> bool {
        matches!(self, Self::Succeeded | Self::Alarm)
    }

    /// Whether the run came to an end that it could write down.
    pub const fn is_finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Alarm | Self::Failed | Self::Interrupted | Self::Shard)
    }
}

/// One run.
#[derive(Debug, Clone)]
pub struct Run {
    pub id: RunId,
    pub status: Status,
    /// Its pipeline, where that is known.
    pub pipeline: Option<String>,
    /// Its manifest, if it has one that can be read.
    pub manifest: Option<Manifest>,
    pub tables: BTreeMap<TableKind, PathBuf>,
    /// What is missing or wrong, in words.
    pub problems: Vec<String>,
}

impl Run {
    /// Seconds from start to end, if it ended.
    pub fn seconds(&self) -> Option<f64> {
        let manifest = self.manifest.as_ref()?;
        Some((manifest.finished_at.micros() - manifest.started_at.micros()) as f64 / 1e6)
    }

    /// The run's file of a table, as the run has written it, or why there is none.
    pub fn table(&self, kind: TableKind) -> Result<&Path, StoreError> {
        let path = self.tables.get(&kind).map(PathBuf::as_path).ok_or_else(|| {
            let detail = format!("run {} has no {kind} table", self.id);
            let hint = match self.status {
                status if status.is_complete() => {
                    "it was deleted: run the pipeline again, what is in the cache need not be computed"
                }
                _ => "only runs that succeed have all tables: choose another run",
            };
            StoreError::missing(Path::new(kind.name()), detail, hint)
        })?;
        self.manifest.as_ref().map_or(Ok(()), |manifest| manifest.check_file(path))?;
        Ok(path)
    }

    /// The text of the run's resolved pipeline, as the run has written it.
    pub fn resolved(&self, results: &ResultsDir) -> Result<String, StoreError> {
        resolved_text(results, &self.id, self.manifest.as_ref())
    }
}

/// All runs of a results directory, oldest first.
#[derive(Debug, Clone)]
pub struct History {
    pub results: ResultsDir,
    pub runs: Vec<Run>,
    /// Names in `run/` that are not runs.
    pub foreign: Vec<String>,
}

impl History {
    /// Looks at everything in a results directory.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let results = ResultsDir::new(root);
        results.refresh()?;
        if !results.root().is_dir() {
            let hint = "run a pipeline first, or say where the results are: --results DIR or --file PIPELINE";
            return Err(StoreError::missing(root, "there is no results directory here", hint));
        }
        let mut tables = table_files(&results);
        let (mut ids, mut foreign) = (BTreeSet::new(), Vec::new());
        for name in names(&results.runs_dir()) {
            match name.parse::<RunId>() {
                Ok(id) => drop(ids.insert(id)),
                Err(_) => foreign.push(name),
            }
        }
        ids.extend(tables.keys().cloned());
        let found = ids.into_iter().map(|id| {
            let tables = tables.remove(&id).unwrap_or_default();
            (id, tables)
        });
        let found: Vec<_> = found.collect();
        let runs = found.into_par_iter().map(|(id, tables)| look_at(&results, id, tables)).collect();
        Ok(Self { results, runs, foreign })
    }

    /// The run of that name: an id, the beginning of one, or `last`.
    pub fn find(&self, name: &str) -> Result<&Run, StoreError> {
        let shown = |runs: &[&Run]| runs.iter().map(|run| run.id.as_str()).collect::<Vec<_>>().join(", ");
        let recent: Vec<&Run> = self.runs.iter().rev().take(3).collect();
        let missing = |detail: String, hint: String| {
            StoreError::missing(&self.results.place(&self.results.runs_dir()), detail, hint)
        };
        if name == "last" {
            let none = || missing("there are no runs".to_owned(), "run a pipeline first".to_owned());
            return recent.first().copied().ok_or_else(none);
        }
        let fits: Vec<&Run> = self.runs.iter().filter(|run| run.id.as_str().starts_with(name)).collect();
        match fits.as_slice() {
            [run] => Ok(run),
            [] if recent.is_empty() => Err(missing(format!("there is no run `{name}`"), "run a pipeline first".into())),
            [] => {
                let near = self.runs.iter().min_by_key(|run| strsim::damerau_levenshtein(name, run.id.as_str()));
                let near = near.filter(|run| strsim::damerau_levenshtein(name, run.id.as_str()) <= 4);
                let hint = near.map_or_else(
                    || format!("the most recent ones are {}, or say `last`", shown(&recent)),
                    |run| format!("did you mean {}?", run.id),
                );
                Err(missing(format!("there is no run `{name}`"), hint))
            }
            several => {
                let count = several.len();
                let hint = format!("write more of the name: {}", shown(&several[..count.min(5)]));
                Err(missing(format!("{count} runs begin with `{name}`"), hint))
            }
        }
    }
}

/// The text of a run's resolved pipeline; where there is a manifest, it must be the one that the run has written.
pub fn resolved_text(results: &ResultsDir, id: &RunId, manifest: Option<&Manifest>) -> Result<String, StoreError> {
    let path = results.resolved_path(id);
    manifest.map_or(Ok(()), |manifest| manifest.check_file(&path))?;
    fs::read_to_string(&path).map_err(|source| StoreError::read(&path, source))
}

/// Names in a directory, sorted; none where it cannot be read.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The files of all tables by run: `<table>/pipeline=<p>/run_date=<d>/<run_id>.parquet` and nothing else.
fn table_files(results: &ResultsDir) -> BTreeMap<RunId, BTreeMap<TableKind, PathBuf>> {
    let mut found: BTreeMap<RunId, BTreeMap<TableKind, PathBuf>> = BTreeMap::new();
    for kind in TableKind::ALL {
        let table = results.table_dir(kind);
        for pipeline in names(&table).iter().filter(|name| name.starts_with("pipeline=")) {
            let pipeline = table.join(pipeline);
            for date in names(&pipeline).iter().filter(|name| name.starts_with("run_date=")) {
                let date = pipeline.join(date);
                for name in names(&date) {
                    if let Some(id) = name.strip_suffix(".parquet").and_then(|name| name.parse().ok()) {
                        found.entry(id).or_default().insert(kind, date.join(name));
                    }
                }
            }
        }
    }
    found
}

fn look_at(results: &ResultsDir, id: RunId, tables: BTreeMap<TableKind, PathBuf>) -> Run {
    let directory = results.run_dir(&id);
    let mut problems = Vec::new();
    let (status, manifest) = if !directory.is_dir() {
        problems.push("its directory is gone".to_owned());
        (Status::Deleted, None)
    } else if directory.join(TOMBSTONE).exists() {
        problems.push("its removal did not end; `stride-pipe runs prune` ends it".to_owned());
        (Status::Pruning, None)
    } else if !results.manifest_path(&id).exists() {
        problems.push("no manifest: it is in progress, or was killed".to_owned());
        (Status::Unfinished, None)
    } else {
        match Manifest::load(results, &id) {
            Ok(manifest) => {
                let status = status(&manifest.status);
                if status == Status::Damaged {
                    problems.push(format!("its manifest has the unknown status `{}`", manifest.status));
                }
                // What lies outside the results belongs to those who use it.
                let own = manifest.files.iter().map(|file| Path::new(&file.path));
                let gone = results.gone(own.filter(|path| path.is_relative() && !is_address(path)));
                if gone > 0 {
                    problems.push(format!("{gone} of its {} files are gone", manifest.files.len()));
                }
                (status, Some(manifest))
            }
            Err(error) => {
                problems.push(error.to_string());
                (Status::Damaged, None)
            }
        }
    };
    let recorded = manifest.as_ref().map(|manifest| manifest.pipeline.clone());
    let pipeline = recorded.or_else(|| read_events(results, &id).pipeline).or_else(|| partition(&tables));
    Run { id, status, pipeline, manifest, tables, problems }
}

fn status(name: &str) -> Status {
    let finished = [Status::Succeeded, Status::Alarm, Status::Failed, Status::Interrupted, Status::Shard];
    finished.into_iter().find(|status| status.name() == name).unwrap_or(Status::Damaged)
}

/// The pipeline as the path of a table says it.
fn partition(tables: &BTreeMap<TableKind, PathBuf>) -> Option<String> {
    let directory = tables.values().next()?.parent()?.parent()?.file_name()?.to_str()?;
    Some(directory.strip_prefix("pipeline=")?.to_owned())
}
