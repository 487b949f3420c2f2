//! A run from beginning to end.

use super::error::RunError;
use super::forecast::workload;
use super::locks;
use super::plan::{Plan, PlannedStage};
use super::record;
use super::resume::Resume;
use super::shard::{Shard, Share};
use super::walk::{Reads, Visitor, fold, place, walk};
use crate::stages::job::{Cancel, Finished, Key, Listener, Record, Spans, Task, reason};
use crate::stages::{Collecting, Context, Frequency, Job, Sources, StageError, Work};
use crate::store::history::Status;
use crate::store::{Cache, CacheEntry, StoreError, read_known, write_rows};
use crate::tables::{MetricRow, TimingRow};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// What is not in the plan.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    pub threads: usize,
    /// The command line, for the record.
    pub command: String,
    /// Whether an earlier run goes on.
    pub resume: Resume,
    pub selected: Selected,
    /// Finish the other cases when one fails.
    pub keep_going: bool,
    /// How long to wait for locks.
    pub lock_timeout: Duration,
    /// Only this share of the tasks, into the cache.
    pub shard: Option<Shard>,
    /// Bytes of memory that it may take; `None`: what it asks for.
    pub memory: Option<u64>,
}

/// Which stages run, and which of them even if nothing changed.
#[derive(Clone, Debug, Default)]
pub struct Selected {
    pub force: bool,
    /// Do this stage and all later ones again.
    pub from: Option<String>,
    pub to: Option<String>,
}

impl Selected {
    /// Why a stage is to be done again although nothing changed, if it is.
    pub fn forced(&self, stages: &[PlannedStage], id: &str) -> Option<&'static str> {
        let position = |id: &str| stages.iter().position(|stage| stage.id == id);
        let from = self.from.as_deref().and_then(position);
        match (from, position(id)) {
            _ if self.force => Some("asked for by --force"),
            (Some(from), Some(here)) if here >= from => Some("asked for by --from or --only"),
            _ => None,
        }
    }
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Summary {
    pub run_id: String,
    pub metrics: Vec<MetricRow>,
    /// How many pieces of work were done.
    pub done: u64,
    /// How many were taken from the cache.
    pub cached: u64,
    /// How many were left to other shards.
    pub others: u64,
    /// What went wrong in cases that failed, with `keep_going`.
    pub failures: Vec<String>,
    /// What was found where a `fail_if` condition held.
    pub alarms: Vec<String>,
    /// Where the report is, if there is one.
    pub report: Option<PathBuf>,
}

/// A run that ended early.
#[derive(Debug)]
pub struct RunFailure {
    /// The run, if it came to be one: then it can be resumed.
    pub run_id: Option<String>,
    pub error: Box<RunError>,
}

/// Every cache entry says what it cost.
const TIMINGS: &str = "timings.parquet";

/// Runs the plan. Tables and manifest are written at the end, or not at all.
pub fn run(plan: &Plan, options: &RunOptions, cancel: &Cancel, listener: &dyn Listener) -> Result<Summary, RunFailure> {
    let before = |error| RunFailure { run_id: None, error: Box::new(error) };
    let _locks = locks::acquire(plan, options, cancel, listener).map_err(before)?;
    let record = record::open(plan, options, listener).map_err(before)?;
    let run_id = record.run_id.to_string();
    let cache = Cache::new(&record.results);
    cache.sweep();
    let _in_use = cache.hold().map_err(|error| before(error.into()))?;
    let share = options.shard.map(Share::new);
    let mut runner = Runner { plan, options, cancel, record, share, done: 0, cached: 0, others: 0, of_run: Vec::new() };
    let after = |error| RunFailure { run_id: Some(run_id.clone()), error: Box::new(error) };
    let mut attempts = 1;
    loop {
        match runner.attempt(&cache) {
            Ok(summary) => return Ok(summary),
            // Whoever removed or cut an entry did so after it was found whole: what is missing now is found to be, and made.
            Err(error) if attempts < ATTEMPTS && error.file().is_some_and(|path| cache.holds(path)) => {
                attempts += 1;
                runner.begin_again(&error).map_err(|error| after(error.into()))?;
            }
            Err(error) => {
                let status = if matches!(error, RunError::Interrupted { .. }) { "interrupted" } else { "failed" };
                // The first error is the one to report; a full disk may well prevent the record of it.
                let _ = record::end(&mut runner.record, plan, options, status);
                return Err(after(error));
            }
        }
    }
}

/// How often a run begins when entries of the cache vanish under it.
const ATTEMPTS: u32 = 5;

/// Does the work at every stage, or takes it from the cache.
struct Runner<'a> {
    plan: &'a Plan,
    options: &'a RunOptions,
    cancel: &'a Cancel,
    record: Record<'a>,
    /// Which tasks are ours, where others do the rest.
    share: Option<Share>,
    done: u64,
    cached: u64,
    others: u64,
    /// Stages that run once for all cases, as far as they were reached.
    of_run: Vec<&'a PlannedStage>,
}

impl<'a> Runner<'a> {
    /// All cases, then the tables and the manifest.
    fn attempt(&mut self, cache: &Cache) -> Result<Summary, RunError> {
        let sources = Sources::default();
        let (work, too_large) = workload(self.plan, &sources, self.options);
        if !too_large.is_empty() {
            return Err(RunError::TooLarge { what: too_large });
        }
        self.record.listener.planned(work);
        let failures = self.run_cases(cache, &sources)?;
        let alarms = self.record.alarms.iter().filter(|alarm| alarm.fails).map(|alarm| alarm.text.clone());
        let alarms: Vec<String> = alarms.collect();
        let status = match (failures.is_empty(), alarms.is_empty()) {
            (true, true) => Status::Succeeded,
            (true, false) => Status::Alarm,
            (false, _) => Status::Failed,
        };
        if self.share.is_some() {
            return self.end_shard(failures);
        }
        let status = status.name();
        let (metrics, report) = record::complete(&mut self.record, self.plan, self.options, status, &self.of_run)?;
        let (run_id, done) = (self.record.run_id.to_string(), self.done + u64::from(report.is_some()));
        let (cached, others) = (self.cached, 0);
        Ok(Summary { run_id, metrics, done, cached, others, failures, alarms, report })
    }

    /// A share of the work has no tables: what was done is in the cache.
    fn end_shard(&mut self, failures: Vec<String>) -> Result<Summary, RunError> {
        let status = if failures.is_empty() { Status::Shard } else { Status::Failed };
        record::end(&mut self.record, self.plan, self.options, status.name())?;
        let (run_id, done, cached, others) = (self.record.run_id.to_string(), self.done, self.cached, self.others);
        Ok(Summary { run_id, metrics: Vec::new(), done, cached, others, failures, alarms: Vec::new(), report: None })
    }

    /// Forgets what was gathered. What was done is in the cache, as after an interruption.
    fn begin_again(&mut self, error: &RunError) -> Result<(), StoreError> {
        self.record.warn(&format!("{error}; it lay in the cache, and what is missing is made again"))?;
        self.record.begin_again();
        (self.done, self.cached, self.others) = (0, 0, 0);
        self.share = self.options.shard.map(Share::new);
        self.of_run.clear();
        Ok(())
    }

    /// Runs all cases; with `keep_going`, what failed is returned, else the first failure ends it.
    fn run_cases(&mut self, cache: &Cache, sources: &Sources) -> Result<Vec<String>, RunError> {
        let mut failures = Vec::new();
        let plan: &'a Plan = self.plan;
        for case in &plan.cases {
            self.share.iter_mut().for_each(Share::begin_case);
            let Err(error) = walk(plan, case, (cache, sources), self) else { continue };
            let in_cache = error.file().is_some_and(|path| cache.holds(path));
            let of_this_case = matches!(&error, RunError::Stage { source, .. } if !is_everywhere(source)) && !in_cache;
            if !(self.options.keep_going && of_this_case) {
                return Err(error);
            }
            let text = plan.redactor.clean(&error.to_string());
            self.record.warn(&format!("{text}; going on with the other cases"))?;
            failures.push(text);
        }
        Ok(failures)
    }

    /// Ends early when a signal asked for it.
    fn check_cancel(&self) -> Result<(), RunError> {
        self.cancel.signal().map_or(Ok(()), |signal| Err(RunError::Interrupted { signal, kept: None }))
    }

    /// What a stage says when it fails; one that stopped because it was told to did not fail.
    fn failed(&self, task: &Task, source: StageError) -> RunError {
        match (source, self.cancel.signal()) {
            (StageError::Interrupted { kept }, Some(signal)) => RunError::Interrupted { signal, kept },
            (source, _) => RunError::Stage { task: Box::new(task.clone()), source },
        }
    }

    /// Does a piece of work, or takes it from the cache; tells, times and remembers it either way.
    fn perform(
        &mut self,
        stage: &PlannedStage,
        context: &Context<'_>,
        (task, spans): (&Task, &mut Spans),
        key: &Key,
    ) -> Result<CacheEntry, RunError> {
        let place = place(context.pipeline, context.case, context.id, task.fold.map(|(fold, _)| fold));
        let stages =
            self.plan.cases.iter().find(|case| case.label == context.case).map_or(&[][..], |case| &case.stages);
        let forced = self.options.selected.forced(stages, context.id);
        // Work that this run itself did here before it was interrupted is neither done again nor somebody else's.
        let clean = |value| self.record.redactor.clean_json(value);
        let (origin, parts) = (clean(json!([self.record.run_id, place])), clean(key.parts.clone()));
        let own = |entry: &CacheEntry| entry.notes["origin"] == origin;
        let found = context.cache.look_up(&key.hash).filter(|entry| forced.is_none() || own(entry));
        let cached = found.as_ref().is_some_and(|entry| !own(entry));
        let reason = match (&found, forced) {
            (Some(entry), _) if own(entry) => "done before the interruption".to_owned(),
            (Some(_), _) => "unchanged".to_owned(),
            (None, Some(asked)) => asked.to_owned(),
            (None, None) => reason(context.cache.recall(&place).as_ref(), &parts),
        };
        self.record.listener.task_started(task);
        // The event has the key, so that pruning knows what a run without manifest used.
        self.record.task_event("task_started", task, json!({ "key": key.hash }))?;
        let entry = if let Some(entry) = found {
            entry
        } else {
            let draft = context.cache.begin(&key.hash)?;
            let (record, cancel, origin, forced) = (&mut self.record, self.cancel, &origin, forced.is_some());
            let memory = self.options.memory.unwrap_or(u64::MAX);
            let mut job = Job { task, key, draft: &draft, spans, record, cancel, origin, forced, memory };
            let work = stage.stage.perform(context, &mut job);
            let Work { rows, outcome, notes } = work.map_err(|error| self.failed(task, error))?;
            write_rows(&draft.file(TIMINGS), &spans.timings(rows))?;
            let notes = json!({ "origin": origin, "outcome": outcome, "more": notes });
            draft.commit(self.record.redactor.clean_json(notes))?
        };
        self.record.cached.insert(key.hash.clone());
        context.cache.remember(&place, &parts)?;
        let timings: Vec<TimingRow> = read_known(&entry.file(TIMINGS))?;
        let timings: Vec<TimingRow> = timings.into_iter().map(|row| TimingRow { cached, ..row }).collect();
        self.record.add_rows(task, &timings)?;
        *(if cached { &mut self.cached } else { &mut self.done }) += 1;
        let outcome = entry.notes["outcome"].as_str().unwrap_or_default().to_owned();
        let seconds = spans.seconds();
        record::finished(&self.record, task, &Finished { seconds, cached, reason, outcome })?;
        Ok(entry)
    }
}

impl Visitor for Runner<'_> {
    fn passes_over(&mut self, stage: &PlannedStage) -> Result<bool, RunError> {
        self.check_cancel()?;
        if let Some(share) = &mut self.share {
            return Ok(share.leaves(stage));
        }
        let of_run = stage.stage.frequency() == Frequency::PerRun;
        if of_run && !self.of_run.iter().any(|known| known.id == stage.id) {
            let all = self.plan.cases.iter().flat_map(|case| &case.stages);
            self.of_run.extend(all.filter(|other| other.id == stage.id).take(1));
        }
        Ok(of_run)
    }

    fn visit(
        &mut self,
        stage: &PlannedStage,
        context: &Context<'_>,
        (keys, reads): (Vec<Key>, Reads),
    ) -> Result<(), RunError> {
        for (path, hash) in &reads {
            self.record.add_input_file(path, hash);
        }
        let (count, mut pieces) = (keys.len() as u32, Vec::new());
        let ours = self.share.as_mut().map(|share| share.takes(stage, &keys));
        for (index, key) in keys.iter().enumerate() {
            self.check_cancel()?;
            if ours.as_ref().is_some_and(|ours| !ours[index]) {
                self.others += 1;
                continue;
            }
            let task = context.task(stage.kind(), fold(stage, index).map(|fold| (fold, count)));
            let mut spans = Spans::open(&task);
            let entry = self.perform(stage, context, (&task, &mut spans), key)?;
            if ours.is_some() {
                continue;
            }
            let mut done = Collecting { task: &task, key, entry: &entry, record: &mut self.record };
            stage.stage.collect(context, &mut done).map_err(|error| RunError::of_own_files(&task, error))?;
            pieces.push(entry);
        }
        if ours.is_some() {
            return Ok(());
        }
        let task = context.task(stage.kind(), None);
        stage.stage.complete(context, &pieces, &mut self.record).map_err(|error| RunError::of_own_files(&task, error))
    }

    fn fail(&mut self, stage: &PlannedStage, context: &Context<'_>, error: StageError) -> Result<(), RunError> {
        Err(self.failed(&context.task(stage.kind(), None), error))
    }

    fn ends_at(&self, stage: &PlannedStage) -> bool {
        self.options.selected.to.as_ref() == Some(&stage.id)
    }

    fn conclude(&mut self, stage: &PlannedStage, context: &Context<'_>) -> Result<(), RunError> {
        if self.share.is_some() {
            return Ok(());
        }
        let task = context.task(stage.kind(), None);
        stage.stage.conclude(context, &mut self.record).map_err(|error| RunError::of_own_files(&task, error))
    }
}

/// A full disk or a bug in one case is one in all of them.
fn is_everywhere(error: &StageError) -> bool {
    matches!(error, StageError::Bug(_) | StageError::Store(StoreError::Write { .. } | StoreError::Table(_)))
}
