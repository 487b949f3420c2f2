//! Columns of an input as features: fits what they become on training rows, and applies it to the columns of a table.

use crate::features::levels::{FOLDS, RowTargets};
use crate::features::{Encoding, FeatureColumn, RawRows, SeenValues};
use crate::gp::random::{StreamKey, permutation};
use crate::gp::row_noise::RowNoise;
use crate::stages::StageError;
use crate::store::InputTable;
use ndarray::{Array2, Axis};

/// Columns that go to the model as they are.
pub(super) fn plain(columns: &[FeatureColumn]) -> Encoding {
    let nothing = Array2::zeros((0, columns.len()));
    let rows = RawRows { values: nothing.view(), levels: &[] };
    Encoding::fit(columns, rows, RowTargets { values: &[], weights: None }, &[]).0
}

/// Fits on these rows of the table, with their targets as the model sees them; and the rows, encoded.
pub(super) fn fit(table: &InputTable, rows: &[usize], target: &[f64], key: &StreamKey) -> (Encoding, Array2<f64>) {
    let values = table.features.select(Axis(0), rows);
    if table.columns.iter().all(FeatureColumn::is_plain) {
        return (plain(&table.columns), values);
    }
    // Which fold the means of levels of a row are made without.
    let mut folds = vec![0; rows.len()];
    for (place, row) in permutation(&mut key.generator(), rows.len()).into_iter().enumerate() {
        folds[row] = place % FOLDS;
    }
    let weights = table.weight.as_ref().map(|weights| weights.select(Axis(0), rows));
    let weights = RowNoise::new(weights, None).weights.map(|weights| weights.to_vec());
    let targets = RowTargets { values: target, weights: weights.as_deref() };
    Encoding::fit(&table.columns, RawRows { values: values.view(), levels: &table.levels }, targets, &folds)
}

/// Rows of a table that has the columns of the encoding.
pub(super) fn apply(
    encoding: &Encoding,
    table: &InputTable,
    rows: &[usize],
) -> Result<(Array2<f64>, SeenValues), StageError> {
    let (values, levels) = raw(encoding, table, rows)?;
    Ok(encoding.apply(RawRows { values: values.view(), levels: &levels }))
}

/// The same before they are encoded, with the levels of the columns.
pub(super) fn raw(
    encoding: &Encoding,
    table: &InputTable,
    rows: &[usize],
) -> Result<(Array2<f64>, Vec<Vec<String>>), StageError> {
    let places = places(encoding, table)?;
    let values = table.features.select(Axis(0), rows).select(Axis(1), &places);
    Ok((values, places.iter().map(|place| table.levels[*place].clone()).collect()))
}

/// The column of the table for each of the encoding's, by name.
fn places(encoding: &Encoding, table: &InputTable) -> Result<Vec<usize>, StageError> {
    let position = |name: &str| table.columns.iter().position(|known| known.name == name);
    let input = table.files.first().map_or_else(String::new, |file| format!("{}: ", file.path.display()));
    let missing: Vec<&str> =
        encoding.columns.iter().map(|column| column.name.as_str()).filter(|name| position(name).is_none()).collect();
    if !missing.is_empty() {
        return Err(StageError::Data {
            what: format!(
                "{input}the model needs the feature(s) {}, which the input does not have",
                missing.join(", ")
            ),
            hint: "add them to `features` of the ingest stage".to_owned(),
        });
    }
    let places: Vec<usize> = encoding.columns.iter().filter_map(|column| position(&column.name)).collect();
    for (column, place) in encoding.columns.iter().zip(&places) {
        let FeatureColumn { name, kind, .. } = &table.columns[*place];
        if !kind.reads_like(column.kind) {
            let (is, was) = (kind.name(), column.kind.name());
            return Err(StageError::Data {
                what: format!("{input}`{name}` is a {is} here, and was a {was} when the model was trained"),
                hint: format!("declare it under `features` of the ingest stage: `- {{ name: {name}, kind: {was} }}`"),
            });
        }
    }
    Ok(places)
}

/// What the columns of a table become, as far as that can be told before there is a fold.
pub(super) fn columns_of(table: &InputTable) -> Vec<String> {
    if table.columns.iter().all(FeatureColumn::is_plain) {
        return table.feature_names.clone();
    }
    let rows: Vec<usize> = (0..table.row_count).collect();
    let target = table.target.as_ref().map_or_else(|| vec![0.0; table.row_count], |target| target.to_vec());
    fit(table, &rows, &target, &StreamKey::new(0)).0.names()
}
