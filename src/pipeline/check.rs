//! Checks a tree against the JSON Schema of the language and says what is wrong where, all of it at once.
//!
//! Serde stops at the first problem and knows no positions; this walk finds every unknown key, wrong type and missing
//! key first, so that serde, which comes after, has nothing left to complain about. It understands the part of JSON
//! Schema that our types generate.

use super::document::NAME_PATTERN;
use super::reference;
use super::tree::{Node, Origin, Value, plain};
use super::{Diagnostic, Diagnostics};
use serde_json::Value as Json;

/// Walks one document.
pub struct Checker<'a> {
    /// The root schema, for `$ref`.
    pub root: &'a Json,
    pub problems: &'a mut Diagnostics,
}

impl Checker<'_> {
    /// Checks `node`, known to the reader as `name` and written after the key at `key`.
    pub fn check(&mut self, node: &Node, schema: &Json, name: &str, key: Origin) {
        let schema = resolve(self.root, schema);
        // A reference may stand for any scalar; one that is still here after replacement was reported then.
        if node.text().is_some_and(reference::contains) || node.value == Value::Unreadable {
            return;
        }
        if let Some(options) = alternatives(schema) {
            self.check_alternatives(node, schema, &options, name, key);
            return;
        }
        if let Some(words) = words(schema) {
            self.check_word(node, &words, name);
            return;
        }
        if let Some(expected) = schema.get("const") {
            if node.to_json() != *expected {
                self.problem(node.origin, format!("`{name}` must be {expected}"));
            }
            return;
        }
        self.check_type(node, schema, name, key);
    }

    fn check_alternatives(&mut self, node: &Node, schema: &Json, options: &[&Json], name: &str, key: Origin) {
        let optional = options.iter().any(|option| is_null(option));
        let others: Vec<&Json> = options.iter().copied().filter(|option| !is_null(option)).collect();
        if optional && node.value == Value::Null {
            return;
        }
        if let [only] = others[..] {
            self.check(node, only, name, key);
            return;
        }
        // Words, beside which there may be mappings that say more: `rbf`, or `{ rational_quadratic: { alpha: 2 } }`.
        let (spoken, others): (Vec<&Json>, Vec<&Json>) =
            others.into_iter().partition(|option| words(resolve(self.root, option)).is_some());
        if !spoken.is_empty() && (others.is_empty() || !matches!(node.value, Value::Map(_) | Value::List(_))) {
            let words: Vec<&str> =
                spoken.iter().filter_map(|option| words(resolve(self.root, option))).flatten().collect();
            self.check_word(node, &words, name);
            return;
        }
        if let Some(kinds) = tagged(self.root, &others) {
            self.check_tagged(node, &kinds, name, key);
            return;
        }
        // Text, or a mapping that says more: what is wrong is told by the one that is meant.
        if let [text, mapping] = others[..]
            && [text, mapping].map(|option| resolve(self.root, option)["type"].as_str())
                == [Some("string"), Some("object")]
        {
            let meant = if matches!(node.value, Value::Map(_)) { mapping } else { text };
            self.check(node, meant, name, key);
            return;
        }
        let fits = others.iter().any(|option| {
            let mut found = Diagnostics::default();
            Checker { root: self.root, problems: &mut found }.check(node, option, name, key);
            found.is_empty()
        });
        if !fits {
            let expected = schema.get("description").and_then(Json::as_str).unwrap_or("something else");
            let problem = format!("`{name}` is {}, expected {expected}", node.kind());
            self.problem(place(node, key), problem);
        }
    }

    /// A mapping with exactly one key that names a kind: a stage, a sampler.
    fn check_tagged(&mut self, node: &Node, kinds: &[(&str, &Json)], name: &str, key: Origin) {
        let known: Vec<&str> = kinds.iter().map(|(kind, _)| *kind).collect();
        let one_of = || format!("write exactly one of {}", known.join(", "));
        if !matches!(node.value, Value::Map(_)) {
            let problem = Diagnostic::new(place(node, key), format!("`{name}` is {}", node.kind())).help(one_of());
            self.problems.push(problem);
            return;
        }
        for entry in node.entries() {
            match kinds.iter().find(|(kind, _)| *kind == entry.key) {
                Some((kind, schema)) => self.check(&entry.node, schema, kind, entry.origin),
                None => self.problems.push(
                    Diagnostic::new(entry.origin, format!("unknown kind `{}` in `{name}`", entry.key))
                        .nearest(&entry.key, &known),
                ),
            }
        }
        if node.entries().len() != 1 {
            let count = node.entries().len();
            self.problems.push(Diagnostic::new(key, format!("`{name}` has {count} kinds")).help(one_of()));
        }
    }

    fn check_word(&mut self, node: &Node, words: &[&str], name: &str) {
        let Some(written) = node.scalar_text() else {
            let problem = format!("`{name}` is {}, expected one of {}", node.kind(), words.join(", "));
            self.problem(node.origin, problem);
            return;
        };
        if !words.contains(&written.as_str()) {
            let shown = node.shown().unwrap_or_default();
            let problem = format!("`{shown}` is not a value of `{name}`");
            self.problems.push(Diagnostic::new(node.origin, problem).nearest(&written, words));
        }
    }

    fn check_type(&mut self, node: &Node, schema: &Json, name: &str, key: Origin) {
        let types: Vec<&str> = match schema.get("type") {
            Some(Json::String(one)) => vec![one],
            Some(Json::Array(several)) => several.iter().filter_map(Json::as_str).collect(),
            _ => return,
        };
        match &node.value {
            Value::Null if types.contains(&"null") => {}
            Value::Bool(_) if types.contains(&"boolean") => {}
            Value::Text(text) if types.contains(&"string") => self.check_pattern(node, text, schema, name),
            Value::Int(value) if types.contains(&"integer") || types.contains(&"number") => {
                self.check_range(node, *value as f64, schema, name);
            }
            Value::Float(value) if types.contains(&"number") => self.check_range(node, *value, schema, name),
            Value::List(items) if types.contains(&"array") => self.check_items(items, schema, name, key),
            Value::Map(_) if types.contains(&"object") => self.check_keys(node, schema, name, key),
            _ => {
                let expected: Vec<&str> = types.iter().filter(|t| **t != "null").map(|t| type_name(t)).collect();
                let written = match (&node.value, node.shown()) {
                    (Value::Null, _) => "empty".to_owned(),
                    (_, Some(text)) => format!("`{text}`, {}", node.kind()),
                    (_, None) => node.kind().to_owned(),
                };
                let problem = format!("`{name}` is {written}, expected {}", expected.join(" or "));
                let problem = Diagnostic::new(place(node, key), problem);
                let quote_it = expected == ["text"] && node.scalar_text().is_some() && node.value != Value::Null;
                self.problems.push(match () {
                    () if quote_it => problem.help("put it in quotes"),
                    () if fits_unquoted(node, &types) => problem.help("write it without quotes"),
                    () => problem,
                });
            }
        }
    }

    fn check_pattern(&mut self, node: &Node, text: &str, schema: &Json, name: &str) {
        if text.is_empty() && schema.get("minLength").is_some() {
            self.problem(node.origin, format!("`{name}` is empty"));
        }
        if schema.get("pattern").and_then(Json::as_str) == Some(NAME_PATTERN) && !is_name(text) {
            self.problems.push(Diagnostic::new(node.origin, format!("`{text}` is not a valid {name}")).help(NAME_HELP));
        }
    }

    fn check_range(&mut self, node: &Node, value: f64, schema: &Json, name: &str) {
        let bound = |key: &str| schema.get(key).and_then(Json::as_f64);
        let shown = |limit: f64| limit.to_string();
        let broken = if !value.is_finite() {
            Some("a finite number".to_owned())
        } else if let Some(limit) = bound("minimum").filter(|limit| value < *limit) {
            Some(format!("at least {}", shown(limit)))
        } else if let Some(limit) = bound("maximum").filter(|limit| value > *limit) {
            Some(format!("at most {}", shown(limit)))
        } else if let Some(limit) = bound("exclusiveMinimum").filter(|limit| value <= *limit) {
            Some(format!("greater than {}", shown(limit)))
        } else {
            bound("exclusiveMaximum").filter(|limit| value >= *limit).map(|limit| format!("less than {}", shown(limit)))
        };
        if let Some(expected) = broken {
            let written = node.shown().unwrap_or_default();
            self.problem(node.origin, format!("`{name}` is {written}, must be {expected}"));
        }
    }

    fn check_items(&mut self, items: &[Node], schema: &Json, name: &str, key: Origin) {
        let least = schema.get("minItems").and_then(Json::as_u64).unwrap_or(0);
        if (items.len() as u64) < least {
            self.problem(key, format!("`{name}` is empty, needs at least {least}"));
        }
        if let Some(schema) = schema.get("items") {
            for item in items {
                self.check(item, schema, name, item.origin);
            }
        }
    }

    fn check_keys(&mut self, node: &Node, schema: &Json, name: &str, key: Origin) {
        let empty = serde_json::Map::new();
        let properties = schema.get("properties").and_then(Json::as_object).unwrap_or(&empty);
        let known: Vec<&str> = properties.keys().map(String::as_str).collect();
        for entry in node.entries() {
            match (properties.get(&entry.key), schema.get("additionalProperties")) {
                (Some(schema), _) => self.check(&entry.node, schema, &entry.key, entry.origin),
                (None, Some(Json::Object(_))) => {
                    self.check(&entry.node, &schema["additionalProperties"], &entry.key, entry.origin);
                }
                (None, _) => {
                    let problem = Diagnostic::new(entry.origin, format!("unknown key `{}` in `{name}`", entry.key));
                    self.problems.push(if entry.key == "<<" {
                        problem.help("YAML 1.2 has no merge keys; `defaults:` holds options that stages share")
                    } else {
                        problem.nearest(&entry.key, &known)
                    });
                }
            }
        }
        if schema.get("minProperties").is_some() && node.entries().is_empty() {
            self.problem(key, format!("`{name}` is empty"));
        }
        let required = schema.get("required").and_then(Json::as_array);
        for missing in required.into_iter().flatten().filter_map(Json::as_str) {
            if node.entry(missing).is_none() {
                let description = properties.get(missing).and_then(|property| property.get("description"));
                let problem = Diagnostic::new(key, format!("`{name}` needs the key `{missing}`"));
                self.problems.push(match description.and_then(Json::as_str) {
                    Some(text) => problem.help(format!("{missing}: {text}")),
                    None => problem,
                });
            }
        }
    }

    fn problem(&mut self, origin: Origin, message: String) {
        self.problems.push(Diagnostic::new(origin, message));
    }
}

/// Names become names of directories, which may not be much longer.
const LONGEST_NAME: usize = 100;

/// What a name should be.
pub const NAME_HELP: &str =
    "use lower-case letters, digits, `_` and `-`, starting with a letter; at most 100 characters";

/// Whether the text may name a pipeline, a stage, a parameter or a matrix variable.
pub fn is_name(text: &str) -> bool {
    text.len() <= LONGEST_NAME
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-')
}

/// Follows `$ref`.
pub fn resolve<'a>(root: &'a Json, schema: &'a Json) -> &'a Json {
    let target = schema.get("$ref").and_then(Json::as_str).and_then(|path| path.strip_prefix('#'));
    target.and_then(|path| root.pointer(path)).unwrap_or(schema)
}

/// A mapping or list is pointed at by its key; a scalar by itself; nothing by its key.
fn place(node: &Node, key: Origin) -> Origin {
    match node.value {
        Value::Map(_) | Value::List(_) | Value::Null => key,
        _ => node.origin,
    }
}

/// Whether it is only the quotes that make this text.
fn fits_unquoted(node: &Node, types: &[&str]) -> bool {
    let plain = node.text().filter(|_| node.masked.is_none()).and_then(|text| plain(text).ok());
    match plain {
        Some(Value::Bool(_)) => types.contains(&"boolean"),
        Some(Value::Int(_)) => types.contains(&"integer") || types.contains(&"number"),
        Some(Value::Float(_)) => types.contains(&"number"),
        _ => false,
    }
}

fn alternatives(schema: &Json) -> Option<Vec<&Json>> {
    let options = schema.get("anyOf").or_else(|| schema.get("oneOf"))?.as_array()?;
    let all_words = options.iter().all(|option| option.get("const").is_some());
    (!all_words).then(|| options.iter().collect())
}

/// The words of an enumeration, written with or without descriptions.
fn words(schema: &Json) -> Option<Vec<&str>> {
    if let Some(list) = schema.get("enum").and_then(Json::as_array) {
        return Some(list.iter().filter_map(Json::as_str).collect());
    }
    let options = schema.get("oneOf")?.as_array()?;
    options.iter().map(|option| option.get("const").and_then(Json::as_str)).collect()
}

/// The kinds of an externally tagged union: every option is an object with one required property.
fn tagged<'a>(root: &'a Json, options: &[&'a Json]) -> Option<Vec<(&'a str, &'a Json)>> {
    let kind = |option: &&'a Json| {
        let object = resolve(root, option).get("properties")?.as_object()?;
        let mut properties = object.iter();
        match (properties.next(), properties.next()) {
            (Some((kind, schema)), None) => Some((kind.as_str(), schema)),
            _ => None,
        }
    };
    options.iter().map(kind).collect()
}

fn is_null(schema: &Json) -> bool {
    schema.get("type").and_then(Json::as_str) == Some("null")
}

fn type_name(name: &str) -> &str {
    match name {
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        "string" => "text",
        "array" => "a list",
        "object" => "a mapping",
        other => other,
    }
}
