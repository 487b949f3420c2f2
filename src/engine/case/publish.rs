//! Publishes models that have a condition to meet, once the metrics are known.

use super::{CaseRun, Output};
use crate::engine::error::RunError;
use crate::plan::{ModelSource, SplitWay, Stage, Step, TrainStep};
use crate::store::ModelFile;
use crate::store::model::{Published, publish};
use crate::tables::MetricRow;
use std::collections::BTreeMap;
use std::path::Path;

impl<'a> CaseRun<'a, '_> {
    /// Publishes every model whose condition is met, and says of the others why they are not.
    pub(super) fn publish_gated(&mut self) -> Result<(), RunError> {
        for stage in &self.case.stages {
            let Step::Train(step) = &stage.step else { continue };
            if let Some(directory) = &step.publish {
                self.publish_one(stage, step, directory)?;
            }
        }
        Ok(())
    }

    fn publish_one(&self, stage: &'a Stage, step: &TrainStep, directory: &Path) -> Result<(), RunError> {
        let Some(gate) = &step.gate else { return Ok(()) };
        let Some(Output::Models { models, .. }) = self.outputs.get(stage.id.as_str()) else { return Ok(()) };
        let [model] = models.as_slice() else { return Ok(()) };
        let record = &self.shared.record;
        let not = |why: &str| {
            let stays = if directory.exists() { "the one that is published stays" } else { "nothing is published" };
            record.warn(&format!("{}: not published to {}: {why}; {stays}", stage.id, directory.display()))
        };
        let measured = self.measured(&stage.id);
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
        publish(&file, directory)?;
        Ok(())
    }

    /// The test metrics of the model, or nothing unless all of them are there; of one that is trained on every row and
    /// has none, those of the other models of the run.
    fn measured(&self, model: &str) -> Vec<&[MetricRow]> {
        let of = |wanted: &dyn Fn(&str) -> bool| {
            let metrics = |stage: &'a Stage| {
                let Step::Evaluate(evaluate) = &stage.step else { return None };
                let Step::Predict(predict) = &self.case.stage(&evaluate.input)?.step else { return None };
                let ModelSource::Stage(model) = &predict.model else { return None };
                if !predict.test_rows || !wanted(model) {
                    return None;
                }
                match self.outputs.get(stage.id.as_str()) {
                    Some(Output::Metrics(rows)) => Some(Some(rows.as_slice())),
                    _ => Some(None),
                }
            };
            // Planned measurements that were not made (`--to`) must not be replaced by others.
            let all: Vec<Option<&[MetricRow]>> = self.case.stages.iter().filter_map(metrics).collect();
            (!all.is_empty()).then(|| all.into_iter().collect::<Option<Vec<_>>>().unwrap_or_default())
        };
        match of(&|name| name == model) {
            Some(own) => own,
            None if self.trains_on_all_rows(model) => of(&|_| true).unwrap_or_default(),
            None => Vec::new(),
        }
    }

    fn trains_on_all_rows(&self, model: &str) -> bool {
        let Some(Step::Train(train)) = self.case.stage(model).map(|stage| &stage.step) else { return false };
        let split = self.case.stage(&train.input).map(|stage| &stage.step);
        matches!(split, Some(Step::Split(split)) if split.way == SplitWay::All)
    }
}
