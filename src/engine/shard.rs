//! A share of the work of a plan, for many machines at once: which tasks are ours, and which wait until all are done.
//!
//! Tasks are numbered in the order of the plan, the same on every machine, and dealt out in turn. A task goes with the one
//! whose result it takes, fold by fold: predictions are made where the model was trained. What several cases have in common
//! is one task. Work that needs all folds is left to the run that collects. So is work with a model that the pipeline itself
//! publishes before: shards publish nothing.

use super::plan::PlannedStage;
use crate::stages::Frequency;
use crate::stages::job::Key;
use crate::store::lock::real;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// `2/8`: the third of eight shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: u64,
    count: u64,
}

/// Why a text is no shard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("write the number of the shard, from 0, and how many there are: 0/4 to 3/4")]
pub struct NotAShard;

impl FromStr for Shard {
    type Err = NotAShard;

    fn from_str(text: &str) -> Result<Self, NotAShard> {
        let (index, count) = text.split_once('/').ok_or(NotAShard)?;
        let number = |text: &str| text.parse::<u32>().map(u64::from).map_err(|_| NotAShard);
        let shard = Self { index: number(index)?, count: number(count)? };
        if shard.index < shard.count { Ok(shard) } else { Err(NotAShard) }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl Shard {
    /// The share of all tasks.
    pub fn share(self) -> f64 {
        1.0 / self.count as f64
    }

    /// About how many of so many tasks are its own.
    pub fn of(self, tasks: u64) -> u64 {
        tasks.div_ceil(self.count)
    }
}

/// Deals out the tasks of a plan while it is walked over.
#[derive(Debug)]
pub(super) struct Share {
    shard: Shard,
    /// The number of every task seen so far, by what it depends on.
    numbers: HashMap<String, u64>,
    next: u64,
    /// Tasks of the stages of this case that run once per fold.
    folds: HashMap<String, Vec<String>>,
    /// Stages of this case that are left to the run that collects.
    left: HashSet<String>,
    /// Where earlier stages of this case publish or write.
    published: Vec<PathBuf>,
}

impl Share {
    pub(super) fn new(shard: Shard) -> Self {
        let (numbers, folds, left, published) = (HashMap::new(), HashMap::new(), HashSet::new(), Vec::new());
        Self { shard, numbers, next: 0, folds, left, published }
    }

    /// Another case begins.
    pub(super) fn begin_case(&mut self) {
        self.folds.clear();
        self.left.clear();
        self.published.clear();
    }

    /// Whether a stage is left to the run that collects: it needs all folds, or what needs all folds.
    pub(super) fn leaves(&mut self, stage: &PlannedStage) -> bool {
        let inputs = stage.stage.inputs();
        let gathers = match stage.stage.frequency() {
            Frequency::PerFold => false,
            Frequency::PerCase => inputs.iter().any(|input| self.folds.contains_key(*input)),
            Frequency::PerRun => true,
        };
        let taken = stage.stage.takes_published().map(real_place);
        let awaits = taken.is_some_and(|taken| self.published.iter().any(|place| taken.starts_with(place)));
        let places = stage.stage.targets().into_iter().map(|(place, _)| real_place(place));
        self.published.extend(places);
        let leaves = gathers || awaits || inputs.iter().any(|input| self.left.contains(*input));
        if leaves {
            self.left.insert(stage.id.clone());
        }
        leaves
    }

    /// Which of the tasks of a stage are ours.
    pub(super) fn takes(&mut self, stage: &PlannedStage, keys: &[Key]) -> Vec<bool> {
        let inputs = stage.stage.inputs();
        let models = inputs.iter().filter_map(|input| self.folds.get(*input)).find(|folds| folds.len() == keys.len());
        let models = models.cloned().unwrap_or_default();
        let mut ours = Vec::with_capacity(keys.len());
        for (fold, key) in keys.iter().enumerate() {
            let with = models.get(fold).and_then(|model| self.numbers.get(model)).copied();
            let number = *self.numbers.entry(key.hash.clone()).or_insert_with(|| {
                with.unwrap_or_else(|| {
                    self.next += 1;
                    self.next - 1
                })
            });
            ours.push(number % self.shard.count == self.shard.index);
        }
        if stage.stage.frequency() == Frequency::PerFold {
            self.folds.insert(stage.id.clone(), keys.iter().map(|key| key.hash.clone()).collect());
        }
        ours
    }
}

fn real_place(path: &Path) -> PathBuf {
    real(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_numbered_from_zero() {
        assert_eq!("0/1".parse::<Shard>().map(|shard| shard.to_string()), Ok("0/1".to_owned()));
        assert_eq!("3/4".parse(), Ok(Shard { index: 3, count: 4 }));
        for text in ["4/4", "0/0", "1", "-1/4", "a/b", "1/4/2", "", "/", "0/99999999999"] {
            assert_eq!(text.parse::<Shard>(), Err(NotAShard), "{text}");
        }
        assert_eq!((0..4).map(|index| Shard { index, count: 4 }.of(10)).collect::<Vec<_>>(), [3; 4]);
    }
}
