//! A plan as text, JSON, Graphviz and Mermaid.

use super::{Case, Plan, PlannedStage};
use crate::text::{cell, one_line};
use serde_json::{Value as Json, json};
use std::fmt::Write as _;

/// What is known of a stage's data before anything runs.
#[derive(Clone, Debug, Default)]
pub struct Preview {
    /// Rows of the ingest stage behind it.
    pub rows: Option<u64>,
    /// Estimated peak memory in bytes.
    pub memory: Option<u64>,
    /// Pieces of work to do.
    pub run: u32,
    /// Pieces of work that would be taken from the cache.
    pub skip: u32,
    pub reason: String,
}

/// For people: one line per stage of every case.
pub fn to_text(plan: &Plan, preview: &dyn Fn(&Case, &PlannedStage) -> Preview) -> String {
    let mut out = String::new();
    let (cases, tasks) = (plan.cases.len(), plan.tasks());
    let _ = writeln!(out, "pipeline {} (seed {}): {cases} case(s), {tasks} task(s)", plan.name, plan.seed);
    let _ = writeln!(out, "results  {}", plan.results.display());
    for case in &plan.cases {
        let _ = writeln!(out, "\ncase {}", cell(&case.label));
        let width = case.stages.iter().map(|stage| stage.id.len()).max().unwrap_or(0);
        for stage in &case.stages {
            let preview = preview(case, stage);
            let folds = if stage.tasks() == 1 { String::new() } else { format!(" × {} folds", stage.tasks()) };
            let inputs = stage.stage.inputs();
            let inputs = if inputs.is_empty() { String::new() } else { format!(" ← {}", inputs.join(", ")) };
            let rows = preview.rows.map_or_else(String::new, |rows| format!(", {rows} rows"));
            let memory =
                preview.memory.map_or_else(String::new, |bytes| format!(", about {} MiB", bytes.div_ceil(1 << 20)));
            let action = match (preview.run, preview.skip) {
                (0, _) => "skip".to_owned(),
                (_, 0) => "run".to_owned(),
                (run, skip) => format!("run {run} of {}", run + skip),
            };
            let what = format!("{}{folds}{inputs}{rows}{memory}", stage.stage.title());
            let _ = writeln!(out, "  {:<width$}  {action}: {what} ({})", stage.id, one_line(&preview.reason));
        }
    }
    out
}

/// For programs.
pub fn to_json(plan: &Plan, preview: &dyn Fn(&Case, &PlannedStage) -> Preview) -> Json {
    let stage = |case: &Case, stage: &PlannedStage| {
        let preview = preview(case, stage);
        json!({
            "id": stage.id, "kind": stage.kind(), "folds": stage.tasks(), "inputs": stage.stage.inputs(),
            "rows": preview.rows, "memory_bytes": preview.memory, "action": if preview.run == 0 { "skip" } else { "run" },
            "run": preview.run, "skip": preview.skip, "reason": preview.reason,
        })
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
