//! `stride-pipe score`: scores rows with a trained model, without a pipeline file.

use super::exit::{self, Failure};
use super::model::number;
use super::print;
use super::run::{WorkArgs, alarms, duration};
use super::signals;
use super::words::command_line;
use crate::engine::{ScoreInput, ScoreOutput, ScoreRequest, ScoreSummary, ScoringRecord, score};
use crate::pipeline::{NAME_HELP, is_name};
use crate::stages::predict::{ConditionList, HeldCondition, IntervalLevel, OnInvalid, Watch, alarm};
use clap::Args as ClapArgs;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Arguments of `score`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The scores have the key (or the row's number), y_mean, y_std, f_std, noise_std, quantiles of --intervals, and the columns \
of --keep. A file appears whole or not at all and replaces the one of an earlier time; another writer of the same output \
makes this one wait, or end with 75.

With `-`, rows and scores are Arrow IPC streams on standard input and output. A stream that ends without Arrow's end marker \
is refused: its sender may have died.

Rows that are unlike those of training are warned of (--warn-if, --fail-if): by default when variance_ratio > 3, \
share_outside_range > 0.2 for any feature, nearest_distance_ratio > 5, rows_invalid > 0.01, share_unseen_levels > 0.5 or \
share_missing > 0.9 for any column, from 10 rows on. rows_invalid is a share of the rows when it is compared with a number below 1, and else a number of rows.

With --results, how the rows drift from those of training goes to the table `metrics` there, as in a run of a pipeline; the \
job is one of `stride-pipe runs list`, under --name.")]
pub struct Args {
    /// A model's directory, or its file
    #[arg(long, value_name = "DIR|FILE")]
    model: PathBuf,
    /// Rows to score: a Parquet file, a directory (hive or not), a pattern; `-` for a stream
    #[arg(long, value_name = "PATH")]
    input: PathBuf,
    /// Where scores go: a Parquet file, a directory with one file per input file (`DIR/`); `-` for a stream
    #[arg(long, value_name = "PATH")]
    output: PathBuf,
    /// Column that identifies rows
    #[arg(long, value_name = "COLUMN")]
    key: Option<String>,
    /// Columns to pass through
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    keep: Vec<String>,
    /// Central intervals to add as quantile columns: 0.9 adds `y_q05` and `y_q95`
    #[arg(long, value_name = "LEVEL", value_delimiter = ',', value_parser = level)]
    intervals: Vec<f64>,
    /// Rows with a null, NaN or infinite feature: fail, give null scores, or leave them out
    #[arg(long, value_name = "error|null|skip", default_value = "error")]
    on_invalid: OnInvalid,
    /// Warn when this holds of the rows, such as `variance_ratio > 3`; again for more, `false` for nothing
    #[arg(long, value_name = "CONDITION", value_parser = condition)]
    warn_if: Vec<String>,
    /// End with 4, once the scores are written, when this holds; again for more
    #[arg(long, value_name = "CONDITION", value_parser = condition)]
    fail_if: Vec<String>,
    /// Means only, faster
    #[arg(long)]
    no_variance: bool,
    /// Add columns that say where scores come from: the model's hash, run and version, the run that scored, and when
    #[arg(long)]
    origin: bool,
    /// Results directory in which drift is noted (tables `metrics`, `timings`, `runs`); nowhere unless given
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// What the job is called in the results, in the place of a pipeline's name
    #[arg(long, default_value = "score", value_parser = name, requires = "results")]
    name: String,
    /// How long to wait for another writer of the same output: `30s`, `10m`, `2h`
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    lock_timeout: Duration,
    #[command(flatten)]
    work: WorkArgs,
}

fn level(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(level) if IntervalLevel(level).has_name() => Ok(level),
        _ => Err("write a level between 0 and 1, with at most six decimals, such as 0.9".to_owned()),
    }
}

/// `false` is what a pipeline has for no condition.
const NONE: &str = "false";

fn condition(text: &str) -> Result<String, String> {
    let parsed = if text.trim() == NONE { Ok(Vec::new()) } else { alarm::parse(text) };
    parsed.map(|_| text.to_owned()).map_err(|detail| format!("{detail}; {}", alarm::HELP))
}

/// What is written; nothing is not the same as nothing to look at.
fn conditions(written: &[String]) -> Option<ConditionList> {
    let some = written.iter().filter(|text| text.trim() != NONE).cloned().collect();
    (!written.is_empty()).then_some(ConditionList(some))
}

fn name(text: &str) -> Result<String, String> {
    if is_name(text) { Ok(text.to_owned()) } else { Err(NAME_HELP.to_owned()) }
}

pub fn execute(args: &Args) -> Result<(), Failure> {
    let mut request = request(args)?;
    let (progress, threads) = args.work.start()?;
    request.noting = args.results.clone().map(|results| {
        let (name, command) = (args.name.clone(), command_line());
        ScoringRecord { results, name, command, threads }
    });
    let cancel = signals::listen(String::new)?;
    let start = Instant::now();
    let outcome = score(&request, &cancel, &progress);
    progress.finish();
    let summary = outcome?;
    report(args, &summary, start.elapsed())?;
    let failed: Vec<String> = summary.held.into_iter().filter(|held| held.fails).map(|held| held.text).collect();
    alarms(&failed)
}

fn request(args: &Args) -> Result<ScoreRequest, Failure> {
    let usage = |text: String| Failure::new(exit::USAGE, format!("stride-pipe: {text}"));
    let stream = OsStr::new("-");
    let input = if args.input == stream { ScoreInput::Stdin } else { ScoreInput::Path(args.input.clone()) };
    let is_parquet =
        |extension: &OsStr| ["parquet", "parq", "pq"].iter().any(|known| extension.eq_ignore_ascii_case(known));
    let output = if args.output == stream {
        ScoreOutput::Stdout
    } else if args.output.as_os_str().as_encoded_bytes().ends_with(b"/") || args.output.is_dir() {
        ScoreOutput::Directory(args.output.clone())
    } else if args.output.extension().is_some_and(is_parquet) {
        ScoreOutput::File(args.output.clone())
    } else {
        let path = args.output.display();
        return Err(usage(format!("--output {path}: end it in .parquet for one file, or in / for a directory")));
    };
    let mut intervals = args.intervals.clone();
    intervals.sort_by(f64::total_cmp);
    intervals.dedup();
    let mut keep: Vec<String> = Vec::new();
    for name in &args.keep {
        if !keep.contains(name) {
            keep.push(name.clone());
        }
    }
    Ok(ScoreRequest {
        model: args.model.clone(),
        input,
        output,
        key: args.key.clone(),
        keep,
        intervals,
        variance: !args.no_variance,
        origin: args.origin,
        on_invalid: args.on_invalid,
        watch: Watch::of_scores(conditions(&args.warn_if).as_ref(), conditions(&args.fail_if).as_ref()),
        lock_timeout: args.lock_timeout,
        noting: None,
    })
}

/// How many features outside their range are named.
const SHOWN: usize = 5;

fn report(args: &Args, summary: &ScoreSummary, elapsed: Duration) -> Result<(), Failure> {
    let tally = &summary.tally;
    let (rows, invalid, seconds) = (tally.rows, tally.invalid, elapsed.as_secs_f64());
    for warning in &summary.warnings {
        tracing::warn!(invalid, rows, "{warning}");
    }
    for HeldCondition { fails, condition, text } in &summary.held {
        tracing::warn!(fails, condition, "{text}");
    }
    let mut outside: Vec<(&str, f64)> = summary
        .features
        .iter()
        .zip(tally.shares())
        .filter_map(|(name, share)| Some((name.as_str(), share.filter(|share| *share > 0.0)?)))
        .collect();
    outside.sort_by(|left, right| right.1.total_cmp(&left.1));
    let ratio = tally.variance_ratio();
    let all = serde_json::json!(outside.iter().copied().collect::<std::collections::BTreeMap<_, _>>());
    tracing::info!(
        rows,
        rows_invalid = invalid,
        seconds,
        variance_ratio = ratio,
        share_outside_range = %all,
        method = summary.method,
        run_id = summary.run_id.as_ref().map(ToString::to_string),
        "{rows} rows scored in {seconds:.1} s"
    );
    // Standard output belongs to the scores when they go there.
    if args.output == OsStr::new("-") {
        return Ok(());
    }
    let mut text = format!("{}: {rows} rows, {invalid} invalid ({})\n", args.output.display(), args.on_invalid.name());
    if let Some(ratio) = ratio {
        let _ = writeln!(text, "  predictive variance: {} times that of training", number(ratio));
    }
    for (name, share) in outside.iter().take(SHOWN) {
        let _ = writeln!(text, "  outside the training range: {name} in {:.2} % of the rows", 100.0 * share);
    }
    if outside.len() > SHOWN {
        let _ = writeln!(text, "  outside the training range: {} more features", outside.len() - SHOWN);
    }
    for (name, (missing, unseen)) in summary.columns.iter().zip(tally.seen_shares()) {
        if let Some(share) = unseen.filter(|share| *share > 0.0) {
            let _ = writeln!(text, "  levels that training has not seen: {name} in {:.2} % of the rows", 100.0 * share);
        }
        if let Some(share) = missing.filter(|share| *share > 0.0) {
            let _ = writeln!(text, "  no value: {name} in {:.2} % of the rows", 100.0 * share);
        }
    }
    if let (Some(results), Some(run_id)) = (&args.results, &summary.run_id) {
        let _ = writeln!(text, "run {run_id}: {}/metrics/pipeline={}/", results.display(), args.name);
    }
    print(&text)
}
