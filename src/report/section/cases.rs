//! The table of cases and metrics: mean and deviation, the best of each column marked.

use super::paired::paired;
use super::{RunContext, plus_minus};
use crate::eval::metrics::Metric;
use crate::report::number::{decimals_for, seconds};
use crate::report::select::{FoldValues, Group, MeanStd, distinct, groups, method_name};
use crate::report::table::{self, TableCell};
use maud::{Markup, html};

/// One table per evaluate stage; repetitions are averaged, and listed one by one below.
pub fn cases(context: &RunContext<'_>) -> Markup {
    let run = context.run;
    let measured = FoldValues::new(&run.metrics);
    let groups = groups(&run.cases);
    let single: Vec<Group> = run
        .cases
        .iter()
        .map(|case| Group { name: case.label.clone(), values: case.values.clone(), cases: vec![case.label.clone()] })
        .collect();
    html! {
        @for stage in measured.stages() {
            @if measured.stages().len() > 1 { h3 { (stage) } }
            (table(context, &measured, stage, &groups))
            (paired(context, &measured, stage, &groups))
            @if single.len() > groups.len() {
                details {
                    summary { "All " (single.len()) " cases one by one" }
                    (table(context, &measured, stage, &single))
                }
            }
        }
        @if !measured.stages().is_empty() {
            p.quiet {
                "Mean ± sample standard deviation over the n folds and repetitions. " span.best { "Bold" }
                ": best of its column; for coverage, nearest to 95 %. A click on a heading sorts."
            }
        }
    }
}

/// A metric and its statistics for every group.
struct Column {
    metric: &'static Metric,
    stats: Vec<Option<MeanStd>>,
    decimals: usize,
    /// How good the best of several groups is.
    best: Option<f64>,
}

impl Column {
    fn new(metric: &'static Metric, stats: Vec<Option<MeanStd>>) -> Self {
        let known = || stats.iter().flatten();
        let best = known().filter_map(|stat| metric.badness(stat.mean)).min_by(f64::total_cmp);
        let decimals = decimals_for(known().map(|stat| stat.mean));
        Self { metric, best: best.filter(|_| known().count() > 1), decimals, stats }
    }

    fn cell(&self, row: usize) -> TableCell {
        let Some(stat) = self.stats[row] else { return TableCell::number(None, |_| String::new()) };
        let badness = self.metric.badness(stat.mean);
        // Coverage is sorted by its distance from what it should be.
        let key = badness.filter(|_| self.metric.nominal().is_some()).unwrap_or(stat.mean);
        let is_best = badness.is_some() && badness == self.best;
        let shown = plus_minus(stat.mean, stat.std, self.decimals);
        TableCell::new(shown).by(Some(key)).class(if is_best { "n best" } else { "n" })
    }
}

fn table(context: &RunContext<'_>, measured: &FoldValues<'_>, stage: &str, groups: &[Group]) -> Markup {
    let variables: Vec<&str> = distinct(groups.iter().flat_map(|group| &group.values).map(|(name, _)| name.as_str()));
    let has_method = variables.contains(&"method");
    let stats = |metric: &Metric| groups.iter().map(|group| measured.stat(stage, &group.cases, metric.name)).collect();
    let columns: Vec<Column> = measured
        .metrics(stage)
        .filter(|metric| metric.column)
        .map(|metric| Column::new(metric, stats(metric)))
        .collect();
    let mut headings: Vec<String> = if has_method { Vec::new() } else { vec!["method".to_owned()] };
    headings.extend(variables.iter().map(|name| (*name).to_owned()));
    headings.push("n#".to_owned());
    headings.extend(columns.iter().map(|column| format!("{}#", column.metric.name)));
    headings.extend(["training / fold#".to_owned(), "prediction / fold#".to_owned()]);
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let known = |row: &usize| columns.iter().any(|column| column.stats[*row].is_some());
    let cells = |row: usize| {
        let group = &groups[row];
        let mut cells = Vec::new();
        if !has_method {
            cells.push(TableCell::new(measured.method(stage, &group.cases).map_or("–", method_name)));
        }
        cells.extend(variables.iter().map(|variable| {
            let value = group.value(variable);
            let shown = if *variable == "method" { method_name(value) } else { value };
            TableCell::new(shown).by(value.parse().ok().filter(|value: &f64| value.is_finite()))
        }));
        let count = columns.iter().filter_map(|column| column.stats[row]).map(|stat| stat.count).max();
        cells.push(TableCell::number(count.map(|count| count as f64), |value| format!("{value}")));
        cells.extend(columns.iter().map(|column| column.cell(row)));
        for cost in [context.training(stage, &group.cases), context.prediction(stage, &group.cases)] {
            cells.push(TableCell::number(cost.map(|cost| cost.wall_s / cost.pieces as f64), seconds));
        }
        cells
    };
    table::table(&format!("Test metrics of the stage {stage}"), &headings, (0..groups.len()).filter(known).map(cells))
}
