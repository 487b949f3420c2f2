//! Options that are written and change nothing, because another option decides whether they count.

use super::tree::{Node, Origin};
use super::{Diagnostic, Diagnostics};
use std::collections::BTreeMap;

/// An option that counts only where another one has one of these values. What no such line speaks of always counts.
#[derive(Debug)]
pub struct UsedBy {
    /// Its place among the options of the stage: `em.exchanges`.
    pub option: &'static str,
    /// The place of the option that decides.
    pub decider: &'static str,
    /// The values of that one with which it counts.
    pub values: &'static [&'static str],
    /// What the deciding option is when it is not written.
    pub default: &'static str,
}

impl UsedBy {
    /// An option that counts with these values of a deciding option that is always written.
    pub const fn new(option: &'static str, decider: &'static str, values: &'static [&'static str]) -> Self {
        Self { option, decider, values, default: "" }
    }

    /// The value that decides here, if that is known.
    fn decision(&self, options: &Node) -> Option<String> {
        match entry(options, self.decider) {
            Some((_, node)) => node.scalar_text(),
            None => Some(self.default.to_owned()).filter(|default| !default.is_empty()),
        }
    }
}

/// Where a key stands, and its value.
fn entry<'a>(options: &'a Node, path: &str) -> Option<(Origin, &'a Node)> {
    let mut found = None;
    let mut node = options;
    for key in path.split('.') {
        let entry = node.entry(key)?;
        node = &entry.node;
        found = Some((entry.origin, node));
    }
    found
}

/// Options that some stage of some case does not use, by where they are written.
#[derive(Debug, Default)]
pub struct Unused(BTreeMap<(Origin, &'static str), SeenOption>);

#[derive(Debug, Default)]
struct SeenOption {
    decider: &'static str,
    /// Values of the deciding option with which it counts and with which it does not, as they were met.
    with: Vec<String>,
    without: Vec<String>,
}

impl Unused {
    /// Looks at the options of a stage.
    pub fn look(&mut self, declared: &'static [UsedBy], options: &Node) {
        let mut ignored: Vec<&str> = Vec::new();
        for used in declared {
            let (Some((origin, _)), Some(value)) = (entry(options, used.option), used.decision(options)) else {
                continue;
            };
            // Said of the mapping that it is in.
            if ignored.iter().any(|outer| used.option.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'))) {
                continue;
            }
            let counts = used.values.contains(&value.as_str());
            if !counts {
                ignored.push(used.option);
            }
            let seen = self.0.entry((origin, used.option)).or_default();
            seen.decider = used.decider;
            let values = if counts { &mut seen.with } else { &mut seen.without };
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }

    /// What is used nowhere, a warning each.
    pub fn warnings(&self) -> Diagnostics {
        let mut found = Diagnostics::default();
        for ((origin, option), seen) in self.0.iter().filter(|(_, seen)| seen.with.is_empty()) {
            let (decider, values) = (seen.decider, seen.without.join(", "));
            let message = format!("`{option}` changes nothing with `{decider}: {values}`");
            found.push(Diagnostic::new(*origin, message).help("leave it out"));
        }
        found
    }

    /// What counts in some cases only, as a list: with a matrix of methods that is to be expected.
    pub fn note(&self) -> Option<String> {
        let partly = self.0.iter().filter(|(_, seen)| !seen.with.is_empty() && !seen.without.is_empty());
        let mut listed: Vec<String> =
            partly.map(|((_, option), seen)| format!("`{option}` ({})", seen.with.join(", "))).collect();
        listed.dedup();
        (!listed.is_empty()).then(|| format!("used in some cases only: {}", listed.join(", ")))
    }
}
