//! Explains the model of a fold: rows are changed, predicted and compared.
//!
//! Features are columns of the table that the model takes: what permutes or varies here is a column as it is stored, before
//! categories, times and gaps are encoded.

use super::{EXPLANATIONS, Explain};
use crate::eval::sensitivity::{explained, mean_and_std, places, sobol_index};
use crate::features::RawRows;
use crate::gp::random::{StreamKey, permutation, sample_without_replacement};
use crate::stages::job::{Cancel, Progress};
use crate::stages::train::{TargetPrediction, TrainedModel};
use crate::stages::{Job, Model, StageError, Work};
use crate::store::{InputTable, ModelFile, Selection, write_rows};
use crate::tables::ExplanationRow;
use ndarray::{Array2, Axis, concatenate, s};
use serde_json::json;

/// The step of a sensitivity, in scales of its feature; half of it is tried too.
const STEP: f64 = 1e-3;
/// Both steps agree to this share of the largest sensitivity of the row, or the function is not smooth there.
const AGREES: f64 = 0.02;

/// Explains the job's fold with these rows of the table.
pub fn explain(
    stage: &Explain,
    model: &Model,
    (table, candidates): (&InputTable, Vec<usize>),
    seed: u64,
    job: &mut Job<'_, '_>,
) -> Result<Work, StageError> {
    job.spans.phase("explain");
    let loaded;
    let file = if let Some(file) = &model.file {
        file.as_ref()
    } else {
        loaded = ModelFile::load(&model.path)?;
        &loaded
    };
    let trained = TrainedModel::from_file(file, &model.path)?;
    let trained = if stage.local { trained } else { trained.without_local() };
    let names = trained.input_names();
    let features = wanted(stage, &names)?;
    let key = StreamKey::new(seed).with("explain").with_index(job.task.fold.map_or(0, |(fold, _)| u64::from(fold)));
    let drawn = sample_without_replacement(&mut key.with("rows").generator(), candidates.len(), stage.rows as usize);
    let rows: Vec<usize> = drawn.into_iter().map(|place| candidates[place]).collect();
    if rows.len() < 2 {
        return Err(StageError::Data {
            what: format!("{} row(s) to explain the model with", rows.len()),
            hint: "two are the least: give an input, or a split, with more of them".to_owned(),
        });
    }
    let (x, levels) = trained.raw_rows(table, &rows)?;
    let subject = Explained {
        model: &trained,
        names: &names,
        x,
        levels,
        y: table.target.as_ref().map(|target| rows.iter().map(|row| target[*row]).collect()),
        keys: rows.iter().map(|row| table.key_text(*row)).collect(),
        rows,
        key,
        fold: job.task.fold_number(),
        cancel: job.cancel,
    };
    let mut all = Vec::new();
    let mut notes = Vec::new();
    let total = 4 * features.len();
    let report = |done: usize| {
        let progress = Progress { what: "features", done, total: Some(total), chains: None };
        job.record.listener.progress(job.task, &progress, None);
    };
    job.spans.phase("explain.permutation");
    all.extend(subject.permutation(stage, &features, &mut notes)?);
    report(features.len());
    job.spans.phase("explain.partial");
    let (ordered, categories): (Vec<usize>, Vec<usize>) =
        features.iter().partition(|feature| !trained.is_category(**feature));
    for (done, feature) in ordered.iter().enumerate() {
        all.extend(subject.partial(stage, *feature)?);
        report(features.len() + done + 1);
    }
    if !categories.is_empty() {
        let names: Vec<&str> = categories.iter().map(|feature| names[*feature].as_str()).collect();
        notes.push(format!("categories have no curve and no slope: {}", names.join(", ")));
    }
    job.spans.phase("explain.sobol");
    all.extend(subject.sobol(stage, &features, &mut notes)?);
    report(3 * features.len());
    job.spans.phase("explain.sensitivity");
    let numbers: Vec<(usize, f64)> =
        features.iter().filter_map(|feature| Some((*feature, trained.number_scale(*feature)?))).collect();
    all.extend(subject.sensitivities(stage, &numbers, &mut notes)?);
    job.spans.end_phases();
    write_rows(&job.draft.file(EXPLANATIONS), &all)?;
    let outcome = format!("{} features, {} rows", features.len(), subject.rows.len());
    Ok(Work { rows: subject.rows.len(), outcome, notes: json!({ "notes": notes }) })
}

/// Places of the features that are asked for.
fn wanted(stage: &Explain, names: &[String]) -> Result<Vec<usize>, StageError> {
    let Some(patterns) = &stage.features else { return Ok((0..names.len()).collect()) };
    let selects = |pattern: &String, name: &str| {
        Selection { features: vec![pattern.clone()], ..Selection::default() }.wants(name)
    };
    if let Some(pattern) = patterns.iter().find(|pattern| !names.iter().any(|name| selects(pattern, name))) {
        return Err(StageError::Data {
            what: format!("`features`: the model has no feature `{pattern}`"),
            hint: format!("it has {}", names.join(", ")),
        });
    }
    let any = |name: &String| patterns.iter().any(|pattern| selects(pattern, name));
    Ok((0..names.len()).filter(|feature| any(&names[*feature])).collect())
}

/// A model, and rows to explain it with.
struct Explained<'a> {
    model: &'a TrainedModel,
    names: &'a [String],
    /// `[n, columns]`, in the model's order, before they are encoded.
    x: Array2<f64>,
    /// The levels of the columns that are categories.
    levels: Vec<Vec<String>>,
    y: Option<Vec<f64>>,
    keys: Vec<String>,
    rows: Vec<usize>,
    key: StreamKey,
    fold: Option<i32>,
    cancel: &'a Cancel,
}

impl Explained<'_> {
    fn predict(&self, x: &Array2<f64>, variance: bool) -> Result<TargetPrediction, StageError> {
        if self.cancel.is_set() {
            return Err(StageError::Interrupted { kept: None });
        }
        let (x, _) = self.model.encode_raw(RawRows { values: x.view(), levels: &self.levels });
        self.model.predict_unless(&|| self.cancel.is_set(), &x, variance)
    }

    fn means(&self, x: &Array2<f64>) -> Result<Vec<f64>, StageError> {
        Ok(self.predict(x, false)?.mean)
    }

    fn row(&self, kind: &str, stat: &str, feature: usize, value: f64, std: Option<f64>) -> ExplanationRow {
        ExplanationRow {
            run_id: String::new(),
            stage: String::new(),
            case: String::new(),
            fold: self.fold,
            kind: kind.to_owned(),
            feature: self.names[feature].clone(),
            at: None,
            value,
            std,
            stat: stat.to_owned(),
            key: None,
            row: None,
        }
    }

    /// How much worse R² is with a feature in random order.
    fn permutation(
        &self,
        stage: &Explain,
        features: &[usize],
        notes: &mut Vec<String>,
    ) -> Result<Vec<ExplanationRow>, StageError> {
        if stage.repeats == 0 {
            return Ok(Vec::new());
        }
        let Some(y) = &self.y else {
            notes.push("permutation importance needs a target, and the input has none: it is left out".to_owned());
            return Ok(Vec::new());
        };
        let Some(whole) = explained(y, &self.means(&self.x)?) else {
            notes.push("permutation importance is left out: the target is constant in these rows".to_owned());
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for feature in features {
            let stream = self.key.with("permutation").with(&self.names[*feature]);
            let mut losses = Vec::new();
            for repeat in 0..stage.repeats {
                let order = permutation(&mut stream.with_index(u64::from(repeat)).generator(), y.len());
                let mut x = self.x.clone();
                x.column_mut(*feature).assign(&self.x.column(*feature).select(Axis(0), &order));
                losses.extend(explained(y, &self.means(&x)?).map(|permuted| whole - permuted));
            }
            let measured = mean_and_std(&losses);
            found.extend(measured.map(|(mean, std)| self.row("permutation", "mean", *feature, mean, Some(std))));
        }
        Ok(found)
    }

    /// The mean prediction along a feature, and the curves of some rows.
    fn partial(&self, stage: &Explain, feature: usize) -> Result<Vec<ExplanationRow>, StageError> {
        let mut found = Vec::new();
        let known: Vec<f64> = self.x.column(feature).iter().copied().filter(|value| !value.is_nan()).collect();
        for at in places(&known, stage.grid as usize) {
            let mut x = self.x.clone();
            x.column_mut(feature).fill(at);
            let predicted = self.predict(&x, true)?;
            let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
            // The deviation of a mean is at most the mean of the deviations.
            let std = predicted.f_std.as_deref().map(mean);
            let row = self.row("partial", "mean", feature, mean(&predicted.mean), std);
            found.push(ExplanationRow { at: Some(at), ..row });
            for place in 0..(stage.curves as usize).min(self.rows.len()) {
                let std = predicted.f_std.as_ref().map(|std| std[place]);
                let row = self.row("partial", "individual", feature, predicted.mean[place], std);
                found.push(self.about_row(ExplanationRow { at: Some(at), ..row }, place));
            }
        }
        Ok(found)
    }

    fn about_row(&self, row: ExplanationRow, place: usize) -> ExplanationRow {
        ExplanationRow { key: Some(self.keys[place].clone()), row: Some(self.rows[place] as i64), ..row }
    }

    /// Rows whose features are drawn from those of the data independently of each other.
    fn independent(&self, name: &str, count: usize) -> Array2<f64> {
        let mut x = Array2::zeros((count, self.x.ncols()));
        for (feature, mut column) in x.columns_mut().into_iter().enumerate() {
            let mut generator = self.key.with("sobol").with(name).with(&self.names[feature]).generator();
            let mut order = Vec::new();
            for value in &mut column {
                // All values come equally often, as far as they can.
                if order.is_empty() {
                    order = permutation(&mut generator, self.x.nrows());
                }
                *value = order.pop().map_or(0.0, |row| self.x[[row, feature]]);
            }
        }
        x
    }

    /// First-order and total-effect indices.
    fn sobol(
        &self,
        stage: &Explain,
        features: &[usize],
        notes: &mut Vec<String>,
    ) -> Result<Vec<ExplanationRow>, StageError> {
        if stage.samples == 0 {
            return Ok(Vec::new());
        }
        let count = stage.samples as usize;
        let (a, b) = (self.independent("a", count), self.independent("b", count));
        let (at_a, at_b) = (self.means(&a)?, self.means(&b)?);
        let mut found = Vec::new();
        for feature in features {
            let mut mixed = a.clone();
            mixed.column_mut(*feature).assign(&b.column(*feature));
            let Some(index) = sobol_index(&at_a, &at_b, &self.means(&mixed)?) else {
                notes.push("Sobol indices are left out: the prediction is the same everywhere".to_owned());
                return Ok(Vec::new());
            };
            for (stat, estimate) in [("first", index.first), ("total", index.total)] {
                found.push(self.row("sobol", stat, *feature, estimate.value, Some(estimate.error)));
            }
        }
        Ok(found)
    }

    /// The slope of the mean prediction along each feature, at some rows.
    fn sensitivities(
        &self,
        stage: &Explain,
        features: &[(usize, f64)],
        notes: &mut Vec<String>,
    ) -> Result<Vec<ExplanationRow>, StageError> {
        let count = (stage.sensitivities as usize).min(self.rows.len());
        if count == 0 {
            return Ok(Vec::new());
        }
        let x = self.x.slice(s![..count, ..]);
        let mut slopes: Vec<(Vec<f64>, Vec<f64>)> = Vec::with_capacity(features.len());
        for (feature, scale) in features {
            let steps = [STEP, -STEP, 0.5 * STEP, -0.5 * STEP];
            let moved: Vec<Array2<f64>> = steps
                .iter()
                .map(|step| {
                    let mut moved = x.to_owned();
                    moved.column_mut(*feature).mapv_inplace(|value| step.mul_add(*scale, value));
                    moved
                })
                .collect();
            let views: Vec<_> = moved.iter().map(|moved| moved.view()).collect();
            let all = concatenate(Axis(0), &views).map_err(|error| StageError::Bug(error.to_string()))?;
            let means = self.means(&all)?;
            // By the distance that was gone, which rounding may have changed.
            let slope = |row: usize, pair: usize| {
                let (up, down) = (2 * pair * count + row, (2 * pair + 1) * count + row);
                let gone = all[[up, *feature]] - all[[down, *feature]];
                // Nothing moves where there is no value.
                if gone.is_nan() { 0.0 } else { (means[up] - means[down]) / gone }
            };
            slopes.push(((0..count).map(|row| slope(row, 0)).collect(), (0..count).map(|row| slope(row, 1)).collect()));
        }
        notes.extend(Self::uneven(features, &slopes, count));
        let mut found = Vec::new();
        for ((feature, _), (wide, narrow)) in features.iter().zip(&slopes) {
            // Both together are right to the fourth power of the step.
            let best: Vec<f64> = wide.iter().zip(narrow).map(|(wide, narrow)| (4.0 * narrow - wide) / 3.0).collect();
            let sizes: Vec<f64> = best.iter().map(|slope| slope.abs()).collect();
            let measured = mean_and_std(&sizes);
            found.extend(
                measured.map(|(mean, std)| self.row("sensitivity", "mean_absolute", *feature, mean, Some(std))),
            );
            for (place, slope) in best.into_iter().enumerate() {
                let row = self.row("sensitivity", "row", *feature, slope, None);
                let at = Some(self.x[[place, *feature]]).filter(|at| !at.is_nan());
                found.push(self.about_row(ExplanationRow { at, ..row }, place));
            }
        }
        Ok(found)
    }

    /// What to say of rows at which two steps disagree.
    fn uneven(features: &[(usize, f64)], slopes: &[(Vec<f64>, Vec<f64>)], count: usize) -> Option<String> {
        let uneven = |row: &usize| {
            let all = || features.iter().zip(slopes).map(|((_, scale), both)| (*scale, both.0[*row], both.1[*row]));
            let largest = all().map(|(scale, _, narrow)| (scale * narrow).abs()).fold(0.0, f64::max);
            all().any(|(scale, wide, narrow)| (scale * (wide - narrow)).abs() > AGREES * largest)
        };
        let rows = (0..count).filter(uneven).count();
        (rows > 0).then(|| {
            format!(
                "sensitivities at {rows} of {count} rows depend on the step: the prediction jumps or bends sharply there, as \
                 it does where the nearest training rows change"
            )
        })
    }
}
