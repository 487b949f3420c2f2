//! Rows of the `traces` table as tensors: there may be hundreds of thousands of them.

use ndarray::{Array2, ArrayView1, Ix2};

use crate::store::Tensor;
use crate::store::container::Tensors;
use crate::tables::TraceRow;

/// Particle, iteration, phase, step, inducing points, which of the numbers are there.
const COUNTS: &str = "traces.counts";
/// Log-likelihood, bound, acceptance, step size, variance, length, noise, jitter.
const NUMBERS: &str = "traces.numbers";

/// The names of the phases, and the tensors; `decode` is the inverse.
pub fn encode(rows: &[TraceRow]) -> (Vec<String>, Tensors) {
    let mut phases: Vec<String> = Vec::new();
    let mut counts = Array2::<i64>::zeros((rows.len(), 6));
    let mut numbers = Array2::<f64>::zeros((rows.len(), 8));
    for (index, row) in rows.iter().enumerate() {
        let phase = phases.iter().position(|name| *name == row.phase).unwrap_or_else(|| {
            phases.push(row.phase.clone());
            phases.len() - 1
        });
        let optional = [row.bound, row.acceptance, row.step_size, row.length];
        // No number stands for "not there": every one of them, NaN as well, may be a value.
        let present = optional.iter().rev().fold(0, |bits, value| 2 * bits + i64::from(value.is_some()));
        let whole = [row.particle, row.iteration, row.step, row.inducing].map(i64::from);
        let [particle, iteration, step, inducing] = whole;
        for (place, value) in [particle, iteration, phase as i64, step, inducing, present].into_iter().enumerate() {
            counts[[index, place]] = value;
        }
        let [bound, acceptance, step_size, length] = optional.map(Option::unwrap_or_default);
        let values = [row.log_likelihood, bound, acceptance, step_size, row.variance, length, row.noise, row.jitter];
        for (place, value) in values.into_iter().enumerate() {
            numbers[[index, place]] = value;
        }
    }
    let tensors = [(COUNTS.to_owned(), Tensor::from(counts)), (NUMBERS.to_owned(), Tensor::from(numbers))];
    (phases, tensors.into())
}

/// The rows; none when the tensors are not such as `encode` makes.
pub fn decode(phases: &[String], tensors: &Tensors) -> Option<Vec<TraceRow>> {
    let counts = tensors.get(COUNTS)?.integers()?.view().into_dimensionality::<Ix2>().ok()?;
    let numbers = tensors.get(NUMBERS)?.floats()?.view().into_dimensionality::<Ix2>().ok()?;
    if counts.ncols() != 6 || numbers.ncols() != 8 || counts.nrows() != numbers.nrows() {
        return None;
    }
    counts.rows().into_iter().zip(numbers.rows()).map(|(counts, numbers)| row(phases, &counts, &numbers)).collect()
}

fn row(phases: &[String], counts: &ArrayView1<'_, i64>, numbers: &ArrayView1<'_, f64>) -> Option<TraceRow> {
    let whole = |place: usize| i32::try_from(counts[place]).ok();
    let present = |bit: i64, place: usize| (counts[5] >> bit & 1 == 1).then_some(numbers[place]);
    Some(TraceRow {
        run_id: String::new(),
        stage: String::new(),
        case: String::new(),
        fold: 0,
        particle: whole(0)?,
        iteration: whole(1)?,
        phase: phases.get(usize::try_from(counts[2]).ok()?)?.clone(),
        step: whole(3)?,
        log_likelihood: numbers[0],
        bound: present(0, 1),
        acceptance: present(1, 2),
        step_size: present(2, 3),
        variance: numbers[4],
        length: present(3, 5),
        noise: numbers[6],
        jitter: numbers[7],
        inducing: whole(4)?,
    })
}
