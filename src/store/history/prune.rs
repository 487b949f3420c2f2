//! Decides which runs go, and what else nobody needs then.
//!
//! What stays is decided first. A kept run needs its own files, which no other run's removal touches; the files of runs
//! that it reads (a model in their directory, their tables); and the cache entries it used, so that it can be repeated or
//! continued. Everything else in the known layout may go. Where it cannot be known what a kept run needs, the whole cache
//! stays.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::sizes::{files_below, freed_bytes, is_plain_file};
use super::stored::{Stored, StoredRun};
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
    /// Its files on this machine; the order of removal is another one.
    pub files: Vec<PathBuf>,
    pub(super) stored: StoredRun,
    /// What lies in its directories and is not ours.
    pub foreign: Vec<PathBuf>,
}

impl RunToRemove {
    /// How many files go: objects, where results are in object storage, and not their copies here.
    pub fn count(&self) -> usize {
        if self.stored.files.is_empty() { self.files.len() } else { self.stored.files.len() }
    }
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
        let stored = Stored::of(&results)?;
        let (going, kept_back) = choose(&history, conditions, &stored, now);
        let (gone, kept): (Vec<&Run>, Vec<&Run>) = history.runs.iter().partition(|run| going.contains(&run.id));
        let in_use = !dry_run && lock.is_none() && results.cache_dir().is_dir();
        let needs = if in_use { Err("a run is in progress".to_owned()) } else { Needs::of(&results, &kept) };
        let (cache, entries, leftovers) = match needs {
            Ok(needs) => (CacheAction::Sweep, needs.useless_entries(&results), needs.leftovers(&results)),
            Err(reason) => (CacheAction::Keep { reason }, Vec::new(), Vec::new()),
        };
        let left = Leavings::of(&results);
        let runs: Vec<RunToRemove> =
            gone.into_par_iter().map(|run| run_to_remove(&results, run, &left, stored.take(&run.id))).collect();
        let loose: Vec<PathBuf> = entries.iter().chain(&leftovers).flat_map(|path| files_below(path)).collect();
        // Copies of what is in object storage are not counted twice.
        let local = runs.iter().filter(|run| run.stored.files.is_empty()).flat_map(|run| &run.files);
        let remote = runs.iter().flat_map(|run| &run.stored.files).map(|file| file.size);
        let bytes = freed_bytes(local.chain(&loose)) + remote.sum::<u64>();
        Ok(Self { kept: kept.len(), results, runs, kept_back, cache, entries, leftovers, bytes, lock })
    }
}

/// The runs that go, and those that were selected but are needed.
fn choose(
    history: &History,
    conditions: &PruneConditions,
    stored: &Stored,
    now: Timestamp,
) -> (BTreeSet<RunId>, Vec<KeptBack>) {
    let mut succeeded: BTreeMap<&Option<String>, usize> = BTreeMap::new();
    let (mut going, mut kept_back) = (BTreeSet::new(), Vec::new());
    let models = model_directories(&history.results);
    // Newest first, to count the newer ones that succeeded.
    for run in history.runs.iter().rev() {
        let newer = succeeded.entry(&run.pipeline).or_default();
        let selected = run.status == Status::Pruning || is_selected(run, *newer, conditions, now);
        *newer += usize::from(run.status == Status::Succeeded);
        if !selected {
            continue;
        }
        if let Some(link) = linked(&history.results, run, &models) {
            let reason = format!("{} is a link: what it leads to is not this directory's", link.display());
            kept_back.push(KeptBack { id: run.id.clone(), reason });
        } else if seen_lately(&history.results, run, stored.latest(&run.id), now) {
            let reason = "it was active within a day and may be in progress".to_owned();
            kept_back.push(KeptBack { id: run.id.clone(), reason });
        } else {
            going.insert(run.id.clone());
        }
    }
    let readers = readers(history, &going);
    // A run that is kept back may need others in turn.
    while let Some((needed, by)) = needed_by_kept(&readers, &going) {
        going.remove(&needed);
        kept_back.push(KeptBack { id: needed, reason: format!("run {by}, which is kept, reads its files") });
    }
    (going, kept_back)
}

/// A directory of the run that is a link: what lies there may be anybody's.
fn linked(results: &ResultsDir, run: &Run, models: &[PathBuf]) -> Option<PathBuf> {
    let of_models = models.iter().map(|pipeline| pipeline.join(run.id.as_str()));
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

/// Whether a run without a manifest gave a sign of life within a day: in its log, or in object storage.
fn seen_lately(results: &ResultsDir, run: &Run, stored: Option<Timestamp>, now: Timestamp) -> bool {
    if run.status.is_finished() || run.status == Status::Pruning {
        return false;
    }
    let changed = fs::metadata(results.events_path(&run.id)).and_then(|metadata| metadata.modified());
    let latest = changed.ok().map(Timestamp::from).max(stored);
    let last = latest.map_or(run.id.started(), |time| time.max(run.id.started()));
    now.micros() - last.micros() < MICROS_PER_DAY
}

/// Where the models of each pipeline are.
fn model_directories(results: &ResultsDir) -> Vec<PathBuf> {
    let models = results.root().join("models");
    names(&models).into_iter().map(|pipeline| models.join(pipeline)).collect()
}

/// Every run with the others that it names, in its inputs or in the resolved pipeline; none where nothing goes anyway.
fn readers<'a>(history: &'a History, going: &BTreeSet<RunId>) -> Vec<(&'a RunId, BTreeSet<RunId>)> {
    if going.is_empty() {
        return Vec::new();
    }
    let named = |run: &'a Run| {
        let mut named = match run.resolved(&history.results) {
            Ok(text) => runs_named(&text),
            Err(StoreError::Missing { .. }) => BTreeSet::new(),
            // Whatever it says, it may have been any of them.
            Err(_) => history.runs.iter().map(|run| run.id.clone()).collect(),
        };
        for input in run.manifest.iter().flat_map(|manifest| &manifest.inputs) {
            named.extend(runs_named(&input.path));
        }
        (&run.id, named)
    };
    history.runs.par_iter().map(named).collect()
}

/// The names of runs in a text.
fn runs_named(text: &str) -> BTreeSet<RunId> {
    // Every name has these two between its time and its hash.
    const MIDDLE: &str = "Z-";
    const BEFORE: usize = 21;
    const AFTER: usize = 8;
    let name = |(at, _): (usize, &str)| text.get(at.checked_sub(BEFORE)?..at + AFTER)?.parse().ok();
    text.match_indices(MIDDLE).filter_map(name).collect()
}

/// A run to remove whose files a kept run reads.
fn needed_by_kept(readers: &[(&RunId, BTreeSet<RunId>)], going: &BTreeSet<RunId>) -> Option<(RunId, RunId)> {
    readers.iter().filter(|(id, _)| !going.contains(id)).find_map(|(id, named)| {
        let needed = named.iter().find(|named| going.contains(named))?;
        Some((needed.clone(), (*id).clone()))
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
        let all: Vec<(PathBuf, String)> = all.collect();
        all.into_par_iter().filter(useless).map(|(path, _)| path).collect()
    }

    /// With the cache locked nobody writes to a draft: what is there was left by a run that was killed.
    fn leftovers(&self, results: &ResultsDir) -> Vec<PathBuf> {
        let drafts = results.cache_dir().join("drafts");
        let checkpoints = results.checkpoints_dir();
        let stem = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
        let draft = |name: &String| is_key(&stem(name)) || stem(name).parse::<RunId>().is_ok();
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
fn run_to_remove(results: &ResultsDir, run: &Run, left: &Leavings, stored: StoredRun) -> RunToRemove {
    let (mut files, mut foreign) = (Vec::new(), stored.foreign.clone());
    files.extend(run.tables.values().filter(|file| is_plain_file(file)).cloned());
    files.extend(left.tables.get(&run.id).into_iter().flatten().cloned());
    for pipeline in &left.models {
        let directory = pipeline.join(run.id.as_str());
        for file in files_below(&directory) {
            let inside = file.strip_prefix(&directory).map(|inside| inside.to_string_lossy().into_owned());
            let ours = inside.is_ok_and(|inside| is_model(&inside.split('/').collect::<Vec<_>>()));
            (if ours && is_plain_file(&file) { &mut files } else { &mut foreign }).push(file);
        }
    }
    let directory = results.run_dir(&run.id);
    for file in files_below(&directory) {
        let name =
            file.strip_prefix(&directory).map(|inside| inside.to_string_lossy().into_owned()).unwrap_or_default();
        (if is_record(&name) && is_plain_file(&file) { &mut files } else { &mut foreign }).push(file);
    }
    RunToRemove { run: run.clone(), files, stored, foreign }
}

/// Whether a run leaves such a file in its directory.
pub(super) fn is_record(name: &str) -> bool {
    let known = ["manifest.json", "resolved.yaml", "events.jsonl", "report.html", TOMBSTONE];
    known.contains(&name) || is_earlier_manifest(name) || is_temporary(name)
}

/// Whether this is a model in the directory of its run: <case>/fold=<k>/, or <case>/<stage>/fold=<k>/ where a case trains
/// several.
pub(super) fn is_model(inside: &[&str]) -> bool {
    matches!(inside.len(), 3 | 4) && inside.last().is_some_and(|name| *name == MODEL_FILE || is_temporary(name))
}

/// Whether a name is that of the manifest of an attempt before a run was resumed.
fn is_earlier_manifest(name: &str) -> bool {
    let number = name.strip_prefix("manifest-").and_then(|rest| rest.strip_suffix(".json"));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// What is looked for once and not again for every run.
struct Leavings {
    /// Where the models of each pipeline are.
    models: Vec<PathBuf>,
    /// Table files that killed runs were writing.
    tables: BTreeMap<RunId, Vec<PathBuf>>,
}

impl Leavings {
    fn of(results: &ResultsDir) -> Self {
        let mut tables: BTreeMap<RunId, Vec<PathBuf>> = BTreeMap::new();
        let below =
            |directory: &PathBuf| names(directory).into_iter().map(|name| directory.join(name)).collect::<Vec<_>>();
        let pipelines = TableKind::ALL.into_iter().flat_map(|kind| below(&results.table_dir(kind)));
        for date in pipelines.flat_map(|pipeline| below(&pipeline)) {
            for name in names(&date) {
                let id = name.strip_prefix('.').and_then(|name| name.split_once(".parquet.")).map(|(id, _)| id);
                let Some(id) = id.filter(|_| is_temporary(&name)).and_then(|id| id.parse::<RunId>().ok()) else {
                    continue;
                };
                if date.ends_with(format!("run_date={}", id.run_date())) {
                    tables.entry(id).or_default().push(date.join(name));
                }
            }
        }
        Self { models: model_directories(results), tables }
    }
}

fn is_temporary(name: &str) -> bool {
    name.starts_with('.') && Path::new(name).extension().is_some_and(|extension| extension == "tmp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_runs_are_found_in_a_text() {
        let (one, two) = ("20261116T022530123456Z-3f9a1c", "20261117T022530123456Z-000000");
        let text = format!("x: ../results/models/p/{one}/default\ny{two}z Z-3f9a1c é21116T022530123456Z-3f9a1c {one}");
        let found: Vec<String> = runs_named(&text).iter().map(ToString::to_string).collect();
        assert_eq!(found, [one, two]);
        assert!(runs_named("Z-").is_empty() && runs_named("").is_empty());
    }
}
