//! Rules of the explain stage: which rows its model may be explained with, and that something is asked for.

use crate::pipeline::tree::{Entry, Node, Value};
use crate::pipeline::{Diagnostic, Diagnostics};
use crate::stages::predict::check_rows;

/// What is left out with 0.
const PARTS: [&str; 4] = ["repeats", "grid", "samples", "sensitivities"];

/// Checks an explain stage among the stages of its case.
pub fn check(_: &Entry, options: &Node, stages: &[Entry], problems: &mut Diagnostics) {
    check_rows(stages, options, problems);
    let nothing = |key: &&'static str| options.entry(key).is_some_and(|entry| entry.node.value == Value::Int(0));
    if PARTS.iter().all(nothing) {
        let help = "leave one of them out, or the stage";
        let message = "`repeats`, `grid`, `samples` and `sensitivities` are all 0: there is nothing to explain";
        problems.push(Diagnostic::new(options.origin, message).help(help));
    }
    if let Some(features) = options.entry("features")
        && matches!(features.node.value, Value::List(_))
        && features.node.items().is_empty()
    {
        let help = "name some, or leave it out for all of them";
        problems.push(Diagnostic::new(features.origin, "`features` is empty").help(help));
    }
}
