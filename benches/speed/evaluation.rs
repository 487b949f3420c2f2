//! One evaluation and one gradient of ℓ against the matrix product of the same cores.

use stride_pipe::gp::deep::LogDensity;
use stride_pipe::gp::linalg::scaled_exp_in_place;

use crate::common::{best, peak};
use crate::problem::{
    FEATURES, INDUCING, LENGTH, LONG_LENGTH, RANK, ROWS, data, gradient_flops, stride_with, value_flops,
};
use crate::{on_threads, thread_counts};

/// Seconds for so many exponentials, on all threads.
fn exponentials(count: usize) -> f64 {
    use rayon::prelude::*;
    const PIECE: usize = 4096;
    let pieces = count.div_ceil(PIECE);
    let start = vec![0.5; PIECE];
    best(5, || {
        (0..pieces).into_par_iter().for_each_init(
            || start.clone(),
            |values, _| {
                scaled_exp_in_place(values, -0.5, 1.0);
            },
        );
    })
}

pub fn report() {
    println!("evaluation: n = {ROWS}, d = {FEATURES}, r = {RANK}; shares of the DGEMM peak measured beside each line,");
    println!(
        "            with the exponentials' time and (in brackets) without. A triangular solve of every row is counted;"
    );
    println!("            with λ = {LENGTH} it is not needed, hence shares above 1, with λ = {LONG_LENGTH} it is done");
    println!(
        "{:>8} {:>5} {:>5} {:>11} {:>15} {:>13} {:>15} {:>13}",
        "threads", "λ", "m", "peak GF/s", "value ms", "share", "gradient ms", "share"
    );
    let (x, y) = data(ROWS);
    for threads in thread_counts() {
        let well = INDUCING.map(|m| (LENGTH, m));
        for (length, m) in well.into_iter().chain([(LONG_LENGTH, 125), (LONG_LENGTH, 500)]) {
            on_threads(threads, || {
                let problem = stride_with(&x, &y, m, length);
                let xi = problem.start_xi().unwrap();
                let before = peak();
                let runs = if m > 200 { 3 } else { 9 };
                let value = best(runs, || assert!(problem.value(&xi).is_ok()));
                let gradient = best(runs, || drop(problem.value_and_gradient(&xi).unwrap()));
                let exp = exponentials(ROWS * m);
                let peak = before.max(peak());
                let share = |flops: f64, seconds: f64, exponentials: f64| {
                    format!("{:.2} ({:.2})", flops / seconds / peak, flops / (seconds - exponentials) / peak)
                };
                println!(
                    "{threads:>8} {length:>5} {m:>5} {:>11.1} {:>15.2} {:>13} {:>15.2} {:>13}",
                    peak * 1e-9,
                    value * 1e3,
                    share(value_flops(ROWS, m), value, exp),
                    gradient * 1e3,
                    share(gradient_flops(ROWS, m), gradient, 2.0 * exp),
                );
            });
        }
    }
}
