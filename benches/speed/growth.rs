//! How the cost of an evaluation grows with rows, inducing points, particles and threads.

use rayon::prelude::*;
use stride_pipe::gp::deep::{DeepProblem, LogDensity};

use crate::common::{best, peak};
use crate::problem::{ROWS, data, stride};
use crate::{on_threads, thread_counts};

/// Seconds for one value of every particle, particles side by side as in an E step.
fn values(problem: &DeepProblem, particles: usize, runs: usize) -> f64 {
    let xi = problem.start_xi().unwrap();
    best(runs, || {
        (0..particles).into_par_iter().for_each(|_| assert!(problem.value(&xi).is_ok()));
    })
}

pub fn rows_points_and_particles() {
    println!("growth: one evaluation; `×` is the factor to the line above, in brackets that of n, m or S");
    let (x, y) = data(1_000_000);
    let mut last: Option<(f64, f64)> = None;
    let mut line = |name: &str, size: usize, seconds: f64, first: bool| {
        let factor = match last {
            Some((before, took)) if !first => format!("{:.2} × ({:.2})", seconds / took, size as f64 / before),
            _ => String::new(),
        };
        println!("{name:>4} {size:>8} {:>12.2} ms {factor:>18}", seconds * 1e3);
        last = Some((size as f64, seconds));
    };
    for (i, n) in [10_000, 25_000, 50_000, 100_000, 200_000, 400_000, 800_000, 1_000_000].into_iter().enumerate() {
        let (x, y) = (x.slice(ndarray::s![..n, ..]).to_owned(), y.slice(ndarray::s![..n]).to_owned());
        let runs = (2_000_000 / n).clamp(3, 25);
        line("n", n, values(&stride(&x, &y, 100), 1, runs), i == 0);
    }
    let (x, y) = (x.slice(ndarray::s![..ROWS, ..]).to_owned(), y.slice(ndarray::s![..ROWS]).to_owned());
    for (i, m) in [25, 50, 100, 200, 400].into_iter().enumerate() {
        line("m", m, values(&stride(&x, &y, m), 1, 5), i == 0);
    }
    let problem = stride(&x, &y, 50);
    for (i, particles) in [1, 2, 4, 10].into_iter().enumerate() {
        line("S", particles, values(&problem, particles, 5), i == 0);
    }
}

pub fn threads() {
    let counts = thread_counts();
    let [_, all] = counts[..] else {
        println!("threads: there is one core only");
        return;
    };
    println!("threads: gain of {all} threads over 1, for S evaluations side by side (m = 50) and for DGEMM");
    println!("{:>4} {:>12} {:>12} {:>10}", "S", "evaluation", "DGEMM", "share");
    let (x, y) = data(ROWS);
    let problem = stride(&x, &y, 50);
    for particles in [1, 2, 10] {
        // Alternately, and the best of each: a slow moment makes a ratio of single times worthless.
        let (mut one, mut many) = ((f64::INFINITY, 0.0_f64), (f64::INFINITY, 0.0_f64));
        for _ in 0..6 {
            for (threads, best) in [(1, &mut one), (all, &mut many)] {
                let (seconds, peak) = on_threads(threads, || (values(&problem, particles, 3), peak()));
                *best = (best.0.min(seconds), best.1.max(peak));
            }
        }
        let (evaluation, dgemm) = (one.0 / many.0, many.1 / one.1);
        println!("{particles:>4} {evaluation:>11.2}× {dgemm:>11.2}× {:>10.2}", evaluation / dgemm);
    }
}
