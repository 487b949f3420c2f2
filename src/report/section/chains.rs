//! The Markov chains of deep methods: have they mixed?

use super::{Context, case_title, facts, grid};
use crate::eval::metrics::{Metric, of_chains};
use crate::report::chart::chain_charts;
use crate::report::html::{Cell, Table, escape};
use crate::report::number::{fixed, of_metric, significant};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The metric that says whether chains agree.
const RHAT: &str = "rhat_log_likelihood";
/// Beyond this they do not.
const MIXED: f64 = 1.05;

/// A table of R̂, ESS and acceptance, and the traces of some fits.
pub fn chains(context: &Context<'_>) -> String {
    let run = context.run;
    let metrics: Vec<&Metric> = of_chains().collect();
    let rhat = metrics.iter().position(|metric| metric.name == RHAT);
    let mut rows: BTreeMap<(&str, &str, i32), Vec<Option<f64>>> = BTreeMap::new();
    let mut order: Vec<(&str, &str, i32)> = Vec::new();
    for row in run.metrics.iter().filter(|row| row.split == "train" && row.stat == "value") {
        let Some(column) = metrics.iter().position(|metric| metric.name == row.metric) else { continue };
        let place = (row.stage.as_str(), row.case.as_str(), row.fold.unwrap_or(0));
        if !rows.contains_key(&place) {
            order.push(place);
        }
        rows.entry(place).or_insert_with(|| vec![None; metrics.len()])[column] = row.value;
    }
    let mut out = String::new();
    if !rows.is_empty() {
        let all = |name: &str| {
            let column = metrics.iter().position(|metric| metric.name == name);
            rows.values().filter_map(move |row| row[column?])
        };
        let mixed = all(RHAT).filter(|rhat| *rhat <= MIXED).count();
        let worst = all(RHAT).fold(f64::NAN, f64::max);
        let least = all("ess_log_likelihood").fold(f64::NAN, f64::min);
        if worst.is_nan() {
            out.push_str("<p>R̂ and the effective sample size are not known: there were too few transitions.</p>\n");
        } else {
            let _ = writeln!(
                out,
                "<p>{mixed} of {} fits have mixed (R̂ of the log-likelihood up to {MIXED}); the worst R̂ is <strong>{}</strong>, the least \
                 effective sample size <strong>{}</strong>.</p>",
                rows.len(),
                fixed(worst, 2),
                fixed(least, 0)
            );
        }
        let headings: Vec<String> =
            metrics.iter().map(|metric| format!("{}#", metric.caption.unwrap_or(metric.name))).collect();
        let columns: Vec<&str> = ["stage", "case", "fold#"]
            .into_iter()
            .chain(headings.iter().map(String::as_str))
            .chain(["mixed"])
            .collect();
        let mut table = Table::new("Diagnostics of the chains", true, &columns);
        for place in order {
            let values = &rows[&place];
            let verdict = match rhat.and_then(|column| values[column]) {
                Some(rhat) if rhat <= MIXED => Cell::markup("<span class=good>yes</span>".to_owned()),
                Some(_) => Cell::markup("<span class=bad>no</span>".to_owned()),
                None => Cell::text("–"),
            };
            let mut cells = vec![
                Cell::text(place.0),
                Cell::text(&case_title(run, place.1)),
                Cell::number(Some(f64::from(place.2)), |fold| format!("{fold}")),
            ];
            let cell =
                |(metric, value): (&&Metric, &Option<f64>)| Cell::number(*value, |value| of_metric(metric, value));
            cells.extend(metrics.iter().zip(values).map(cell));
            cells.push(verdict);
            table.row(cells);
        }
        let table = table.finish();
        let long = rows.len() > 6;
        if long {
            let _ = writeln!(out, "<details><summary>All {} fits</summary>{table}</details>", rows.len());
        } else {
            out.push_str(&table);
        }
    }
    for fit in &run.chains {
        let [likelihood, acceptance, hyper @ ..] = &chain_charts(fit)[..] else { continue };
        let found = rows.get(&(fit.stage.as_str(), fit.case.as_str(), fit.fold));
        let mut list = vec![("chains", fit.particles.len().to_string()), ("EM iterations", fit.iterations.to_string())];
        list.extend(metrics.iter().enumerate().map(|(column, metric)| {
            let value = found.and_then(|values| values[column]);
            (metric.words, value.map_or_else(|| "–".to_owned(), |value| of_metric(metric, value)))
        }));
        let last = fit.particles.first().and_then(|points| points.last());
        if let Some(last) = last.filter(|_| hyper.is_empty()) {
            let length = last.length.map_or_else(String::new, |length| format!(", λ = {}", significant(length, 3)));
            let held = format!("σ² = {}{length}, γ² = {}", significant(last.variance, 3), significant(last.noise, 3));
            list.push(("hyper-parameters, held fixed", held));
        }
        let _ = write!(
            out,
            "<h3>{}, {}, fold {}</h3>\n{}",
            escape(&fit.stage),
            escape(&case_title(run, &fit.case)),
            fit.fold,
            grid(
                3,
                &format!(
                    "{likelihood}{acceptance}<div class=aside>{}<p>One thin line per chain. Shaded: the frozen chains, if there are any, that R̂ and the \
                effective sample size come from.</p></div>{}",
                    facts(&list),
                    hyper.concat()
                )
            )
        );
    }
    out
}
