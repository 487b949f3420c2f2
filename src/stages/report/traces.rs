//! Takes the chains of a few fits out of the traces, thinned to what a chart can show.

use crate::report::{ChainPoint, Chains};
use crate::store::{StoreError, open_columns};
use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::{Float64Type, Int32Type};
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
struct Step {
    iteration: i32,
    number: i32,
    last: bool,
    point: ChainPoint,
}

#[derive(Default)]
struct Collected {
    stage: String,
    case: String,
    fold: i32,
    particles: BTreeMap<i32, Vec<Step>>,
}

/// The chains of the first fold of these stages and cases, or of any when none are named.
pub fn chains(path: &Path, wanted: &[(String, String)]) -> Result<Vec<Chains>, StoreError> {
    let mut found: Vec<Collected> = Vec::new();
    for batch in open_columns(path, &COLUMNS)? {
        collect(&batch?, wanted, &mut found);
    }
    Ok(found.into_iter().map(Collected::finish).collect())
}

fn collect(batch: &RecordBatch, wanted: &[(String, String)], found: &mut Vec<Collected>) -> Option<()> {
    let text = |name: &str| batch.column_by_name(name)?.as_string_opt::<i32>();
    let whole = |name: &str| batch.column_by_name(name)?.as_primitive_opt::<Int32Type>();
    let number = |name: &str| batch.column_by_name(name)?.as_primitive_opt::<Float64Type>();
    let (stages, cases, phases) = (text("stage")?, text("case")?, text("phase")?);
    let (folds, particles, iterations, steps) =
        (whole("fold")?, whole("particle")?, whole("iteration")?, whole("step")?);
    let (likelihood, variance, noise) = (number("log_likelihood")?, number("variance")?, number("noise")?);
    let (acceptance, length) = (number("acceptance"), number("length"));
    for row in 0..batch.num_rows() {
        let phase = phases.value(row);
        if phase != "e_step" && phase != "final" {
            continue;
        }
        let (stage, case, fold) = (stages.value(row), cases.value(row), folds.value(row));
        let named = |(known, of): &(String, String)| of == case && (known == stage || known.is_empty());
        if !(wanted.is_empty() || wanted.iter().any(named)) {
            continue;
        }
        let place = found.iter().position(|fit| fit.stage == stage && fit.case == case);
        let fit = match place {
            Some(place) if found[place].fold == fold => &mut found[place],
            Some(_) => continue,
            None if found.len() >= FITS => continue,
            None => {
                let (stage, case) = (stage.to_owned(), case.to_owned());
                found.push(Collected { stage, case, fold, particles: BTreeMap::new() });
                let last = found.len() - 1;
                &mut found[last]
            }
        };
        let optional = |column: Option<&arrow::array::Float64Array>| {
            column.filter(|column| !column.is_null(row)).map(|column| column.value(row))
        };
        let point = ChainPoint {
            at: 0.0,
            log_likelihood: likelihood.value(row),
            acceptance: optional(acceptance),
            variance: variance.value(row),
            length: optional(length),
            noise: noise.value(row),
        };
        let chain = fit.particles.entry(particles.value(row)).or_default();
        chain.push(Step { iteration: iterations.value(row), number: steps.value(row), last: phase == "final", point });
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

impl Collected {
    fn finish(self) -> Chains {
        let all = || self.particles.values().flatten();
        let longest =
            |last: bool| all().filter(|step| step.last == last).map(|step| step.number).max().unwrap_or(1).max(1);
        let (longest_step, longest_last) = (longest(false), longest(true));
        let iterations = all().filter(|step| !step.last).map(|step| step.iteration).max().unwrap_or(0);
        let place = |step: &Step| {
            let longest = if step.last { longest_last } else { longest_step };
            let whole = if step.last { iterations } else { step.iteration - 1 };
            f64::from(whole) + f64::from(step.number) / f64::from(longest)
        };
        let chain = |steps: &Vec<Step>| -> Vec<ChainPoint> {
            let every = steps.len().div_ceil(POINTS).max(1);
            let mut points: Vec<ChainPoint> =
                steps.iter().step_by(every).map(|step| ChainPoint { at: place(step), ..step.point }).collect();
            if let Some(last) = steps.last().filter(|_| every > 1) {
                points.push(ChainPoint { at: place(last), ..last.point });
            }
            points.sort_by(|a, b| a.at.total_cmp(&b.at));
            points
        };
        let particles = self.particles.values().map(chain).collect();
        Chains { stage: self.stage, case: self.case, fold: self.fold, particles, iterations }
    }
}
