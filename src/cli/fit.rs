//! `stride-pipe fit`: from a table to a model that is measured, compared with baselines, and written down as a pipeline.

use super::csv::CsvArgs;
use super::exit::{self, Failure};
use super::run::{WorkArgs, alarms, duration, usage};
use super::signals;
use super::words::command_line;
use super::{print, summary};
use crate::engine::{Resume, RunError, RunFailure, RunOptions, Selected};
use crate::eval::transform::TransformName;
use crate::fit::{
    self, ColumnChoice, ColumnWishes, FitFailure, FitRequest, FittedPipeline, METRICS, MethodSearch, SplitChoice,
    Trial, TrialOutcome,
};
use crate::store::write_atomic;
use crate::text::{self, cell, roughly};
use clap::Args as ClapArgs;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Arguments of `fit`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(flatten)]
    data: DataArgs,
    /// Train on all rows when the best is known, and put the model there
    #[arg(long, value_name = "DIR")]
    publish: Option<PathBuf>,
    /// The pipeline file to write; default: called as the data, in this directory
    #[arg(long, short, value_name = "FILE.yaml")]
    output: Option<PathBuf>,
    /// Write results here instead of `results` beside the pipeline file
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Replace the pipeline file even if it was changed or written by somebody else
    #[arg(long)]
    force: bool,
    /// How long to wait for another run of this pipeline: `30s`, `10m`, `2h`
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    lock_timeout: Duration,
    #[command(flatten)]
    work: WorkArgs,
}

/// A table, and what is to be made of its columns.
#[derive(Debug, ClapArgs)]
pub(super) struct DataArgs {
    /// The rows: Parquet (a file, a directory, a pattern), CSV, or what else `import` reads
    #[arg(value_name = "DATA")]
    pub path: PathBuf,
    #[command(flatten)]
    pub choice: ChoiceArgs,
    #[command(flatten)]
    pub csv: CsvArgs,
}

/// What is to be predicted, and from what.
#[derive(Debug, ClapArgs)]
pub(super) struct ChoiceArgs {
    /// The column to predict
    #[arg(long, value_name = "COLUMN")]
    pub target: String,
    /// The column that identifies rows; default: one that looks like it
    #[arg(long, value_name = "COLUMN")]
    pub key: Option<String>,
    /// Leave these columns out
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    pub exclude: Vec<String>,
    /// How long it may take in all: `30s`, `5m`, `2h`
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    pub time_limit: Duration,
}

impl ChoiceArgs {
    /// Looks at the columns of the rows.
    pub fn look(&self, path: &Path) -> Result<ColumnChoice, Failure> {
        if self.exclude.contains(&self.target) || self.key.as_ref() == Some(&self.target) {
            return Err(usage(&format!("`{}` is the target; it cannot be the key or left out", self.target)));
        }
        let wishes = ColumnWishes { key: self.key.clone(), exclude: self.exclude.clone() };
        Ok(fit::choose(path, &self.target, &wishes)?)
    }
}

pub fn execute(args: &Args) -> Result<(), Failure> {
    if crate::ranks::world().is_some() {
        let text =
            "stride-pipe: `fit` uses one process: start one, and then several with `run` of the file that it writes";
        return Err(Failure::new(exit::INVALID_PIPELINE, text));
    }
    let started = Instant::now();
    let name = match &args.output {
        Some(output) => fit::name_of(output),
        None => fit::name_of(&args.data.path),
    };
    let file = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.yaml")));
    check_output(&file, args.force)?;
    let directory = file.parent().unwrap_or(Path::new("")).to_owned();
    let (progress, threads) = args.work.start()?;
    let cancel = signals::listen(String::new)?;
    let data = fit::prepare(&args.data.path, (&directory, &name), &args.data.csv.options(), args.force)?;
    for note in &data.notes {
        exit::say(&format!("note: {note}"));
    }
    let columns = data.own(args.data.choice.look(&data.path)?);
    print(&described(&args.data.path, &columns))?;
    let request = FitRequest {
        name,
        data: fit::relative_to(&directory, &data.path),
        publish: args.publish.as_ref().map(|publish| fit::relative_to(&directory, publish)),
        file,
        results: args.results.clone(),
        limit: args.data.choice.time_limit,
        options: RunOptions {
            threads,
            command: command_line(),
            resume: Resume::No,
            selected: Selected::default(),
            keep_going: false,
            shard: None,
            memory: None,
            lock_timeout: args.lock_timeout,
        },
    };
    let mut search = MethodSearch::new(&request, &columns, (&cancel, &progress), started);
    let again = format!("what is done is kept; to go on: {}", command_line());
    let trials = search.trials().map_err(|failure| {
        progress.finish();
        failed(failure, &again)
    })?;
    let Some(best) = fit::best(&trials) else {
        progress.finish();
        return Err(Failure::new(exit::STAGE_FAILED, "stride-pipe: no method could be measured on held-out rows"));
    };
    let remarks = remarks(&args.data.path, &columns, best);
    let pipeline = FittedPipeline { methods: methods(&trials, best), ..search.pipeline(&best.candidate, &remarks) };
    check_output(&request.file, args.force)?;
    write_atomic(&request.file, pipeline.file().as_bytes())?;
    let shown = request.file.display().to_string();
    // Everything but a model of all rows comes from the cache: the run is the one that the file repeats.
    let go_on = format!(
        "to go on: {}",
        text::command_line(["stride-pipe", "run", shown.as_str(), "--resume"].map(str::to_owned))
    );
    let plan = search.plan(&pipeline.text()).map_err(|failure| failed(failure, ""))?;
    let outcome = search.run(&plan, None);
    progress.finish();
    let summary = outcome.map_err(|failure| failed(FitFailure::Run(failure), &go_on))?;
    let report = summary.as_ref().and_then(|summary| summary.report.clone());
    let mut out = results(&columns, &trials, best);
    let _ = writeln!(out, "\npipeline: {shown} (stride-pipe run {shown} repeats it)");
    if data.imported {
        let _ = writeln!(out, "rows: {}", data.path.display());
    }
    if let Some(publish) = &args.publish {
        let _ = writeln!(out, "model of all rows: {} (stride-pipe model show {0})", publish.display());
    }
    if let Some(report) = report {
        let _ = writeln!(out, "report: {}", report.display());
    }
    let _ = writeln!(out, "took {}", text::duration(search.elapsed().as_secs_f64()));
    print(&out)?;
    alarms(&summary.map_or_else(Vec::new, |summary| summary.alarms))
}

/// A file that somebody wrote or changed stays.
pub(super) fn check_output(file: &Path, force: bool) -> Result<(), Failure> {
    if force || file.symlink_metadata().is_err() {
        return Ok(());
    }
    let known = std::fs::read_to_string(file).is_ok_and(|text| fit::is_as_written(&text));
    if known {
        return Ok(());
    }
    let message = format!(
        "stride-pipe: {} is there already, changed or written by somebody else, and stays as it is; choose another \
         `--output`, or replace it with `--force`",
        file.display()
    );
    Err(Failure::new(exit::CANNOT_WRITE, message))
}

pub(super) fn failed(failure: FitFailure, advice: &str) -> Failure {
    match failure {
        FitFailure::Refused(problems) => {
            Failure::new(exit::BUG, format!("{problems}\nstride-pipe: this is a bug, please report it"))
        }
        FitFailure::Run(RunFailure { error, .. }) => {
            let interrupted = matches!(*error, RunError::Interrupted { .. });
            let failure = Failure::from(*error);
            if interrupted { failure.map_message(|text| format!("{text}\n{advice}")) } else { failure }
        }
    }
}

/// The method that won, and the baselines.
fn methods<'a>(trials: &'a [Trial], best: &'a Trial) -> Vec<&'a str> {
    let measured = |trial: &&Trial| matches!(trial.outcome, TrialOutcome::Measured { .. });
    let baselines = trials.iter().rev().filter(|trial| trial.is_baseline()).filter(measured);
    let others = baselines.map(|trial| trial.candidate.method).filter(|method| *method != best.candidate.method);
    [best.candidate.method].into_iter().chain(others).collect()
}

/// What was made of the columns.
pub(super) fn described(data: &Path, columns: &ColumnChoice) -> String {
    let mut out = format!("{}: {} rows, {} columns\n", data.display(), columns.rows, columns.columns);
    let scale = match columns.transform {
        TransformName::None => String::new(),
        transform => format!(", modelled as {}: it is skewed", transform.name()),
    };
    let _ = writeln!(out, "  target    {}{scale}", cell(&columns.target));
    let _ = writeln!(
        out,
        "  key       {}",
        columns.key.as_deref().map_or_else(|| "none: rows go by their numbers".to_owned(), cell)
    );
    let shown: Vec<String> = columns.features.iter().take(SHOWN).map(|name| cell(name)).collect();
    let more = columns.features.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let _ = writeln!(out, "  features  {}: {}{more}", columns.features.len(), shown.join(", "));
    let gaps: Vec<String> =
        columns.declared.iter().filter(|one| !one.missing.is_error()).map(|one| cell(&one.name)).collect();
    if !gaps.is_empty() {
        let _ = writeln!(out, "  gaps      {}: filled with the mean, and a column that says where", gaps.join(", "));
    }
    for left in columns.left_out.iter().take(MOST_LEFT_OUT) {
        let advice = left.reason.advice().map_or_else(String::new, |advice| format!("; {advice}"));
        let _ = writeln!(out, "  left out  {}: {}{advice}", cell(&left.name), left.reason);
    }
    if columns.left_out.len() > MOST_LEFT_OUT {
        let _ =
            writeln!(out, "  left out  {} more, listed in the pipeline file", columns.left_out.len() - MOST_LEFT_OUT);
    }
    for note in &columns.notes {
        let _ = writeln!(out, "  note      {note}");
    }
    out
}

/// Names that are shown.
const SHOWN: usize = 8;
const MOST_LEFT_OUT: usize = 30;

/// What the file says of itself.
fn remarks(data: &Path, columns: &ColumnChoice, best: &Trial) -> Vec<String> {
    let number =
        |metric: &str| best.metric(metric).map_or_else(|| "not defined".to_owned(), |value| format!("{value:.4}"));
    vec![format!(
        "Predicts `{}` from {} columns of {}: {}, the best of what was tried (R² {}, NLPD {}).",
        columns.target,
        columns.features.len(),
        data.display(),
        best.candidate.label,
        number("r2"),
        number("nlpd"),
    )]
}

/// The table of all trials, and which is best.
fn results(columns: &ColumnChoice, trials: &[Trial], best: &Trial) -> String {
    let metrics = summary::printed();
    let titles: Vec<String> = metrics.iter().map(|metric| summary::title_with(metric, Some(&columns.target))).collect();
    let row = |trial: &'_ Trial| -> Option<(String, Vec<String>)> {
        let TrialOutcome::Measured { metrics: rows, case, .. } = &trial.outcome else { return None };
        let value = |name: &str| summary::value(rows, case, METRICS, name);
        // Without their scatter, so that all of it fits on a line.
        let numbers = metrics.iter().map(|metric| value(metric.name).split(" ± ").take(1).collect());
        Some((trial.candidate.label.clone(), numbers.collect()))
    };
    let rows: Vec<(String, Vec<String>)> = trials.iter().filter_map(row).collect();
    let rows: Vec<(&str, Vec<String>)> =
        rows.iter().map(|(label, numbers)| (label.as_str(), numbers.clone())).collect();
    let held_out = SplitChoice::of(columns.rows).words();
    let mut out = format!("\nOn held-out rows ({held_out}):\n");
    out.push_str(&summary::table("tried", &titles, &rows));
    for trial in trials {
        let label = &trial.candidate.label;
        let _ = match &trial.outcome {
            TrialOutcome::Measured { .. } => Ok(()),
            TrialOutcome::TooLong(needed) => {
                writeln!(out, "{label}: not tried, it would take about {}", roughly(*needed))
            }
            TrialOutcome::OutOfTime => writeln!(out, "{label}: not done when the time was up"),
            TrialOutcome::Failed(why) => writeln!(out, "{label}: {why}"),
        };
    }
    let _ = writeln!(out, "\n{}", sentence(columns, trials, best));
    out
}

/// Which is best, in one plain sentence.
fn sentence(columns: &ColumnChoice, trials: &[Trial], best: &Trial) -> String {
    let target = cell(&columns.target);
    let nlpd = |trial: &Trial| trial.metric("nlpd").map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    let label = &best.candidate.label;
    if best.candidate.method == "mean" {
        return format!(
            "Nothing is better than the mean: these features say nothing about `{target}` that could be found."
        );
    }
    let share = match best.metric("r2") {
        Some(r2) if r2 > 0.0 => format!(": it explains {:.1} % of the variance of `{target}`, and", 100.0 * r2),
        Some(_) => format!(": it explains nothing of the variance of `{target}`, but"),
        None => String::new(),
    };
    let rest: Vec<&Trial> = trials.iter().filter(|trial| trial.is_baseline() != best.is_baseline()).collect();
    let rival = rest.into_iter().filter(|trial| trial.metric("nlpd").is_some()).min_by(|left, right| {
        let value = |trial: &Trial| trial.metric("nlpd").unwrap_or(f64::INFINITY);
        value(left).total_cmp(&value(right))
    });
    let kind = if best.is_baseline() { "the best Gaussian process" } else { "the best baseline" };
    let rival = rival.map_or_else(String::new, |trial| {
        format!(" ({kind}, {}, has {})", trial.candidate.label.trim_end_matches(" (baseline)"), nlpd(trial))
    });
    format!("Best: {label}{share} has the lowest NLPD, {}{rival}.", nlpd(best))
}
