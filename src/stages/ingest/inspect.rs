//! Looks at an input without running anything: what is there, and what training would refuse.

use super::Ingest;
use crate::stages::{Demand, RowCheck, StageError};
use crate::store::input::ColumnQuality;
use crate::store::{InputSchema, InputTable, InvalidPolicy, discover, open, peek};
use std::collections::BTreeMap;

/// What is known of one input.
#[derive(Debug, Default)]
pub struct Inspection {
    /// The stage that reads it.
    pub stage: String,
    /// The cases that read it this way.
    pub cases: Vec<String>,
    /// The path as it is written in the pipeline.
    pub written: String,
    /// Files, as far as they could be found.
    pub files: usize,
    pub rows: u64,
    pub bytes: u64,
    /// The columns that are read: key, features, target, others.
    pub columns: Vec<Inspected>,
    /// How the rows are divided.
    pub splits: Vec<String>,
    /// What is worth knowing and no reason to refuse.
    pub warnings: Vec<String>,
    /// Why a run would fail.
    pub problems: Vec<StageError>,
}

/// A column that is read.
#[derive(Clone, Debug)]
pub struct Inspected {
    pub name: String,
    /// `key`, `feature`, `target` or `split`.
    pub role: &'static str,
    /// Type, as Arrow calls it.
    pub data_type: String,
    /// What it holds, if it is read as numbers.
    pub quality: Option<ColumnQuality>,
    /// How often each value occurs, most frequent first, if it divides the rows.
    pub values: Vec<(Option<String>, u64)>,
}

impl Inspection {
    /// A look at the input of a stage, with the checks of those that take its rows.
    pub fn new(stage: &Ingest, demand: &Demand, checks: &[RowCheck], seed: u64) -> Self {
        let mut seen = Self { written: stage.path.written().to_owned(), ..Self::default() };
        if let Err(problem) = seen.look(stage, demand, checks, seed) {
            seen.problems.push(problem);
        }
        seen
    }

    /// Footers, then data, then what later stages would say; the error is what ends the look early.
    fn look(&mut self, stage: &Ingest, demand: &Demand, checks: &[RowCheck], seed: u64) -> Result<(), StageError> {
        let files = discover(stage.path.path())?;
        let schema = peek(&files)?;
        self.files = files.len();
        self.rows = schema.rows();
        self.bytes = schema.files.iter().map(|file| file.bytes).sum();
        let table = open(&files, &stage.selection(demand), InvalidPolicy::Mark)?;
        self.columns = columns(stage, demand, &schema, &table);
        self.problems.extend(stage.problems(demand, &table));
        self.warnings = stage.warnings(demand, &table);
        for check in checks {
            match (check.look)(&table, seed) {
                Ok(said) => {
                    self.splits.extend(said.split);
                    // Several models may be trained on the same rows.
                    let fresh = said.warnings.into_iter().filter(|text| !self.warnings.contains(text));
                    self.warnings.extend(fresh.collect::<Vec<_>>());
                }
                // Two stages may say the same of the same rows.
                Err(problem) if self.problems.iter().any(|known| known.to_string() == problem.to_string()) => {}
                Err(problem) => self.problems.push(problem),
            }
        }
        Ok(())
    }
}

fn columns(stage: &Ingest, demand: &Demand, schema: &InputSchema, table: &InputTable) -> Vec<Inspected> {
    let known = |name: &str| schema.columns().iter().find(|column| column.name == name);
    let column = |name: &str, role: &'static str| Inspected {
        name: name.to_owned(),
        role,
        data_type: known(name).map_or_else(String::new, |column| {
            if column.partition { "partition".to_owned() } else { column.data_type.to_string() }
        }),
        quality: table
            .quality
            .iter()
            .find(|quality| quality.name == name && matches!(role, "feature" | "target"))
            .cloned(),
        values: Vec::new(),
    };
    let mut all: Vec<Inspected> = stage.key.iter().map(|name| column(name, "key")).collect();
    all.extend(table.feature_names.iter().map(|name| column(name, "feature")));
    all.extend(stage.target.iter().map(|name| column(name, "target")));
    all.extend(demand.columns.iter().map(|name| Inspected { values: counts(table, name), ..column(name, "split") }));
    all
}

fn counts(table: &InputTable, name: &str) -> Vec<(Option<String>, u64)> {
    let mut counts: BTreeMap<&Option<String>, u64> = BTreeMap::new();
    for value in table.extra.get(name).into_iter().flatten() {
        *counts.entry(value).or_default() += 1;
    }
    let mut counts: Vec<(Option<String>, u64)> =
        counts.into_iter().map(|(value, count)| (value.clone(), count)).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}
