//! Ten seconds: how good, how sure, how costly.

use super::{RunContext, plus_minus, unmixed};
use crate::eval::metrics::Metric;
use crate::report::chart::strip;
use crate::report::data::PredictionCounts;
use crate::report::number::{bytes, count, percent, seconds, significant};
use crate::report::select::{FoldValues, Group, MeanStd, groups, is_baseline, method_name};
use crate::report::sureness::{Sureness, Tails};
use maud::{Markup, Render, html};
use std::collections::BTreeSet;

/// One card per evaluate stage, or one about the scores of a run without any.
pub fn headline(context: &RunContext<'_>) -> Markup {
    let measured = FoldValues::new(&context.run.metrics);
    let groups = groups(&context.run.cases);
    let card = |stage: &&str| {
        let metric = measured.headline(stage)?;
        let score = |group: &&Group| measured.badness(stage, &group.cases, metric).unwrap_or(f64::INFINITY);
        let best = groups.iter().min_by(|a, b| score(a).total_cmp(&score(b)))?;
        let method = measured.method(stage, &best.cases).map_or("", method_name);
        // What has to be beaten comes after what is to be used.
        let is_baseline = measured.method(stage, &best.cases).is_some_and(is_baseline);
        Some((
            is_baseline,
            html! {
                article.card {
                    h3 { @if let Some(target) = context.target(stage) { (target) ", " } (stage) }
                    (verdict(context, &measured, stage, best))
                    p.quiet {
                        @if best.values.is_empty() { (method) } @else { (best.name) }
                        @if groups.len() > 1 { ", the best of " (groups.len()) " by " (metric.name) }
                    }
                    div.tiles {
                        (good(&measured, stage, best, metric)) (sure(context, &measured, stage, best)) (costly(context, stage, best))
                    }
                }
            },
        ))
    };
    let mut cards: Vec<(bool, Markup)> = measured.stages().iter().filter_map(card).collect();
    cards.sort_by_key(|(is_baseline, _)| *is_baseline);
    let mut cards: Vec<Markup> = cards.into_iter().map(|(_, card)| card).collect();
    if cards.is_empty() {
        cards.extend(scored(context));
    }
    html! { @if !cards.is_empty() { div.cards { @for card in cards { (card) } } } }
}

/// The answer in one sentence, for somebody who reads nothing else.
fn verdict(context: &RunContext<'_>, measured: &FoldValues<'_>, stage: &str, best: &Group) -> Markup {
    let stat = |metric: &str| measured.stat(stage, &best.cases, metric).map(|stat| stat.mean);
    let target = context.target(stage).unwrap_or("the target");
    let mut parts: Vec<String> = Vec::new();
    parts.extend(stat("r2").map(|r2| match r2 {
        r2 if r2 <= 0.0 => format!("explains nothing of {target}"),
        r2 => format!("explains {} of the variance of {target}", percent(r2)),
    }));
    let (looked_at, sureness) = judged(context, measured, stage, best);
    // A few large errors, as those of skewed targets, make the RMSE larger than what is usual.
    let median = looked_at.and_then(|predicted| predicted.median_error);
    parts.extend(stat("rmse").map(|rmse| match median {
        Some(median) => {
            let (median, rmse) = (significant(median, 3), significant(rmse, 3));
            format!("is usually about {median} off, in its units (half of the errors are smaller; RMSE {rmse})")
        }
        None => format!("has errors of {} in its units (RMSE)", significant(rmse, 3)),
    }));
    let sureness = sureness.map_or_else(String::new, |sureness| format!(", {}", sureness.words()));
    parts.extend(
        stat("coverage_95")
            .map(|share| format!("puts {} of true values into its 95 % intervals{sureness}", percent(share))),
    );
    let Some((last, first)) = parts.split_last() else { return Markup::default() };
    let sentence = if first.is_empty() { last.clone() } else { format!("{} and {last}", first.join(", ")) };
    let apart = unmixed(context.run.metrics.iter().filter(|row| best.cases.contains(&row.case)));
    html! {
        p.verdict {
            "The model " (sentence) "."
            @if apart > 0 { " " span.warn { "The chains of " (apart) " fit(s) have not mixed: train longer before you rely on it." } }
            @if !context.run.alarms.is_empty() { " " span.warn { "Rows are unlike those of training." } }
        }
    }
}

fn tile(question: &str, figure: impl Render, detail: impl Render) -> Markup {
    html! { div.tile { div.question { (question) } div.figure { (figure) } div.detail { (detail) } } }
}

fn good(measured: &FoldValues<'_>, stage: &str, best: &Group, metric: &Metric) -> Markup {
    let values = measured.values(stage, &best.cases, metric.name);
    let Some(MeanStd { mean, std, count }) = MeanStd::of(&values) else { return Markup::default() };
    let over = match (count, best.cases.len()) {
        (1, _) => "one fold".to_owned(),
        (count, 1) => format!("{count} folds"),
        (count, cases) if count == cases => format!("{count} repetitions"),
        (count, _) => format!("{count} folds and repetitions"),
    };
    // Two digits of the spread, or four of the number.
    let decimals = std
        .filter(|std| *std > 0.0)
        .map_or_else(|| 3 - mean.abs().max(1e-12).log10().floor() as i32, |std| 1 - std.log10().floor() as i32);
    let figure = plus_minus(mean, std, decimals.clamp(0, 6) as usize);
    tile("How good?", figure, html! { (metric.words) ", " (over) (strip(&values, metric.name)) })
}

/// What was counted of the predictions, if they were looked at, and how sure they are: from all levels then, else from those
/// that are metrics.
fn judged<'a>(
    context: &RunContext<'a>,
    measured: &FoldValues<'_>,
    stage: &str,
    best: &Group,
) -> (Option<&'a PredictionCounts>, Option<Sureness>) {
    let level = |metric: &Metric| Some((metric.nominal()?, measured.stat(stage, &best.cases, metric.name)?.mean));
    let metrics = measured.metrics(stage).filter(|metric| metric.name.starts_with("coverage_"));
    let levels: Vec<(f64, f64)> = metrics.filter_map(level).collect();
    let predict = context.predict_stage(stage);
    let of_best = |predicted: &&PredictionCounts| {
        Some(predicted.stage.as_str()) == predict && best.cases.contains(&predicted.case)
    };
    let looked_at = context.run.predicted.iter().find(of_best).filter(|predicted| predicted.judged > 0);
    let sureness = match looked_at {
        // Of repetitions only the first was looked at.
        Some(predicted) if best.cases.len() == 1 => Sureness::of(&predicted.coverage, predicted.judged),
        _ => {
            let rows = best.cases.iter().flat_map(|case| measured.by_fold(stage, case, "coverage_95"));
            Sureness::of(&levels, rows.map(|(_, rows, _)| rows.unsigned_abs()).sum())
        }
    };
    (looked_at, sureness)
}

fn sure(context: &RunContext<'_>, measured: &FoldValues<'_>, stage: &str, best: &Group) -> Markup {
    let Some(stat) = measured.stat(stage, &best.cases, "coverage_95") else {
        return tile("How sure?", "–", "no predictive variances");
    };
    let (looked_at, sureness) = judged(context, measured, stage, best);
    let verdict = sureness.map_or_else(String::new, |sureness| format!(": {}", sureness.words()));
    let tails = looked_at.and_then(|predicted| predicted.tails).filter(Tails::are_heavy);
    let tails = tails.map_or_else(String::new, |tails| format!("; {}", tails.words()));
    let width = measured.stat(stage, &best.cases, "width_95");
    let unit = context.target(stage).map_or_else(String::new, |target| format!(" in units of {target}"));
    let width =
        width.map_or_else(String::new, |width| format!(", on average {} wide{unit}", significant(width.mean, 3)));
    tile("How sure?", percent(stat.mean), format!("of true values inside 95 % intervals{width}{verdict}{tails}"))
}

fn per_thousand(wall: f64, rows: i64) -> String {
    format!("{} per 1000 rows", seconds(1000.0 * wall / rows as f64))
}

fn costly(context: &RunContext<'_>, stage: &str, best: &Group) -> Markup {
    let training = context.training(stage, &best.cases);
    let prediction = context.prediction(stage, &best.cases).filter(|cost| cost.rows > 0);
    let figure =
        training.as_ref().map_or_else(|| "–".to_owned(), |cost| seconds(cost.wall_s / cost.pieces.max(1) as f64));
    let training = training.map(|cost| {
        let rows = count(cost.rows.unsigned_abs() / cost.pieces.max(1));
        format!("training on {rows} rows, memory peak {}", bytes(cost.peak_rss_bytes as f64))
    });
    let prediction = prediction.map(|cost| format!("prediction {}", per_thousand(cost.wall_s, cost.rows)));
    tile("How costly?", figure, training.into_iter().chain(prediction).collect::<Vec<_>>().join("; "))
}

/// A run that only scores: all of its stages and cases together, the most unusual one named.
fn scored(context: &RunContext<'_>) -> Option<Markup> {
    let run = context.run;
    let of = |metric: &'static str| {
        run.metrics.iter().filter(move |row| row.metric == metric && row.stat == "value" && row.split == "score")
    };
    of("rows_invalid").next()?;
    let read: u64 = of("rows_invalid").map(|row| row.rows.unsigned_abs()).sum();
    let invalid = of("rows_invalid").filter_map(|row| row.value).sum::<f64>() as u64;
    let (mut wall, mut scored) = (0.0, 0);
    for cost in run.costs.iter().filter(|cost| cost.phase == "online") {
        (wall, scored) = (wall + cost.wall_s, scored + cost.rows);
    }
    let most = |metric: &'static str| {
        of(metric)
            .filter_map(|row| Some((row.value.filter(|value| value.is_finite())?, row)))
            .max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let sure = most("variance_ratio").map(|(ratio, worst)| {
        let outside = most("share_outside_range").map_or_else(String::new, |(share, row)| {
            let feature = row.feature.as_deref().unwrap_or_default();
            if share > 0.0 {
                format!("; {feature} is outside the range of training in {} of the rows", percent(share))
            } else {
                "; no feature is outside the range of training".to_owned()
            }
        });
        let cases: BTreeSet<&str> = of("variance_ratio").map(|row| row.case.as_str()).collect();
        let place = if cases.len() > 1 {
            format!(" in {}, the most of {} cases", worst.case, cases.len())
        } else {
            String::new()
        };
        let detail = format!("times the predictive variance of training{place}{outside}");
        tile("How sure?", significant(ratio, 3), detail)
    });
    let many = format!("rows scored, {} could not be", count(invalid));
    Some(html! {
        article.card {
            h3 { "Scores" }
            div.tiles {
                (tile("How many?", count(read.saturating_sub(invalid)), many))
                @if let Some(sure) = sure { (sure) }
                @if scored > 0 { (tile("How costly?", seconds(wall), per_thousand(wall, scored))) }
            }
        }
    })
}
