//! What a run was given, for its record: the parameters, and what `--set` changed beside them.

use super::Diagnostics;
use super::reference::{Scope, substitute};
use super::tree::{Node, Origin, Value};
use serde_json::Value as Json;

/// A parameter of a run, or an option that was set on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// The shortest name that `--set` knows it by.
    pub name: String,
    /// As it may be shown: what came from the environment is masked.
    pub value: String,
    /// Whether the command line has set it.
    pub is_set: bool,
}

/// The parameters in the order of the file, then the paths that were set, in the order of the command line.
pub fn given(root: &Node, sets: &[String], scope: &Scope<'_>) -> Vec<Param> {
    let of_file = scope.params.iter().map(|(name, node)| Param {
        // `--set seed=1` means the seed of the run.
        name: if name == "seed" { format!("params.{name}") } else { name.clone() },
        value: shown(node),
        is_set: matches!(node.origin, Origin::Set(_)),
    });
    let mut given: Vec<Param> = of_file.collect();
    for path in sets.iter().filter_map(|set| Some(set.split_once('=')?.0)) {
        let keys: Vec<&str> = path.split('.').collect();
        let is_param = keys[0] == "params" || (keys.len() == 1 && path != "seed");
        if is_param || given.iter().any(|known| known.name == path) {
            continue;
        }
        if let Some(node) = root.find(&keys) {
            // Matrix values differ from case to case: references to them stay as they are.
            let node = substitute(node, scope, &mut Diagnostics::default());
            given.push(Param { name: path.to_owned(), value: shown(&node), is_set: true });
        }
    }
    given
}

/// A value on one line.
fn shown(node: &Node) -> String {
    node.shown().unwrap_or_else(|| masked_json(node).to_string())
}

fn masked_json(node: &Node) -> Json {
    match (&node.masked, &node.value) {
        (Some(mask), _) => Json::from(mask.as_str()),
        (None, Value::List(items)) => items.iter().map(masked_json).collect(),
        (None, Value::Map(entries)) => {
            entries.iter().map(|entry| (entry.key.clone(), masked_json(&entry.node))).collect()
        }
        _ => node.to_json(),
    }
}
