//! Nodes back to YAML text, with masked values hidden: for the record of a run.

use super::{Node, Value, plain};
use std::fmt::Write as _;

/// The tree as YAML in block style.
pub fn to_yaml(node: &Node) -> String {
    let mut out = String::new();
    block(&mut out, node, 0);
    out
}

fn block(out: &mut String, node: &Node, indent: usize) {
    match &node.value {
        Value::Map(entries) => {
            for entry in entries {
                let _ = write!(out, "{:indent$}{}:", "", quoted(&entry.key));
                child(out, &entry.node, indent);
            }
        }
        Value::List(items) => {
            for item in items {
                let _ = write!(out, "{:indent$}-", "");
                child(out, item, indent);
            }
        }
        _ => {
            let _ = writeln!(out, "{:indent$}{}", "", inline(node));
        }
    }
}

fn child(out: &mut String, node: &Node, indent: usize) {
    let nested = match &node.value {
        Value::Map(entries) => !entries.is_empty(),
        Value::List(items) => items.iter().any(|item| matches!(item.value, Value::Map(_) | Value::List(_))),
        _ => false,
    };
    if nested {
        out.push('\n');
        block(out, node, indent + 2);
    } else {
        let _ = writeln!(out, " {}", inline(node));
    }
}

fn inline(node: &Node) -> String {
    if let Some(masked) = &node.masked {
        return quoted(masked);
    }
    match &node.value {
        Value::Null | Value::Unreadable => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Float(value) => float(*value),
        Value::Text(text) => quoted(text),
        Value::List(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::Map(_) => "{}".to_owned(),
    }
}

fn float(value: f64) -> String {
    if value.is_nan() {
        return ".nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    // Debug prints the shortest text that reads back the same, and always with a point or an exponent.
    format!("{value:?}")
}

/// The text bare where YAML would read it back as the same text, else as a JSON string (which YAML accepts).
pub fn quoted(text: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "_-./+".contains(c);
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric() || "_./".contains(c));
    let stays_text = matches!(plain(text), Ok(Value::Text(_)));
    if starts_well && stays_text && text.chars().all(safe) {
        text.to_owned()
    } else {
        serde_json::Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::Diagnostics;
    use crate::pipeline::tree::parse;

    #[test]
    fn reads_back_the_same() {
        let text =
            "a: 1\nb: [x, \"1\", 1.5, ~, \"\"]\nc:\n  d: {}\n  e:\n  - f: \"${x}: #\"\n  - [1, [2]]\n\"null\": 1e-6\n";
        let mut problems = Diagnostics::default();
        let first = parse(text, &mut problems).map(|node| to_yaml(&node)).unwrap_or_default();
        let second = parse(&first, &mut problems).map(|node| to_yaml(&node)).unwrap_or_default();
        assert!(problems.is_empty() && !first.is_empty());
        assert_eq!(first, second);
        let json = |text: &str| parse(text, &mut Diagnostics::default()).map(|node| node.to_json());
        assert_eq!(json(text), json(&first));
    }
}
