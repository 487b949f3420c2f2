//! `stride-pipe validate`: all static checks, and with `--data` a look at every input; nothing run.

use super::exit::Failure;
use super::model::number;
use super::pipeline::{PipelineArgs, load};
use super::print;
use crate::engine::inspect;
use crate::stages::ingest::inspect::{Inspected, Inspection};
use crate::text::cell;
use clap::Args as ClapArgs;
use std::fmt::Write as _;

/// Arguments of `validate`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Also open the inputs: columns, types, missing values, constant columns, keys, splits
    #[arg(long)]
    data: bool,
}

/// Beyond this many features, only those with something to say are shown one by one.
const SHOWN: usize = 30;
/// Values of a split column that are shown.
const SHOWN_VALUES: usize = 6;

pub fn execute(args: &Args) -> Result<(), Failure> {
    let plan = load(&args.pipeline)?;
    let stages = plan.cases.first().map_or(0, |case| case.stages.len());
    let mut out =
        format!("{}: valid: {} case(s) × {stages} stage(s), {} task(s)\n", plan.file, plan.cases.len(), plan.tasks());
    for warning in &plan.warnings {
        let _ = writeln!(out, "warning: {warning}");
    }
    if let Some(note) = &plan.note {
        let _ = writeln!(out, "note: {note}");
    }
    let mut failures = Vec::new();
    if args.data {
        for inspection in inspect(&plan) {
            let _ = write!(out, "\n{}", describe(&inspection, plan.cases.len()));
            let stage = &inspection.stage;
            failures.extend(inspection.problems.iter().map(|problem| Failure::in_stage(stage, problem)));
        }
    }
    // The table helps to understand the failures, so it comes first.
    print(&plan.redactor.clean(&out))?;
    let clean = |failure: Failure| failure.map_message(|text| plan.redactor.clean(text));
    Failure::all(failures.into_iter().map(clean).collect())
}

fn describe(input: &Inspection, cases: usize) -> String {
    let mut out = format!("{}: {}", input.stage, input.written);
    if input.cases.len() < cases {
        let _ = write!(out, " ({})", input.cases.join("; "));
    }
    if input.files > 0 {
        let kilobytes = input.bytes.div_ceil(1000);
        let _ = write!(out, "\n  {} file(s), {} rows, {kilobytes} kB", input.files, input.rows);
    }
    out.push('\n');
    table(&mut out, &input.columns);
    for split in &input.splits {
        let _ = writeln!(out, "  split: {split}");
    }
    for warning in &input.warnings {
        let _ = writeln!(out, "  warning: {warning}");
    }
    let verdict = match input.problems.len() {
        0 => "usable".to_owned(),
        count => format!("{count} problem(s), see below"),
    };
    let _ = writeln!(out, "  {verdict}");
    out
}

fn table(out: &mut String, columns: &[Inspected]) {
    if columns.is_empty() {
        return;
    }
    let columns: Vec<Inspected> =
        columns.iter().map(|column| Inspected { name: cell(&column.name), ..column.clone() }).collect();
    let many = columns.len() > SHOWN;
    let (shown, folded): (Vec<&Inspected>, Vec<&Inspected>) =
        columns.iter().partition(|column| !many || column.role != "feature" || !remarks(column).is_empty());
    let width = shown.iter().map(|column| column.name.chars().count()).max().unwrap_or(0).max(6);
    let types = columns.iter().map(|column| column.data_type.len()).max().unwrap_or(0).max(4);
    let _ = writeln!(
        out,
        "  {:<width$}  {:<7}  {:<types$}  {:>7}  {:>7}  {:>7}  {:>12}  {:>12}",
        "column", "role", "type", "null", "NaN", "inf", "smallest", "largest"
    );
    for column in shown {
        let _ = writeln!(out, "{}", line(column, width, types).trim_end());
    }
    if let (Some(first), Some(last)) = (folded.first(), folded.last()) {
        let _ = writeln!(out, "  and {} features without gaps, {} … {}", folded.len(), first.name, last.name);
    }
}

fn line(column: &Inspected, width: usize, types: usize) -> String {
    let mut line = format!("  {:<width$}  {:<7}  {:<types$}", column.name, column.role, column.data_type);
    if let Some(quality) = &column.quality {
        let end = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
        let (low, high) = (end(quality.range.map(|range| range.0)), end(quality.range.map(|range| range.1)));
        let (nulls, nans, infinities) = (quality.nulls, quality.nans, quality.infinities);
        let _ = write!(line, "  {nulls:>7}  {nans:>7}  {infinities:>7}  {low:>12}  {high:>12}");
    }
    let remarks = remarks(column);
    if !remarks.is_empty() {
        let _ = write!(line, "  {remarks}");
    }
    line
}

/// What stands out in a column.
fn remarks(column: &Inspected) -> String {
    if let Some(quality) = &column.quality {
        let state = match (quality.unusable() > 0, quality.is_constant()) {
            (true, _) => Some("unusable values".to_owned()),
            (false, true) => Some("constant".to_owned()),
            (false, false) => None,
        };
        let becomes = column.becomes.as_ref().map(|becomes| format!("→ {becomes}"));
        return state.into_iter().chain(column.span.clone()).chain(becomes).collect::<Vec<_>>().join(", ");
    }
    if let Some(span) = &column.span {
        return span.clone();
    }
    let value =
        |(value, count): &(Option<String>, u64)| format!("{} {count}", cell(value.as_deref().unwrap_or("null")));
    let mut values: Vec<String> = column.values.iter().take(SHOWN_VALUES).map(value).collect();
    if column.values.len() > SHOWN_VALUES {
        values.push(format!("{} more values", column.values.len() - SHOWN_VALUES));
    }
    values.join(", ")
}
