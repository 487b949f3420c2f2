//! Where the local layer helps: error with and without it, by the distance to the nearest training row.

use super::{RunContext, grid};
use crate::report::chart::{WITHOUT, distance_chart};
use crate::report::data::DistanceBin;
use crate::report::moments::Moments;
use crate::report::number::{percent, significant};
use crate::report::select::{FoldValues, Panel, panels};
use crate::report::series::legend;
use maud::{Markup, html};

/// Methods that can have a local layer.
const METHODS: [&str; 2] = ["sparse_gp", "stride"];
/// Differences of fewer standard errors are chance.
const SURE: f64 = 2.0;

/// A chart and a sentence for every case with a local layer.
pub fn local(context: &RunContext<'_>) -> Markup {
    let run = context.run;
    let measured = FoldValues::new(&run.metrics);
    let several = measured.stages().len() > 1;
    let shown = measured.stages().iter().flat_map(|stage| {
        let predict = context.predict_stage(stage).unwrap_or_default();
        panels(&run.cases, &run.metrics, stage).into_iter().filter_map(move |panel| {
            let own = run.predicted.iter().find(|known| known.stage == predict && known.case == panel.case)?;
            (!own.by_distance.is_empty()).then_some((*stage, panel, own))
        })
    });
    let cases: Vec<Markup> = shown
        .map(|(stage, panel, predicted)| {
            let Panel { title, series, .. } = panel;
            let title = if several { format!("{stage}: {title}") } else { title };
            let target = context.target(stage).unwrap_or_default();
            let names = [(series, "with its local layer"), (WITHOUT, "the same model without it")];
            html! {
                div {
                    @if let Some(chart) = distance_chart(predicted, &title, series, target) {
                        (chart) (legend(names))
                    } @else {
                        h4 { (title) }
                    }
                    p { (words(&predicted.by_distance)) }
                }
            }
        })
        .collect();
    if cases.is_empty() {
        return missing(context);
    }
    html! {
        (grid(3, cases))
        p.quiet {
            "Test rows in groups of equal size by their distance to the nearest training row, where 1 is the mean distance \
            among training rows. Bands: 95 % of what chance does to the error of a group."
        }
    }
}

/// For models that could have a local layer, and have none that can be compared.
fn missing(context: &RunContext<'_>) -> Markup {
    let could = |method: &str| METHODS.contains(&method);
    if !context.run.metrics.iter().any(|row| row.split == "test" && could(&row.method)) {
        return Markup::default();
    }
    html! {
        details {
            summary { "No local layer to compare" }
            p {
                "No model that is shown has a local layer above a global one: it is switched off (" code { "local: false" }
                "), stayed off by itself (a warning says so), or the top layer is by neighbours already. Predictions of \
                older versions do not know the difference."
            }
        }
    }
}

/// Whether, where and by how much it helps.
fn words(bins: &[DistanceBin]) -> String {
    let mut all = DistanceBin::default();
    for bin in bins {
        all.add(bin);
    }
    let (with, without) = (all.with.mean().sqrt(), all.without.mean().sqrt());
    let both = format!("{} instead of {}", significant(with, 3), significant(without, 3));
    let first = match verdict(&all.gain) {
        1 => format!("The local layer makes the RMSE {} smaller: {both}.", percent(change(&all).abs())),
        -1 => format!("The local layer makes the RMSE {} larger: {both}.", percent(change(&all).abs())),
        _ => format!("The local layer makes no difference that could not be chance: RMSE {both}."),
    };
    let better = |bin: &&DistanceBin| verdict(&bin.gain) == 1;
    let most = bins.iter().filter(better).max_by(|a, b| change(a).total_cmp(&change(b)));
    let most = most.filter(|_| bins.len() > 1).map_or_else(String::new, |bin| {
        let distance = significant(bin.distance.mean(), 2);
        format!(" It helps most around {distance} times the usual distance ({} smaller).", percent(change(bin)))
    });
    // From which distance on it no longer helps.
    let tail = bins.iter().rev().take_while(|bin| !better(bin)).count();
    let last = if tail == 0 || tail == bins.len() {
        String::new()
    } else {
        let from = significant(bins[bins.len() - tail].distance.mean(), 2);
        let harm = bins[bins.len() - tail..].iter().any(|bin| verdict(&bin.gain) == -1);
        let effect = if harm { "makes errors larger" } else { "makes no sure difference" };
        format!(" From about {from} times the usual distance on it {effect}.")
    };
    format!("{first}{most}{last}")
}

/// The part of the error that the layer takes away.
fn change(bin: &DistanceBin) -> f64 {
    let without = bin.without.mean().sqrt();
    if without > 0.0 { 1.0 - bin.with.mean().sqrt() / without } else { 0.0 }
}

/// 1: surely better, -1: surely worse, 0: perhaps chance.
fn verdict(gain: &Moments) -> i32 {
    let room = SURE * gain.standard_error().unwrap_or(f64::INFINITY);
    match gain.mean() {
        mean if mean > room => 1,
        mean if mean < -room => -1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bin(distance: f64, with: f64, without: f64, sure: bool) -> DistanceBin {
        let moments = |mean: f64, spread: f64| Moments {
            count: 100,
            sum: 100.0 * mean,
            squares: 100.0 * (mean * mean + spread * spread),
        };
        let gain = without * without - with * with;
        DistanceBin {
            distance: moments(distance, 0.0),
            with: moments(with * with, 1.0),
            without: moments(without * without, 1.0),
            gain: moments(gain, if sure { gain.abs() } else { 100.0 }),
        }
    }

    #[test]
    fn sentences() {
        let helps = [bin(0.5, 1.0, 2.0, true), bin(1.0, 1.5, 2.0, true), bin(4.0, 2.0, 2.1, false)];
        assert_eq!(
            words(&helps[..2]),
            "The local layer makes the RMSE 36.3 % smaller: 1.27 instead of 2. It helps most around 0.5 times the usual \
             distance (50.0 % smaller)."
        );
        assert!(words(&helps).ends_with("From about 4 times the usual distance on it makes no sure difference."));
        let harms = [bin(0.5, 1.0, 2.0, true), bin(9.0, 4.0, 2.0, true)];
        assert!(words(&harms).ends_with("From about 9 times the usual distance on it makes errors larger."));
        assert_eq!(
            words(&[bin(1.0, 1.0, 1.01, false)]),
            "The local layer makes no difference that could not be chance: RMSE 1 instead of 1.01."
        );
    }
}
