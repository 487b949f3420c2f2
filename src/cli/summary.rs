//! What a run prints when it is done: the headline metrics of every case, and where the tables are.

use crate::engine::Plan;
use crate::engine::Summary;
use crate::eval::metrics::{METRICS, Metric};
use std::fmt::Write as _;

/// The headline metrics of every case, and where the tables are.
pub fn describe(plan: &Plan, summary: &Summary) -> String {
    let mut shown: Vec<&Metric> = METRICS.iter().filter(|metric| metric.printed.is_some()).collect();
    shown.sort_by_key(|metric| metric.printed);
    let shown: Vec<&str> = shown.into_iter().map(|metric| metric.name).collect();
    let mut out = String::new();
    let value = |case: &str, stage: &str, metric: &str, stat: &str| {
        let fits = |row: &&crate::tables::MetricRow| {
            row.case == case && row.stage == stage && row.metric == metric && row.stat == stat && row.fold.is_none()
        };
        summary.metrics.iter().find(fits).and_then(|row| row.value)
    };
    let mut stages: Vec<&str> = Vec::new();
    // Train stages have metrics of their own, of which the warnings say what matters.
    for row in summary.metrics.iter().filter(|row| shown.contains(&row.metric.as_str())) {
        if !stages.contains(&row.stage.as_str()) {
            stages.push(&row.stage);
        }
    }
    let labels = plan.cases.iter().map(|case| case.label.as_str());
    let width = labels.chain(stages.iter().copied()).map(|label| label.chars().count()).max().unwrap_or(0);
    for stage in stages {
        let _ = write!(out, "{stage:<width$}");
        for metric in &shown {
            let _ = write!(out, "  {metric:>20}");
        }
        out.push('\n');
        for case in &plan.cases {
            let _ = write!(out, "{:<width$}", case.label);
            for metric in &shown {
                let cell = match (value(&case.label, stage, metric, "mean"), value(&case.label, stage, metric, "std")) {
                    (Some(mean), Some(std)) => format!("{mean:.4} ± {std:.4}"),
                    (Some(mean), None) => format!("{mean:.4}"),
                    _ => "-".to_owned(),
                };
                let _ = write!(out, "  {cell:>20}");
            }
            out.push('\n');
        }
    }
    let results = plan.redactor.clean(&plan.results.display().to_string());
    let _ =
        writeln!(out, "run {}: {} task(s) done, {} taken from the cache", summary.run_id, summary.done, summary.cached);
    let _ = writeln!(
        out,
        "tables: {results}/{{predictions,metrics,timings,traces,runs,cases,params}}/pipeline={}/",
        plan.name
    );
    if let Some(report) = &summary.report {
        let _ = writeln!(out, "report: {}", plan.redactor.clean(&report.display().to_string()));
    }
    out
}
