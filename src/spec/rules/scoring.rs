//! Rules of scoring and publishing: what only makes sense for the rows of an input, and what a gate needs.

use super::{find, kind_of, text};
use crate::spec::gate::Gate;
use crate::spec::language::Level;
use crate::spec::tree::{Entry, Node, Value};
use crate::spec::{Diagnostic, Diagnostics};
use std::collections::BTreeSet;

/// Columns that predictions and scores have of their own.
const TAKEN: [&str; 12] =
    ["run_id", "stage", "case", "fold", "split", "key", "row", "y_true", "y_mean", "y_std", "f_std", "noise_std"];

/// Options that are for the rows of an ingest stage.
const FOR_SCORING: [&str; 3] = ["on_invalid", "keep", "output"];

/// Checks what a predict stage says about scoring.
pub fn check_predict(stages: &[Entry], options: &Node, problems: &mut Diagnostics) {
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
    if let Some(keep) = options.entry("keep") {
        check_keep(&keep.node, problems);
    }
    if let Some(intervals) = options.entry("intervals") {
        check_intervals(&intervals.node, problems);
    }
    if let Some((output, origin)) = text(options, "output")
        && !crate::spec::reference::contains(output)
        && !names_parquet(output)
    {
        let help = "end it in `.parquet` for one file, or in `/` for a directory with one file per input file";
        problems.push(Diagnostic::new(origin, format!("`{output}` is not the name of a Parquet file")).help(help));
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
            && !Level(level).has_name()
        {
            let message = format!("the level {level} in `intervals` has more than six decimals");
            problems.push(Diagnostic::new(item.origin, message).help("round it: columns are named by their level"));
        }
    }
}

fn check_keep(keep: &Node, problems: &mut Diagnostics) {
    let mut seen = BTreeSet::new();
    for item in keep.items() {
        let Some(name) = item.text() else { continue };
        if TAKEN.contains(&name) || name.starts_with("y_q") {
            let message = format!("`{name}` in `keep` has the name of a column of the predictions");
            problems.push(Diagnostic::new(item.origin, message).help("rename the column in the input"));
        } else if !seen.insert(name) {
            problems.push(Diagnostic::new(item.origin, format!("`{name}` is in `keep` twice")));
        }
    }
}

/// Checks the condition under which a model is published.
pub fn check_gate(stages: &[Entry], stage: &Entry, options: &Node, problems: &mut Diagnostics) {
    let Some((condition, origin)) = text(options, "publish_if") else { return };
    if let Err(detail) = Gate::parse(condition)
        && !crate::spec::reference::contains(condition)
    {
        let help = "write `METRIC < NUMBER` (or <=, >, >=); join several with `and`";
        problems.push(Diagnostic::new(origin, format!("`publish_if`: {detail}")).help(help));
    }
    if options.entry("publish").is_none() {
        let help = "add `publish: DIRECTORY`, or leave it out";
        problems.push(Diagnostic::new(origin, "`publish_if` without `publish`").help(help));
    }
    let split = text(options, "input").and_then(|(id, _)| find(stages, id));
    let trains_on_all = matches!(split, Some(("split", split)) if split.entry("all").is_some());
    let measured: Vec<&str> = stages.iter().filter_map(|other| measures(stages, other)).collect();
    let is_measured = if trains_on_all { !measured.is_empty() } else { measured.contains(&stage.key.as_str()) };
    if !is_measured {
        let message = format!("`publish_if` needs test metrics, and no evaluate stage measures `{}`", stage.key);
        let help = "add a predict stage with this model and its split stage as `input`, and an evaluate stage; where \
                    every row trains (`all`), measure a trial of the model that is trained on a part of the rows";
        problems.push(Diagnostic::new(origin, message).help(help));
    }
}

/// The model of which this is an evaluate stage of test rows, if it is one.
fn measures<'a>(stages: &'a [Entry], stage: &'a Entry) -> Option<&'a str> {
    let ("evaluate", evaluate) = kind_of(stage)? else { return None };
    let ("predict", predict) = find(stages, text(evaluate, "input")?.0)? else { return None };
    let ("split", _) = find(stages, text(predict, "input")?.0)? else { return None };
    text(predict, "model").map(|(model, _)| model)
}
