//! Rules of the predict stage: which rows its model may predict, and what only makes sense for the rows of an input.

use super::alarm;
use super::options::IntervalLevel;
use crate::pipeline::tree::{Entry, Node, Value};
use crate::pipeline::{Diagnostic, Diagnostics, contains_reference, find, is_path, text};
use crate::tables::TableKind;
use std::collections::BTreeSet;

/// Options that are for the rows of an ingest stage.
const FOR_SCORING: [&str; 3] = ["on_invalid", "keep", "output"];

/// Checks a predict stage among the stages of its case.
pub fn check(_: &Entry, options: &Node, stages: &[Entry], problems: &mut Diagnostics) {
    check_rows(stages, options, problems);
    check_scoring(stages, options, problems);
}

fn check_scoring(stages: &[Entry], options: &Node, problems: &mut Diagnostics) {
    if let Some((input, _)) = text(options, "input")
        && matches!(find(stages, input), Some(("split", _)))
    {
        for option in FOR_SCORING.iter().filter_map(|key| options.entry(key)) {
            let message = format!("`{}` is for scoring, and `{input}` is a split stage", option.key);
            let help = "leave it out, or give an ingest stage as `input`";
            problems.push(Diagnostic::new(option.origin, message).help(help));
        }
    }
    if let (Some((input, _)), Some(hidden)) = (text(options, "input"), options.entry("hidden"))
        && matches!(find(stages, input), Some(("ingest", _)))
    {
        let message = format!("`hidden` is for test rows, and `{input}` is an ingest stage");
        let help = "leave it out, or give the model's split stage as `input`";
        problems.push(Diagnostic::new(hidden.origin, message).help(help));
    }
    for option in ["warn_if", "fail_if"].iter().filter_map(|key| options.entry(key)) {
        check_conditions(option, problems);
    }
    if let Some(keep) = options.entry("keep") {
        check_keep(&keep.node, problems);
    }
    if let Some(intervals) = options.entry("intervals") {
        check_intervals(&intervals.node, problems);
    }
    if let Some((output, origin)) = text(options, "output")
        && !contains_reference(output)
        && !names_parquet(output)
    {
        let help = "end it in `.parquet` for one file, or in `/` for a directory with one file per input file";
        problems.push(Diagnostic::new(origin, format!("`{output}` is not the name of a Parquet file")).help(help));
    }
}

fn check_conditions(option: &Entry, problems: &mut Diagnostics) {
    let items = if option.node.text().is_some() { std::slice::from_ref(&option.node) } else { option.node.items() };
    for item in items {
        if let Some(written) = item.text()
            && !contains_reference(written)
            && let Err(detail) = alarm::parse(written)
        {
            problems.push(Diagnostic::new(item.origin, format!("`{}`: {detail}", option.key)).help(alarm::HELP));
        }
    }
}

fn names_parquet(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    path.ends_with('/') || [".parquet", ".parq", ".pq"].iter().any(|ending| lower.ends_with(ending))
}

// Levels outside of 0 and 1 are refused by the schema.
fn check_intervals(intervals: &Node, problems: &mut Diagnostics) {
    for item in intervals.items() {
        if let Value::Float(level) = item.value
            && level > 0.0
            && level < 1.0
            && !IntervalLevel(level).has_name()
        {
            let message = format!("the level {level} in `intervals` has more than six decimals");
            problems.push(Diagnostic::new(item.origin, message).help("round it: columns are named by their level"));
        }
    }
}

fn check_keep(keep: &Node, problems: &mut Diagnostics) {
    let taken = TableKind::Predictions.schema();
    let mut seen = BTreeSet::new();
    for item in keep.items() {
        let Some(name) = item.text() else { continue };
        if taken.field_with_name(name).is_ok() || name.starts_with("y_q") {
            let message = format!("`{name}` in `keep` has the name of a column of the predictions");
            problems.push(Diagnostic::new(item.origin, message).help("rename the column in the input"));
        } else if !seen.insert(name) {
            problems.push(Diagnostic::new(item.origin, format!("`{name}` is in `keep` twice")));
        }
    }
}

/// Refuses rows that a model may not predict: those of other folds, or of none.
pub fn check_rows(stages: &[Entry], options: &Node, problems: &mut Diagnostics) {
    let (Some((model, _)), Some((input, origin))) = (text(options, "model"), text(options, "input")) else { return };
    let Some(("split", split)) = find(stages, input) else { return };
    if split.entry("all").is_some() {
        problems.push(
            Diagnostic::new(origin, format!("`{input}` has no test rows (`all`)"))
                .help("predict another input, or split in another way"),
        );
    }
    if is_path(model) {
        let help = "a published model scores the rows of an ingest stage";
        problems.push(Diagnostic::new(origin, format!("`{input}` is a split stage")).help(help));
        return;
    }
    if let Some(("train", trained)) = find(stages, model)
        && let Some((trained_on, _)) = text(trained, "input")
        && trained_on != input
        && matches!(find(stages, trained_on), Some(("split", _)))
    {
        problems.push(
            Diagnostic::new(origin, format!("`{model}` was trained on the folds of `{trained_on}`, not of `{input}`"))
                .help(format!("predict `{trained_on}`, or an ingest stage")),
        );
    }
}
