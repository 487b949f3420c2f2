//! Metrics and times against the matrix variables, one line per method.

use super::{Context, grid};
use crate::eval::metrics::of_predictions;
use crate::report::chart::{Across, Labels, Line, LinePoint, line_chart};
use crate::report::data::Cost;
use crate::report::html::escape;
use crate::report::number::{seconds, significant};
use crate::report::select::{Group, Measured, Stat, groups, method_name, name};
use crate::report::series::{COLOURS, legend};
use std::fmt::Write as _;

/// A figure of a group of cases by name.
type Figure<'a> = (String, Option<f64>, bool, Box<dyn Fn(&str, &Group) -> Option<Stat> + 'a>);

/// Charts of every variable that has more than one value; without any, the stages are compared.
pub fn sweep(context: &Context<'_>) -> String {
    let measured = Measured::new(&context.run.metrics);
    let groups = groups(&context.run.cases);
    let mut variables: Vec<String> = Vec::new();
    for (name, _) in groups.iter().flat_map(|group| &group.values) {
        if name != "method" && !variables.contains(name) {
            variables.push(name.clone());
        }
    }
    variables.retain(|variable| distinct(&groups, variable).len() > 1);
    let mut out = String::new();
    for stage in measured.stages() {
        for variable in &variables {
            if measured.stages().len() > 1 || variables.len() > 1 {
                let _ = writeln!(out, "<h3>{}: against {}</h3>", escape(stage), escape(variable));
            }
            out.push_str(&against(context, &measured, &groups, stage, variable));
        }
    }
    if variables.is_empty() && (groups.len() > 1 || measured.stages().len() > 1) {
        out.push_str(&by_stage(context, &measured, &groups));
    }
    out
}

fn distinct(groups: &[Group], variable: &str) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for group in groups {
        let value = value_of(group, variable);
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

fn value_of(group: &Group, variable: &str) -> String {
    group.values.iter().find(|(name, _)| name == variable).map_or_else(|| "–".to_owned(), |(_, value)| value.clone())
}

/// What is drawn: metrics of the evaluate stage, then times of the stages behind it.
fn figures<'a>(context: &'a Context<'_>, measured: &'a Measured<'a>) -> Vec<Figure<'a>> {
    let mut figures: Vec<Figure<'a>> = Vec::new();
    for (metric, caption) in of_predictions().filter_map(|metric| Some((metric, metric.caption?))) {
        let stat = move |stage: &str, group: &Group| measured.stat(stage, &group.cases, metric.name);
        figures.push((caption.to_owned(), metric.nominal(), false, Box::new(stat)));
    }
    let time = |caption: &str, phase: &'static str| -> Figure<'a> {
        let stat = move |stage: &str, group: &Group| {
            let id = if phase == "offline" { context.train_stage(stage) } else { context.predict_stage(stage) }?;
            let own = |cost: &&Cost| cost.stage == id && cost.phase == phase && group.cases.contains(&cost.case);
            pooled(context.run.costs.iter().filter(own))
        };
        (caption.to_owned(), None, true, Box::new(stat))
    };
    figures.push(time("Training (offline), seconds per fold", "offline"));
    figures.push(time("Prediction (online), seconds per fold", "online"));
    figures
}

fn pooled<'a>(costs: impl Iterator<Item = &'a Cost>) -> Option<Stat> {
    let (wall, squares, pieces) =
        costs.fold((0.0, 0.0, 0), |sum, cost| (sum.0 + cost.wall_s, sum.1 + cost.wall_squares, sum.2 + cost.pieces));
    if pieces == 0 {
        return None;
    }
    let count = pieces as f64;
    let mean = wall / count;
    let std = (pieces > 1).then(|| ((squares - count * mean * mean) / (count - 1.0)).max(0.0).sqrt());
    Some(Stat { mean, std, count: pieces as usize })
}

/// All figures against one variable; cases that share their other values are a line.
fn against(context: &Context<'_>, measured: &Measured<'_>, groups: &[Group], stage: &str, variable: &str) -> String {
    let values = distinct(groups, variable);
    let numbers: Option<Vec<f64>> =
        values.iter().map(|value| value.parse().ok().filter(|value: &f64| value.is_finite())).collect();
    let mut order: Vec<usize> = (0..values.len()).collect();
    if let Some(numbers) = &numbers {
        order.sort_by(|a, b| numbers[*a].total_cmp(&numbers[*b]));
    }
    let values: Vec<String> = order.iter().map(|at| values[*at].clone()).collect();
    let across = match numbers {
        Some(numbers) => Across::Numbers(order.iter().map(|at| numbers[*at]).collect()),
        None => Across::Names(values.clone()),
    };
    let method = |group: &Group| measured.method(stage, &group.cases).unwrap_or_default().to_owned();
    let rest = |group: &Group| -> String {
        let others: Vec<(String, String)> = group.values.iter().filter(|(name, _)| name != variable).cloned().collect();
        if others.is_empty() { method_name(&method(group)).to_owned() } else { name(&others) }
    };
    let mut names: Vec<String> = Vec::new();
    for group in groups {
        if !names.contains(&rest(group)) {
            names.push(rest(group));
        }
    }
    let left_out = names.len().saturating_sub(COLOURS);
    names.truncate(COLOURS);
    let mut figures_out = String::new();
    for (caption, nominal, time, stat) in figures(context, measured) {
        let line = |(series, name): (usize, &String)| {
            let points = values.iter().enumerate().filter_map(|(at, value)| {
                let group = groups.iter().find(|group| rest(group) == *name && value_of(group, variable) == *value)?;
                let stat = stat(stage, group)?;
                Some(point(at, stat, &format!("{name}, {variable} = {value}"), time))
            });
            Line { series, points: points.collect() }
        };
        let lines: Vec<Line> = names.iter().enumerate().map(line).filter(|line| !line.points.is_empty()).collect();
        if lines.is_empty() {
            continue;
        }
        let labels =
            Labels { caption: &caption, x: variable, y: "", reference: nominal.map(|value| (value, "nominal")) };
        figures_out.push_str(&line_chart(if time { "time" } else { "metric" }, &labels, &across, &lines, time));
    }
    let entries: Vec<(usize, String)> = names.into_iter().enumerate().collect();
    let more = if left_out > 0 {
        format!("<p class=quiet>{left_out} more combinations are in the table only.</p>\n")
    } else {
        String::new()
    };
    format!("{}{}{more}", grid(3, &figures_out), legend(&entries))
}

fn point(at: usize, stat: Stat, what: &str, time: bool) -> LinePoint {
    let show = |value: f64| if time { seconds(value) } else { significant(value, 4) };
    let std = stat.std.map_or_else(String::new, |std| format!(" ± {}", show(std)));
    let over = if stat.count > 1 { format!(" ({} values)", stat.count) } else { String::new() };
    LinePoint { at, mean: stat.mean, std: stat.std, words: format!("{what}: {}{std}{over}", show(stat.mean)) }
}

/// Without a variable: all methods side by side, for every evaluate stage.
fn by_stage(context: &Context<'_>, measured: &Measured<'_>, groups: &[Group]) -> String {
    let stages: Vec<String> = measured.stages().iter().map(|stage| (*stage).to_owned()).collect();
    let shown = &groups[..groups.len().min(COLOURS)];
    // One stage only: its methods are named along the axis.
    let alone = stages.len() == 1;
    let names = if alone { shown.iter().map(|group| group.name.clone()).collect() } else { stages.clone() };
    let mut figures_out = String::new();
    for (caption, nominal, time, stat) in figures(context, measured) {
        let line = |(series, group): (usize, &Group)| {
            let points = stages.iter().enumerate().filter_map(|(at, stage)| {
                let at = if alone { series } else { at };
                Some(point(at, stat(stage, group)?, &format!("{stage}, {}", group.name), time))
            });
            Line { series, points: points.collect() }
        };
        let lines: Vec<Line> = shown.iter().enumerate().map(line).filter(|line| !line.points.is_empty()).collect();
        if lines.is_empty() {
            continue;
        }
        let labels = Labels { caption: &caption, x: "", y: "", reference: nominal.map(|value| (value, "nominal")) };
        let across = Across::Names(names.clone());
        figures_out.push_str(&line_chart(if time { "time" } else { "metric" }, &labels, &across, &lines, time));
    }
    let entries: Vec<(usize, String)> = shown.iter().map(|group| group.name.clone()).enumerate().collect();
    format!("{}{}", grid(3, &figures_out), if alone { String::new() } else { legend(&entries) })
}
