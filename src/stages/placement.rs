//! Where a stage stands among all others: rules that need to know of all cases go by it.

use crate::pipeline::tree::Node;
use crate::store::lock::place_of;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where a stage stands among all stages of all cases.
pub struct Placement<'a> {
    pub id: &'a str,
    pub label: &'a str,
    /// As it is written, with positions.
    pub node: &'a Node,
    /// How many cases there are.
    pub cases: usize,
    /// Whether its work is the same in all of them.
    pub same: bool,
    /// How many folds its output has.
    pub folds: u32,
    /// What others write, by whom.
    pub seen: &'a mut BTreeMap<PathBuf, String>,
}

impl Placement<'_> {
    /// Notes that the stage writes there, and says who else does.
    pub fn claim(&mut self, target: &Path, is_directory: bool) -> Option<String> {
        let place = place_of(target, is_directory).unwrap_or_else(|_| target.to_owned());
        let whose = if self.label == "default" { self.id.to_owned() } else { format!("{} / {}", self.label, self.id) };
        self.seen.insert(place, whose)
    }
}
