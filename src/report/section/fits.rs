//! Functions of one or two features: the fit, and the hidden layers under it.

use super::{Context, case_title, grid};
use crate::report::chart::{HiddenPoints, colour_key, fit_chart, hidden_charts};
use crate::report::data::Hidden;
use crate::report::html::escape;
use crate::report::select::{Measured, Panel, panels};
use std::fmt::Write as _;

/// The fits, then the hidden layers.
pub fn fits(context: &Context<'_>) -> String {
    let run = context.run;
    let title = |case: &str| case_title(run, case);
    // A fit has the colour that its method has elsewhere.
    let measured = Measured::new(&run.metrics);
    let shown: Vec<Panel> =
        measured.stages().first().map(|stage| panels(&run.cases, &run.metrics, stage)).unwrap_or_default();
    let series =
        |case: &str, other: usize| shown.iter().find(|panel| panel.case == case).map_or(other, |panel| panel.series);
    let mut figures = String::new();
    for (position, fit) in run.fits.iter().enumerate() {
        figures.extend(fit_chart(fit, &title(&fit.case), series(&fit.case, position)));
    }
    let mut out = grid(if run.fits.len() < 3 { 2 } else { 3 }, &figures);
    if !out.is_empty() {
        out.push_str("<p class=quiet>Line: predictive mean. Bands: 95 % of the function (dark) and of observations (light). Grey dots: training rows; small dark dots: test rows. Ticks at the bottom: inducing points.</p>\n");
    }
    let mut maps = false;
    for hidden in &run.hidden {
        let charts = charts(hidden).concat();
        if !charts.is_empty() {
            let _ = write!(
                out,
                "<h3>Hidden layers: {}, {}</h3>\n{}",
                escape(&title(&hidden.case)),
                escape(&hidden.stage),
                grid(3, &charts)
            );
            maps |= hidden.points.iter().any(|point| point.x1.is_some());
        }
    }
    if maps {
        out.push_str(&colour_key());
    }
    out
}

fn charts(hidden: &Hidden) -> Vec<String> {
    let pick =
        |value: fn(&crate::report::data::HiddenValue) -> f64| -> Vec<f64> { hidden.points.iter().map(value).collect() };
    let two = hidden.points.iter().any(|point| point.x1.is_some());
    let (x0, mean) = (pick(|point| point.x0), pick(|point| point.mean));
    let x1 = if two { pick(|point| point.x1.unwrap_or(f64::NAN)) } else { Vec::new() };
    let known = hidden.points.iter().any(|point| point.std.is_some());
    let sd = if known { pick(|point| point.std.unwrap_or(f64::NAN)) } else { Vec::new() };
    let layer: Vec<i32> = hidden.points.iter().map(|point| point.layer).collect();
    let output: Vec<i32> = hidden.points.iter().map(|point| point.output).collect();
    let points = HiddenPoints { x0: &x0, x1: &x1, layer: &layer, output: &output, mean: &mean, sd: &sd };
    hidden_charts(&points, ("first feature", "second feature"))
}
