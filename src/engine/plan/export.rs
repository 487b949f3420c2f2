//! A plan as text, JSON, Graphviz and Mermaid.

use super::{Case, Plan, PlannedStage};
use crate::stages::Footprint;
use crate::text::{about, cell, one_line};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What is known of a stage's data before anything runs.
#[derive(Clone, Debug, Default)]
pub struct Preview {
    /// Rows of the ingest stage behind it.
    pub rows: Option<u64>,
    /// Estimated peak memory.
    pub memory: Option<Footprint>,
    /// Estimated seconds of one core for one piece of work.
    pub effort: Option<f64>,
    /// Pieces of work to do.
    pub run: u32,
    /// Pieces of work that would be taken from the cache.
    pub skip: u32,
    pub reason: String,
}

impl Preview {
    /// Estimated seconds of all pieces of work that there are to do, on this machine.
    fn seconds(&self) -> f64 {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        f64::from(self.run) * self.effort.unwrap_or(0.0) / threads as f64
    }
}

/// For people: one line per stage of every case.
pub fn to_text(plan: &Plan, preview: &dyn Fn(&Case, &PlannedStage) -> Preview) -> String {
    let mut out = String::new();
    let (cases, tasks) = (plan.cases.len(), plan.tasks());
    let _ = writeln!(out, "pipeline {} (seed {}): {cases} case(s), {tasks} task(s)", plan.name, plan.seed);
    let _ = writeln!(out, "results  {}", plan.results.display());
    let _ = writeln!(out, "time     {}", time(plan, preview));
    for case in &plan.cases {
        let _ = writeln!(out, "\ncase {}", cell(&case.label));
        let width = case.stages.iter().map(|stage| stage.id.len()).max().unwrap_or(0);
        for stage in &case.stages {
            let preview = preview(case, stage);
            let folds = if stage.tasks() == 1 { String::new() } else { format!(" × {} folds", stage.tasks()) };
            let inputs = stage.stage.inputs();
            let inputs = if inputs.is_empty() { String::new() } else { format!(" ← {}", inputs.join(", ")) };
            let rows = preview.rows.map_or_else(String::new, |rows| format!(", {rows} rows"));
            let memory = preview.memory.as_ref().map_or_else(String::new, memory);
            let action = match (preview.run, preview.skip) {
                (0, _) => "skip".to_owned(),
                (_, 0) => "run".to_owned(),
                (run, skip) => format!("run {run} of {}", run + skip),
            };
            let seconds = preview.seconds();
            let time = if seconds < 1.0 { String::new() } else { format!(", {}", about(seconds)) };
            let what = format!("{}{folds}{inputs}{rows}{memory}{time}", stage.stage.title());
            let _ = writeln!(out, "  {:<width$}  {action}: {what} ({})", stage.id, one_line(&preview.reason));
        }
    }
    out
}

/// `, about 300 MiB`, and what is done so that it is not more, or could be.
fn memory(footprint: &Footprint) -> String {
    let again = footprint.again.map_or_else(String::new, |again| format!("; {again}"));
    let advice = footprint.advice.as_ref().map_or_else(String::new, |advice| format!(", too much: {advice}"));
    format!(", about {} MiB{again}{advice}", footprint.bytes.div_ceil(1 << 20))
}

/// `about 25 min; train stride: about 24 min; train sparse_gp: about 20 s`.
fn time(plan: &Plan, preview: &dyn Fn(&Case, &PlannedStage) -> Preview) -> String {
    let all = || plan.cases.iter().flat_map(|case| case.stages.iter().map(move |stage| (case, stage)));
    let mut by_title: BTreeMap<String, f64> = BTreeMap::new();
    let mut work = false;
    for (case, stage) in all() {
        let preview = preview(case, stage);
        work |= preview.run > 0;
        *by_title.entry(stage.stage.title()).or_default() += preview.seconds();
    }
    if !work {
        return "nothing to do".to_owned();
    }
    let total: f64 = by_title.values().sum();
    let mut long: Vec<(String, f64)> = by_title.into_iter().filter(|(_, seconds)| *seconds >= 1.0).collect();
    long.sort_by(|a, b| b.1.total_cmp(&a.1));
    // A single kind of work would only be the same again.
    let parts =
        long.iter().filter(|_| long.len() > 1).map(|(title, seconds)| format!("; {title}: {}", about(*seconds)));
    format!("{}{}", about(total), parts.collect::<String>())
}

/// For programs.
pub fn to_json(plan: &Plan, preview: &dyn Fn(&Case, &PlannedStage) -> Preview) -> Json {
    let stage = |case: &Case, stage: &PlannedStage| {
        let preview = preview(case, stage);
        let mut shown = json!({
            "id": stage.id, "kind": stage.kind(), "folds": stage.tasks(), "inputs": stage.stage.inputs(),
            "rows": preview.rows, "memory_bytes": preview.memory.as_ref().map(|memory| memory.bytes), "estimated_seconds": preview.seconds(), "action": if preview.run == 0 { "skip" } else { "run" },
            "run": preview.run, "skip": preview.skip, "reason": preview.reason,
        });
        let memory = preview.memory.unwrap_or_default();
        for (name, text) in [("computed_again", memory.again.map(str::to_owned)), ("too_large", memory.advice)] {
            if let Some(text) = text {
                shown[name] = json!(text);
            }
        }
        shown
    };
    let case = |case: &Case| {
        let values: serde_json::Map<String, Json> =
            case.values.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        json!({
            "case": case.label, "values": values,
            "stages": case.stages.iter().map(|each| stage(case, each)).collect::<Vec<_>>(),
        })
    };
    json!({
        "pipeline": plan.name, "seed": plan.seed, "spec_hash": plan.spec_hash, "tasks": plan.tasks(),
        "results": plan.results.display().to_string(),
        "cases": plan.cases.iter().map(case).collect::<Vec<_>>(),
    })
}

/// The stages of the first case as a Graphviz graph; the cases share their shape.
pub fn to_dot(plan: &Plan) -> String {
    let mut out = format!("digraph \"{}\" {{\n  rankdir=LR;\n  node [shape=box];\n", plan.name);
    for stage in stages(plan) {
        let _ = writeln!(out, "  \"{}\" [label=\"{}\\n{}\"];", stage.id, stage.id, label(stage));
        for input in stage.stage.inputs() {
            let _ = writeln!(out, "  \"{input}\" -> \"{}\";", stage.id);
        }
    }
    out.push_str("}\n");
    out
}

/// The same as a Mermaid flowchart.
pub fn to_mermaid(plan: &Plan) -> String {
    let mut out = "flowchart LR\n".to_owned();
    // A prefix keeps ids apart from Mermaid's own words (`end`, `graph`).
    for stage in stages(plan) {
        let _ = writeln!(out, "  s_{}[\"{}<br/>{}\"]", stage.id, stage.id, label(stage));
        for input in stage.stage.inputs() {
            let _ = writeln!(out, "  s_{input} --> s_{}", stage.id);
        }
    }
    out
}

fn stages(plan: &Plan) -> &[PlannedStage] {
    plan.cases.first().map_or(&[], |case| &case.stages)
}

fn label(stage: &PlannedStage) -> String {
    let folds = if stage.tasks() == 1 { String::new() } else { format!(" × {}", stage.tasks()) };
    format!("{}{folds}", stage.kind())
}
