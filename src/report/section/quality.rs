//! Predictions looked at closely: predicted against true, calibration, spread, residuals.

use super::{RunContext, grid};
use crate::report::chart::{
    calibration_chart, density_chart, deviation_chart, means_chart, residual_chart, residual_range, spread_chart,
};
use crate::report::data::PredictionCounts;
use crate::report::number::count;
use crate::report::select::{FoldValues, Panel, panels};
use crate::report::series::legend;
use crate::report::sureness::{Sureness, Tails};
use maud::{Markup, html};

/// One block per evaluate stage, then one per predict stage that has no true values.
pub fn quality(context: &RunContext<'_>) -> Markup {
    let run = context.run;
    let measured = FoldValues::new(&run.metrics);
    let block_of = |stage: &&str| {
        let predict = context.predict_stage(stage)?;
        let find =
            |case: &str| run.predicted.iter().find(|predicted| predicted.stage == predict && predicted.case == case);
        let shown: Vec<(Panel, &PredictionCounts)> = panels(&run.cases, &run.metrics, stage)
            .into_iter()
            .filter_map(|panel| find(&panel.case).map(|predicted| (panel, predicted)))
            .collect();
        (!shown.is_empty()).then(|| {
            (
                predict,
                html! {
                    @if measured.stages().len() > 1 { h3 { (stage) } }
                    (block(&shown, run.cases.len()))
                },
            )
        })
    };
    let (used, blocks): (Vec<&str>, Vec<Markup>) = measured.stages().iter().filter_map(block_of).unzip();
    let scores =
        run.predicted.iter().filter(|predicted| !used.contains(&predicted.stage.as_str())).flat_map(|predicted| {
            let caption = format!("{} ({} rows)", predicted.stage, count(predicted.rows));
            let spread = spread_chart(&[(0, &context.case_title(&predicted.case), predicted)]);
            means_chart(predicted, &caption, 0).into_iter().chain(spread)
        });
    html! { @for block in blocks { (block) } (grid(3, scores)) }
}

fn block(shown: &[(Panel, &PredictionCounts)], cases: usize) -> Markup {
    let lines: Vec<(usize, &str, &PredictionCounts)> =
        shown.iter().map(|(panel, predicted)| (panel.series, panel.title.as_str(), *predicted)).collect();
    let mut sure: Vec<Markup> = calibration_chart(&lines).into_iter().chain(spread_chart(&lines)).collect();
    if !sure.is_empty() {
        sure.push(aside(&lines));
    }
    let titled = |title: &str, figures: Markup| html! { @if !figures.0.is_empty() { h4 { (title) } (figures) } };
    let sure = titled("Calibration and predictive spread", grid(3, sure));
    let ends = residual_range(shown.iter().map(|(_, predicted)| *predicted));
    let names =
        ["Predicted against true", "Residuals along the prediction", "Standardised residuals and the normal curve"];
    let chart = |row: usize, predicted: &PredictionCounts, caption: &str, series: usize| match row {
        0 => density_chart(predicted, caption, series),
        1 => residual_chart(predicted, caption, series, ends),
        _ => deviation_chart(predicted, caption, series),
    };
    // A single case has its three charts in one row, several cases have a row for each chart.
    if let [(panel, predicted)] = shown {
        let row = (0..3).filter_map(|row| chart(row, predicted, names[row], panel.series));
        return html! { (grid(3, row)) (sure) };
    }
    let columns = if shown.len() == 4 { 4 } else { 3 };
    let [first, second, third] = [0, 1, 2].map(|row| {
        let figures = shown.iter().filter_map(|(panel, predicted)| chart(row, predicted, &panel.title, panel.series));
        titled(names[row], grid(columns, figures))
    });
    html! {
        @if cases > shown.len() {
            p.quiet {
                "Shown: the best case of each method, or the best few of one method; the first repetition of each."
            }
        }
        (first) (sure) (second) (third)
    }
}

/// The names of the lines, how to read them, and what they say.
fn aside(lines: &[(usize, &str, &PredictionCounts)]) -> Markup {
    let said = |(_, name, predicted): &(usize, &str, &PredictionCounts)| {
        let sureness = Sureness::of(&predicted.coverage, predicted.judged)?.words();
        let tails =
            predicted.tails.filter(Tails::are_heavy).map_or_else(String::new, |tails| format!("; {}", tails.words()));
        Some(format!("{name}: {sureness}{tails}."))
    };
    html! {
        div.aside {
            (legend(lines.iter().map(|(series, name, _)| (*series, *name))))
            p {
                strong { "Calibration." }
                " A line above the diagonal: intervals hold more true values than they should, the model is too \
                careful. Below: too sure. Grey: what chance explains, for 95 of 100 samples of so many rows."
            }
            @for sentence in lines.iter().filter_map(said) { p { (sentence) } }
            p {
                strong { "Spread." }
                " Box: the middle half of the predictive standard deviations; line: 90 % of them; bar: median. ◆: the \
                root mean squared error of the predictions, which a well calibrated model has near its box."
            }
        }
    }
}
