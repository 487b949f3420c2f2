//! Whether a published model has seen the rows that it is compared on.

use super::TrainedModel;
use crate::eval::folds::Fold;
use crate::eval::sketch::{RowSketch, SeenRows, number_hash, row_hash, text_hash};
use crate::features::FeatureColumn;
use crate::stages::StageError;
use crate::store::{InputTable, ModelFile};
use ndarray::{Array2, Axis};

/// Rows that are alike are no leak: so much larger may the share of test rows be that the published model knows than the share
/// that the new one knows.
const BY_CHANCE: f64 = 0.02;

/// The rows of a table that a model is trained on, as its file knows them.
pub fn sketch(table: &InputTable, rows: &[usize]) -> RowSketch {
    RowSketch::of(hashes_in(table, rows))
}

/// By their features, in the order of the table.
fn hashes_in(table: &InputTable, rows: &[usize]) -> Vec<u64> {
    if table.columns.iter().all(FeatureColumn::is_plain) {
        let all = table.identities();
        return rows.iter().map(|row| all[*row]).collect();
    }
    hashes(&table.features.select(Axis(0), rows), &table.levels)
}

/// By their features; a category by the text of its level, because its number is another one in every table.
fn hashes(values: &Array2<f64>, levels: &[Vec<String>]) -> Vec<u64> {
    let texts: Vec<Vec<u64>> =
        levels.iter().map(|levels| levels.iter().map(|text| text_hash(text)).collect()).collect();
    let part = |(value, texts): (&f64, &Vec<u64>)| texts.get(*value as usize).copied().unwrap_or(number_hash(*value));
    values.rows().into_iter().map(|row| row_hash(row.iter().zip(&texts).map(part))).collect()
}

/// The share of the test rows of all folds that a published model was trained on, if it is more than rows that are alike explain.
pub fn share_seen(
    (file, model): (&ModelFile, &TrainedModel),
    table: &InputTable,
    folds: &[Fold],
) -> Result<Option<f64>, StageError> {
    let Some(known) = &file.meta.seen else { return Ok(is_of_all(file, table).then_some(1.0)) };
    let (mut published, mut own) = (SeenRows::default(), SeenRows::default());
    for fold in folds {
        let (values, levels) = model.raw_rows(table, &fold.test)?;
        published.add(known.look_for(hashes(&values, &levels)));
        own.add(sketch(table, &fold.train).look_for(hashes_in(table, &fold.test)));
    }
    let alike = own.share().unwrap_or(0.0);
    Ok(published.share().filter(|share| *share > alike + BY_CHANCE))
}

/// Files of before rows were noted: whether it was trained on all rows of the files that are read now.
fn is_of_all(file: &ModelFile, table: &InputTable) -> bool {
    let training = &file.meta.training;
    let is_read = |sha256: &String| table.files.iter().any(|file| file.sha256 == *sha256);
    training.rows == training.inputs.iter().map(|input| input.rows).sum::<u64>()
        && training.inputs.iter().any(|input| is_read(&input.sha256))
}
