//! Rules of the train stage: options that contradict each other, and what publishing needs. Options that a method does not
//! use are not looked at.

use super::gate::Gate;
use crate::pipeline::tree::{Entry, Node, Value};
use crate::pipeline::{Diagnostic, Diagnostics, contains_reference, find, kind_of, text};

/// Checks a train stage among the stages of its case.
pub fn check(stage: &Entry, options: &Node, stages: &[Entry], problems: &mut Diagnostics) {
    check_target(stages, options, problems);
    check_rows(stages, options, problems);
    check_inducing(options, problems);
    check_noise(options, problems);
    check_deep(options, problems);
    check_gate(stages, stage, options, problems);
}

fn check_deep(options: &Node, problems: &mut Diagnostics) {
    let Some((method @ ("deep_gp" | "stride"), _)) = text(options, "method") else { return };
    check_draws(options, problems);
    check_until(options, problems);
    let Some(deep) = options.entry("deep").map(|entry| &entry.node) else { return };
    if method == "deep_gp" {
        check_hidden(deep, problems);
    }
    if let Some((architecture @ ("convolution" | "injective"), _)) = text(deep, "architecture") {
        check_width(deep, architecture, problems);
        check_bounds(deep, problems);
    }
}

/// Hidden layers at the inducing points need a method that has such points.
fn check_hidden(deep: &Node, problems: &mut Diagnostics) {
    if let Some(hidden) = deep.entry("hidden")
        && let Some(("sparse", origin)) = text(&hidden.node, "method")
    {
        let message = "`hidden: { method: sparse }` needs inducing points, and `deep_gp` has none";
        problems.push(Diagnostic::new(origin, message).help("use full or aca, or `method: stride`"));
    }
}

/// A local length and a slope are one number each.
fn check_width(deep: &Node, architecture: &str, problems: &mut Diagnostics) {
    if let Some(width) = deep.entry("width")
        && let Value::Int(outputs) = width.node.value
        && outputs > 1
    {
        let message = format!("`width` is {outputs}, but a hidden layer of `{architecture}` has one output");
        let help = "leave `width` out, or use `architecture: composition`";
        problems.push(Diagnostic::new(width.node.origin, message).help(help));
    }
}

/// The states that are kept come from the frozen chain, which is long enough where its length is not written.
fn check_draws(options: &Node, problems: &mut Diagnostics) {
    let Some(em) = options.entry("em").map(|entry| &entry.node) else { return };
    let Some(Entry { node: Node { value: Value::Int(draws), origin, .. }, .. }) = em.entry("draws") else { return };
    let Some(Value::Int(moves)) = em.entry("final_transitions").map(|entry| &entry.node.value) else { return };
    if *draws > 1 && draws > moves {
        let message = format!("`draws` is {draws}, but the frozen chain has only {moves} transitions to draw from");
        problems.push(Diagnostic::new(*origin, message).help("raise `final_transitions`, or lower `draws`"));
    }
}

/// What chains are to reach is measured on the frozen ones.
fn check_until(options: &Node, problems: &mut Diagnostics) {
    let Some(em) = options.entry("em").map(|entry| &entry.node) else { return };
    let (Some(until), Some(moves)) = (em.entry("until"), em.entry("final_transitions")) else { return };
    if until.node.value != Value::Null && moves.node.value == Value::Int(0) {
        let message = "`until` needs frozen chains to measure, and `final_transitions` is 0";
        let help = "raise `final_transitions`, or leave it or `until` out";
        problems.push(Diagnostic::new(moves.node.origin, message).help(help));
    }
}

fn check_bounds(deep: &Node, problems: &mut Diagnostics) {
    let (Some(low), Some(high)) = (deep.entry("u_min"), deep.entry("u_max")) else { return };
    let (Some(u_min), Some(u_max)) = (number(low), number(high)) else { return };
    if u_min >= u_max {
        let message = format!("`u_min` is {u_min}, which is not below `u_max`, {u_max}");
        let help = "the values of a hidden layer lie between the two: widen the range, or leave one out";
        problems.push(Diagnostic::new(low.node.origin, message).help(help));
    }
}

fn number(entry: &Entry) -> Option<f64> {
    match entry.node.value {
        Value::Int(value) => Some(value as f64),
        Value::Float(value) => Some(value),
        _ => None,
    }
}

/// The ingest stage behind a split stage, or behind the one whose training rows it divides again.
fn source<'a>(stages: &'a [Entry], split: &str) -> Option<(&'a str, &'a Node)> {
    let position = stages.iter().position(|stage| stage.key == split)?;
    let ("split", options) = kind_of(&stages[position])? else { return None };
    let (input, _) = text(options, "input")?;
    match find(stages, input)? {
        ("ingest", options) => Some((input, options)),
        // Only stages before it: others are refused elsewhere, and might lead in a circle.
        _ => source(&stages[..position], input),
    }
}

fn check_target(stages: &[Entry], options: &Node, problems: &mut Diagnostics) {
    let Some((split, origin)) = text(options, "input") else { return };
    if let Some((ingest, source)) = source(stages, split)
        && source.entry("target").is_none()
    {
        problems.push(
            Diagnostic::new(origin, format!("training needs a target, and `{ingest}` has none"))
                .help(format!("add `target: COLUMN` to `{ingest}`")),
        );
    }
}

/// Methods that take weights of rows, and those that take the known noise of rows.
const WITH_WEIGHTS: [&str; 7] = ["gp", "sparse_gp", "deep_gp", "stride", "ridge", "knn", "mean"];
const WITH_NOISE: [&str; 4] = ["gp", "sparse_gp", "deep_gp", "stride"];

/// Weights and known noise of rows need a method that can use them.
fn check_rows(stages: &[Entry], options: &Node, problems: &mut Diagnostics) {
    let Some((split, _)) = text(options, "input") else { return };
    let (Some((ingest, source)), Some((method, origin))) = (source(stages, split), text(options, "method")) else {
        return;
    };
    let has = |option: &str| source.entry(option).is_some_and(|entry| entry.node.value != Value::Null);
    for (option, methods) in [("weight", &WITH_WEIGHTS[..]), ("noise_std", &WITH_NOISE[..])] {
        if has(option) && !methods.contains(&method) {
            let message = format!("`{method}` does not take `{option}` of rows, and `{ingest}` has one");
            let known = methods.join(", ");
            let help = format!("use one of {known}, or leave `{option}` out of `{ingest}` (of a second ingest stage)");
            problems.push(Diagnostic::new(origin, message).help(help));
        }
    }
}

/// One noise, in one unit.
fn check_noise(options: &Node, problems: &mut Diagnostics) {
    if let Some(hyperparameters) = options.entry("hyperparameters")
        && hyperparameters.node.entry("noise").is_some_and(|noise| noise.node.value != Value::Null)
        && let Some(known) = hyperparameters.node.entry("noise_std")
    {
        let help = "`noise` is a variance in scaled units, `noise_std` a standard deviation in the target's: write one";
        problems.push(Diagnostic::new(known.origin, "`noise` and `noise_std` exclude each other").help(help));
    }
}

fn check_inducing(options: &Node, problems: &mut Diagnostics) {
    if let Some(inducing) = options.entry("inducing")
        && inducing.node.entry("rows").is_some()
        && let Some(count) = inducing.node.entry("count")
    {
        problems.push(Diagnostic::new(count.origin, "`count` and `rows` exclude each other"));
    }
    if let Some(rows) = options.entry("inducing").and_then(|inducing| inducing.node.entry("rows")) {
        let numbers = rows.node.to_json();
        let numbers = numbers.as_array().map_or(&[][..], Vec::as_slice);
        let repeated = numbers.iter().enumerate().find(|(index, number)| numbers[..*index].contains(number));
        if let Some((_, number)) = repeated {
            problems.push(Diagnostic::new(rows.origin, format!("`rows` names row {number} more than once")));
        } else if numbers.is_empty() {
            let help = "name at least one row, or let `count` choose";
            problems.push(Diagnostic::new(rows.origin, "`rows` is empty").help(help));
        }
    }
}

/// Checks the condition under which a model is published.
fn check_gate(stages: &[Entry], stage: &Entry, options: &Node, problems: &mut Diagnostics) {
    let Some((condition, origin)) = text(options, "publish_if") else { return };
    if let Err(detail) = Gate::parse(condition)
        && !contains_reference(condition)
    {
        let help = "write `METRIC < NUMBER` or `METRIC < published` (or <=, >, >=); join several with `and`";
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
