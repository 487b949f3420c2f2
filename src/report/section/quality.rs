//! Predictions looked at closely: predicted against true, calibration, spread, residuals.

use super::{Context, case_title, grid};
use crate::report::chart::{
    calibration_chart, density_chart, deviation_chart, means_chart, residual_chart, residual_range, spread_chart,
};
use crate::report::data::Predicted;
use crate::report::html::escape;
use crate::report::number::count;
use crate::report::select::{Measured, Panel, panels};
use crate::report::series::legend;
use std::fmt::Write as _;

/// One block per evaluate stage, then one per predict stage that has no true values.
pub fn quality(context: &Context<'_>) -> String {
    let run = context.run;
    let measured = Measured::new(&run.metrics);
    let mut out = String::new();
    let mut used: Vec<String> = Vec::new();
    for stage in measured.stages() {
        let Some(predict) = context.predict_stage(stage) else { continue };
        let find =
            |case: &str| run.predicted.iter().find(|predicted| predicted.stage == predict && predicted.case == case);
        let shown: Vec<(Panel, &Predicted)> = panels(&run.cases, &run.metrics, stage)
            .into_iter()
            .filter_map(|panel| find(&panel.case).map(|predicted| (panel, predicted)))
            .collect();
        if shown.is_empty() {
            continue;
        }
        if measured.stages().len() > 1 {
            let _ = writeln!(out, "<h3>{}</h3>", escape(stage));
        }
        out.push_str(&block(&shown, run.cases.len()));
        used.push(predict);
    }
    let mut scores = String::new();
    for predicted in run.predicted.iter().filter(|predicted| !used.contains(&predicted.stage)) {
        let caption = format!("{} ({} rows)", predicted.stage, count(predicted.rows));
        scores.extend(means_chart(predicted, &caption, 0));
        scores.extend(spread_chart(&[(0, &case_title(run, &predicted.case), predicted)]));
    }
    out.push_str(&grid(3, &scores));
    out
}

fn block(shown: &[(Panel, &Predicted)], cases: usize) -> String {
    let lines: Vec<(usize, &str, &Predicted)> =
        shown.iter().map(|(panel, predicted)| (panel.series, panel.title.as_str(), *predicted)).collect();
    let mut sure: String = calibration_chart(&lines).into_iter().collect();
    sure.extend(spread_chart(&lines));
    let entries: Vec<(usize, String)> = shown.iter().map(|(panel, _)| (panel.series, panel.title.clone())).collect();
    let sure = if sure.is_empty() { sure } else { grid(3, &format!("{sure}{}", aside(&entries))) };
    let titled = |title: &str, figures: &str| {
        if figures.is_empty() { String::new() } else { format!("<h4>{title}</h4>\n{figures}") }
    };
    let sure = titled("Calibration and predictive spread", &sure);
    let ends = residual_range(shown.iter().map(|(_, predicted)| *predicted));
    let names =
        ["Predicted against true", "Residuals along the prediction", "Standardised residuals and the normal curve"];
    // A single case has its three charts in one row, several cases have a row for each chart.
    if let [(panel, predicted)] = shown {
        let mut row: String = density_chart(predicted, names[0], panel.series).into_iter().collect();
        row.extend(residual_chart(predicted, names[1], panel.series, ends));
        row.extend(deviation_chart(predicted, names[2], panel.series));
        return format!("{}{sure}", grid(3, &row));
    }
    let mut rows = [String::new(), String::new(), String::new()];
    for (panel, predicted) in shown {
        rows[0].extend(density_chart(predicted, &panel.title, panel.series));
        rows[1].extend(residual_chart(predicted, &panel.title, panel.series, ends));
        rows[2].extend(deviation_chart(predicted, &panel.title, panel.series));
    }
    let columns = if shown.len() == 4 { 4 } else { 3 };
    let [first, second, third] = [0, 1, 2].map(|row| titled(names[row], &grid(columns, &rows[row])));
    let which = "<p class=quiet>Shown: the best case of each method, or the best few of one method; the first repetition of \
        each.</p>\n";
    format!("{}{first}{sure}{second}{third}", if cases > shown.len() { which } else { "" })
}

/// The names of the lines, and how to read them.
fn aside(entries: &[(usize, String)]) -> String {
    format!(
        "<div class=aside>{}<p><strong>Calibration.</strong> A line above the diagonal: intervals hold more true values than they \
         should, the model is too careful. Below: too sure.</p><p><strong>Spread.</strong> Box: the middle half of the predictive standard \
         deviations; line: 90 % of them; bar: median. ◆: the root mean squared error of the predictions, which a well calibrated \
         model has near its box.</p></div>\n",
        legend(entries)
    )
}
