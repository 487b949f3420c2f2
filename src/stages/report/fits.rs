//! Fits over one feature: asks the trained models for a curve, and the inputs for rows to compare it with.

use super::Subject;
use crate::pipeline::ResolvedStage;
use crate::report::FitCurve;
use crate::stages::train::TrainedModel;
use crate::store::input::sha256_file;
use crate::store::{InputTable, InvalidPolicy, ModelFile, Selection, discover, open, open_columns};
use crate::tables::TableKind;
use arrow::array::AsArray as _;
use arrow::datatypes::{Int32Type, Int64Type};
use ndarray::Array2;
use std::collections::BTreeSet;
use std::path::Path;

/// Places at which a curve is computed.
const GRID: usize = 241;
/// Rows that are drawn, of each sort.
const DOTS: usize = 300;
/// Inputs with more rows are not read again for a picture.
const LARGEST: u64 = 1_000_000;

/// The fits of these train stages and cases whose model has one feature. What cannot be read is left out: a picture is
/// not worth a failure.
pub fn fits(subject: &Subject<'_>, wanted: &[(String, String)], stages: &[ResolvedStage]) -> Vec<FitCurve> {
    wanted.iter().filter_map(|(stage, case)| fit(subject, stage, case, stages)).collect()
}

fn fit(subject: &Subject<'_>, stage: &str, case: &str, stages: &[ResolvedStage]) -> Option<FitCurve> {
    let several = stages.iter().filter(|stage| stage.kind == "train").count() > 1;
    let path = subject.results.model_path(subject.pipeline?, subject.id, case, several.then_some(stage), 0);
    let file = ModelFile::load(&path).ok()?;
    // A curve is over a column that is taken as it is.
    let [feature] = &file.meta.feature_names[..] else { return None };
    if file.meta.columns.is_some() {
        return None;
    }
    let [range] = file.meta.feature_ranges[..] else { return None };
    let model = TrainedModel::from_file(&file, &path).ok()?;
    let step = (range.max - range.min) / (GRID - 1) as f64;
    let x: Vec<f64> = (0..GRID).map(|index| step.mul_add(index as f64, range.min)).collect();
    let prediction = model.predict(&Array2::from_shape_vec((GRID, 1), x.clone()).ok()?, true).ok()?;
    let target = stages.iter().find_map(|stage| stage.target.clone());
    let mut fit = FitCurve {
        stage: stage.to_owned(),
        case: case.to_owned(),
        fold: 0,
        feature: feature.clone(),
        target: target.clone().unwrap_or_default(),
        x,
        mean: prediction.mean,
        f_std: prediction.f_std?,
        y_std: prediction.y_std?,
        ..FitCurve::default()
    };
    if let Some(table) = target.and_then(|target| input(&file, feature, &target)) {
        let test = test_rows(subject, case);
        let value = |row: usize| Some((table.features[[row, 0]], *table.target.as_ref()?.get(row)?));
        let of = |wanted: bool| -> Vec<(f64, f64)> {
            let rows: Vec<usize> = (0..table.row_count).filter(|row| test.contains(&(*row as i64)) == wanted).collect();
            let every = rows.len().div_ceil(DOTS).max(1);
            rows.into_iter().step_by(every).filter_map(value).collect()
        };
        (fit.training, fit.test) = (of(false), of(true));
        let rows = file.integers("inducing.rows").into_iter().flatten();
        fit.inducing = rows
            .filter_map(|row| usize::try_from(*row).ok())
            .filter(|row| *row < table.row_count)
            .map(|row| table.features[[row, 0]])
            .collect();
    } else if let Some(points) = file.floats("inducing.x") {
        let (centre, scale) = (file.meta.feature_scaling.centre[0], file.meta.feature_scaling.scale[0]);
        fit.inducing = points.iter().map(|point| point.mul_add(scale, centre)).collect();
    }
    Some(fit)
}

/// The rows that the model was trained on and tested with, if they are still there and the same.
fn input(file: &ModelFile, feature: &str, target: &str) -> Option<InputTable> {
    let [source] = &file.meta.training.inputs[..] else { return None };
    let path = Path::new(&source.path);
    if source.rows > LARGEST || !path.is_file() || sha256_file(path).ok()? != source.sha256 {
        return None;
    }
    let selection =
        Selection { features: vec![feature.to_owned()], target: Some(target.to_owned()), ..Selection::default() };
    open(&discover(path).ok()?, &selection, InvalidPolicy::Error).ok()
}

/// Numbers of the rows that were predicted on the first fold.
fn test_rows(subject: &Subject<'_>, case: &str) -> BTreeSet<i64> {
    let mut rows = BTreeSet::new();
    let Some(path) = subject.tables.get(&TableKind::Predictions) else { return rows };
    let whole = subject.check(path).and_then(|()| open_columns(path, &["case", "fold", "row"]));
    let Ok(batches) = whole else { return rows };
    for batch in batches.flatten() {
        let column = |name: &str| batch.column_by_name(name);
        let cases = column("case").and_then(|column| column.as_string_opt::<i32>());
        let folds = column("fold").and_then(|column| column.as_primitive_opt::<Int32Type>());
        let numbers = column("row").and_then(|column| column.as_primitive_opt::<Int64Type>());
        let (Some(cases), Some(folds), Some(numbers)) = (cases, folds, numbers) else { return rows };
        let own = |row: &usize| cases.value(*row) == case && folds.value(*row) == 0;
        rows.extend((0..batch.num_rows()).filter(own).map(|row| numbers.value(row)));
        if rows.len() as u64 > LARGEST {
            break;
        }
    }
    rows
}
