//! Rules between stages: who may take whose output, and what must be said together.

mod deep;
mod scoring;

use super::tree::{Entry, Node, Origin, Value};
use super::{Diagnostic, Diagnostics};

/// Kinds a reference to another stage may point at.
struct Link {
    kind: &'static str,
    key: &'static str,
    targets: &'static [&'static str],
}

const LINKS: [Link; 6] = [
    Link { kind: "split", key: "input", targets: &["ingest"] },
    Link { kind: "train", key: "input", targets: &["split"] },
    Link { kind: "predict", key: "model", targets: &["train"] },
    Link { kind: "predict", key: "input", targets: &["split", "ingest"] },
    Link { kind: "evaluate", key: "input", targets: &["predict"] },
    Link { kind: "report", key: "input", targets: &["evaluate"] },
];

/// Checks the stages of one case, given in order with their references replaced.
pub fn check(stages: &[Entry], problems: &mut Diagnostics) {
    for (index, stage) in stages.iter().enumerate() {
        let Some((kind, options)) = kind_of(stage) else { continue };
        for link in LINKS.iter().filter(|link| link.kind == kind) {
            for (target, origin) in texts(options, link.key) {
                check_link(stages, index, link, (target, origin), problems);
            }
        }
        match kind {
            "split" => check_split(stage, options, problems),
            "train" => {
                check_train(stages, options, problems);
                deep::check(options, problems);
                scoring::check_gate(stages, stage, options, problems);
            }
            "predict" => {
                check_predict(stages, options, problems);
                scoring::check_predict(stages, options, problems);
            }
            "evaluate" => check_evaluate(stages, options, problems),
            _ => {}
        }
    }
}

fn kind_of(stage: &Entry) -> Option<(&str, &Node)> {
    match stage.node.entries() {
        [only] => Some((only.key.as_str(), &only.node)),
        _ => None,
    }
}

fn find<'a>(stages: &'a [Entry], id: &str) -> Option<(&'a str, &'a Node)> {
    stages.iter().find(|stage| stage.key == id).and_then(kind_of)
}

fn text<'a>(options: &'a Node, key: &str) -> Option<(&'a str, Origin)> {
    let node = &options.entry(key)?.node;
    node.text().map(|text| (text, node.origin))
}

/// A text, or the texts of a list.
fn texts<'a>(options: &'a Node, key: &str) -> Vec<(&'a str, Origin)> {
    let Some(entry) = options.entry(key) else { return Vec::new() };
    let nodes = std::iter::once(&entry.node).chain(entry.node.items());
    nodes.filter_map(|node| Some((node.text()?, node.origin))).collect()
}

/// A model with a slash is the directory of a published one, not a stage.
fn is_path(model: &str) -> bool {
    model.contains('/')
}

fn check_link(
    stages: &[Entry],
    index: usize,
    link: &Link,
    (target, origin): (&str, Origin),
    problems: &mut Diagnostics,
) {
    if link.key == "model" && is_path(target) {
        return;
    }
    let fits = |stage: &&Entry| kind_of(stage).is_some_and(|(kind, _)| link.targets.contains(&kind));
    let earlier: Vec<&str> = stages[..index].iter().filter(fits).map(|stage| stage.key.as_str()).collect();
    let expected = link.targets.join(" or ");
    let position = stages.iter().position(|stage| stage.key == target);
    let problem = match position {
        None => Diagnostic::new(origin, format!("there is no stage `{target}`")).nearest(target, &earlier),
        Some(position) if position == index => {
            Diagnostic::new(origin, format!("`{target}` cannot take its own output"))
        }
        Some(position) if position > index => Diagnostic::new(origin, format!("the stage `{target}` comes later"))
            .help("stages run in the order written; move it above this one"),
        Some(position) => match kind_of(&stages[position]) {
            Some((kind, _)) if !link.targets.contains(&kind) => {
                let message =
                    format!("`{target}` is a stage of kind {kind}; `{}` of {} needs {expected}", link.key, link.kind);
                Diagnostic::new(origin, message).nearest(target, &earlier)
            }
            _ => return,
        },
    };
    problems.push(problem);
}

fn check_split(stage: &Entry, options: &Node, problems: &mut Diagnostics) {
    const WAYS: [&str; 4] = ["holdout", "kfold", "column", "all"];
    let given: Vec<&Entry> = options.entries().iter().filter(|entry| WAYS.contains(&entry.key.as_str())).collect();
    let help = "write exactly one of holdout, kfold, column, all";
    match given[..] {
        [] => problems
            .push(Diagnostic::new(stage.origin, format!("`{}` does not say how to split", stage.key)).help(help)),
        [way] => check_folds(way, problems),
        [_, second, ..] => problems.push(Diagnostic::new(second.origin, "more than one way to split").help(help)),
    }
}

/// More models than this are a mistake.
const MAX_FOLDS: i64 = 10_000;

/// Folds and repeats are each within bounds by the schema; their product must be, too.
fn check_folds(way: &Entry, problems: &mut Diagnostics) {
    let number = |key: &str| match way.node.entry(key).map(|entry| &entry.node.value) {
        Some(Value::Int(number)) => *number,
        _ => 1,
    };
    if number("folds").saturating_mul(number("repeats")) > MAX_FOLDS {
        let message = format!("`folds` times `repeats` is more than {MAX_FOLDS}");
        problems.push(Diagnostic::new(way.origin, message).help("use fewer repeats, or several pipelines"));
    }
}

/// The ingest stage behind a split stage.
fn source<'a>(stages: &'a [Entry], split: &str) -> Option<(&'a str, &'a Node)> {
    let ("split", options) = find(stages, split)? else { return None };
    let (input, _) = text(options, "input")?;
    match find(stages, input)? {
        ("ingest", options) => Some((input, options)),
        _ => None,
    }
}

fn check_train(stages: &[Entry], options: &Node, problems: &mut Diagnostics) {
    let Some((split, origin)) = text(options, "input") else { return };
    if let Some((ingest, source)) = source(stages, split)
        && source.entry("target").is_none()
    {
        problems.push(
            Diagnostic::new(origin, format!("training needs a target, and `{ingest}` has none"))
                .help(format!("add `target: COLUMN` to `{ingest}`")),
        );
    }
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

fn check_predict(stages: &[Entry], options: &Node, problems: &mut Diagnostics) {
    let (Some((model, _)), Some((input, origin))) = (text(options, "model"), text(options, "input")) else { return };
    let Some(("split", split)) = find(stages, input) else { return };
    if split.entry("all").is_some() {
        problems.push(
            Diagnostic::new(origin, format!("`{input}` has no test rows (`all`)"))
                .help("predict another input, or split with holdout, kfold or column"),
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

/// Metrics need true values: the rows predicted must come with a target.
fn check_evaluate(stages: &[Entry], options: &Node, problems: &mut Diagnostics) {
    let Some((input, origin)) = text(options, "input") else { return };
    let Some(("predict", predict)) = find(stages, input) else { return };
    let Some((rows, _)) = text(predict, "input") else { return };
    if let Some(("ingest", source)) = find(stages, rows)
        && source.entry("target").is_none()
    {
        problems.push(
            Diagnostic::new(origin, format!("metrics need true values, and `{rows}` has no target"))
                .help(format!("add `target: COLUMN` to `{rows}`")),
        );
    }
}
