//! Publishes a model that has a condition to meet, once the metrics are known.

use super::gate::{ComparedWith, Gate};
use super::seen::share_seen;
use super::{Train, TrainedModel};
use crate::stages::evaluate::{self, Evaluate, Measurable};
use crate::stages::job::Record;
use crate::stages::predict::Predict;
use crate::stages::split::Split;
use crate::stages::{Context, Output, StageError, lost};
use crate::store::model::{MODEL_FILE, ModelMeta, PREVIOUS, Publication, Published, model_path, publish};
use crate::store::object::{is_address, is_file};
use crate::store::{ModelFile, read_known};
use crate::tables::{MetricRow, PredictionBlock};
use std::any::Any;
use std::collections::BTreeMap;
use std::path::Path;

/// Publishes a model and says what that did: where it is now, how good it is, and what it replaced.
pub fn put(
    file: &ModelFile,
    (directory, keep): (&Path, u32),
    stage: &str,
    record: &Record<'_>,
) -> Result<(), StageError> {
    // In object storage, a small pointer says which version is published.
    let (place, kept) = if is_address(directory) {
        (directory.to_owned(), "as a version".to_owned())
    } else {
        (directory.join(MODEL_FILE), format!("in {PREVIOUS}/"))
    };
    let text = match publish(file, directory, keep)? {
        Publication::Unchanged => format!("{stage}: {} has this model already", place.display()),
        Publication::New => format!("{stage}: published {}: {}", place.display(), describe(&file.meta)),
        // Without the figures of the old one: they are of the rows of its day.
        Publication::Replaced(old) => format!(
            "{stage}: published {}: {}; it replaces {}, which is kept {kept}",
            place.display(),
            describe(&file.meta),
            origin(&old)
        ),
    };
    Ok(record.note(&text)?)
}

/// "stride of run 2026… on 1000 rows (smse 0.0412, rmse 1.2)".
fn describe(meta: &ModelMeta) -> String {
    let figures = meta.published.as_ref().map_or(&meta.metrics, |published| &published.metrics);
    let shown: Vec<String> = SHOWN
        .iter()
        .filter_map(|name| figures.get(*name).copied().flatten().map(|value| format!("{name} {value:.4}")))
        .collect();
    let shown = if shown.is_empty() { String::new() } else { format!(" ({})", shown.join(", ")) };
    format!("{}{shown}", origin(meta))
}

/// "stride of run 2026… on 1000 rows".
fn origin(meta: &ModelMeta) -> String {
    format!("{} of run {} on {} rows", meta.method, meta.training.run_id, meta.training.rows)
}

/// The figures of a model that are said when it is published, those that it has.
const SHOWN: [&str; 4] = ["smse", "rmse", "nlpd", "log_likelihood"];

/// Publishes the model if its condition is met, and says why if it is not.
pub fn if_good_enough(stage: &Train, context: &Context<'_>, record: &Record<'_>) -> Result<(), StageError> {
    let (Some(directory), Some(condition)) = (&stage.publish, &stage.publish_if) else { return Ok(()) };
    // The rules of the language have refused what does not parse.
    let Ok(gate) = Gate::parse(condition) else { return Ok(()) };
    let Some(Output::Models(models)) = context.outputs.get(context.id) else { return Ok(()) };
    let [model] = models.models.as_slice() else { return Ok(()) };
    let directory = directory.path();
    let not = |why: &str| {
        let stays =
            if is_file(&model_path(directory)) { "the one that is published stays" } else { "nothing is published" };
        record.warn(&format!("{}: not published to {}: {why}; {stays}", context.id, directory.display()))
    };
    let measured = measured(stage, context)?;
    if measured.is_empty() {
        return Ok(not("this run did not come to its metrics")?);
    }
    let mut metrics = BTreeMap::new();
    let compares = gate.conditions.iter().any(|condition| condition.bound == ComparedWith::Published);
    let mut file = ModelFile::load(&model.path)?;
    // Where nothing is published yet, or this very model, there is nothing to be better than.
    let is_other = || !ModelFile::load(directory).is_ok_and(|published| published.is_same(&file));
    let compares = compares && is_file(&model_path(directory)) && is_other();
    let several = measured.len() > 1;
    for (evaluate, rows) in measured {
        let published = match compares.then(|| standing(context, &evaluate, directory)).transpose() {
            Ok(published) => published,
            Err(error) => return Ok(not(&format!("the published model cannot be compared with: {error}"))?),
        };
        if let Some(share) = published.as_ref().and_then(|published| published.seen) {
            return Ok(not(&incomparable(context, stage, &gate, share))?);
        }
        for condition in &gate.conditions {
            let found = mean(&rows, &condition.metric);
            let other = published.as_ref().map(|published| mean(&published.metrics, &condition.metric));
            let holds = match (condition.bound, other) {
                (ComparedWith::Published, None) => found.is_some(),
                (_, other) => condition.holds(found, other.flatten()),
            };
            if !holds {
                let shown = |value: Option<f64>| value.map_or("not defined".to_owned(), |value| format!("{value:.6}"));
                let than = other.filter(|_| condition.bound == ComparedWith::Published);
                let than =
                    than.map_or_else(String::new, |other| format!(", that of the published model {}", shown(other)));
                let (metric, found) = (&condition.metric, shown(found));
                let place = if several { format!(" in `{evaluate}`") } else { String::new() };
                return Ok(not(&format!("`{metric}` is {found}{place}{than}, and the condition is `{condition}`"))?);
            }
        }
        let means = rows.iter().filter(|row| row.stat == "mean" && row.split == "test");
        metrics.extend(means.map(|row| (row.metric.clone(), row.value)));
    }
    file.meta.published = Some(Published { condition: gate.to_string(), metrics });
    put(&file, (directory, stage.publish_keep), context.id, record)
}

/// Why a comparison says nothing, and what to do.
fn incomparable(context: &Context<'_>, stage: &Train, gate: &Gate, share: f64) -> String {
    let id = context.id;
    let takes_all = context.stage::<Split>(&stage.input).is_some_and(Split::takes_all);
    let advice = if takes_all {
        format!(
            "`{id}` is trained on all rows, too, so this will not change: publish the model that is tested, with \
             `split: {{ hash: … }}` or `{{ time: … }}`, or compare with a number, such as `smse < 0.25`"
        )
    } else {
        format!(
            "to publish the new model once without a comparison: `--set stages.{id}.train.publish_if=null`; rows of \
             `split: {{ hash: … }}` or `{{ time: … }}` stay unseen from then on"
        )
    };
    format!(
        "`{gate}` cannot be judged, because the published model was trained on {:.0} % of the test rows and looks better on \
         them than it is; {advice}",
        (100.0 * share).max(1.0)
    )
}

/// The mean over folds of a metric of test rows.
fn mean(rows: &[MetricRow], metric: &str) -> Option<f64> {
    let mean = |row: &&MetricRow| row.metric == metric && row.stat == "mean" && row.split == "test";
    rows.iter().find(mean).and_then(|row| row.value)
}

/// How good the model is that is published.
struct PublishedStanding {
    metrics: Vec<MetricRow>,
    /// The share of the test rows that it was trained on, if that is why it looks good.
    seen: Option<f64>,
}

/// The metrics of the model that is published, on the test rows that an evaluate stage measures.
fn standing(context: &Context<'_>, evaluate: &str, directory: &Path) -> Result<PublishedStanding, StageError> {
    let predict = context.stage::<Evaluate>(evaluate).and_then(|stage| context.stage::<Predict>(&stage.input));
    let predict = predict.ok_or_else(|| lost(evaluate))?;
    let folds = context.folds_of(&predict.input)?;
    let (table, all_folds) = (folds.source.table()?, folds.all()?);
    let file = ModelFile::load(directory)?;
    let model = TrainedModel::from_file(&file, &model_path(directory))?;
    let seen = share_seen((&file, &model), &table, &all_folds)?;
    let model = if predict.local { model } else { model.without_local() };
    let mut blocks = Vec::new();
    for (fold, rows) in (0..).zip(all_folds.iter()) {
        let (x, _) = model.encode(&table, &rows.test)?;
        let prediction = model.predict(&x, true)?;
        let block = PredictionBlock {
            fold,
            split: "test".to_owned(),
            y_true: table.target.as_ref().map(|target| rows.test.iter().map(|row| target[*row]).collect()),
            noise_std: Some(prediction.noise_std),
            on_scale: prediction.on_scale.map(|on| (on.mean, on.std)),
            y_mean: prediction.mean,
            y_std: prediction.y_std,
            ..PredictionBlock::default()
        };
        let scale = model.scale().map(|scale| (scale.transform, scale.noise_std));
        blocks.push(Measurable { block, calibration: model.calibration().cloned(), scale });
    }
    let (stage, case, method) = (evaluate, context.case, file.meta.method.as_str());
    let metrics = evaluate::run(&evaluate::MetricContext { run_id: "", stage, case, method }, &blocks)?;
    Ok(PublishedStanding { metrics, seen })
}

/// The test metrics of the model, or nothing unless all of them are there; of one that is trained on every row and has
/// none, those of the other models of the run: those of its method, if there are any, because another model that it is
/// compared with says nothing of it.
fn measured(stage: &Train, context: &Context<'_>) -> Result<Vec<(String, Vec<MetricRow>)>, StageError> {
    let of = |wanted: &dyn Fn(&str) -> bool| {
        let measures = |(id, stage): &(&str, &dyn crate::stages::Stage)| {
            let evaluate = (*stage as &dyn Any).downcast_ref::<Evaluate>()?;
            let predict = context.stage::<Predict>(&evaluate.input)?;
            let of_test_rows = context.stage::<Split>(&predict.input).is_some();
            (of_test_rows && wanted(&predict.model)).then(|| (*id).to_owned())
        };
        context.stages.iter().filter_map(measures).collect::<Vec<String>>()
    };
    let takes_all = context.stage::<Split>(&stage.input).is_some_and(Split::takes_all);
    let mut stages = of(&|model| model == context.id);
    if stages.is_empty() && takes_all {
        let trained = |model: &str| context.stage::<Train>(model);
        stages = of(&|model| trained(model).is_some_and(|other| other.method.name() == stage.method.name()));
        if stages.is_empty() {
            stages = of(&|model| trained(model).is_some());
        }
    }
    let mut all = Vec::new();
    for id in stages {
        match context.outputs.get(id.as_str()) {
            Some(Output::Metrics(path)) => all.push((id.clone(), read_known(path)?)),
            // Planned measurements that were not made (`--to`) must not be replaced by others.
            _ => return Ok(Vec::new()),
        }
    }
    Ok(all)
}
