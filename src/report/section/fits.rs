//! Functions of one or two features: the fit, and the hidden layers under it.

use super::{RunContext, grid};
use crate::report::chart::{colour_key, fit_chart, hidden_charts};
use crate::report::select::{FoldValues, Panel, panels};
use maud::{Markup, html};

/// The fits, then the hidden layers.
pub fn fits(context: &RunContext<'_>) -> Markup {
    let run = context.run;
    // A fit has the colour that its method has elsewhere.
    let measured = FoldValues::new(&run.metrics);
    let shown: Vec<Panel> =
        measured.stages().first().map(|stage| panels(&run.cases, &run.metrics, stage)).unwrap_or_default();
    let series =
        |case: &str, other: usize| shown.iter().find(|panel| panel.case == case).map_or(other, |panel| panel.series);
    let figures: Vec<Markup> = run
        .fits
        .iter()
        .enumerate()
        .filter_map(|(position, fit)| fit_chart(fit, &context.case_title(&fit.case), series(&fit.case, position)))
        .collect();
    let layers: Vec<_> = run
        .hidden
        .iter()
        .map(|hidden| (hidden, hidden_charts(&hidden.points, ("first feature", "second feature"))))
        .filter(|(_, charts)| !charts.is_empty())
        .collect();
    let maps = layers.iter().any(|(hidden, _)| hidden.points.iter().any(|point| point.x1.is_some()));
    html! {
        @if !figures.is_empty() {
            (grid(if run.fits.len() < 3 { 2 } else { 3 }, figures))
            p.quiet {
                "Line: predictive mean. Bands: 95 % of the function (dark) and of observations (light). Grey dots: \
                training rows; small dark dots: test rows. Ticks at the bottom: inducing points."
            }
        }
        @for (hidden, charts) in layers {
            h3 { "Hidden layers: " (context.case_title(&hidden.case)) ", " (hidden.stage) }
            (grid(3, charts))
        }
        @if maps { (colour_key()) }
    }
}
