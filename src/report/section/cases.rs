//! The table of cases and metrics: mean and deviation, the best of each column marked.

use super::Context;
use crate::eval::metrics::Metric;
use crate::report::html::{Cell, Table, escape};
use crate::report::number::{decimals_for, fixed, seconds};
use crate::report::select::{Group, Measured, groups, method_name};
use std::fmt::Write as _;

/// One table per evaluate stage; repetitions are averaged, and listed one by one below.
pub fn cases(context: &Context<'_>) -> String {
    let run = context.run;
    let measured = Measured::new(&run.metrics);
    let groups = groups(&run.cases);
    let single: Vec<Group> = run
        .cases
        .iter()
        .map(|case| Group { name: case.label.clone(), values: case.values.clone(), cases: vec![case.label.clone()] })
        .collect();
    let mut out = String::new();
    for stage in measured.stages() {
        if measured.stages().len() > 1 {
            let _ = writeln!(out, "<h3>{}</h3>", escape(stage));
        }
        out.push_str(&table(context, &measured, stage, &groups));
        if single.len() > groups.len() {
            let _ = writeln!(
                out,
                "<details><summary>All {} cases one by one</summary>{}</details>",
                single.len(),
                table(context, &measured, stage, &single)
            );
        }
    }
    if !out.is_empty() {
        out.push_str(
            "<p class=quiet>Mean ± sample standard deviation over the n folds and repetitions. <span class=best>Bold</span>: best of its \
             column; for coverage, nearest to 95 %. A click on a heading sorts.</p>\n",
        );
    }
    out
}

fn table(context: &Context<'_>, measured: &Measured<'_>, stage: &str, groups: &[Group]) -> String {
    let metrics: Vec<&Metric> = measured.metrics(stage).filter(|metric| metric.column).collect();
    let mut variables: Vec<&str> = Vec::new();
    for (name, _) in groups.iter().flat_map(|group| &group.values) {
        if !variables.contains(&name.as_str()) {
            variables.push(name);
        }
    }
    let has_method = variables.contains(&"method");
    let mut columns: Vec<String> = Vec::new();
    if !has_method {
        columns.push("method".to_owned());
    }
    columns.extend(variables.iter().map(|name| (*name).to_owned()));
    columns.push("n#".to_owned());
    columns.extend(metrics.iter().map(|metric| format!("{}#", metric.name)));
    let train = context.train_stage(stage);
    let predict = context.predict_stage(stage);
    columns.extend(["training / fold#".to_owned(), "prediction / fold#".to_owned()]);
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new(&format!("Test metrics of the stage {stage}"), true, &columns);
    let stats: Vec<Vec<_>> = metrics
        .iter()
        .map(|metric| groups.iter().map(|group| measured.stat(stage, &group.cases, metric.name)).collect())
        .collect();
    let decimals: Vec<usize> =
        stats.iter().map(|column| decimals_for(column.iter().flatten().map(|stat| stat.mean))).collect();
    let best: Vec<Option<f64>> = metrics
        .iter()
        .zip(&stats)
        .map(|(metric, column)| {
            let scores = column.iter().flatten().filter_map(|stat| metric.badness(stat.mean));
            scores.min_by(f64::total_cmp).filter(|_| column.iter().flatten().count() > 1)
        })
        .collect();
    for (row, group) in groups.iter().enumerate() {
        if stats.iter().all(|column| column[row].is_none()) {
            continue;
        }
        let mut cells = Vec::new();
        let method = measured.method(stage, &group.cases).map_or("–", method_name);
        if !has_method {
            cells.push(Cell::text(method));
        }
        for variable in &variables {
            let value =
                group.values.iter().find(|(name, _)| name == variable).map_or("–", |(_, value)| value.as_str());
            let shown = if *variable == "method" { method_name(value) } else { value };
            cells.push(Cell::text(shown).by(value.parse().ok().filter(|value: &f64| value.is_finite())));
        }
        let count = stats.iter().filter_map(|column| column[row]).map(|stat| stat.count).max();
        cells.push(Cell::number(count.map(|count| count as f64), |value| format!("{value}")));
        for (column, metric) in metrics.iter().enumerate() {
            let stat = stats[column][row];
            let shown = stat.map_or_else(
                || "–".to_owned(),
                |stat| {
                    let mean = fixed(stat.mean, decimals[column]);
                    let std = stat.std.map_or_else(String::new, |std| {
                        format!(" <span class=pm>± {}</span>", fixed(std, decimals[column]))
                    });
                    format!("{mean}{std}")
                },
            );
            let is_best =
                stat.and_then(|stat| metric.badness(stat.mean)).is_some_and(|score| Some(score) == best[column]);
            // Coverage is sorted by its distance from what it should be.
            let key = stat.map(|stat| {
                if metric.nominal().is_some() { metric.badness(stat.mean).unwrap_or(stat.mean) } else { stat.mean }
            });
            cells.push(Cell::markup(shown).by(key).class(if is_best { "n best" } else { "n" }));
        }
        let time = |stage: &Option<String>, phase: &str| {
            let own = |cost: &&crate::report::data::Cost| {
                Some(&cost.stage) == stage.as_ref() && cost.phase == phase && group.cases.contains(&cost.case)
            };
            let (wall, pieces) = context
                .run
                .costs
                .iter()
                .filter(own)
                .fold((0.0, 0), |sum, cost| (sum.0 + cost.wall_s, sum.1 + cost.pieces));
            (pieces > 0).then(|| wall / pieces as f64)
        };
        cells.push(Cell::number(time(&train, "offline"), seconds));
        cells.push(Cell::number(time(&predict, "online"), seconds));
        table.row(cells);
    }
    table.finish()
}
