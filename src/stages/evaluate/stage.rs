//! The evaluate stage of a case: metrics of all folds.

use crate::eval::metrics::of_predictions;
use crate::pipeline::tree::{Entry, Node};
use crate::pipeline::{Diagnostic, Diagnostics, Kind, Link, find, text};
use crate::stages::evaluate::Measurable;
use crate::stages::job::Key;
use crate::stages::predict::Predicted;
use crate::stages::{
    Collecting, Context, Job, Output, PredictionFiles, Preparation, Stage, StageError, StageKind, Work, evaluate, lost,
};
use crate::store::{StoreError, read_known, write_rows};
use crate::tables::MetricRow;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::rc::Rc;

/// The declaration of the kind.
pub static KIND: StageKind = StageKind {
    language: Kind {
        links: &[Link::to("input", &["predict"])],
        check,
        ..Kind::new::<Evaluate>("evaluate", "Computes metrics per fold and over folds.")
    },
    version: 1,
    read: crate::stages::read::<Evaluate>,
};

const METRICS: &str = "metrics.parquet";

/// Computes metrics per fold and over folds.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Evaluate {
    /// The predict stage.
    pub input: String,
}

impl Evaluate {
    fn predictions(&self, context: &Context<'_>) -> Result<Rc<PredictionFiles>, StageError> {
        match context.output(&self.input)? {
            Output::Predictions(predictions) => Ok(Rc::clone(predictions)),
            _ => Err(lost(&self.input)),
        }
    }
}

impl Stage for Evaluate {
    fn kind(&self) -> &'static StageKind {
        &KIND
    }

    fn inputs(&self) -> Vec<&str> {
        vec![&self.input]
    }

    fn prepare(&self, context: &Context<'_>) -> Result<Preparation, StageError> {
        let predictions = self.predictions(context)?;
        let (input, method) = (json!(predictions.hashes), json!(predictions.method));
        // With the names, so that what was evaluated before there was a metric is evaluated again.
        let metrics = json!(of_predictions().map(|metric| metric.name).collect::<Vec<_>>());
        let key = Key::new(&KIND, [("input", input), ("method", method), ("metrics", metrics)]);
        Ok(Preparation::new(Output::Metrics(context.cache.file(&key.hash, METRICS)), vec![key]))
    }

    fn perform(&self, context: &Context<'_>, job: &mut Job<'_, '_>) -> Result<Work, StageError> {
        let predictions = self.predictions(context)?;
        let measured = |part: &Predicted| {
            let (calibration, scale) = (part.calibration()?, part.transform()?);
            Ok(Measurable { block: part.block()?, calibration, scale })
        };
        let blocks = predictions.parts.iter().map(measured).collect::<Result<Vec<_>, StoreError>>()?;
        job.spans.phase("evaluate");
        let run_id = job.record.run_id.to_string();
        let (stage, case, method) = (context.id, context.case, predictions.method.as_str());
        let rows = evaluate::run(&evaluate::MetricContext { run_id: &run_id, stage, case, method }, &blocks)?;
        write_rows(&job.draft.file(METRICS), &rows)?;
        let count = blocks.iter().map(|part| part.block.rows()).sum();
        Ok(Work::done(count, headline(&rows)))
    }

    fn collect(&self, _: &Context<'_>, done: &mut Collecting<'_, '_>) -> Result<(), StageError> {
        Ok(done.record.add_rows::<MetricRow>(done.task, &read_known(&done.entry.file(METRICS))?)?)
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

/// Metrics need true values: the rows predicted must come with a target.
fn check(_: &Entry, options: &Node, stages: &[Entry], problems: &mut Diagnostics) {
    let Some((input, origin)) = text(options, "input") else { return };
    let Some(("predict", predict)) = find(stages, input) else { return };
    let Some((rows, _)) = text(predict, "input") else { return };
    if let Some(("ingest", source)) = find(stages, rows)
        && source.entry("target").is_none()
    {
        problems.push(
            Diagnostic::new(origin, format!("metrics need true values, and `{rows}` has no target"))
                .help(format!("add `target: COLUMN` to `{rows}`")),
        );
    }
}
