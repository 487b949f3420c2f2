//! References between stages: who may take whose output.

use super::kind::{Kind, kind_of};
use super::tree::{Entry, Node, Origin};
use super::{Diagnostic, Diagnostics};

/// An option that names another stage.
pub struct Link {
    pub key: &'static str,
    /// Kinds that it may name.
    pub targets: &'static [&'static str],
    /// Whether a text with a slash is a path rather than a stage.
    pub or_path: bool,
}

impl Link {
    /// An option that names a stage of one of these kinds.
    pub const fn to(key: &'static str, targets: &'static [&'static str]) -> Self {
        Self { key, targets, or_path: false }
    }
}

/// Checks the stages of one case, given in order with their references replaced.
pub fn check(kinds: &[&Kind], stages: &[Entry], problems: &mut Diagnostics) {
    for (index, stage) in stages.iter().enumerate() {
        let Some((name, options)) = kind_of(stage) else { continue };
        let Some(kind) = kinds.iter().find(|kind| kind.name == name) else { continue };
        for link in kind.links {
            for (target, origin) in texts(options, link.key) {
                check_link(stages, index, (kind.name, link), (target, origin), problems);
            }
        }
        (kind.check)(stage, options, stages, problems);
    }
}

/// The text of an option, and where it stands.
pub fn text<'a>(options: &'a Node, key: &str) -> Option<(&'a str, Origin)> {
    let node = &options.entry(key)?.node;
    node.text().map(|text| (text, node.origin))
}

/// A text, or the texts of a list.
pub fn texts<'a>(options: &'a Node, key: &str) -> Vec<(&'a str, Origin)> {
    let Some(entry) = options.entry(key) else { return Vec::new() };
    let nodes = std::iter::once(&entry.node).chain(entry.node.items());
    nodes.filter_map(|node| Some((node.text()?, node.origin))).collect()
}

/// Whether a text is a path, not the name of a stage.
pub fn is_path(text: &str) -> bool {
    text.contains('/')
}

fn check_link(
    stages: &[Entry],
    index: usize,
    (kind, link): (&str, &Link),
    (target, origin): (&str, Origin),
    problems: &mut Diagnostics,
) {
    if link.or_path && is_path(target) {
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
            Some((found, _)) if !link.targets.contains(&found) => {
                let message =
                    format!("`{target}` is a stage of kind {found}; `{}` of {kind} needs {expected}", link.key);
                Diagnostic::new(origin, message).nearest(target, &earlier)
            }
            _ => return,
        },
    };
    problems.push(problem);
}
