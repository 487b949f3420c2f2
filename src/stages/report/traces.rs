//! Takes the chains of a few fits out of the traces, thinned to what a chart can show.

use super::columns::{BatchColumns, FitPlace, of_fit, value};
use crate::report::{ChainPoint, ChainTraces};
use crate::store::{StoreError, open_columns};
use arrow::array::RecordBatch;
use std::collections::BTreeMap;
use std::path::Path;

/// Fits that are shown.
const FITS: usize = 3;
/// Points of a chain in memory; every second is dropped beyond.
const KEPT: usize = 1 << 13;
/// Points of a chain on the page.
const POINTS: usize = 160;

const COLUMNS: [&str; 12] = [
    "stage",
    "case",
    "fold",
    "particle",
    "iteration",
    "phase",
    "step",
    "log_likelihood",
    "acceptance",
    "variance",
    "length",
    "noise",
];

/// A recorded step before its place on the axis is known.
#[derive(Clone, Copy)]
struct TraceStep {
    iteration: i32,
    number: i32,
    last: bool,
    point: ChainPoint,
}

/// Steps of the chains of a fit.
type ChainSteps = BTreeMap<i32, Vec<TraceStep>>;

/// The chains of the first fold of these stages and cases, or of any when none are named.
pub fn chains(path: &Path, wanted: &[(String, String)]) -> Result<Vec<ChainTraces>, StoreError> {
    let mut found: Vec<(FitPlace, ChainSteps)> = Vec::new();
    for batch in open_columns(path, &COLUMNS)? {
        collect(&batch?, wanted, &mut found);
    }
    Ok(found.into_iter().map(|(place, steps)| placed(place, &steps)).collect())
}

fn collect(batch: &RecordBatch, wanted: &[(String, String)], found: &mut Vec<(FitPlace, ChainSteps)>) -> Option<()> {
    let columns = BatchColumns(batch);
    let (stages, cases, phases) = (columns.text("stage")?, columns.text("case")?, columns.text("phase")?);
    let (folds, particles) = (columns.whole("fold")?, columns.whole("particle")?);
    let (iterations, steps) = (columns.whole("iteration")?, columns.whole("step")?);
    let (likelihood, variance) = (columns.number("log_likelihood")?, columns.number("variance")?);
    let (noise, acceptance, length) =
        (columns.number("noise")?, columns.number("acceptance"), columns.number("length"));
    for row in 0..batch.num_rows() {
        let phase = phases.value(row);
        if phase != "e_step" && phase != "final" {
            continue;
        }
        let (stage, case) = (stages.value(row), cases.value(row));
        let named = |(known, of): &(String, String)| of == case && (known == stage || known.is_empty());
        if !(wanted.is_empty() || wanted.iter().any(named)) {
            continue;
        }
        let Some(chains) = of_fit(found, FITS, (stage, case, folds.value(row))) else { continue };
        let point = ChainPoint {
            at: 0.0,
            log_likelihood: likelihood.value(row),
            acceptance: value(acceptance, row),
            variance: variance.value(row),
            length: value(length, row),
            noise: noise.value(row),
        };
        let chain = chains.entry(particles.value(row)).or_default();
        chain.push(TraceStep {
            iteration: iterations.value(row),
            number: steps.value(row),
            last: phase == "final",
            point,
        });
        if chain.len() > KEPT {
            let mut keep = false;
            chain.retain(|_| {
                keep = !keep;
                keep
            });
        }
    }
    Some(())
}

/// The steps at their places on the axis.
fn placed((stage, case, fold): FitPlace, chains: &ChainSteps) -> ChainTraces {
    let all = || chains.values().flatten();
    let longest = |last: bool| all().filter(|step| step.last == last).map(|step| step.number).max().unwrap_or(1).max(1);
    let (longest_step, longest_last) = (longest(false), longest(true));
    let iterations = all().filter(|step| !step.last).map(|step| step.iteration).max().unwrap_or(0);
    let place = |step: &TraceStep| {
        let longest = if step.last { longest_last } else { longest_step };
        let whole = if step.last { iterations } else { step.iteration - 1 };
        f64::from(whole) + f64::from(step.number) / f64::from(longest)
    };
    let chain = |steps: &Vec<TraceStep>| -> Vec<ChainPoint> {
        let every = steps.len().div_ceil(POINTS).max(1);
        let mut points: Vec<ChainPoint> =
            steps.iter().step_by(every).map(|step| ChainPoint { at: place(step), ..step.point }).collect();
        if let Some(last) = steps.last().filter(|_| every > 1) {
            points.push(ChainPoint { at: place(last), ..last.point });
        }
        points.sort_by(|a, b| a.at.total_cmp(&b.at));
        points
    };
    let particles = chains.values().map(chain).collect();
    ChainTraces { stage, case, fold, particles, iterations }
}
