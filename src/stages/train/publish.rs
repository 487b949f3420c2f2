//! Publishes a model that has a condition to meet, once the metrics are known.

use super::Train;
use super::gate::Gate;
use crate::stages::evaluate::Evaluate;
use crate::stages::job::Record;
use crate::stages::predict::Predict;
use crate::stages::split::Split;
use crate::stages::{Context, Output, StageError};
use crate::store::model::{MODEL_FILE, ModelMeta, PREVIOUS, Publication, Published, publish};
use crate::store::{ModelFile, read_known};
use crate::tables::MetricRow;
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
    let place = directory.join(MODEL_FILE);
    let text = match publish(file, directory, keep)? {
        Publication::Unchanged => format!("{stage}: {} has this model already", place.display()),
        Publication::New => format!("{stage}: published {}: {}", place.display(), describe(&file.meta)),
        Publication::Replaced(old) => format!(
            "{stage}: published {}: {}; it replaces {}, which is kept in {PREVIOUS}/",
            place.display(),
            describe(&file.meta),
            describe(&old)
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
    format!("{} of run {} on {} rows{shown}", meta.method, meta.training.run_id, meta.training.rows)
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
        let stays = if directory.exists() { "the one that is published stays" } else { "nothing is published" };
        record.warn(&format!("{}: not published to {}: {why}; {stays}", context.id, directory.display()))
    };
    let measured = measured(stage, context)?;
    if measured.is_empty() {
        return Ok(not("this run did not come to its metrics")?);
    }
    let mut metrics = BTreeMap::new();
    for rows in measured {
        let value = |metric: &str| {
            let mean = |row: &&MetricRow| row.metric == metric && row.stat == "mean" && row.split == "test";
            rows.iter().find(mean).and_then(|row| row.value)
        };
        for condition in &gate.conditions {
            let found = value(&condition.metric);
            if !condition.holds(found) {
                let found = found.map_or_else(|| "is not defined".to_owned(), |value| format!("is {value:.6}"));
                return Ok(not(&format!("`{}` {found}, and the condition is `{condition}`", condition.metric))?);
            }
        }
        let means = rows.iter().filter(|row| row.stat == "mean" && row.split == "test");
        metrics.extend(means.map(|row| (row.metric.clone(), row.value)));
    }
    let mut file = ModelFile::load(&model.path)?;
    file.meta.published = Some(Published { condition: gate.to_string(), metrics });
    put(&file, (directory, stage.publish_keep), context.id, record)
}

/// The test metrics of the model, or nothing unless all of them are there; of one that is trained on every row and has
/// none, those of the other models of the run.
fn measured(stage: &Train, context: &Context<'_>) -> Result<Vec<Vec<MetricRow>>, StageError> {
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
        stages = of(&|model| context.stage::<Train>(model).is_some());
    }
    let mut all = Vec::new();
    for id in stages {
        match context.outputs.get(id.as_str()) {
            Some(Output::Metrics(path)) => all.push(read_known(path)?),
            // Planned measurements that were not made (`--to`) must not be replaced by others.
            _ => return Ok(Vec::new()),
        }
    }
    Ok(all)
}
