//! `stride-pipe tune`: searches the settings of a train stage within a budget, and writes the pipeline with the best of them.

use super::exit::{self, Failure};
use super::fit::{check_output, failed};
use super::pipeline::{PipelineArgs, load, text_of};
use super::print;
use super::run::{WorkArgs, duration, usage};
use super::signals;
use super::summary;
use super::words::command_line;
use crate::engine::{Resume, RunOptions, Selected};
use crate::store::write_atomic;
use crate::text::{self, cell};
use crate::tune::{Halving, SettingOutcome, SettingTrial, TuneRequest, TuneSubject, best_setting};
use clap::Args as ClapArgs;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Arguments of `tune`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// How long the search may take: `10m`, `2h`
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = duration)]
    budget: Duration,
    /// The pipeline file to write; default: NAME-tuned.yaml beside the file
    #[arg(long, short, value_name = "FILE.yaml")]
    output: Option<PathBuf>,
    /// The train stage to tune, or several that get the same settings; default: the only one, or all that are written alike
    #[arg(long = "stage", value_name = "STAGE", value_delimiter = ',')]
    stages: Vec<String>,
    /// Options that stay as they are written: `kernel,inducing.count`
    #[arg(long, value_name = "OPTION", value_delimiter = ',')]
    keep: Vec<String>,
    /// Replace the pipeline file even if it was changed or written by somebody else
    #[arg(long)]
    force: bool,
    /// How long to wait for another search of this pipeline: `30s`, `10m`, `2h`
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    lock_timeout: Duration,
    #[command(flatten)]
    work: WorkArgs,
}

pub fn execute(args: &Args) -> Result<(), Failure> {
    if crate::ranks::world().is_some() {
        let text =
            "stride-pipe: `tune` uses one process: start one, and then several with `run` of the file that it writes";
        return Err(Failure::new(exit::INVALID_PIPELINE, text));
    }
    let started = Instant::now();
    let output = output(args)?;
    let plan = load(&args.pipeline)?;
    let request = TuneRequest {
        file: args.pipeline.file.clone(),
        text: text_of(&args.pipeline.file)?,
        sets: args.pipeline.sets.clone(),
        results: args.pipeline.results.clone(),
        stages: args.stages.clone(),
        keep: args.keep.clone(),
    };
    let mistake = |error| {
        let text = format!("stride-pipe: {}: {error}", args.pipeline.file.display());
        Failure::new(exit::INVALID_PIPELINE, plan.redactor.clean(&text))
    };
    let subject = TuneSubject::new(&request, &plan).map_err(mistake)?;
    let (progress, threads) = args.work.start()?;
    let cancel = signals::listen(String::new)?;
    let options = RunOptions {
        threads,
        command: command_line(),
        resume: Resume::No,
        selected: Selected::default(),
        keep_going: false,
        shard: None,
        memory: None,
        lock_timeout: args.lock_timeout,
    };
    print(&searched(&subject))?;
    let search = Halving::new(&subject, &options, (&cancel, &progress), (started, args.budget));
    let outcome = search.trials();
    progress.finish();
    let again = format!("what is done is kept; to go on: {}", command_line());
    let trials = outcome.map_err(|failure| failed(failure, &again))?;
    let Some(best) = best_setting(&trials) else {
        let text = "stride-pipe: no setting could be measured within the budget; give a longer `--budget`";
        return Err(Failure::new(exit::STAGE_FAILED, text));
    };
    let verdict = verdict(&subject, &trials, best);
    check_output(&output, args.force)?;
    write_atomic(&output, subject.tuned(&best.setting, std::slice::from_ref(&verdict)).as_bytes())?;
    let shown = output.display().to_string();
    let run = text::command_line(["stride-pipe", "run", &shown].map(str::to_owned));
    let took = text::duration(started.elapsed().as_secs_f64());
    print(&format!("{}\n{verdict}\npipeline: {shown} ({run})\ntook {took}\n", table(&subject, &trials)))
}

/// Beside the file that is tuned: paths are relative to it.
fn output(args: &Args) -> Result<PathBuf, Failure> {
    let file = &args.pipeline.file;
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let output = args.output.clone().unwrap_or_else(|| file.with_file_name(format!("{stem}-tuned.yaml")));
    let directory = |path: &Path| {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        directory.canonicalize().unwrap_or_else(|_| directory.to_owned())
    };
    if directory(&output) != directory(file) {
        let text = format!(
            "--output {}: the pipeline that is written has the paths of {}, which are relative to its directory: write it there",
            output.display(),
            file.display()
        );
        return Err(usage(&text));
    }
    check_output(&output, args.force)?;
    Ok(output)
}

/// What is going to be tried.
fn searched(subject: &TuneSubject) -> String {
    let names: Vec<String> = subject
        .dimensions
        .iter()
        .map(|dimension| {
            let labels: Vec<&str> = dimension.values.iter().map(|value| value.label.as_str()).collect();
            format!("  {:<18} {}\n", dimension.name, labels.join(", "))
        })
        .collect();
    format!(
        "{}: settings of {}, judged by rows inside the training rows\n{}",
        subject.file().display(),
        subject.stages.join(", "),
        names.concat()
    )
}

/// The best of every rung, and what the file says.
fn table(subject: &TuneSubject, trials: &[SettingTrial]) -> String {
    let metrics = summary::printed();
    let titles: Vec<String> = metrics.iter().map(|metric| summary::title_with(metric, None)).collect();
    let mut out = String::new();
    let rungs = subject.rungs();
    for (rung, judged) in rungs.iter().enumerate() {
        let mut of_rung: Vec<&SettingTrial> = trials.iter().filter(|trial| trial.rung == rung).collect();
        if of_rung.is_empty() {
            continue;
        }
        let value = |trial: &SettingTrial| trial.metric("nlpd").unwrap_or(f64::INFINITY);
        of_rung.sort_by(|left, right| value(left).total_cmp(&value(right)));
        let rows: Vec<(String, Vec<String>)> = of_rung
            .iter()
            .filter_map(|trial| {
                let SettingOutcome::Measured { metrics: rows, case } = &trial.outcome else { return None };
                let number = |name: &str| {
                    summary::value(rows, case, crate::tune::METRICS, name).split(" ± ").take(1).collect::<String>()
                };
                let numbers = metrics.iter().map(|metric| number(metric.name)).collect();
                Some((trial.setting.label(&subject.dimensions), numbers))
            })
            .collect();
        let unfinished = of_rung.len() - rows.len();
        let rows: Vec<(&str, Vec<String>)> =
            rows.iter().take(SHOWN).map(|(label, numbers)| (label.as_str(), numbers.clone())).collect();
        let (share, times) = (100.0 * judged.test_fraction, judged.repeats);
        let times = if times > 1 { format!(", {times} times") } else { String::new() };
        let _ = writeln!(
            out,
            "\nrung {} of {}: {share:.0} % of the training rows judge{times}; {} settings",
            rung + 1,
            rungs.len(),
            of_rung.len()
        );
        if !rows.is_empty() {
            out.push_str(&summary::table("setting", &titles, &rows));
        }
        if unfinished > 0 {
            let _ = writeln!(out, "{unfinished} of them took too long, or failed");
        }
    }
    out
}

/// Settings of a rung that are shown.
const SHOWN: usize = 6;

/// Which is best, in one plain sentence.
fn verdict(subject: &TuneSubject, trials: &[SettingTrial], best: &SettingTrial) -> String {
    let nlpd =
        |trial: &SettingTrial| trial.metric("nlpd").map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
    let label = cell(&best.setting.label(&subject.dimensions));
    let tried = trials.iter().filter(|trial| trial.rung == 0).count();
    let own = trials.iter().find(|trial| trial.rung == best.rung && trial.setting.is_own());
    if best.setting.is_own() {
        return format!("Best of {tried} settings: what the file says, NLPD {} on rows that judge.", nlpd(best));
    }
    let own = own.map_or_else(
        || "what the file says could not be measured".to_owned(),
        |own| format!("what the file says has {}", nlpd(own)),
    );
    format!("Best of {tried} settings: {label}, NLPD {} on rows that judge ({own}).", nlpd(best))
}
