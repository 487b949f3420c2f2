//! `stride-pipe runs diff`.

use super::Where;
use crate::cli::exit::Failure;
use crate::cli::grid::Grid;
use crate::cli::print;
use crate::pipeline::Diagnostics;
use crate::pipeline::tree::{Node, Value, parse};
use crate::store::history::{History, MetricSummary, Run, summaries};
use clap::Args as ClapArgs;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Arguments of `runs diff`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// A run: its id, the beginning of it, or `last`
    first: String,
    /// Another run
    second: String,
    #[command(flatten)]
    place: Where,
}

/// A name, and its text on both sides; none where a side does not have it.
type Difference = (String, Option<String>, Option<String>);
type Differences = Vec<Difference>;

pub fn execute(args: &Args) -> Result<(), Failure> {
    let history = args.place.history()?;
    let (first, second) = (history.find(&args.first)?, history.find(&args.second)?);
    let mut out = format!("first   {}\nsecond  {}\n", headline(first), headline(second));
    let mut notes = Vec::new();
    let mut found = false;
    for (title, changes) in [
        ("about the run", differences(&about(first), &about(second))),
        ("options", options(&history, first, second, &mut notes)),
        ("inputs", differences(&inputs(first), &inputs(second))),
    ] {
        found |= !changes.is_empty();
        out.push_str(&section(title, &changes));
    }
    match (summaries(first), summaries(second)) {
        (Ok(left), Ok(right)) => out.push_str(&metrics(&left, &right)),
        (Err(error), _) | (_, Err(error)) => notes.push(format!("metrics cannot be compared: {error}")),
    }
    if !found {
        out.push_str("\nversion, seed, options and inputs are the same\n");
    }
    for note in notes {
        let _ = writeln!(out, "note: {note}");
    }
    print(&out)
}

fn headline(run: &Run) -> String {
    format!("{} ({}, {})", run.id, run.pipeline.as_deref().unwrap_or("unknown pipeline"), run.status.name())
}

fn differences(left: &BTreeMap<String, String>, right: &BTreeMap<String, String>) -> Differences {
    let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let pair = |name: &String| (name.clone(), left.get(name).cloned(), right.get(name).cloned());
    names.into_iter().map(pair).filter(|(_, left, right)| left != right).collect()
}

fn section(title: &str, changes: &Differences) -> String {
    if changes.is_empty() {
        return String::new();
    }
    let mut grid = Grid::new([title, "first", "second"], 3);
    for (name, left, right) in changes {
        let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        grid.push([name.clone(), side(left), side(right)]);
    }
    format!("\n{}", grid.to_text(0))
}

fn about(run: &Run) -> BTreeMap<String, String> {
    let Some(manifest) = &run.manifest else { return BTreeMap::new() };
    [
        ("version", manifest.version.clone()),
        ("seed", manifest.seed.to_string()),
        ("threads", manifest.threads.to_string()),
        ("host", manifest.host.clone()),
        ("pipeline file", manifest.pipeline_file.clone()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn inputs(run: &Run) -> BTreeMap<String, String> {
    let files = run.manifest.iter().flat_map(|manifest| &manifest.inputs);
    files.map(|file| (file.path.clone(), file.sha256.clone())).collect()
}

/// Options by case, stage and key. What differs in the same way in all cases is said once.
fn options(history: &History, first: &Run, second: &Run, notes: &mut Vec<String>) -> Differences {
    let (left, right) = (resolved(history, first), resolved(history, second));
    let (Some(left), Some(right)) = (left, right) else {
        notes.push("options cannot be compared: a resolved.yaml is missing or damaged".to_owned());
        return Vec::new();
    };
    let mut changes = Vec::new();
    let mut shared: BTreeMap<Difference, Vec<&String>> = BTreeMap::new();
    let cases: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let mut common = 0;
    for case in cases {
        let there = |side: &BTreeMap<String, BTreeMap<String, String>>| side.get(case).map(|_| "there".to_owned());
        let (Some(before), Some(after)) = (left.get(case), right.get(case)) else {
            changes.push((format!("case {case}"), there(&left), there(&right)));
            continue;
        };
        common += 1;
        for change in differences(before, after) {
            shared.entry(change).or_default().push(case);
        }
    }
    for ((name, before, after), cases) in shared {
        if cases.len() == common && common > 1 {
            changes.push((format!("every case: {name}"), before, after));
        } else {
            changes.extend(cases.iter().map(|case| (format!("{case}: {name}"), before.clone(), after.clone())));
        }
    }
    changes
}

/// The options of every case of a run: `stage.kind.key` and value.
fn resolved(history: &History, run: &Run) -> Option<BTreeMap<String, BTreeMap<String, String>>> {
    let text = run.resolved(&history.results).ok()?;
    let tree = parse(&text, &mut Diagnostics::default())?;
    let flat = |node: &Node| {
        let mut found = BTreeMap::new();
        flatten("", node, &mut found);
        found
    };
    let cases = tree.entry("cases")?.node.entries().iter();
    Some(cases.map(|case| (case.key.clone(), flat(&case.node))).collect())
}

fn flatten(name: &str, node: &Node, found: &mut BTreeMap<String, String>) {
    match &node.value {
        Value::Map(entries) if !entries.is_empty() => {
            for entry in entries {
                let full = if name.is_empty() { entry.key.clone() } else { format!("{name}.{}", entry.key) };
                flatten(&full, &entry.node, found);
            }
        }
        _ => {
            let shown = node.shown().unwrap_or_else(|| node.to_json().to_string());
            found.insert(name.to_owned(), shown);
        }
    }
}

fn metrics(left: &[MetricSummary], right: &[MetricSummary]) -> String {
    let mut out = String::new();
    let stages: BTreeSet<&str> = left.iter().chain(right).map(|row| row.stage.as_str()).collect();
    for stage in stages {
        let mut grid = Grid::new([stage, "metric", "first", "second", "difference"], 2);
        for row in left.iter().filter(|row| row.stage == stage) {
            let same = |other: &&MetricSummary| {
                (&other.stage, &other.case, &other.metric) == (&row.stage, &row.case, &row.metric)
            };
            let Some(other) = right.iter().find(same) else { continue };
            let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
            let change = row.mean.zip(other.mean).map_or_else(
                || "-".to_owned(),
                |(before, after)| {
                    if before.to_bits() == after.to_bits() { "0".to_owned() } else { format!("{:+.4}", after - before) }
                },
            );
            grid.push([row.case.clone(), row.metric.clone(), number(row.mean), number(other.mean), change]);
        }
        let _ = write!(out, "\n{}", grid.to_text(0));
    }
    out
}
