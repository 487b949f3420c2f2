//! Divides rows into training and test rows. Folds depend on the seed and the repeat only.

use super::StageError;
use crate::eval::folds::{Fold, holdout, kfold};
use crate::gp::random::{StreamKey, below};
use crate::plan::{SplitStep, SplitWay};
use crate::store::InputTable;

/// The folds, numbered repeat · K + k.
pub fn run(step: &SplitStep, table: &InputTable, seed: u64) -> Result<Vec<Fold>, StageError> {
    let n = table.row_count;
    let stream = |repeat: u32| StreamKey::new(seed).with("folds").with_index(u64::from(repeat)).generator();
    match &step.way {
        SplitWay::Holdout { test_fraction, repeats } => (0..*repeats)
            .map(|repeat| {
                let mut rng = stream(repeat);
                Ok(holdout(n, *test_fraction, &mut |bound| below(&mut rng, bound))?)
            })
            .collect(),
        SplitWay::Kfold { folds, repeats } => {
            let mut all = Vec::new();
            for repeat in 0..*repeats {
                let mut rng = stream(repeat);
                all.extend(kfold(n, *folds as usize, &mut |bound| below(&mut rng, bound))?);
            }
            Ok(all)
        }
        SplitWay::Column { name, test } => by_column(table, name, test).map(|fold| vec![fold]),
        SplitWay::All => Ok(vec![Fold { train: (0..n).collect(), test: Vec::new() }]),
    }
}

fn by_column(table: &InputTable, name: &str, test: &str) -> Result<Fold, StageError> {
    let values = table.extra.get(name).map_or(&[][..], Vec::as_slice);
    let is_test = |row: &usize| values.get(*row).and_then(Option::as_deref) == Some(test);
    let (test_rows, train): (Vec<usize>, Vec<usize>) = (0..table.row_count).partition(is_test);
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
