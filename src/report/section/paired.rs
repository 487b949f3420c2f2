//! Methods compared on the same folds: differences in pairs, with standard errors that know that folds share training rows.

use super::{RunContext, plus_minus};
use crate::eval::metrics::Metric;
use crate::eval::paired::{PairedDifference, paired_difference, row_difference};
use crate::report::number::significant;
use crate::report::select::{FoldValues, Group, RunCase, distinct, is_repeat};
use crate::report::table::{self, TableCell};
use maud::{Markup, html};

/// Metrics that methods are compared by, beside the one that a stage is judged by.
const ALSO: &str = "nlpd";
/// Groups that are compared with the best one, at most.
const SHOWN: usize = 6;
/// Differences that are less likely than this between equally good methods are no chance.
const SURE: f64 = 0.05;

/// What tells two methods apart: fold by fold, or row by row.
type ComparedBy = fn(&RunContext<'_>, &FoldValues<'_>, (&str, &str), &Group, &Group) -> Option<PairedDifference>;

/// The best case of each method, or the best few of one method, each beside the best of all.
pub fn paired(context: &RunContext<'_>, measured: &FoldValues<'_>, stage: &str, groups: &[Group]) -> Markup {
    let Some(headline) = measured.headline(stage) else { return Markup::default() };
    let score = |group: &Group| measured.badness(stage, &group.cases, headline);
    let mut ranked: Vec<(f64, &Group)> = groups.iter().filter_map(|group| Some((score(group)?, group))).collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    let method = |group: &Group| measured.method(stage, &group.cases).unwrap_or_default().to_owned();
    let methods = distinct(ranked.iter().map(|(_, group)| method(group)));
    let shown: Vec<&Group> = if methods.len() > 1 {
        let best = |name: &String| ranked.iter().find(|(_, group)| method(group) == *name).map(|(_, group)| *group);
        methods.iter().filter_map(best).collect()
    } else {
        ranked.iter().map(|(_, group)| *group).collect()
    };
    let Some((best, others)) = shown.split_first() else { return Markup::default() };
    let also = measured.metrics(stage).find(|metric| metric.name == ALSO && metric.name != headline.name);
    let metrics: Vec<&Metric> = [headline].into_iter().chain(also).collect();
    let table_of = |difference: ComparedBy| -> Vec<(String, Vec<Option<PairedDifference>>)> {
        let compare = |other: &&Group| {
            let found = |metric: &&Metric| difference(context, measured, (stage, metric.name), best, other);
            (other.name.clone(), metrics.iter().map(found).collect::<Vec<_>>())
        };
        others.iter().take(SHOWN).map(compare).collect()
    };
    let is_known = |rows: &[(String, Vec<Option<PairedDifference>>)]| {
        rows.iter().any(|(_, found)| found.iter().any(Option::is_some))
    };
    let of_folds = table_of(over_folds);
    let has_folds = is_known(&of_folds);
    let rows = if has_folds { of_folds } else { table_of(over_rows) };
    if !is_known(&rows) {
        return Markup::default();
    }
    let unit = if has_folds { "folds#" } else { "test rows#" };
    let mut headings = vec![format!("compared with {}", best.name), unit.to_owned()];
    for metric in &metrics {
        headings.extend([format!("{} higher by#", metric.name), format!("p ({})#", metric.name)]);
    }
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let cells = |(name, found): &(String, Vec<Option<PairedDifference>>)| {
        let folds = found.iter().flatten().map(|found| found.count as u64).max();
        let mut cells = vec![TableCell::new(name), TableCell::count(folds)];
        for found in found {
            cells.extend(match found {
                None => [TableCell::number(None, |_| String::new()), TableCell::number(None, |_| String::new())],
                Some(PairedDifference { mean, standard_error, p, .. }) => {
                    let decimals = 1 - standard_error.max(1e-9).log10().floor() as i32;
                    let shown = plus_minus(*mean, Some(*standard_error), decimals.clamp(0, 6) as usize);
                    let p_shown = if *p < 0.001 { "< 0.001".to_owned() } else { significant(*p, 2) };
                    let class = if *p < SURE { "n best" } else { "n" };
                    [
                        TableCell::new(shown).by(Some(*mean)).class("n"),
                        TableCell::new(p_shown).by(Some(*p)).class(class),
                    ]
                }
            });
        }
        cells
    };
    let (what, how) = if has_folds {
        (
            "folds",
            "Mean difference ± standard error, fold by fold, corrected for training rows that folds share (Nadeau and Bengio).",
        )
    } else {
        (
            "test rows",
            "Mean difference ± standard error, row by row of the one fold: how sure it is on other such rows, for the two \
             models as they are trained. How much depends on the training rows only several folds would tell.",
        )
    };
    html! {
        (table::table(&format!("Differences on the same {what}, stage {stage}"), &headings, rows.iter().map(cells)))
        p.quiet {
            (how) " p: how likely a difference as large is between methods that are equally good; " span.best { "bold" }
            " below 5 %."
        }
    }
}

/// The other group less the best, on the folds and repetitions that both have.
fn over_folds(
    context: &RunContext<'_>,
    measured: &FoldValues<'_>,
    (stage, metric): (&str, &str),
    best: &Group,
    other: &Group,
) -> Option<PairedDifference> {
    let repetition = |label: &str| {
        let case: Option<&RunCase> = context.run.cases.iter().find(|case| case.label == label);
        let values =
            case.map(|case| case.values.iter().filter(|(name, _)| is_repeat(name)).cloned().collect::<Vec<_>>());
        values.unwrap_or_default()
    };
    let (mut differences, mut tested) = (Vec::new(), 0);
    for case in &best.cases {
        let Some(twin) = other.cases.iter().find(|label| repetition(label) == repetition(case)) else { continue };
        let others = measured.by_fold(stage, twin, metric);
        for (fold, rows, value) in measured.by_fold(stage, case, metric) {
            if let Some((.., with)) = others.iter().find(|(other, ..)| *other == fold) {
                differences.push(with - value);
                tested += rows;
            }
        }
    }
    let training = context.training(stage, &best.cases)?;
    let trained = training.rows as f64 / training.pieces.max(1) as f64;
    let tested = tested as f64 / differences.len().max(1) as f64;
    paired_difference(&differences, tested / trained.max(1.0))
}

/// The same on the test rows of one fold, of cases that were looked at closely.
fn over_rows(
    context: &RunContext<'_>,
    measured: &FoldValues<'_>,
    (stage, metric): (&str, &str),
    best: &Group,
    other: &Group,
) -> Option<PairedDifference> {
    let ([first], [second]) = (best.cases.as_slice(), other.cases.as_slice()) else { return None };
    let predict = context.predict_stage(stage)?;
    let find = |one: &str, two: &str| {
        context.run.row_pairs.iter().find(|pair| pair.stage == predict && pair.first == one && pair.second == two)
    };
    let (pair, sign) = find(first, second).map(|pair| (pair, 1.0)).or_else(|| Some((find(second, first)?, -1.0)))?;
    // In the units of the metric: SMSE is the mean square of errors over a variance.
    let (moments, unit) = match metric {
        "smse" => {
            let (.., smse) = measured.by_fold(stage, &pair.first, metric).first().copied()?;
            (pair.squared, smse / pair.errors.mean())
        }
        "nlpd" => (pair.nlpd, 1.0),
        _ => return None,
    };
    let (mean, standard_error) = (sign * unit * moments.mean(), unit * moments.standard_error()?);
    row_difference(mean, standard_error, moments.count as usize)
}
