//! `--set path=value`: changes the tree before anything else looks at it.

use super::merge::{Exclusive, merge};
use super::tree::{Entry, Node, Origin, Value, parse};
use super::{Diagnostic, Diagnostics};

/// Applies the arguments in order.
pub fn apply(root: &mut Node, sets: &[String], exclusive: Exclusive<'_>, problems: &mut Diagnostics) {
    for (index, argument) in sets.iter().enumerate() {
        if let Err(problem) = apply_one(root, argument, Origin::Set(index), exclusive) {
            problems.push(problem);
        }
    }
}

fn apply_one(root: &mut Node, argument: &str, origin: Origin, exclusive: Exclusive<'_>) -> Result<(), Diagnostic> {
    let Some((path, text)) = argument.split_once('=') else {
        return Err(Diagnostic::new(origin, "no `=` in it").help("write --set name=value"));
    };
    let value = value(text, origin)?;
    let keys: Vec<&str> = path.split('.').collect();
    let keys = match keys[..] {
        ["seed"] => keys,
        [name] => vec!["params", name],
        _ => keys,
    };
    match keys[..] {
        ["seed"] => {}
        ["params", name] => require(root, "params", name, origin)?,
        ["matrix", name] => require(root, "matrix", name, origin)?,
        ["stages", stage, _, ..] => require(root, "stages", stage, origin)?,
        _ => {
            return Err(Diagnostic::new(origin, format!("`{path}` cannot be set"))
                .help("seed, params.NAME (or just NAME), matrix.NAME and stages.STAGE.KIND.OPTION can"));
        }
    }
    let value = match (keys[0], &value.value) {
        ("matrix", Value::List(_)) | ("params" | "stages" | "seed", _) => value,
        _ => Node::new(Value::List(vec![value]), origin),
    };
    let overlay = keys
        .iter()
        .rev()
        .fold(value, |node, key| Node::new(Value::Map(vec![Entry { key: (*key).to_owned(), origin, node }]), origin));
    // The file's own mappings keep their places; only what was set points at the command line.
    let mut merged = merge(root, &overlay, exclusive);
    restore_origins(&mut merged, root);
    *root = merged;
    Ok(())
}

fn value(text: &str, origin: Origin) -> Result<Node, Diagnostic> {
    if text.trim().is_empty() {
        return Ok(Node::new(Value::Text(text.to_owned()), origin));
    }
    let mut problems = Diagnostics::default();
    let mut node = parse(text, &mut problems).ok_or_else(|| first(&problems, origin))?;
    if !problems.is_empty() {
        return Err(first(&problems, origin));
    }
    relocate(&mut node, origin);
    Ok(node)
}

fn first(problems: &Diagnostics, origin: Origin) -> Diagnostic {
    let problem = problems.iter().next().map_or_else(|| "not valid YAML".to_owned(), |problem| problem.message.clone());
    Diagnostic::new(origin, problem)
}

fn require(root: &Node, section: &str, name: &str, origin: Origin) -> Result<(), Diagnostic> {
    let known: Vec<&str> = root
        .entry(section)
        .map_or(&[][..], |entry| entry.node.entries())
        .iter()
        .map(|entry| entry.key.as_str())
        .collect();
    if known.contains(&name) {
        return Ok(());
    }
    Err(Diagnostic::new(origin, format!("the pipeline has no `{section}.{name}`")).nearest(name, &known))
}

fn relocate(node: &mut Node, origin: Origin) {
    node.origin = origin;
    match &mut node.value {
        Value::List(items) => items.iter_mut().for_each(|item| relocate(item, origin)),
        Value::Map(entries) => entries.iter_mut().for_each(|entry| {
            entry.origin = origin;
            relocate(&mut entry.node, origin);
        }),
        _ => {}
    }
}

/// Gives mappings (and keys) that the file has, too, the places they have there; what was set keeps its own.
fn restore_origins(node: &mut Node, written: &Node) {
    if let (Value::Map(entries), Value::Map(_)) = (&mut node.value, &written.value) {
        node.origin = written.origin;
        for entry in entries {
            if let Some(known) = written.entry(&entry.key) {
                let both = matches!((&entry.node.value, &known.node.value), (Value::Map(_), Value::Map(_)));
                if both || !matches!(entry.node.origin, Origin::Set(_)) {
                    entry.origin = known.origin;
                }
                restore_origins(&mut entry.node, &known.node);
            }
        }
    }
}
