//! The cases of a pipeline: every combination of the matrix, less `exclude`, and `include` after them.

use super::check::is_name;
use super::tree::{Node, Origin};
use super::{Diagnostic, Diagnostics};

/// More cases than this are a mistake.
const MAX_CASES: usize = 10_000;

/// The values of one case, in the order of the matrix.
pub type Values = Vec<(String, Node)>;

/// All cases; one without values when there is no matrix.
pub fn cases(matrix: Option<&Node>, problems: &mut Diagnostics) -> Vec<Values> {
    let Some(matrix) = matrix else { return vec![Vec::new()] };
    let variables: Vec<(&str, Origin, &[Node])> = matrix
        .entries()
        .iter()
        .filter(|entry| entry.key != "include" && entry.key != "exclude")
        .map(|entry| (entry.key.as_str(), entry.origin, entry.node.items()))
        .collect();
    for (name, origin, _) in &variables {
        if !is_name(name) {
            problems.push(super::load::bad_name(*origin, name, "matrix variable"));
        }
    }
    let names: Vec<&str> = variables.iter().map(|(name, ..)| *name).collect();
    let excluded = patterns(matrix, "exclude", &names, false, problems);
    let included = patterns(matrix, "include", &names, true, problems);
    let count = variables.iter().map(|(_, _, items)| items.len()).try_fold(1_usize, usize::checked_mul);
    if count.is_none_or(|count| count > MAX_CASES) {
        problems.push(too_many(matrix));
        return Vec::new();
    }
    // Said already, and combinations of it would only lead to more messages.
    if variables.iter().any(|(_, _, items)| items.is_empty() || items.iter().any(|item| item.scalar_text().is_none())) {
        return Vec::new();
    }
    let mut cases: Vec<Values> = if names.is_empty() { Vec::new() } else { vec![Vec::new()] };
    for (name, _, items) in &variables {
        let extended = |case: &Values| {
            let case = case.clone();
            items.iter().map(move |item| [case.clone(), vec![((*name).to_owned(), item.clone())]].concat())
        };
        cases = cases.iter().flat_map(extended).collect();
    }
    cases.retain(|case| !excluded.iter().any(|pattern| matches(case, pattern)));
    cases.extend(included);
    if cases.len() > MAX_CASES {
        problems.push(too_many(matrix));
        return Vec::new();
    }
    check_distinct(&cases, matrix, problems);
    cases
}

fn too_many(matrix: &Node) -> Diagnostic {
    Diagnostic::new(matrix.origin, format!("the matrix has more than {MAX_CASES} cases"))
        .help("make several pipelines of it, or shorten the lists")
}

fn patterns(matrix: &Node, key: &str, names: &[&str], complete: bool, problems: &mut Diagnostics) -> Vec<Values> {
    let items = matrix.entry(key).map_or(&[][..], |entry| entry.node.items());
    let mut patterns = Vec::new();
    for item in items {
        for entry in item.entries() {
            // An `include` may stand alone, without any variable declared.
            let stands_alone = complete && names.is_empty();
            if !stands_alone && !names.contains(&entry.key.as_str()) {
                let problem = Diagnostic::new(entry.origin, format!("`{}` is not a matrix variable", entry.key));
                problems.push(problem.nearest(&entry.key, names));
            }
        }
        for name in names.iter().filter(|name| complete && item.entry(name).is_none()) {
            problems.push(Diagnostic::new(item.origin, format!("this `include` does not say its `{name}`")));
        }
        let order = |name: &str| names.iter().position(|known| *known == name);
        let mut values: Values = item.entries().iter().map(|entry| (entry.key.clone(), entry.node.clone())).collect();
        values.sort_by_key(|(name, _)| order(name));
        patterns.push(values);
    }
    patterns
}

fn matches(case: &Values, pattern: &Values) -> bool {
    pattern.iter().all(|(name, value)| case.iter().any(|(known, node)| known == name && node.value == value.value))
}

fn check_distinct(cases: &[Values], matrix: &Node, problems: &mut Diagnostics) {
    let mut seen = std::collections::BTreeSet::new();
    for case in cases {
        let label = label(case, Node::scalar_text);
        if !seen.insert(label.clone()) {
            let origin = case.last().map_or(matrix.origin, |(_, node)| node.origin);
            problems
                .push(Diagnostic::new(origin, format!("the case `{label}` comes twice")).help("remove one of them"));
        }
    }
    if cases.is_empty() {
        problems.push(
            Diagnostic::new(matrix.origin, "the matrix has no case")
                .help("give it a variable with some values, or leave `matrix` out"),
        );
    }
}

/// `method=stride,m=50`, or `default` without a matrix.
pub fn label(case: &Values, text: impl Fn(&Node) -> Option<String>) -> String {
    if case.is_empty() {
        return "default".to_owned();
    }
    let part = |(name, node): &(String, Node)| format!("{name}={}", text(node).unwrap_or_default());
    case.iter().map(part).collect::<Vec<_>>().join(",")
}
