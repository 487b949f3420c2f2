//! `stride-pipe runs show`.

use super::{Where, mean_std, to_the_second};
use crate::cli::exit::Failure;
use crate::cli::grid::{Grid, fits};
use crate::cli::print;
use crate::store::history::{MetricSummary, Run, phase_costs, read_events, summaries};
use crate::store::{Manifest, StoreError};
use crate::text::{cell, duration, one_line};
use clap::Args as ClapArgs;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Cases side by side at most.
const ABREAST: usize = 4;

/// Arguments of `runs show`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The run: its id, the beginning of it, or `last`
    run: String,
    #[command(flatten)]
    place: Where,
}

pub fn execute(args: &Args) -> Result<(), Failure> {
    let history = args.place.history()?;
    let run = history.find(&args.run)?;
    let mut out = heading(run);
    let mut problems = run.problems.clone();
    if let Some(manifest) = &run.manifest {
        out.push_str(&provenance(manifest));
    }
    if run.tables.len() > 1 {
        match summaries(run) {
            Ok(rows) => out.push_str(&metrics(&rows)),
            Err(error) => problems.push(error.to_string()),
        }
        match timings(run) {
            Ok(text) => out.push_str(&text),
            Err(error) => problems.push(error.to_string()),
        }
    }
    let events = read_events(&history.results, &run.id);
    if events.damaged_lines > 0 {
        problems.push(format!("{} line(s) of its events.jsonl are damaged", events.damaged_lines));
    }
    for (title, lines) in [("warnings", events.warnings), ("problems", problems)] {
        if !lines.is_empty() {
            let _ = writeln!(out, "\n{title}");
        }
        for line in lines {
            let _ = writeln!(out, "  {}", one_line(&line));
        }
    }
    print(&out)
}

fn heading(run: &Run) -> String {
    let pipeline = run.pipeline.as_deref().unwrap_or("unknown");
    format!("run       {}\npipeline  {pipeline}\nstatus    {}\n", run.id, run.status.name())
}

fn provenance(manifest: &Manifest) -> String {
    let mut out = String::new();
    let seconds = (manifest.finished_at.micros() - manifest.started_at.micros()) as f64 / 1e6;
    let Manifest { pipeline_file, spec_hash, version, seed, host, threads, command, .. } = manifest;
    let _ = writeln!(out, "file      {pipeline_file}, resolved as {spec_hash}");
    let _ = writeln!(out, "started   {}, took {}", to_the_second(manifest.started_at), duration(seconds));
    let _ = writeln!(out, "version   {version}, seed {seed}, {threads} thread(s) on {host}");
    let _ = writeln!(out, "command   {command}");
    let cases: Vec<String> = manifest.cases.iter().map(|case| cell(case)).collect();
    let _ = writeln!(out, "cases     {}", cases.join(" · "));
    let mut grid = Grid::new(["input", "sha256", "rows"], 2);
    for input in &manifest.inputs {
        let rows = input.rows.map_or_else(|| "-".to_owned(), |rows| rows.to_string());
        grid.push([input.path.clone(), input.sha256.clone(), rows]);
    }
    if !manifest.inputs.is_empty() {
        let _ = write!(out, "\n{}", grid.to_text(0));
    }
    let files = manifest.files.len();
    let _ = writeln!(out, "\n{files} files written, {} cache entries used", manifest.cache.len());
    out
}

/// Metrics down, cases across, as many at a time as fit a terminal.
fn metrics(rows: &[MetricSummary]) -> String {
    let mut out = String::new();
    let stages: BTreeSet<&str> = rows.iter().map(|row| row.stage.as_str()).collect();
    for stage in stages {
        let of_stage: Vec<&MetricSummary> = rows.iter().filter(|row| row.stage == stage).collect();
        let (mut cases, mut names): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
        for row in &of_stage {
            for (list, name) in [(&mut cases, &row.case), (&mut names, &row.metric)] {
                if !list.contains(&name.as_str()) {
                    list.push(name);
                }
            }
        }
        let table = |some: &[&str]| {
            let mut grid = Grid::new([stage].iter().chain(some).copied(), 1);
            for name in &names {
                let cell = |case: &&str| {
                    let row = of_stage.iter().find(|row| row.case == *case && row.metric == *name);
                    row.map_or_else(|| "-".to_owned(), |row| mean_std(row.mean, row.std))
                };
                grid.push([(*name).to_owned()].into_iter().chain(some.iter().map(cell)));
            }
            grid.to_text(0)
        };
        let mut rest = cases.as_slice();
        while !rest.is_empty() {
            let fitting = (2..=ABREAST.min(rest.len())).rev().find(|count| fits(&table(&rest[..*count])));
            let (some, others) = rest.split_at(fitting.unwrap_or(1));
            let _ = write!(out, "\n{}", table(some));
            rest = others;
        }
    }
    out
}

fn timings(run: &Run) -> Result<String, StoreError> {
    let mut grid = Grid::new(["stage", "phase", "pieces", "cached", "wall s", "cpu s"], 2);
    for cost in phase_costs(run)? {
        let (wall, cpu) = (format!("{:.3}", cost.wall_s), format!("{:.3}", cost.cpu_s));
        grid.push([cost.stage, cost.phase, cost.pieces.to_string(), cost.cached.to_string(), wall, cpu]);
    }
    Ok(format!("\n{}", grid.to_text(0)))
}
