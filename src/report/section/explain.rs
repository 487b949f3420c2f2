//! Why a model predicts what it predicts: importances, Sobol indices, partial dependence.

use super::{RunContext, grid};
use crate::report::chart::{feature_bars, partial_chart, partial_range};
use crate::report::explained::{Explanation, FeatureFigure};
use crate::report::series::legend;
use maud::{Markup, html};

/// Features that are shown as bars, and along curves.
const BARS: usize = 15;
const CURVES: usize = 9;

/// One part per explain stage and case.
pub fn explain(context: &RunContext<'_>) -> Markup {
    let all = &context.run.explanations;
    html! { @for one in all { (explanation(context, one, all.len() > 1)) } }
}

fn explanation(context: &RunContext<'_>, one: &Explanation, several: bool) -> Markup {
    fn first(figures: &[FeatureFigure]) -> Vec<&FeatureFigure> {
        figures.iter().take(BARS).collect()
    }
    let (of_first, of_total): (Vec<_>, Vec<_>) =
        one.sobol.iter().take(BARS).map(|(first, total)| (first, total)).unzip();
    let bars = [
        feature_bars("Permutation importance", "loss of R²", &[("loss of R²", first(&one.importance))]),
        feature_bars(
            "Sobol indices",
            "share of the variance",
            &[("total effect", of_total), ("first order", of_first)],
        ),
        feature_bars("Mean size of the slope", "change per unit", &[("slope", first(&one.sensitivity))]),
    ];
    let has_sobol = !one.sobol.is_empty();
    let target = context.target(&one.stage).unwrap_or_default();
    let shown = &one.partial[..one.partial.len().min(CURVES)];
    let ends = partial_range(shown);
    let curves: Vec<Markup> = shown.iter().filter_map(|curve| partial_chart(curve, target, ends)).collect();
    let counts = [one.importance.len(), one.sobol.len(), one.sensitivity.len(), one.partial.len()];
    let more = counts.into_iter().max().unwrap_or(0).saturating_sub(BARS);
    html! {
        @if several { h3 { (one.stage) ", " (context.case_title(&one.case)) } }
        (grid(3, bars.into_iter().flatten()))
        @if has_sobol { (legend([(0, "total effect"), (1, "first order")])) }
        @if more > 0 { p.quiet { "The " (BARS) " first of " (BARS + more) " features; the table " code { "explanations" } " has all." } }
        p.quiet {
            "Importance: how much worse R² is on these rows with a feature in random order. Indices: shares of the variance of \
            the prediction when features vary independently; what the total effect has beyond the first order are \
            interactions. "
            @if one.folds > 1 { "Lines: one standard deviation between " (one.folds) " folds." }
            @else { "Lines: one standard deviation between repeats, of the estimate, or between rows." }
        }
        @if !curves.is_empty() {
            h3 { "Partial dependence" @if several { ": " (context.case_title(&one.case)) } }
            (grid(3, curves))
            p.quiet {
                "Line: mean prediction if the feature had this value in all rows; band: 95 % of the posterior at most. Thin \
                lines: single rows."
            }
        }
    }
}
