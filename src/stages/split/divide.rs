//! Divides the rows of a table: takes the columns that decide, and asks the mathematics for folds.

use super::Split;
use super::options::{Stratify, TestPart, Way};
use crate::eval::EvalError;
use crate::eval::folds::{
    Fold, group_holdout, group_kfold, hash_holdout, holdout, kfold, quantile_strata, stratified_holdout,
    stratified_kfold, time_folds, time_holdout,
};
use crate::gp::random::{StreamKey, below};
use crate::stages::{Stage, StageError};
use crate::store::input::{KeyForm, KeyValues};
use crate::store::{InputTable, StoreError};
use std::any::Any;

/// A split stage, and below it the split stages whose training rows it divides again.
#[derive(Clone, Debug, PartialEq)]
pub struct Division {
    /// The outermost first.
    steps: Vec<Split>,
}

impl Division {
    /// A split stage with those that it takes rows of.
    pub fn of(split: &Split, stages: &[(&str, &dyn Stage)]) -> Self {
        let mut steps = vec![split.clone()];
        let input = |id: &str| stages.iter().find(|(known, _)| *known == id).map(|(_, stage)| *stage as &dyn Any);
        while let Some(outer) = steps.first().and_then(|step| input(&step.input)?.downcast_ref::<Split>()) {
            steps.insert(0, outer.clone());
        }
        Self { steps }
    }

    /// The folds of the rows of a table, numbered repeat · K + k; those of training rows of an outer fold one after the other.
    pub fn divide(&self, table: &InputTable, seed: u64) -> Result<Vec<Fold>, StageError> {
        let mut folds = vec![Fold { train: (0..table.row_count).collect(), test: Vec::new() }];
        for (depth, step) in self.steps.iter().enumerate() {
            let mut inner = Vec::new();
            for (number, outer) in folds.iter().enumerate() {
                let stream = match depth {
                    0 => StreamKey::new(seed).with("folds"),
                    _ => StreamKey::new(seed).with("inner folds").with_index(depth as u64).with_index(number as u64),
                };
                let of = |rows: Vec<usize>| rows.into_iter().map(|row| outer.train[row]).collect();
                let divided = RowsToDivide { table, rows: &outer.train }.divide(&step.way(), &stream)?;
                inner.extend(divided.into_iter().map(|fold| Fold { train: of(fold.train), test: of(fold.test) }));
            }
            folds = inner;
        }
        Ok(folds)
    }

    /// What there is to say of folds that are drawn.
    pub fn warnings(&self, table: &InputTable, folds: &[Fold]) -> Vec<String> {
        let few = self.steps.iter().filter_map(|step| few_rows(table, &step.way()));
        few.chain(super::leaks::warnings(table, folds)).collect()
    }
}

/// Values that are too rare to be in every fold.
fn few_rows(table: &InputTable, way: &Way) -> Option<String> {
    let Way::Kfold { folds, stratify: Some(Stratify { column, quantiles: None }), .. } = way else { return None };
    let Some(KeyValues::Labels { codes, labels }) = table.key_values(column, KeyForm::Labels) else { return None };
    let mut counts = vec![0_u32; labels.len()];
    for code in codes {
        counts[*code as usize] += 1;
    }
    let few = counts.iter().filter(|count| **count < *folds).count();
    (few > 0).then(|| {
        format!(
            "{few} of {} values of `{column}` have fewer than {folds} rows, and are not in every fold",
            labels.len()
        )
    })
}

/// Some rows of a table.
struct RowsToDivide<'a> {
    table: &'a InputTable,
    rows: &'a [usize],
}

impl RowsToDivide<'_> {
    fn divide(&self, way: &Way, stream: &StreamKey) -> Result<Vec<Fold>, StageError> {
        let n = self.rows.len();
        let once = |fold: Result<Fold, EvalError>| Ok(vec![fold?]);
        match way {
            Way::Holdout { test_fraction, repeats, stratify: None } => {
                repeat(*repeats, stream, |below| Ok(vec![holdout(n, *test_fraction, below)?]))
            }
            Way::Kfold { folds, repeats, stratify: None } => {
                repeat(*repeats, stream, |below| kfold(n, *folds as usize, below))
            }
            Way::Holdout { test_fraction, repeats, stratify: Some(stratify) } => {
                let strata = self.strata(stratify)?;
                repeat(*repeats, stream, |below| Ok(vec![stratified_holdout(&strata, *test_fraction, below)?]))
            }
            Way::Kfold { folds, repeats, stratify: Some(stratify) } => {
                let strata = self.strata(stratify)?;
                repeat(*repeats, stream, |below| stratified_kfold(&strata, *folds as usize, below))
            }
            Way::Group { key, part, repeats } => {
                let groups = self.groups(key)?;
                repeat(*repeats, stream, |below| match part {
                    TestPart::Folds(folds) => group_kfold(&groups, *folds as usize, below),
                    TestPart::TestFraction(fraction) => Ok(vec![group_holdout(&groups, *fraction, below)?]),
                })
            }
            Way::Time { key, gap, part } => {
                let Some(KeyValues::Times { times, scale }) = self.table.key_values(key, KeyForm::Times) else {
                    return Err(unread(key));
                };
                let gap = scale.map_or(Ok(0), |scale| gap.on(scale)).map_err(|(what, hint)| StageError::Data {
                    what: format!("column `{key}`: {what}"),
                    hint: hint.to_owned(),
                })?;
                let times = self.of(times);
                match part {
                    TestPart::Folds(folds) => Ok(time_folds(&times, gap, *folds as usize)?),
                    TestPart::TestFraction(fraction) => once(time_holdout(&times, gap, *fraction)),
                }
            }
            Way::Hash { key, test_fraction } => match self.table.key_values(key, KeyForm::Hashes) {
                Some(KeyValues::Hashes(hashes)) => once(hash_holdout(&self.of(hashes), *test_fraction)),
                _ => Err(unread(key)),
            },
            Way::Column { name, test } => self.by_column(name, test).map(|fold| vec![fold]),
            Way::All => Ok(vec![Fold { train: (0..n).collect(), test: Vec::new() }]),
        }
    }

    /// The values of these rows.
    fn of<T: Copy>(&self, values: &[T]) -> Vec<T> {
        self.rows.iter().map(|row| values[*row]).collect()
    }

    /// The group of each row.
    fn groups(&self, key: &str) -> Result<Vec<u32>, StageError> {
        let Some(KeyValues::Labels { codes, labels }) = self.table.key_values(key, KeyForm::Labels) else {
            return Err(unread(key));
        };
        let codes = self.of(codes);
        let Some(position) = codes.iter().position(|code| labels[*code as usize].is_none()) else { return Ok(codes) };
        let (path, row) = self.table.locate(self.rows[position]);
        Err(StageError::Store(StoreError::Invalid {
            path: path.to_owned(),
            detail: "the group is null".to_owned(),
            column: Some(key.to_owned()),
            row: Some(row),
            hint: "give every row a group, or remove these rows".to_owned(),
        }))
    }

    /// The stratum of each row.
    fn strata(&self, stratify: &Stratify) -> Result<Vec<u32>, StageError> {
        let Stratify { column, quantiles } = stratify;
        if let Some(quantiles) = quantiles {
            return match self.table.key_values(column, KeyForm::Numbers) {
                Some(KeyValues::Numbers(numbers)) => Ok(quantile_strata(&self.of(numbers), *quantiles as usize)),
                _ => Err(unread(column)),
            };
        }
        let Some(KeyValues::Labels { codes, labels }) = self.table.key_values(column, KeyForm::Labels) else {
            return Err(unread(column));
        };
        if labels.len() > self.table.row_count.div_ceil(2) {
            let (values, rows) = (labels.len(), self.table.row_count);
            return Err(StageError::Data {
                what: format!("column `{column}`: {values} different values in {rows} rows leave nothing to share out"),
                hint: format!("cut it into ranges with `stratify: {{ column: {column}, quantiles: 10 }}`"),
            });
        }
        Ok(self.of(codes))
    }

    fn by_column(&self, name: &str, test: &str) -> Result<Fold, StageError> {
        let values = self.table.extra.get(name).map_or(&[][..], Vec::as_slice);
        let is_test = |row: &usize| values.get(self.rows[*row]).and_then(Option::as_deref) == Some(test);
        let (test_rows, train): (Vec<usize>, Vec<usize>) = (0..self.rows.len()).partition(is_test);
        let shown = |what: &str, hint: String| StageError::Data { what: format!("column `{name}`: {what}"), hint };
        if test_rows.is_empty() {
            let mut seen: Vec<&str> = values.iter().take(10_000).filter_map(Option::as_deref).collect();
            seen.sort_unstable();
            seen.dedup();
            seen.truncate(10);
            return Err(shown(&format!("no row has the value `{test}`"), format!("values seen: {}", seen.join(", "))));
        }
        if train.is_empty() {
            return Err(shown(&format!("every row has the value `{test}`"), "no row is left to train on".to_owned()));
        }
        Ok(Fold { train, test: test_rows })
    }
}

/// Folds of every repeat, each with random numbers of its own.
fn repeat(
    repeats: u32,
    stream: &StreamKey,
    folds: impl Fn(&mut dyn FnMut(usize) -> usize) -> Result<Vec<Fold>, EvalError>,
) -> Result<Vec<Fold>, StageError> {
    let mut all = Vec::new();
    for repeat in 0..repeats {
        let mut rng = stream.with_index(u64::from(repeat)).generator();
        all.extend(folds(&mut |bound| below(&mut rng, bound))?);
    }
    Ok(all)
}

fn unread(column: &str) -> StageError {
    StageError::Bug(format!("column `{column}` was not read"))
}
