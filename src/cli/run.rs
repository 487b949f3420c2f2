//! `stride-pipe run`: checks, plans, runs, and prints what came out.

use super::exit::{self, Failure};
use super::logging::{self, LogFormat};
use super::pipeline::{MemoryArgs, PipelineArgs, load};
use super::print;
use super::progress::ProgressBars;
use super::signals;
use super::summary;
use super::words::{command_line, words};
use crate::engine::Plan;
use crate::engine::{self, Resume, RunFailure, RunOptions, Selected, Shard, Summary};
use crate::stages::job::{Cancel, Listener};
use crate::startup;
use crate::store::RunId;
use crate::text::{self, nearest};
use clap::Args as ClapArgs;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `run`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Do everything again, even what is unchanged
    #[arg(long)]
    force: bool,
    /// Do this stage and all later ones again, even if unchanged
    #[arg(long, value_name = "STAGE", conflicts_with = "only")]
    from: Option<String>,
    /// Stop after this stage
    #[arg(long, value_name = "STAGE", conflicts_with = "only")]
    to: Option<String>,
    /// Do this stage again and stop; earlier ones come from the cache
    #[arg(long, value_name = "STAGE")]
    only: Option<String>,
    /// Go on with a run that was interrupted or failed: this one, or the latest
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "latest")]
    resume: Option<String>,
    /// Do this share of the tasks, such as 0/4 to 3/4, and leave the results in the cache; a run without it collects them
    #[arg(long, value_name = "I/N", conflicts_with_all = ["from", "to", "only", "resume"])]
    shard: Option<Shard>,
    /// When a case fails, finish the others
    #[arg(long)]
    keep_going: bool,
    /// How long to wait for another run of this pipeline: `30s`, `10m`, `2h`
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    lock_timeout: Duration,
    #[command(flatten)]
    memory: MemoryArgs,
    #[command(flatten)]
    pub(super) work: WorkArgs,
}

/// How a command that computes for long does so.
#[derive(Debug, ClapArgs)]
pub(super) struct WorkArgs {
    /// Threads to use; default: as many as there are cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Form of the log lines on stderr
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// Log warnings only, and no progress bar
    #[arg(long, short)]
    quiet: bool,
}

impl Args {
    /// The threads of a process that follows another, and what it does.
    #[cfg(feature = "mpi")]
    pub(super) fn prepare_to_follow(&self) -> Result<Plan, Failure> {
        start_threads(self.work.threads())?;
        load(&self.pipeline)
    }

    /// The same as a run that begins.
    pub(super) fn anew(self) -> Self {
        Self { resume: None, ..self }
    }
}

impl WorkArgs {
    /// How many threads are asked for.
    pub fn threads(&self) -> usize {
        threads(self.threads)
    }

    /// Starts log, progress and threads; returns the number of threads.
    pub fn start(&self) -> Result<(ProgressBars, usize), Failure> {
        let progress = ProgressBars::new(self.log_format, self.quiet);
        logging::start(self.log_format, self.quiet, progress.bars());
        Ok((progress, start_threads(self.threads())?))
    }
}

pub fn execute(args: &Args) -> Result<(), Failure> {
    let plan = load(&args.pipeline)?;
    check_ranks(&plan)?;
    let mut options = options(args, &plan)?;
    let (progress, threads) = args.work.start()?;
    options.threads = threads;
    let (started, redactor, is_shard) = (progress.started(), plan.redactor.clone(), args.shard.is_some());
    let cancel = signals::listen(move || {
        started.get().map_or_else(String::new, |run| redactor.clean(&to_go_on(run, is_shard)))
    })?;
    let outcome = engine::run(&plan, &options, &cancel, &progress);
    progress.finish();
    let summary = outcome.map_err(|failure| ended_early(args, &plan, failure))?;
    print(&described(args, &plan, &summary))?;
    verdict(args, &plan, &summary)
}

/// The same for a program that uses us as a library: nothing is printed, and it listens itself.
pub(super) fn perform(args: &Args, cancel: &Cancel, listener: &dyn Listener) -> Result<RunOutcome, Failure> {
    let plan = load(&args.pipeline)?;
    let options = RunOptions { threads: rayon::current_num_threads(), ..options(args, &plan)? };
    let summary =
        engine::run(&plan, &options, cancel, listener).map_err(|failure| ended_early(args, &plan, failure))?;
    Ok(RunOutcome {
        text: described(args, &plan, &summary),
        verdict: verdict(args, &plan, &summary),
        pipeline: plan.name.clone(),
        results: plan.results.clone(),
        summary,
    })
}

/// What a run leaves for a program that uses us as a library.
#[derive(Debug)]
pub struct RunOutcome {
    pub summary: Summary,
    pub pipeline: String,
    pub results: PathBuf,
    /// What the command would print.
    pub text: String,
    /// Results are written even where cases failed, or a condition on them holds.
    pub verdict: Result<(), Failure>,
}

fn ended_early(args: &Args, plan: &Plan, failure: RunFailure) -> Failure {
    let resume = failure.run_id.map_or_else(String::new, |run_id| to_go_on(&run_id, args.shard.is_some()));
    Failure::from(*failure.error).map_message(|text| plan.redactor.clean(&format!("{text}{resume}")))
}

fn described(args: &Args, plan: &Plan, summary: &Summary) -> String {
    let text = args
        .shard
        .map_or_else(|| summary::describe(plan, summary), |shard| summary::describe_shard(plan, summary, shard));
    plan.redactor.clean(&text)
}

/// Whether all of it went well.
fn verdict(args: &Args, plan: &Plan, summary: &Summary) -> Result<(), Failure> {
    if summary.failures.is_empty() {
        return alarms(&summary.alarms).map_err(|failure| failure.map_message(|text| plan.redactor.clean(text)));
    }
    let (failed, resume) = (summary.failures.len(), to_go_on(&summary.run_id, args.shard.is_some()));
    let text = format!("stride-pipe: {failed} case(s) failed:\n{}{resume}", summary.failures.join("\n"));
    Err(Failure::new(exit::STAGE_FAILED, plan.redactor.clean(&text)))
}

/// What is said at the end of work whose rows met `fail_if` conditions.
pub(super) fn alarms(found: &[String]) -> Result<(), Failure> {
    if found.is_empty() {
        return Ok(());
    }
    let text = format!("stride-pipe: all results are written, and a `fail_if` condition holds:\n{}", found.join("\n"));
    Err(Failure::new(exit::ALARM, text))
}

fn options(args: &Args, plan: &Plan) -> Result<RunOptions, Failure> {
    for stage in [&args.from, &args.to, &args.only].into_iter().flatten() {
        check_stage(plan, stage)?;
    }
    let resume = match args.resume.as_deref() {
        None => Resume::No,
        Some("latest") => Resume::Latest,
        Some(text) => Resume::Run(text.parse().map_err(|error| usage(&format!("--resume: {error}")))?),
    };
    Ok(RunOptions {
        threads: 0,
        command: command_line(),
        resume,
        selected: Selected {
            force: args.force,
            from: args.from.clone().or_else(|| args.only.clone()),
            to: args.to.clone().or_else(|| args.only.clone()),
        },
        keep_going: args.keep_going,
        lock_timeout: args.lock_timeout,
        shard: args.shard,
        memory: Some(args.memory.bytes()),
    })
}

/// What several processes cannot train together.
fn check_ranks(plan: &Plan) -> Result<(), Failure> {
    if crate::ranks::world().is_none() {
        return Ok(());
    }
    let stages = plan.cases.iter().flat_map(|case| &case.stages);
    let refused: BTreeSet<String> =
        stages.filter_map(|stage| Some(format!("stride-pipe: {}: {}", stage.id, stage.stage.alone()?))).collect();
    let refused: Vec<Failure> = refused.into_iter().map(|text| Failure::new(exit::INVALID_PIPELINE, text)).collect();
    Failure::all(refused)
}

pub(super) fn usage(message: &str) -> Failure {
    Failure::new(exit::USAGE, format!("stride-pipe: {message}"))
}

fn check_stage(plan: &Plan, stage: &str) -> Result<(), Failure> {
    let known: Vec<&str> = plan.cases.iter().flat_map(|case| &case.stages).map(|stage| stage.id.as_str()).collect();
    if known.contains(&stage) {
        return Ok(());
    }
    let advice = nearest(stage, &known).map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
    Err(usage(&format!("the pipeline has no stage `{stage}`{advice}")))
}

/// `90`, `90s`, `10m`, `2h`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().map(Duration::from_secs);
    let time = seconds.or_else(|| text::parse_duration(text));
    time.ok_or_else(|| "write a whole number and a unit: 30s, 10m or 2h".to_owned())
}

/// The line that says how to go on with a run.
fn to_go_on(run_id: &str, is_shard: bool) -> String {
    format!("\nto go on: {}", go_on_command(run_id, is_shard))
}

/// The command line again, with `--resume RUN` instead of any other; a shard finds in the cache what it did.
fn go_on_command(run_id: &str, is_shard: bool) -> String {
    if is_shard {
        return command_line();
    }
    format!(
        "{} --resume {run_id}",
        text::command_line(without_resume().iter().map(|word| word.to_string_lossy().into_owned()))
    )
}

/// The words of the command without `--resume RUN`.
pub(super) fn without_resume() -> Vec<OsString> {
    let is_run = |word: &str| word == "latest" || word.parse::<RunId>().is_ok();
    let mut kept: Vec<OsString> = Vec::new();
    let mut words = words().into_iter().peekable();
    while let Some(word) = words.next() {
        if word == "--resume" {
            words.next_if(|next| next.to_str().is_some_and(is_run));
        } else if !word.as_encoded_bytes().starts_with(b"--resume=") {
            kept.push(word);
        }
    }
    kept
}

/// As many as are wanted, or as there are cores.
pub(super) fn threads(wanted: Option<u16>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    wanted.map_or_else(cores, usize::from)
}

fn start_threads(threads: usize) -> Result<usize, Failure> {
    if let Err(message) = startup::check_address_space(threads) {
        exit::at_once(&usage(&message));
    }
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().map_err(|error| {
        Failure::new(exit::BUG, format!("stride-pipe: {threads} threads cannot be started: {error}"))
    })?;
    Ok(threads)
}
