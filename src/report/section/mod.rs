//! One file per part of the page; each turns some of the data into headings, tables and figures.

mod cases;
mod chains;
mod checks;
mod cost;
mod drift;
mod fits;
mod headline;
mod origin;
mod overview;
mod quality;
mod sweep;

pub(super) use cases::cases;
pub(super) use chains::chains;
pub(super) use checks::checks;
pub(super) use cost::cost;
pub(super) use drift::drift;
pub(super) use fits::fits;
pub(super) use headline::headline;
pub(super) use origin::origin;
pub(super) use overview::{overview, status_class};
pub(super) use quality::quality;
pub(super) use sweep::sweep;

use super::data::RunReport;
use super::html::Text;
use super::select::{method_name, name};

/// What sections of one run share.
pub(super) struct Context<'a> {
    /// The run.
    pub run: &'a RunReport,
    /// Makes ids differ between runs on one page.
    pub id: String,
}

impl Context<'_> {
    /// The predict stage whose rows an evaluate stage compares.
    pub fn predict_stage(&self, evaluate: &str) -> Option<String> {
        let inputs = |id: &str| self.run.graph.iter().find(|stage| stage.id == id).map(|stage| stage.inputs.clone());
        match inputs(evaluate) {
            Some(inputs) => inputs.into_iter().next(),
            // Without the pipeline at hand: the only predict stage there is.
            None => match self.run.predicted.first() {
                Some(first) if self.run.predicted.iter().all(|other| other.stage == first.stage) => {
                    Some(first.stage.clone())
                }
                _ => None,
            },
        }
    }

    /// The train stage behind an evaluate stage.
    pub fn train_stage(&self, evaluate: &str) -> Option<String> {
        let predict = self.predict_stage(evaluate)?;
        let inputs = &self.run.graph.iter().find(|stage| stage.id == predict)?.inputs;
        let is_train = |id: &&String| self.run.graph.iter().any(|stage| stage.id == **id && stage.kind == "train");
        inputs.iter().find(is_train).cloned()
    }
}

/// A part of the page with its heading; nothing when it would be empty.
pub(super) fn part(context: &Context<'_>, name: &str, title: &str, body: &str) -> String {
    if body.trim().is_empty() {
        return String::new();
    }
    format!("<section id=\"{}-{name}\"><h2>{}</h2>\n{body}</section>\n", context.id, Text(title))
}

/// Figures side by side, so many in a row where there is room.
pub(super) fn grid(columns: u8, figures: &str) -> String {
    if figures.is_empty() { String::new() } else { format!("<div class=\"grid g{columns}\">\n{figures}</div>\n") }
}

/// What a case is called: its matrix values, or its method where there are none.
pub(super) fn case_title(run: &RunReport, label: &str) -> String {
    match run.cases.iter().find(|case| case.label == label) {
        Some(case) if !case.values.is_empty() => name(&case.values),
        _ => {
            let method = run.metrics.iter().find(|row| row.case == label).map(|row| method_name(&row.method));
            method.filter(|method| !method.is_empty()).unwrap_or(label).to_owned()
        }
    }
}

/// Facts beside a chart.
pub(super) fn facts(facts: &[(&str, String)]) -> String {
    let item = |out: String, (name, value): &(&str, String)| {
        format!("{out}<div><dt>{name}</dt><dd>{}</dd></div>", Text(value))
    };
    format!("<dl class=facts>{}</dl>\n", facts.iter().fold(String::new(), item))
}
