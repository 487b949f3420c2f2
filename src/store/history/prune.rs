//! Decides which runs go, and what else nobody needs then.
//!
//! What stays is decided first. A kept run needs its own files, which no other run's removal touches; the files of runs
//! that it reads (a model in their directory, their tables); and the cache entries it used, so that it can be repeated or
//! continued. Everything else in the known layout may go. Where it cannot be known what a kept run needs, the whole cache
//! stays.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::sizes::{files_below, freed_bytes, is_plain_file};
use super::{History, Run, Status, TOMBSTONE, names, read_events};
use crate::store::{Cache, MODEL_FILE, Manifest, ResultsDir, RunId, StoreError};
use crate::tables::{TableKind, Timestamp};

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Which runs to remove: those that meet every condition given.
#[derive(Debug, Clone, Default)]
pub struct PruneConditions {
    /// Only runs of this pipeline.
    pub pipeline: Option<String>,
    /// Keep a run as long as fewer than so many newer runs of its pipeline succeeded.
    pub keep: Option<usize>,
    /// Only runs that started more than so many microseconds ago.
    pub older_than: Option<i64>,
    /// Only runs that ended so; none: any run that ended.
    pub statuses: Vec<Status>,
}

impl PruneConditions {
    /// Without any condition nothing is selected; only leftovers are cleaned up.
    fn is_empty(&self) -> bool {
        self.keep.is_none() && self.older_than.is_none() && self.statuses.is_empty()
    }
}

/// A run to be removed.
#[derive(Debug)]
pub struct RunToRemove {
    pub run: Run,
    /// Its files; the order of removal is another one.
    pub files: Vec<PathBuf>,
    /// What lies in its directories and is not ours.
    pub foreign: Vec<PathBuf>,
}

/// A run that was selected and stays.
#[derive(Debug)]
pub struct KeptBack {
    pub id: RunId,
    pub reason: String,
}

/// What happens to the cache.
#[derive(Debug)]
pub enum CacheAction {
    /// What no kept run needs goes.
    Sweep,
    /// It stays as it is.
    Keep { reason: String },
}

/// What a pruning would do.
#[derive(Debug)]
pub struct Prune {
    pub(super) results: ResultsDir,
    pub runs: Vec<RunToRemove>,
    /// The runs that were selected and stay.
    pub kept_back: Vec<KeptBack>,
    pub kept: usize,
    /// What happens to the cache.
    pub cache: CacheAction,
    /// Directories of cache entries that go.
    pub entries: Vec<PathBuf>,
    /// Unfinished cache entries and checkpoints that go.
    pub leftovers: Vec<PathBuf>,
    /// Bytes that will be free.
    pub bytes: u64,
    /// Keeps runs from starting until the pruning is over.
    pub(super) lock: Option<File>,
}

impl Prune {
    /// Looks at a results directory and decides. Unless it is only a dry run, the cache is locked first: no run can
    /// start to use what is about to go.
    pub fn plan(root: &Path, conditions: &PruneConditions, now: Timestamp, dry_run: bool) -> Result<Self, StoreError> {
        let results = ResultsDir::new(root);
        let cache = Cache::new(&results);
        let lock = if dry_run || !results.cache_dir().is_dir() { None } else { cache.own()? };
        let history = History::open(root)?;
        let (going, kept_back) = choose(&history, conditions, now);
        let (gone, kept): (Vec<&Run>, Vec<&Run>) = history.runs.iter().partition(|run| going.contains(&run.id));
        let in_use = !dry_run && lock.is_none() && results.cache_dir().is_dir();
        let needs = if in_use { Err("a run is in progress".to_owned()) } else { Needs::of(&results, &kept) };
        let (cache, entries, leftovers) = match needs {
            Ok(needs) => (CacheAction::Sweep, needs.useless_entries(&results), needs.leftovers(&results)),
            Err(reason) => (CacheAction::Keep { reason }, Vec::new(), Vec::new()),
        };
        let runs: Vec<RunToRemove> = gone.into_iter().map(|run| run_to_remove(&results, run)).collect();
        let loose: Vec<PathBuf> = entries.iter().chain(&leftovers).flat_map(|path| files_below(path)).collect();
        let bytes = freed_bytes(runs.iter().flat_map(|run| &run.files).chain(&loose));
        Ok(Self { kept: kept.len(), results, runs, kept_back, cache, entries, leftovers, bytes, lock })
    }
}

/// The runs that go, and those that were selected but are needed.
fn choose(history: &History, conditions: &PruneConditions, now: Timestamp) -> (BTreeSet<RunId>, Vec<KeptBack>) {
    let mut succeeded: BTreeMap<&Option<String>, usize> = BTreeMap::new();
    let (mut going, mut kept_back) = (BTreeSet::new(), Vec::new());
    // Newest first, to count the newer ones that succeeded.
    for run in history.runs.iter().rev() {
        let newer = succeeded.entry(&run.pipeline).or_default();
        let selected = run.status == Status::Pruning || is_selected(run, *newer, conditions, now);
        *newer += usize::from(run.status == Status::Succeeded);
        if !selected {
            continue;
        }
        if let Some(link) = linked(&history.results, run) {
            let reason = format!("{} is a link: what it leads to is not this directory's", link.display());
            kept_back.push(KeptBack { id: run.id.clone(), reason });
        } else if seen_lately(&history.results, run, now) {
            let reason = "it was active within a day and may be in progress".to_owned();
            kept_back.push(KeptBack { id: run.id.clone(), reason });
        } else {
            going.insert(run.id.clone());
        }
    }
    // A run that is kept back may need others in turn.
    while let Some((needed, by)) = needed_by_kept(history, &going) {
        going.remove(&needed);
        kept_back.push(KeptBack { id: needed, reason: format!("run {by}, which is kept, reads its files") });
    }
    (going, kept_back)
}

/// A directory of the run that is a link: what lies there may be anybody's.
fn linked(results: &ResultsDir, run: &Run) -> Option<PathBuf> {
    let models = results.root().join("models");
    let of_models = names(&models).into_iter().map(|pipeline| models.join(pipeline).join(run.id.as_str()));
    of_models.chain([results.run_dir(&run.id)]).find(|directory| directory.is_symlink())
}

fn is_selected(run: &Run, newer_succeeded: usize, conditions: &PruneConditions, now: Timestamp) -> bool {
    let age = now.micros() - run.id.started().micros();
    let status = if conditions.statuses.is_empty() {
        run.status.is_finished()
    } else {
        conditions.statuses.contains(&run.status)
    };
    !conditions.is_empty()
        && conditions.pipeline.as_ref().is_none_or(|name| run.pipeline.as_ref() == Some(name))
        && status
        && conditions.keep.is_none_or(|keep| newer_succeeded >= keep)
        && conditions.older_than.is_none_or(|limit| age > limit)
}

/// Whether a run without a manifest gave a sign of life within a day.
fn seen_lately(results: &ResultsDir, run: &Run, now: Timestamp) -> bool {
    if run.status.is_finished() || run.status == Status::Pruning {
        return false;
    }
    let changed = fs::metadata(results.events_path(&run.id)).and_then(|metadata| metadata.modified());
    let last = changed.map_or(run.id.started(), |time| Timestamp::from(time).max(run.id.started()));
    now.micros() - last.micros() < MICROS_PER_DAY
}

/// A run to remove whose files a kept run reads, by its id in the names of inputs or in the resolved pipeline.
fn needed_by_kept(history: &History, going: &BTreeSet<RunId>) -> Option<(RunId, RunId)> {
    history.runs.iter().filter(|run| !going.contains(&run.id)).find_map(|run| {
        let mut text = fs::read_to_string(history.results.resolved_path(&run.id)).unwrap_or_default();
        for input in run.manifest.iter().flat_map(|manifest| &manifest.inputs) {
            text.push_str(&input.path);
            text.push('\n');
        }
        let needed = going.iter().find(|id| text.contains(id.as_str()))?;
        Some((needed.clone(), run.id.clone()))
    })
}

/// What the kept runs need of the cache and the checkpoints.
struct Needs {
    entries: BTreeSet<String>,
    /// Keys and runs of work that may be continued.
    resumable: BTreeSet<String>,
}

impl Needs {
    /// Collects it; says why where it cannot be known.
    fn of(results: &ResultsDir, kept: &[&Run]) -> Result<Self, String> {
        let (mut entries, mut resumable) = (BTreeSet::new(), BTreeSet::new());
        for run in kept {
            entries.extend(run.manifest.iter().flat_map(|manifest| manifest.cache.iter().cloned()));
            if run.status.is_complete() {
                // A scoring without a pipeline has no cases, and uses no entries.
                let silent = |manifest: &Manifest| manifest.cache.is_empty() && !manifest.cases.is_empty();
                if run.manifest.as_ref().is_some_and(silent) {
                    return Err(format!("run {} does not say which entries it used", run.id));
                }
                continue;
            }
            let events = read_events(results, &run.id);
            if events.lacks_keys {
                return Err(format!("run {} does not say which entries it used", run.id));
            }
            resumable.insert(run.id.to_string());
            resumable.extend(events.keys.iter().cloned());
            entries.extend(events.keys);
        }
        Ok(Self { entries, resumable })
    }

    fn useless_entries(&self, results: &ResultsDir) -> Vec<PathBuf> {
        let root = results.cache_dir().join("entries");
        let below = |group: String| {
            let group = root.join(group);
            names(&group).into_iter().map(move |name| (group.join(&name), name))
        };
        let all = names(&root).into_iter().flat_map(below);
        // An entry of an older program, or a damaged one, is of no use to any run.
        let cache = Cache::new(results);
        let useless =
            |(_, name): &(PathBuf, String)| is_key(name) && !(self.entries.contains(name) && cache.contains(name));
        all.filter(useless).map(|(path, _)| path).collect()
    }

    /// With the cache locked nobody writes to a draft: what is there was left by a run that was killed.
    fn leftovers(&self, results: &ResultsDir) -> Vec<PathBuf> {
        let drafts = results.cache_dir().join("drafts");
        let checkpoints = results.checkpoints_dir();
        let stem = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
        let draft = |name: &String| is_key(&stem(name));
        let checkpoint = |name: &String| {
            // One that was being written when its run was killed is of no use to anybody.
            let half_written = is_temporary(name) && is_key(&stem(name.trim_start_matches('.')));
            let stem = stem(name);
            half_written || (is_key(&stem) || stem.parse::<RunId>().is_ok()) && !self.resumable.contains(&stem)
        };
        let old_drafts = names(&drafts).into_iter().filter(draft).map(|name| drafts.join(name));
        let old_chains = names(&checkpoints).into_iter().filter(checkpoint).map(|name| checkpoints.join(name));
        old_drafts.chain(old_chains).collect()
    }
}

/// Whether a name is the hash of a piece of work.
fn is_key(name: &str) -> bool {
    name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// The files of a run by the layout, and what else lies between them.
fn run_to_remove(results: &ResultsDir, run: &Run) -> RunToRemove {
    let (mut files, mut foreign) = (Vec::new(), Vec::new());
    files.extend(run.tables.values().filter(|file| is_plain_file(file)).cloned());
    files.extend(temporary_tables(results, &run.id));
    let models = results.root().join("models");
    for pipeline in names(&models) {
        let directory = models.join(pipeline).join(run.id.as_str());
        for file in files_below(&directory) {
            let ours = file.file_name().is_some_and(|name| name == MODEL_FILE || is_temporary(&name.to_string_lossy()));
            let depth = file.strip_prefix(&directory).map_or(0, |inside| inside.components().count());
            // <case>/fold=<k>/, or <case>/<stage>/fold=<k>/ where a case trains several.
            (if ours && matches!(depth, 3 | 4) && is_plain_file(&file) { &mut files } else { &mut foreign }).push(file);
        }
    }
    let directory = results.run_dir(&run.id);
    for file in files_below(&directory) {
        let name =
            file.strip_prefix(&directory).map(|inside| inside.to_string_lossy().into_owned()).unwrap_or_default();
        let ours = ["manifest.json", "resolved.yaml", "events.jsonl", "report.html", TOMBSTONE]
            .contains(&name.as_str())
            || is_earlier_manifest(&name);
        (if (ours || is_temporary(&name)) && is_plain_file(&file) { &mut files } else { &mut foreign }).push(file);
    }
    RunToRemove { run: run.clone(), files, foreign }
}

/// Whether a name is that of the manifest of an attempt before a run was resumed.
fn is_earlier_manifest(name: &str) -> bool {
    let number = name.strip_prefix("manifest-").and_then(|rest| rest.strip_suffix(".json"));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Table files that a killed run was writing.
fn temporary_tables(results: &ResultsDir, id: &RunId) -> Vec<PathBuf> {
    let (start, mut found) = (format!(".{id}.parquet."), Vec::new());
    for kind in TableKind::ALL {
        let table = results.table_dir(kind);
        for pipeline in names(&table) {
            let directory = table.join(pipeline).join(format!("run_date={}", id.run_date()));
            let ours = names(&directory).into_iter().filter(|name| name.starts_with(&start) && is_temporary(name));
            found.extend(ours.map(|name| directory.join(name)));
        }
    }
    found
}

fn is_temporary(name: &str) -> bool {
    name.starts_with('.') && Path::new(name).extension().is_some_and(|extension| extension == "tmp")
}
