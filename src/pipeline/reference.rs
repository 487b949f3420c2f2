//! `${params.x}`, `${matrix.x}`, `${env.NAME}` and `${env.NAME:-default}` inside text, and `$$` for a dollar.

use super::tree::{Node, Origin, Value};
use super::{Diagnostic, Diagnostics};
use std::cell::{Cell, RefCell};

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
    Plain(&'a str),
    Dollar,
    Reference(&'a str),
}

/// Whether the text refers to anything.
pub fn contains(text: &str) -> bool {
    parts(text).is_ok_and(|parts| parts.iter().any(|part| matches!(part, Part::Reference(_))))
}

fn parts(text: &str) -> Result<Vec<Part<'_>>, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('$') {
        let (before, after) = rest.split_at(start);
        if !before.is_empty() {
            parts.push(Part::Plain(before));
        }
        if let Some(tail) = after.strip_prefix("$$") {
            parts.push(Part::Dollar);
            rest = tail;
        } else if let Some(tail) = after.strip_prefix("${") {
            let end = tail.find('}').ok_or("`${` without its `}`; write `$$` for a dollar")?;
            parts.push(Part::Reference(&tail[..end]));
            rest = &tail[end + 1..];
        } else {
            parts.push(Part::Plain("$"));
            rest = &after[1..];
        }
    }
    if !rest.is_empty() {
        parts.push(Part::Plain(rest));
    }
    Ok(parts)
}

/// What references may refer to.
pub struct Scope<'a> {
    pub params: &'a [(String, Node)],
    /// The case's matrix values; none where the matrix is not known yet.
    pub matrix: Option<&'a [(String, Node)]>,
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Bytes that may still be put in place of references; none once there were too many.
    pub room: &'a Cell<Option<usize>>,
    /// What was taken from the environment.
    pub secrets: &'a RefCell<Vec<String>>,
}

/// The tree with every reference replaced. What cannot be replaced is reported and stays as it is.
pub fn substitute(node: &Node, scope: &Scope<'_>, problems: &mut Diagnostics) -> Node {
    match &node.value {
        Value::Text(text) => substitute_text(node, text, scope, problems),
        Value::List(items) => {
            let items = items.iter().map(|item| substitute(item, scope, problems)).collect();
            Node { value: Value::List(items), ..node.clone() }
        }
        Value::Map(entries) => {
            let replace = |entry: &super::tree::Entry, problems: &mut Diagnostics| super::tree::Entry {
                node: substitute(&entry.node, scope, problems),
                ..entry.clone()
            };
            let entries = entries.iter().map(|entry| replace(entry, problems)).collect();
            Node { value: Value::Map(entries), ..node.clone() }
        }
        _ => node.clone(),
    }
}

fn substitute_text(node: &Node, text: &str, scope: &Scope<'_>, problems: &mut Diagnostics) -> Node {
    let parts = match parts(text) {
        Ok(parts) => parts,
        Err(problem) => {
            problems.push(Diagnostic::new(node.origin, problem));
            return node.clone();
        }
    };
    // A scalar that is nothing but one reference takes the type of its value.
    if let [Part::Reference(reference)] = parts[..] {
        return scope.look_up(reference, node.origin, problems).unwrap_or_else(|| node.clone());
    }
    let mut out = String::new();
    let mut shown = String::new();
    let (mut hidden, mut complete) = (false, true);
    for part in parts {
        let (value, masked) = match part {
            Part::Plain(plain) => (plain.to_owned(), None),
            Part::Dollar => ("$".to_owned(), None),
            Part::Reference(reference) => {
                let Some(found) = scope.look_up(reference, node.origin, problems) else {
                    complete = false;
                    continue;
                };
                (found.scalar_text().unwrap_or_default(), found.masked)
            }
        };
        hidden |= masked.is_some();
        shown.push_str(masked.as_deref().unwrap_or(&value));
        out.push_str(&value);
    }
    if !complete {
        return node.clone();
    }
    Node { value: Value::Text(out), origin: node.origin, masked: hidden.then_some(shown) }
}

/// What is written in place of a value from the environment.
pub const MASK: &str = "***";

impl Scope<'_> {
    fn look_up(&self, reference: &str, origin: Origin, problems: &mut Diagnostics) -> Option<Node> {
        let found = match reference.split_once('.') {
            Some(("params", name)) => named(reference, name, self.params, origin),
            Some(("matrix", name)) => match self.matrix {
                Some(values) => named(reference, name, values, origin),
                None => Err(Diagnostic::new(origin, format!("`${{{reference}}}` cannot be used here"))
                    .help("matrix values exist inside stages only")),
            },
            Some(("env", name)) => self.environment(name, origin),
            _ => Err(Diagnostic::new(origin, format!("`${{{reference}}}` is not a reference"))
                .help("write ${params.x}, ${matrix.x}, ${env.NAME} or ${env.NAME:-default}; $$ is a dollar")),
        };
        let node = found.map_err(|problem| problems.push(problem)).ok()?;
        self.charge(&node, problems).then_some(node)
    }

    /// Ends the growth of parameters that consist of parameters that consist of parameters.
    fn charge(&self, node: &Node, problems: &mut Diagnostics) -> bool {
        // Without room the growth has been reported, at the reference that was too much.
        let Some(room) = self.room.get() else { return false };
        self.room.set(room.checked_sub(node.text().map_or(0, str::len)));
        if self.room.get().is_none() {
            problems.push(
                Diagnostic::new(node.origin, "the file grows too large when references are replaced")
                    .help("use shorter parameters, or fewer references"),
            );
        }
        self.room.get().is_some()
    }

    fn environment(&self, name: &str, origin: Origin) -> Result<Node, Diagnostic> {
        let (name, default) = match name.split_once(":-") {
            Some((name, default)) => (name, Some(default.to_owned())),
            None => (name, None),
        };
        let (text, masked) = if let Some(text) = (self.env)(name) {
            let mut secrets = self.secrets.borrow_mut();
            if !secrets.contains(&text) {
                secrets.push(text.clone());
            }
            (text, Some(MASK.to_owned()))
        } else if let Some(default) = default {
            (default, None)
        } else {
            return Err(Diagnostic::new(origin, format!("the environment variable {name} is not set"))
                .help(format!("set it, or write ${{env.{name}:-default}}")));
        };
        // The environment holds text only; read it as an unquoted scalar so that numbers are numbers.
        let value = super::tree::plain(&text).unwrap_or(Value::Text(text));
        Ok(Node { value, origin, masked })
    }
}

fn named(reference: &str, name: &str, values: &[(String, Node)], origin: Origin) -> Result<Node, Diagnostic> {
    if let Some((_, found)) = values.iter().find(|(known, _)| known == name) {
        return Ok(Node { origin, ..found.clone() });
    }
    let known: Vec<&str> = values.iter().map(|(known, _)| known.as_str()).collect();
    let problem = Diagnostic::new(origin, format!("`${{{reference}}}` is not defined"));
    Err(match reference.split_once('.') {
        _ if !known.is_empty() => problem.nearest(name, &known),
        Some((section, _)) => problem.help(format!("define it under `{section}:`, before it is used")),
        None => problem,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_text() {
        assert_eq!(
            parts("a$$b${x.y}$c"),
            Ok(vec![
                Part::Plain("a"),
                Part::Dollar,
                Part::Plain("b"),
                Part::Reference("x.y"),
                Part::Plain("$"),
                Part::Plain("c"),
            ])
        );
        assert!(parts("${x").is_err());
        assert!(!contains("$$ {x}"));
        assert!(contains("${x}"));
    }

    #[test]
    fn types_and_masks() {
        let params = vec![("m".to_owned(), Node::new(Value::Int(50), Origin::START))];
        let env = |name: &str| (name == "SECRET").then(|| "s3cr3t".to_owned());
        let (room, secrets) = (Cell::new(Some(1000)), RefCell::default());
        let scope = Scope { params: &params, matrix: None, env: &env, room: &room, secrets: &secrets };
        let mut problems = Diagnostics::default();
        let mut replace =
            |text: &str| substitute(&Node::new(Value::Text(text.into()), Origin::START), &scope, &mut problems);
        assert_eq!(replace("${params.m}").value, Value::Int(50));
        assert_eq!(replace("m=${params.m}").value, Value::Text("m=50".into()));
        let secret = replace("x/${env.SECRET}/y");
        assert_eq!(secret.text(), Some("x/s3cr3t/y"));
        assert_eq!(secret.masked.as_deref(), Some("x/***/y"));
        assert_eq!(replace("${env.OTHER:-3}").value, Value::Int(3));
        assert_eq!(secrets.take(), ["s3cr3t"]);
        assert!(problems.is_empty());
    }
}
