//! One file per part of the page; each turns some of the data into headings, tables and figures.

mod cases;
mod chains;
mod checks;
mod columns;
mod cost;
mod drift;
mod explain;
mod fits;
mod headline;
mod local;
mod origin;
mod overview;
mod paired;
mod quality;
mod relevance;
mod sweep;

pub(super) use chains::unmixed;
pub(super) use checks::with_code;
pub(super) use headline::headline;
pub(super) use overview::{judged, overview};

use super::data::{CaseCost, RunReport};
use super::number::fixed;
use super::select::{method_name, name};
use crate::tables::Timestamp;
use maud::{Markup, html};

/// A part of the page with its heading.
pub(super) struct PagePart {
    pub id: String,
    pub title: &'static str,
    /// What is under it; a part without anything is left out.
    pub body: Markup,
    /// Whether it is closed until somebody wants to know.
    pub folded: bool,
}

/// What sections of one run share.
pub(super) struct RunContext<'a> {
    pub run: &'a RunReport,
    /// Makes ids differ between runs on one page.
    pub id: String,
}

impl RunContext<'_> {
    /// The parts of a run that there is something to say about, in order.
    pub fn parts(&self) -> Vec<PagePart> {
        let parts = [
            ("cases", "Cases", cases::cases(self)),
            ("sweep", "Comparison", sweep::sweep(self)),
            ("fits", "Functions", fits::fits(self)),
            ("relevance", "Relevance of features", relevance::relevance(self)),
            ("explain", "What the model makes of its features", explain::explain(self)),
            ("quality", "Predictions", quality::quality(self)),
            ("local", "Local layer", local::local(self)),
            ("chains", "Markov chains", chains::chains(self)),
            ("columns", "What columns become", columns::columns(self)),
            ("drift", "Drift over scoring runs", drift::drift(&self.run.drift)),
            ("cost", "Time", cost::cost(self)),
            ("checks", "Data checks", checks::checks(self)),
            ("origin", "Pipeline and origin", origin::origin(self)),
        ];
        // What does not say how good the model is, unless there is something wrong with it.
        let folded = |name: &str| match name {
            "chains" => unmixed(&self.run.metrics) == 0,
            "checks" => self.run.warnings.is_empty(),
            "columns" | "local" | "cost" | "origin" => true,
            _ => false,
        };
        let named = parts.into_iter().map(|(name, title, body)| PagePart {
            id: format!("{}-{name}", self.id),
            title,
            body,
            folded: folded(name),
        });
        named.filter(|part| !part.body.0.is_empty()).collect()
    }

    /// The predict stage whose rows an evaluate stage compares.
    pub fn predict_stage(&self, evaluate: &str) -> Option<&str> {
        if let Some(stage) = self.run.graph.iter().find(|stage| stage.id == evaluate) {
            return stage.inputs.first().map(String::as_str);
        }
        // Without the pipeline at hand: the only predict stage there is.
        let first = self.run.predicted.first()?;
        self.run.predicted.iter().all(|other| other.stage == first.stage).then_some(first.stage.as_str())
    }

    fn train_stage(&self, evaluate: &str) -> Option<&str> {
        let predict = self.predict_stage(evaluate)?;
        let inputs = &self.run.graph.iter().find(|stage| stage.id == predict)?.inputs;
        let is_train = |id: &&String| self.run.graph.iter().any(|stage| stage.id == **id && stage.kind == "train");
        inputs.iter().find(is_train).map(String::as_str)
    }

    /// The column that an evaluate or predict stage is about.
    pub fn target(&self, stage: &str) -> Option<&str> {
        self.run.target(stage)
    }

    /// What training cost that an evaluate stage is about, for some cases.
    pub fn training(&self, evaluate: &str, cases: &[String]) -> Option<CaseCost> {
        self.cost(self.train_stage(evaluate)?, "offline", cases)
    }

    /// What prediction cost, likewise.
    pub fn prediction(&self, evaluate: &str, cases: &[String]) -> Option<CaseCost> {
        self.cost(self.predict_stage(evaluate)?, "online", cases)
    }

    fn cost(&self, stage: &str, phase: &str, cases: &[String]) -> Option<CaseCost> {
        let own = |cost: &&CaseCost| cost.stage == stage && cost.phase == phase && cases.contains(&cost.case);
        self.run.costs.iter().filter(own).cloned().reduce(|mut sum, cost| {
            sum.add(&cost);
            sum
        })
    }

    /// What a case is called: its matrix values, or its method where there are none.
    pub fn case_title(&self, label: &str) -> String {
        match self.run.cases.iter().find(|case| case.label == label) {
            Some(case) if !case.values.is_empty() => name(&case.values),
            _ => {
                let method = self.run.metrics.iter().find(|row| row.case == label).map(|row| method_name(&row.method));
                method.filter(|method| !method.is_empty()).unwrap_or(label).to_owned()
            }
        }
    }
}

/// Figures side by side, so many in a row where there is room.
fn grid(columns: u8, figures: impl IntoIterator<Item = Markup>) -> Markup {
    let figures: String = figures.into_iter().map(Markup::into_string).collect();
    html! { @if !figures.is_empty() { div class={ "grid g" (columns) } { (maud::PreEscaped(figures)) } } }
}

/// Facts beside a chart.
fn facts(facts: &[(&str, String)]) -> Markup {
    html! { dl.facts { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } } }
}

/// A mean and its deviation, where there is one.
fn plus_minus(mean: f64, std: Option<f64>, decimals: usize) -> Markup {
    html! { (fixed(mean, decimals)) @if let Some(std) = std { " " span.pm { "± " (fixed(std, decimals)) } } }
}

/// `2026-01-31 12:00:00`.
pub(super) fn to_the_second(time: Timestamp) -> String {
    time.to_string().split('.').next().unwrap_or_default().replace('T', " ")
}
