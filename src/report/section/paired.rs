//! Methods compared on the same folds: differences in pairs, with standard errors that know that folds share training rows.

use super::{RunContext, plus_minus};
use crate::eval::metrics::Metric;
use crate::eval::paired::{PairedDifference, paired_difference};
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
    let compare = |other: &&Group| {
        let found = |metric: &&Metric| difference(context, measured, (stage, metric.name), best, other);
        (other.name.clone(), metrics.iter().map(found).collect::<Vec<_>>())
    };
    let rows: Vec<(String, Vec<Option<PairedDifference>>)> = others.iter().take(SHOWN).map(compare).collect();
    if rows.iter().all(|(_, found)| found.iter().all(Option::is_none)) {
        return Markup::default();
    }
    let mut headings = vec![format!("compared with {}", best.name), "folds#".to_owned()];
    for metric in &metrics {
        headings.extend([format!("{} higher by#", metric.name), format!("p ({})#", metric.name)]);
    }
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let cells = |(name, found): &(String, Vec<Option<PairedDifference>>)| {
        let folds = found.iter().flatten().map(|found| found.folds as u64).max();
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
    html! {
        (table::table(&format!("Differences on the same folds, stage {stage}"), &headings, rows.iter().map(cells)))
        p.quiet {
            "Mean difference ± standard error, fold by fold, corrected for training rows that folds share (Nadeau and \
            Bengio). p: how likely a difference as large is between methods that are equally good; " span.best { "bold" }
            " below 5 %."
        }
    }
}

/// The other group less the best, on the folds and repetitions that both have.
fn difference(
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
