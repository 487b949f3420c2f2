//! The Markov chains of deep methods: have they mixed?

use super::{RunContext, facts, grid};
use crate::eval::metrics::{Metric, of_chains};
use crate::report::chart::chain_charts;
use crate::report::data::ChainTraces;
use crate::report::number::{fixed, of_metric, significant};
use crate::report::table::{TableCell, table};
use crate::tables::MetricRow;
use maud::{Markup, html};
use std::collections::BTreeMap;

/// The metric that says whether chains agree.
const RHAT: &str = "rhat_log_likelihood";
/// Beyond this they do not.
const MIXED: f64 = 1.05;

/// Stage, case and fold.
type FitId<'a> = (&'a str, &'a str, i32);
/// Metrics of a fit by name.
type FitMetrics<'a> = BTreeMap<&'a str, f64>;

/// How many fits have chains that do not agree.
pub fn unmixed<'a>(metrics: impl IntoIterator<Item = &'a MetricRow>) -> usize {
    let of_fit = |row: &&MetricRow| row.metric == RHAT && row.stat == "value" && row.split == "train";
    let apart = |row: &&MetricRow| row.value.is_some_and(|rhat| rhat.is_nan() || rhat > MIXED);
    metrics.into_iter().filter(of_fit).filter(apart).count()
}

/// A table of the diagnostics, and the traces of some fits.
pub fn chains(context: &RunContext<'_>) -> Markup {
    let run = context.run;
    let mut fits: Vec<(FitId<'_>, FitMetrics<'_>)> = Vec::new();
    let mut places: BTreeMap<FitId<'_>, usize> = BTreeMap::new();
    for row in run.metrics.iter().filter(|row| row.split == "train" && row.stat == "value") {
        if !of_chains().any(|metric| metric.name == row.metric) {
            continue;
        }
        let place = (row.stage.as_str(), row.case.as_str(), row.fold.unwrap_or(0));
        let position = *places.entry(place).or_insert_with(|| {
            fits.push((place, BTreeMap::new()));
            fits.len() - 1
        });
        fits[position].1.extend(row.value.map(|value| (row.metric.as_str(), value)));
    }
    let none = FitMetrics::new();
    html! {
        @if !fits.is_empty() {
            (summary(&fits))
            @let table = diagnostics(context, &fits);
            @if fits.len() > 6 {
                details { summary { "All " (fits.len()) " fits" } (table) }
            } @else {
                (table)
            }
        }
        @for fit in &run.chains {
            @let place = (fit.stage.as_str(), fit.case.as_str(), fit.fold);
            (traces(context, fit, places.get(&place).map_or(&none, |position| &fits[*position].1)))
        }
    }
}

fn summary(fits: &[(FitId<'_>, FitMetrics<'_>)]) -> Markup {
    let all = |name: &'static str| fits.iter().filter_map(move |(_, values)| values.get(name).copied());
    let mixed = all(RHAT).filter(|rhat| *rhat <= MIXED).count();
    let worst = all(RHAT).fold(f64::NAN, f64::max);
    let least = all("ess_log_likelihood").fold(f64::NAN, f64::min);
    html! {
        p {
            @if worst.is_nan() {
                "R̂ and the effective sample size are not known: there were too few transitions."
            } @else {
                (mixed) " of " (fits.len()) " fits have mixed (R̂ of the log-likelihood up to " (MIXED) "); \
                the worst R̂ is " strong { (fixed(worst, 2)) } ", the least effective sample size "
                strong { (fixed(least, 0)) } "."
            }
        }
    }
}

fn diagnostics(context: &RunContext<'_>, fits: &[(FitId<'_>, FitMetrics<'_>)]) -> Markup {
    let named: Vec<String> = of_chains().map(|metric| format!("{}#", metric.caption.unwrap_or(metric.name))).collect();
    let mut headings = vec!["stage", "case", "fold#"];
    headings.extend(named.iter().map(String::as_str));
    headings.push("mixed");
    let row = |((stage, case, fold), values): &(FitId<'_>, FitMetrics<'_>)| {
        let verdict = match values.get(RHAT) {
            Some(rhat) if *rhat <= MIXED => html! { span.good { "yes" } },
            Some(_) => html! { span.bad { "no" } },
            None => html! { "–" },
        };
        let value =
            |metric: &Metric| TableCell::number(values.get(metric.name).copied(), |value| of_metric(metric, value));
        let fold = TableCell::number(Some(f64::from(*fold)), |fold| format!("{fold}"));
        let mut cells = vec![TableCell::new(stage), TableCell::new(context.case_title(case)), fold];
        cells.extend(of_chains().map(value));
        cells.push(TableCell::new(verdict));
        cells
    };
    table("Diagnostics of the chains", &headings, fits.iter().map(row))
}

fn traces(context: &RunContext<'_>, fit: &ChainTraces, values: &FitMetrics<'_>) -> Markup {
    let charts = chain_charts(fit);
    let [likelihood, acceptance, hyper @ ..] = &charts[..] else { return Markup::default() };
    let mut list = vec![("chains", fit.particles.len().to_string()), ("EM iterations", fit.iterations.to_string())];
    list.extend(of_chains().map(|metric| {
        (metric.words, values.get(metric.name).map_or_else(|| "–".to_owned(), |value| of_metric(metric, *value)))
    }));
    let last = fit.particles.first().and_then(|points| points.last());
    if let Some(last) = last.filter(|_| hyper.is_empty()) {
        let length = last.length.map_or_else(String::new, |length| format!(", λ = {}", significant(length, 3)));
        let held = format!("σ² = {}{length}, γ² = {}", significant(last.variance, 3), significant(last.noise, 3));
        list.push(("hyper-parameters, held fixed", held));
    }
    let figures = html! {
        (likelihood) (acceptance)
        div.aside {
            (facts(&list))
            p {
                "One thin line per chain. Shaded: the frozen chains, if there are any, that R̂ and the effective \
                sample size come from."
            }
        }
        @for chart in hyper { (chart) }
    };
    html! {
        h3 { (fit.stage) ", " (context.case_title(&fit.case)) ", fold " (fit.fold) }
        (grid(3, [figures]))
    }
}
