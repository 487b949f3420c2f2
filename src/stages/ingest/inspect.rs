//! Looks at an input without running anything: what is there, and what training would refuse.

use super::Ingest;
use crate::features::ColumnKind;
use crate::stages::{Demand, RowCheck, StageError};
use crate::store::input::{ColumnQuality, KeyColumn, KeyValues, TimeScale};
use crate::store::{InputSchema, InputTable, InvalidPolicy, discover, open, peek};
use crate::tables::Timestamp;
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
    /// From when to when, if it tells the time.
    pub span: Option<String>,
    /// What the model sees of it, if that is not the column itself.
    pub becomes: Option<String>,
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
        span: None,
        becomes: None,
    };
    let mut all: Vec<Inspected> = stage.key.iter().map(|name| column(name, "key")).collect();
    all.extend(table.feature_names.iter().map(|name| column(name, "feature")));
    for (place, inspected) in all.iter_mut().filter(|column| column.role == "feature").enumerate() {
        let Some(feature) = table.columns.get(place) else { continue };
        let levels = table.levels.get(place).map_or(0, Vec::len);
        // Numbers of levels and times in microseconds say nothing to a reader.
        if let Some(quality) = inspected.quality.as_mut().filter(|_| !feature.kind.reads_like(ColumnKind::Number)) {
            inspected.span = time_span(feature.kind, quality.range);
            quality.range = None;
        }
        inspected.becomes =
            (!feature.is_plain() || feature.kind == ColumnKind::Boolean).then(|| feature.becomes(levels));
    }
    all.extend(stage.target_name().map(|name| column(name, "target")));
    if let (Some(target), Some(inspected)) = (&stage.target, all.last_mut().filter(|column| column.role == "target")) {
        let transform = target.transform();
        inspected.becomes = (!transform.is_none()).then(|| format!("modelled as {}", transform.name()));
    }
    all.extend(stage.weight.iter().map(|name| column(name, "weight")));
    all.extend(stage.noise_std.iter().map(|name| column(name, "noise")));
    all.extend(demand.columns.iter().map(|name| Inspected { values: counts(table, name), ..column(name, "split") }));
    for key in &demand.keys {
        let (values, span) = key_values(table, key);
        all.push(Inspected { values, span, ..column(&key.name, "split") });
    }
    all
}

/// What there is to show of a column that divides rows.
fn key_values(table: &InputTable, key: &KeyColumn) -> (Vec<(Option<String>, u64)>, Option<String>) {
    match table.key_values(&key.name, key.form) {
        Some(KeyValues::Labels { codes, labels }) => {
            let mut counts: Vec<(Option<String>, u64)> = labels.iter().map(|label| (label.clone(), 0)).collect();
            for code in codes {
                counts[*code as usize].1 += 1;
            }
            counts.sort_by(|left, right| right.1.cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
            (counts, None)
        }
        Some(KeyValues::Times { times, scale }) => {
            let shown = |time: &i64| match scale {
                Some(TimeScale::Microseconds) => Timestamp::from_micros(*time).date(),
                _ => time.to_string(),
            };
            let span = times.iter().min().zip(times.iter().max());
            (Vec::new(), span.map(|(first, last)| format!("{} to {}", shown(first), shown(last))))
        }
        _ => (Vec::new(), None),
    }
}

/// The first and the last day of a column of times.
fn time_span(kind: ColumnKind, range: Option<(f64, f64)>) -> Option<String> {
    let (first, last) = range.filter(|_| kind == ColumnKind::Timestamp)?;
    let day = |micros: f64| Timestamp::from_micros(micros as i64).date();
    Some(format!("{} to {}", day(first), day(last)))
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
