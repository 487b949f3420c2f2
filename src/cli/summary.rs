//! What a run prints when it is done: the headline metrics of every case, and where the tables are.

use super::grid::{Grid, fits};
use crate::engine::{Plan, Shard, Summary};
use crate::eval::metrics::{METRICS, Metric};
use crate::stages::ingest::Ingest;
use crate::tables::MetricRow;
use crate::text::cell;
use std::any::Any;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The headline metrics of every case, and where the tables are.
pub fn describe(plan: &Plan, summary: &Summary) -> String {
    let shown = printed();
    let mut out = String::new();
    let mut stages: Vec<&str> = Vec::new();
    // Train stages have metrics of their own, of which the warnings say what matters.
    for row in summary.metrics.iter().filter(|row| shown.iter().any(|metric| metric.name == row.metric)) {
        if !stages.contains(&row.stage.as_str()) {
            stages.push(&row.stage);
        }
    }
    let titles: Vec<String> = shown.iter().map(|metric| title(metric, plan)).collect();
    for stage in stages {
        let numbers = |case: &str| -> Vec<String> {
            shown.iter().map(|metric| value(&summary.metrics, case, stage, metric.name)).collect()
        };
        let rows = plan.cases.iter().map(|case| (case.label.as_str(), numbers(&case.label)));
        out.push_str(&table(stage, &titles, &rows.collect::<Vec<_>>()));
    }
    let results = plan.results.display();
    let _ =
        writeln!(out, "run {}: {} task(s) done, {} taken from the cache", summary.run_id, summary.done, summary.cached);
    let _ = writeln!(
        out,
        "tables: {results}/{{predictions,metrics,timings,traces,runs,cases,params}}/pipeline={}/",
        plan.name
    );
    if let Some(report) = &summary.report {
        let _ = writeln!(out, "report: {}", report.display());
    }
    out
}

/// What a share of the work did, and what comes after.
pub fn describe_shard(plan: &Plan, summary: &Summary, shard: Shard) -> String {
    let Summary { run_id, done, cached, others, .. } = summary;
    format!(
        "run {run_id}, shard {shard}: {done} task(s) done, {cached} taken from the cache, {others} left to other shards\n\
         when all shards are done, `stride-pipe run {}` collects the results\n",
        plan.file
    )
}

/// Labels beside their numbers, or above them where both do not fit.
pub(super) fn table(stage: &str, titles: &[String], rows: &[(&str, Vec<String>)]) -> String {
    let beside = |labels: bool| {
        let first = |label: &str| if labels { label.to_owned() } else { " ".to_owned() };
        let mut grid = Grid::new([first(stage)].into_iter().chain(titles.iter().cloned()), 1);
        for (label, numbers) in rows {
            grid.push([first(label)].into_iter().chain(numbers.iter().cloned()));
        }
        grid.to_text(0)
    };
    let text = beside(true);
    if fits(&text) {
        return text;
    }
    let (mut out, narrow) = (String::new(), beside(false));
    let labels = rows.iter().map(|(label, _)| cell(label));
    for (label, numbers) in [cell(stage)].into_iter().chain(labels).zip(narrow.lines()) {
        let _ = writeln!(out, "{label}\n{numbers}");
    }
    out
}

/// What a column is called; errors are in the units of the target, which says what that is.
fn title(metric: &Metric, plan: &Plan) -> String {
    let stages = plan.cases.iter().flat_map(|case| &case.stages);
    let target = stages.filter_map(|stage| {
        (stage.stage.as_ref() as &dyn Any).downcast_ref::<Ingest>()?.target_name().map(str::to_owned)
    });
    let targets: BTreeSet<String> = target.collect();
    title_with(metric, targets.first().filter(|_| targets.len() == 1).map(String::as_str))
}

/// The same where the target is known.
pub(super) fn title_with(metric: &Metric, target: Option<&str>) -> String {
    let title = metric.printed.map_or(metric.name, |(_, title)| title);
    match target.filter(|target| metric.in_units_of_the_target && target.chars().count() <= LONGEST_TARGET) {
        Some(target) => format!("{title} ({target})"),
        None => title.to_owned(),
    }
}

/// The metrics that are printed, in their order.
pub(super) fn printed() -> Vec<&'static Metric> {
    let mut shown: Vec<&Metric> = METRICS.iter().filter(|metric| metric.printed.is_some()).collect();
    shown.sort_by_key(|metric| metric.printed);
    shown
}

/// Longer names take the room of the numbers.
const LONGEST_TARGET: usize = 16;

/// A metric over the folds of a case.
pub(super) fn value(metrics: &[MetricRow], case: &str, stage: &str, metric: &str) -> String {
    let find = |stat: &str| {
        let fits = |row: &&MetricRow| {
            row.case == case && row.stage == stage && row.metric == metric && row.stat == stat && row.fold.is_none()
        };
        metrics.iter().find(fits).and_then(|row| row.value)
    };
    match (find("mean"), find("std")) {
        (Some(mean), Some(std)) => {
            let decimals = decimals(mean.abs().max(std));
            format!("{} ± {}", written(mean, decimals), written(std, decimals))
        }
        (Some(mean), None) => written(mean, decimals(mean)),
        _ => "-".to_owned(),
    }
}

/// Decimals that leave about four digits; none for numbers that are better written with an exponent.
fn decimals(size: f64) -> Option<usize> {
    if size == 0.0 {
        return Some(4);
    }
    let exponent = size.abs().log10().floor();
    (-4.0..7.0).contains(&exponent).then(|| (3.0 - exponent).clamp(0.0, 4.0) as usize)
}

fn written(value: f64, decimals: Option<usize>) -> String {
    decimals.map_or_else(|| format!("{value:.3e}"), |decimals| format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_fit_a_narrow_terminal() {
        let titles = ["R²", "RMSE (height)", "NLPD", "in 95 %"].map(str::to_owned);
        let numbers = || vec!["0.9876 ± 0.0123".to_owned(); 4];
        let short = table("metrics", &titles, &[("m=50", numbers())]);
        assert_eq!(short.lines().count(), 2);
        let label = "architecture=convolution,kernel=rational_quadratic,m=50";
        let long = table("metrics", &titles, &[(label, numbers()), ("default", numbers())]);
        assert_eq!(long.lines().filter(|line| *line == label).count(), 1);
        for line in short.lines().chain(long.lines()) {
            assert!(fits(line), "{line}");
        }
    }

    #[test]
    fn numbers_have_about_four_digits() {
        let shown = |value: f64| written(value, decimals(value));
        assert_eq!(
            [0.98765, -1.23456, 123.456, 98_765.4, 0.0].map(shown),
            ["0.9877", "-1.235", "123.5", "98765", "0.0000"]
        );
        assert_eq!([1.5e9, 0.000_012].map(shown), ["1.500e9", "1.200e-5"]);
    }
}
