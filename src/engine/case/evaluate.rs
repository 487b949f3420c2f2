//! The evaluate stage of a case: metrics of all folds.

use super::{CaseRun, Output, Work, failed, lost};
use crate::engine::clock::Stopwatch;
use crate::engine::error::RunError;
use crate::engine::key;
use crate::engine::predicted::Predicted;
use crate::plan::{EvaluateStep, Stage};
use crate::stages::evaluate;
use crate::store::{read_table, write_rows};
use crate::tables::MetricRow;
use crate::tables::predictions::PredictionBlock;
use serde_json::Value as Json;

const METRICS: &str = "metrics.parquet";

impl<'a> CaseRun<'a, '_> {
    pub(super) fn evaluate(&mut self, stage: &'a Stage, step: &EvaluateStep) -> Result<Output, RunError> {
        let Some(Output::Predictions { method, keys, parts }) = self.outputs.get(step.input.as_str()) else {
            return Err(lost(&step.input));
        };
        let task = self.task(stage, None);
        let key = key::evaluate(keys, method);
        let (method, parts) = (method.clone(), parts.clone());
        let entry = self.perform(&task, &key, |run, draft| {
            let watch = Stopwatch::start();
            let blocks = parts.iter().map(Predicted::block).collect::<Result<Vec<_>, _>>()?;
            let run_id = run.shared.record.run_id.to_string();
            let context = evaluate::Context { run_id: &run_id, stage: &task.stage, case: &task.case, method: &method };
            let rows = evaluate::run(&context, &blocks).map_err(failed(&task))?;
            write_rows(&draft.file(METRICS), &rows)?;
            let count = blocks.iter().map(PredictionBlock::rows).sum();
            let timings = vec![run.shared.record.timing(&task, "evaluate", watch.read(), count)];
            Ok(Work { timings, outcome: headline(&rows), notes: Json::Null })
        })?;
        let rows: Vec<MetricRow> = read_table(&entry.file(METRICS))?;
        self.shared.record.add_metrics(&task, rows.clone());
        Ok(Output::Metrics(rows))
    }
}

fn headline(rows: &[MetricRow]) -> String {
    let metric = crate::eval::metrics::headline();
    let value = |stat: &str| rows.iter().find(|row| row.metric == metric && row.stat == stat).and_then(|row| row.value);
    match (value("mean"), value("std")) {
        (Some(mean), Some(std)) => format!("{metric} {mean:.4} ± {std:.4}"),
        (Some(mean), None) => format!("{metric} {mean:.4}"),
        _ => "metrics".to_owned(),
    }
}
