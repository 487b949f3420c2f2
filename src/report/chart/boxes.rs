//! How wide predictive distributions are, beside the error they should match.

use crate::report::data::PredictionCounts;
use crate::report::number::{pixel, significant};
use crate::report::plot::{Axis, Domain, Plot};
use crate::report::scale::range;
use crate::report::series::class;
use maud::{Markup, html};

/// One row per case: 5 to 95 % and 25 to 75 % of the predictive deviations, their median, and the actual error.
pub fn spread_chart(cases: &[(usize, &str, &PredictionCounts)]) -> Option<Markup> {
    let known: Vec<_> =
        cases.iter().filter_map(|(series, name, predicted)| Some((*series, *name, predicted.spread?))).collect();
    if known.is_empty() {
        return None;
    }
    let values = known.iter().flat_map(|(_, _, spread)| spread.quantiles.into_iter().chain(spread.rmse));
    let (low, high) = range(values, true);
    let height = 72.0 + 52.0 * known.len() as f64;
    let slots = Domain::At((known.len() as f64 - 0.5, -0.5), false, Vec::new());
    let named = cases.first().filter(|(_, _, predicted)| predicted.target.is_some());
    let label = named.map(|(_, _, predicted)| predicted.of_target("predictive sd of"));
    let mut plot = Plot::sized(
        (320.0, height.max(180.0)),
        Axis::new(label.as_deref().unwrap_or("predictive standard deviation"), Domain::Linear(low, high)),
        Axis { label: String::new(), domain: slots },
    );
    let (_, top, _, bottom) = plot.sides();
    let row = (bottom - top) / known.len() as f64;
    for (position, (series, name, spread)) in known.iter().enumerate() {
        let y = row.mul_add(position as f64 + 0.62, top);
        let [q05, q25, q50, q75, q95] = spread.quantiles;
        let at = |value: f64| pixel(plot.x(value));
        let words = format!(
            "{name}: half of the rows between {} and {}, median {}, 90 % between {} and {}",
            significant(q25, 3),
            significant(q75, 3),
            significant(q50, 3),
            significant(q05, 3),
            significant(q95, 3)
        );
        let error = spread.rmse.map(|rmse| (rmse, format!("{name}: root mean squared error {}", significant(rmse, 3))));
        let width = pixel((plot.x(q75) - plot.x(q25)).max(1.5));
        let shape = html! {
            g class={ "box mark " (class(*series)) } data-t=(words) {
                path.whisker d={ "M" (at(q05)) " " (pixel(y)) "H" (at(q95)) } {}
                rect x=(at(q25)) y=(pixel(y - 7.0)) width=(width) height="14" {}
                path.median d={ "M" (at(q50)) " " (pixel(y - 9.0)) "v18" } {}
            }
            @if let Some((rmse, words)) = error {
                path class="actual mark" data-t=(words)
                    d={ "M" (at(rmse)) " " (pixel(y - 6.0)) "l4.5 6l-4.5 6l-4.5 -6z" } {}
            }
        };
        plot.push(&shape);
        let left = plot.sides().0;
        plot.note((left + 4.0, y - 13.0), name);
    }
    let compared = known.iter().any(|(_, _, spread)| spread.rmse.is_some());
    let caption = if compared { "Predictive spread and actual error (◆)" } else { "Predictive spread" };
    Some(plot.finish(
        "spread",
        caption,
        "Quantiles of the predictive standard deviation beside the root mean squared error",
    ))
}
