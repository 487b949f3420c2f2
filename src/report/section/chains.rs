//! The Markov chains of deep methods: have they mixed?

use super::{Context, case_title, facts, grid};
use crate::report::chart::chain_charts;
use crate::report::html::{Cell, Table, escape};
use crate::report::number::{fixed, percent, significant};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Beyond this the chains do not agree.
const MIXED: f64 = 1.05;

/// A table of R̂, ESS and acceptance, and the traces of some fits.
pub fn chains(context: &Context<'_>) -> String {
    let run = context.run;
    let mut rows: BTreeMap<(&str, &str, i32), [Option<f64>; 3]> = BTreeMap::new();
    let mut order: Vec<(&str, &str, i32)> = Vec::new();
    for row in run.metrics.iter().filter(|row| row.split == "train" && row.stat == "value") {
        let column = match row.metric.as_str() {
            "rhat_log_likelihood" => 0,
            "ess_log_likelihood" => 1,
            "acceptance" => 2,
            _ => continue,
        };
        let place = (row.stage.as_str(), row.case.as_str(), row.fold.unwrap_or(0));
        if !rows.contains_key(&place) {
            order.push(place);
        }
        rows.entry(place).or_default()[column] = row.value;
    }
    let mut out = String::new();
    if !rows.is_empty() {
        let all = |column: usize| rows.values().filter_map(move |row| row[column]);
        let mixed = all(0).filter(|rhat| *rhat <= MIXED).count();
        let worst = all(0).fold(f64::NAN, f64::max);
        let least = all(1).fold(f64::NAN, f64::min);
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
        let mut table = Table::new(
            "Diagnostics of the chains",
            true,
            &["stage", "case", "fold#", "R̂#", "ESS#", "acceptance#", "mixed"],
        );
        for place in order {
            let [rhat, ess, acceptance] = rows[&place];
            let verdict = match rhat {
                Some(rhat) if rhat <= MIXED => Cell::markup("<span class=good>yes</span>".to_owned()),
                Some(_) => Cell::markup("<span class=bad>no</span>".to_owned()),
                None => Cell::text("–"),
            };
            table.row([
                Cell::text(place.0),
                Cell::text(&case_title(run, place.1)),
                Cell::number(Some(f64::from(place.2)), |fold| format!("{fold}")),
                Cell::number(rhat, |value| fixed(value, 3)),
                Cell::number(ess, |value| fixed(value, 0)),
                Cell::number(acceptance, percent),
                verdict,
            ]);
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
        let found = rows.get(&(fit.stage.as_str(), fit.case.as_str(), fit.fold)).copied().unwrap_or_default();
        let mut list = vec![
            ("chains", fit.particles.len().to_string()),
            ("EM iterations", fit.iterations.to_string()),
            ("R̂ of the log-likelihood", found[0].map_or_else(|| "–".to_owned(), |value| fixed(value, 3))),
            ("effective sample size", found[1].map_or_else(|| "–".to_owned(), |value| fixed(value, 0))),
            ("acceptance", found[2].map_or_else(|| "–".to_owned(), percent)),
        ];
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
