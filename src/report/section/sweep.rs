//! Metrics and times against the matrix variables, one line per method.

use super::{RunContext, grid};
use crate::eval::metrics::{Metric, of_predictions};
use crate::report::chart::{Across, Labels, Line, LinePoint, line_chart};
use crate::report::data::CaseCost;
use crate::report::number::{of_metric, seconds};
use crate::report::select::{FoldValues, Group, MeanStd, distinct, groups, method_name, name};
use crate::report::series::{COLOURS, legend};
use maud::{Markup, html};

/// Charts of every variable that has more than one value; without any, the stages are compared.
pub fn sweep(context: &RunContext<'_>) -> Markup {
    let measured = FoldValues::new(&context.run.metrics);
    let groups = groups(&context.run.cases);
    let names = groups.iter().flat_map(|group| &group.values).map(|(name, _)| name.as_str());
    let mut variables: Vec<&str> = distinct(names.filter(|name| *name != "method"));
    variables.retain(|variable| distinct(groups.iter().map(|group| group.value(variable))).len() > 1);
    let shown = Sweep { context, measured: &measured, groups: &groups };
    html! {
        @for stage in measured.stages() {
            @for variable in &variables {
                @if measured.stages().len() > 1 || variables.len() > 1 { h3 { (stage) ": against " (variable) } }
                (shown.against(stage, variable))
            }
        }
        @if variables.is_empty() && (groups.len() > 1 || measured.stages().len() > 1) { (shown.by_stage()) }
    }
}

/// A chart: a metric of the evaluate stage, or a time of the stages behind it.
#[derive(Clone, Copy)]
enum Figure {
    Metric(&'static Metric, &'static str),
    Training,
    Prediction,
}

impl Figure {
    fn all() -> impl Iterator<Item = Self> {
        let metrics = of_predictions().filter_map(|metric| Some(Self::Metric(metric, metric.caption?)));
        metrics.chain([Self::Training, Self::Prediction])
    }

    const fn caption(self) -> &'static str {
        match self {
            Self::Metric(_, caption) => caption,
            Self::Training => "Training (offline), seconds per fold",
            Self::Prediction => "Prediction (online), seconds per fold",
        }
    }

    fn show(self, value: f64) -> String {
        if let Self::Metric(metric, _) = self { of_metric(metric, value) } else { seconds(value) }
    }

    fn point(self, at: usize, stat: MeanStd, what: &str) -> LinePoint {
        let std = stat.std.map_or_else(String::new, |std| format!(" ± {}", self.show(std)));
        let over = if stat.count > 1 { format!(" ({} values)", stat.count) } else { String::new() };
        LinePoint { at, mean: stat.mean, std: stat.std, words: format!("{what}: {}{std}{over}", self.show(stat.mean)) }
    }
}

/// Seconds of a piece of work.
fn per_piece(cost: &CaseCost) -> MeanStd {
    let count = cost.pieces as f64;
    let mean = cost.wall_s / count;
    let std = (cost.pieces > 1).then(|| ((cost.wall_squares - count * mean * mean) / (count - 1.0)).max(0.0).sqrt());
    MeanStd { mean, std, count: cost.pieces as usize }
}

struct Sweep<'a> {
    context: &'a RunContext<'a>,
    measured: &'a FoldValues<'a>,
    groups: &'a [Group],
}

impl Sweep<'_> {
    fn stat(&self, figure: Figure, stage: &str, group: &Group) -> Option<MeanStd> {
        match figure {
            Figure::Metric(metric, _) => self.measured.stat(stage, &group.cases, metric.name),
            Figure::Training => self.context.training(stage, &group.cases).as_ref().map(per_piece),
            Figure::Prediction => self.context.prediction(stage, &group.cases).as_ref().map(per_piece),
        }
    }

    /// All figures against one variable; cases that share their other values are a line.
    fn against(&self, stage: &str, variable: &str) -> Markup {
        let values: Vec<&str> = distinct(self.groups.iter().map(|group| group.value(variable)));
        let numbers: Option<Vec<(f64, &str)>> = values
            .iter()
            .map(|value| Some((value.parse().ok().filter(|number: &f64| number.is_finite())?, *value)))
            .collect();
        let (across, values): (Across, Vec<&str>) = if let Some(mut numbers) = numbers {
            numbers.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (numbers, values) = numbers.into_iter().unzip();
            (Across::Numbers(numbers), values)
        } else {
            (Across::Names(values.iter().map(|value| (*value).to_owned()).collect()), values)
        };
        let rest = |group: &Group| -> String {
            let others: Vec<(String, String)> =
                group.values.iter().filter(|(name, _)| name != variable).cloned().collect();
            let method = || self.measured.method(stage, &group.cases).unwrap_or_default();
            if others.is_empty() { method_name(method()).to_owned() } else { name(&others) }
        };
        let mut names: Vec<String> = distinct(self.groups.iter().map(rest));
        let left_out = names.len().saturating_sub(COLOURS);
        names.truncate(COLOURS);
        let points = |figure: Figure, series: usize| {
            let name = &names[series];
            let point = |(at, value): (usize, &&str)| {
                let is = |group: &&Group| rest(group) == *name && group.value(variable) == *value;
                let stat = self.stat(figure, stage, self.groups.iter().find(is)?)?;
                Some(figure.point(at, stat, &format!("{name}, {variable} = {value}")))
            };
            values.iter().enumerate().filter_map(point).collect()
        };
        html! {
            (charts(variable, &across, names.len(), points))
            (legend(names.iter().enumerate()))
            @if left_out > 0 { p.quiet { (left_out) " more combinations are in the table only." } }
        }
    }

    /// Without a variable: all methods side by side, for every evaluate stage.
    fn by_stage(&self) -> Markup {
        let stages = self.measured.stages();
        let shown = &self.groups[..self.groups.len().min(COLOURS)];
        // One stage only: its methods are named along the axis.
        let alone = stages.len() == 1;
        let names = if alone {
            shown.iter().map(|group| group.name.clone()).collect()
        } else {
            stages.iter().map(|stage| (*stage).to_owned()).collect()
        };
        let points = |figure: Figure, series: usize| {
            let point = |(at, stage): (usize, &&str)| {
                let at = if alone { series } else { at };
                let stat = self.stat(figure, stage, &shown[series])?;
                Some(figure.point(at, stat, &format!("{stage}, {}", shown[series].name)))
            };
            stages.iter().enumerate().filter_map(point).collect()
        };
        html! {
            (charts("", &Across::Names(names), shown.len(), points))
            @if !alone { (legend(shown.iter().map(|group| &group.name).enumerate())) }
        }
    }
}

/// All figures with so many lines; `points` gives those of one.
fn charts(x: &str, across: &Across, lines: usize, points: impl Fn(Figure, usize) -> Vec<LinePoint>) -> Markup {
    let chart = |figure: Figure| {
        let line = |series| Line { series, points: points(figure, series) };
        let lines: Vec<Line> = (0..lines).map(line).filter(|line| !line.points.is_empty()).collect();
        let (is_time, reference) = match figure {
            Figure::Metric(metric, _) => (false, metric.nominal().map(|value| (value, "nominal"))),
            Figure::Training | Figure::Prediction => (true, None),
        };
        let labels = Labels { caption: figure.caption(), x, reference };
        (!lines.is_empty()).then(|| line_chart(&labels, across, &lines, is_time))
    };
    grid(3, Figure::all().filter_map(chart))
}
