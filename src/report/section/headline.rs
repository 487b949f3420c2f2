//! Ten seconds: how good, how sure, how costly.

use super::Context;
use crate::eval::metrics::Metric;
use crate::report::chart::strip;
use crate::report::html::Text;
use crate::report::number::{bytes, count, fixed, percent, seconds, significant};
use crate::report::select::{Group, Measured, Stat, groups, method_name};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// One card per evaluate stage, or one about the scores of a run without any.
pub fn headline(context: &Context<'_>) -> String {
    let run = context.run;
    let measured = Measured::new(&run.metrics);
    let groups = groups(&run.cases);
    let mut cards = String::new();
    for stage in measured.stages() {
        let Some(metric) = measured.headline(stage) else { continue };
        let score = |group: &&Group| measured.badness(stage, &group.cases, metric).unwrap_or(f64::INFINITY);
        let Some(best) = groups.iter().min_by(|a, b| score(a).total_cmp(&score(b))) else { continue };
        let good = good(&measured, stage, best, metric);
        let sure = sure(&measured, stage, best);
        let costly = costly(context, stage, best);
        let method = measured.method(stage, &best.cases).map_or("", method_name);
        let name = if best.values.is_empty() { method.to_owned() } else { best.name.clone() };
        let of =
            if groups.len() > 1 { format!(", the best of {} by {}", groups.len(), metric.name) } else { String::new() };
        let _ = writeln!(
            cards,
            "<article class=card><h3>{}</h3><p class=quiet>{}{of}</p><div class=tiles>{good}{sure}{costly}</div></article>",
            Text(stage),
            Text(&name)
        );
    }
    if cards.is_empty() {
        cards = scored(context);
    }
    if cards.is_empty() { cards } else { format!("<div class=cards>\n{cards}</div>\n") }
}

fn tile(question: &str, figure: &str, detail: &str) -> String {
    format!(
        "<div class=tile><div class=question>{question}</div><div class=figure>{figure}</div><div class=detail>{detail}</div></div>"
    )
}

fn plus_minus(stat: Stat) -> String {
    // Two digits of the spread, or four of the number.
    let decimals = stat.std.filter(|std| *std > 0.0).map_or_else(
        || (3 - stat.mean.abs().max(1e-12).log10().floor() as i32).clamp(0, 6),
        |std| (1 - std.log10().floor() as i32).clamp(0, 6),
    );
    let mean = fixed(stat.mean, usize::try_from(decimals).unwrap_or(0));
    match stat.std {
        Some(std) => format!("{mean} <span class=pm>± {}</span>", fixed(std, usize::try_from(decimals).unwrap_or(0))),
        None => mean,
    }
}

fn good(measured: &Measured<'_>, stage: &str, best: &Group, metric: &Metric) -> String {
    let values = measured.values(stage, &best.cases, metric.name);
    let Some(stat) = Stat::of(&values) else { return String::new() };
    let over = match (stat.count, best.cases.len()) {
        (1, _) => "one fold".to_owned(),
        (count, 1) => format!("{count} folds"),
        (count, cases) if count == cases => format!("{count} repetitions"),
        (count, _) => format!("{count} folds and repetitions"),
    };
    let detail = format!("{}, {over}{}", metric.words, strip(&values, metric.name));
    tile("How good?", &plus_minus(stat), &detail)
}

fn sure(measured: &Measured<'_>, stage: &str, best: &Group) -> String {
    let Some(stat) = measured.stat(stage, &best.cases, "coverage_95") else {
        return tile("How sure?", "–", "no predictive variances");
    };
    let verdict = match stat.mean {
        mean if mean < 0.925 => "too sure of itself",
        mean if mean > 0.975 => "more careful than needed",
        _ => "as sure as it should be",
    };
    let width = measured.stat(stage, &best.cases, "width_95");
    let width = width.map_or_else(String::new, |width| format!(", on average {} wide", significant(width.mean, 3)));
    tile("How sure?", &percent(stat.mean), &format!("of true values inside 95 % intervals{width}: {verdict}"))
}

fn costly(context: &Context<'_>, stage: &str, best: &Group) -> String {
    let of = |id: Option<String>, phase: &str| {
        let id = id?;
        let own = |cost: &&crate::report::data::Cost| {
            cost.stage == id && cost.phase == phase && best.cases.contains(&cost.case)
        };
        let sum = context.run.costs.iter().filter(own).fold((0.0, 0_u64, 0_i64, 0_i64), |sum, cost| {
            (sum.0 + cost.wall_s, sum.1 + cost.pieces, sum.2 + cost.rows, sum.3.max(cost.peak_rss_bytes))
        });
        (sum.1 > 0).then_some(sum)
    };
    let offline = of(context.train_stage(stage), "offline");
    let online = of(context.predict_stage(stage), "online");
    let mut detail = Vec::new();
    if let Some((_, pieces, rows, peak)) = offline {
        let rows = count(rows.unsigned_abs() / pieces.max(1));
        detail.push(format!("training on {rows} rows, memory peak {}", bytes(peak as f64)));
    }
    if let Some((wall, _, rows, _)) = online.filter(|online| online.2 > 0) {
        detail.push(format!("prediction {} per 1000 rows", seconds(1000.0 * wall / rows as f64)));
    }
    let figure = offline.map_or_else(|| "–".to_owned(), |(wall, pieces, ..)| seconds(wall / pieces.max(1) as f64));
    tile("How costly?", &figure, &detail.join("; "))
}

/// A run that only scores: all of its stages and cases together, the most unusual one named.
fn scored(context: &Context<'_>) -> String {
    let run = context.run;
    let of = |metric: &'static str| {
        run.metrics.iter().filter(move |row| row.metric == metric && row.stat == "value" && row.split == "score")
    };
    if of("rows_invalid").next().is_none() {
        return String::new();
    }
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
    let figure = count(read.saturating_sub(invalid));
    let mut tiles = tile("How many?", &figure, &format!("rows scored, {} could not be", count(invalid)));
    if let Some((ratio, worst)) = most("variance_ratio") {
        let outside = most("share_outside_range").map_or_else(|| "–".to_owned(), |(share, _)| percent(share));
        let cases: BTreeSet<&str> = of("variance_ratio").map(|row| row.case.as_str()).collect();
        let place = if cases.len() > 1 {
            format!(" in {}, the most of {} cases", Text(&worst.case), cases.len())
        } else {
            String::new()
        };
        let detail = format!(
            "times the predictive variance of training{place}; at most {outside} of a feature outside its range"
        );
        tiles.push_str(&tile("How sure?", &significant(ratio, 3), &detail));
    }
    if scored > 0 {
        tiles.push_str(&tile(
            "How costly?",
            &seconds(wall),
            &format!("{} per 1000 rows", seconds(1000.0 * wall / scored as f64)),
        ));
    }
    format!("<article class=card><h3>Scores</h3><div class=tiles>{tiles}</div></article>\n")
}
