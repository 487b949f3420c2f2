//! Rules of the deep methods: options that contradict each other. Options that a method does not use are not looked at.

use super::text;
use crate::spec::tree::{Entry, Node, Value};
use crate::spec::{Diagnostic, Diagnostics};

/// Checks the options of a train stage.
pub fn check(options: &Node, problems: &mut Diagnostics) {
    let Some((method @ ("deep_gp" | "stride"), _)) = text(options, "method") else { return };
    check_draws(options, problems);
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

fn check_bounds(deep: &Node, problems: &mut Diagnostics) {
    let (Some(low), Some(high)) = (deep.entry("u_min"), deep.entry("u_max")) else { return };
    let (Some(u_min), Some(u_max)) = (number(low), number(high)) else { return };
    if u_min >= u_max {
        let message = format!("`u_min` is {u_min}, which is not below `u_max`, {u_max}");
        let help = "what a hidden layer says lies between the two: make room, or leave one out";
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
