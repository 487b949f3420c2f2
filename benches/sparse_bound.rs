//! Cost of one evaluation of the sparse bound against the number of rows, and against the machine's matrix product.
//!
//! `cargo bench --bench sparse_bound -- m=100 largest=1000000`
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program for developers")]

mod common;

use common::{best, peak};
use ndarray::{Array1, Array2};
use stride_pipe::gp::inducing::Gains;
use stride_pipe::gp::kernel::{Hyper, Kernel, Stationary};
use stride_pipe::gp::random::{StreamKey, standard_normal, uniform};
use stride_pipe::gp::sparse::{JITTER, Level, State, bound_with_gradient};

const D: usize = 30;

fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let (mx, my) = logs.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + x / count, b + y / count));
    let (sxy, sxx) = logs.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + (x - mx) * (y - my), b + (x - mx).powi(2)));
    sxy / sxx
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str, default: usize| {
        arguments.iter().find_map(|a| a.strip_prefix(&format!("{name}="))?.parse().ok()).unwrap_or(default)
    };
    let (m, largest) = (value("m", 100), value("largest", 1_000_000));
    let mut rng = StreamKey::new(1).generator();
    let x = Array2::from_shape_fn((largest, D), |_| standard_normal(&mut rng));
    let y: Array1<f64> = x.outer_iter().map(|row| (row[0] + row[1]).sin() + 0.1 * uniform(&mut rng)).collect();
    let hyper = Hyper::isotropic(1.0, 5.0, 0.1);
    let level = Level { noise: hyper.noise, jitter: JITTER };
    println!(
        "m = {m}, d = {D}, {} threads; shares are of the matrix product measured beside each row",
        rayon::current_num_threads()
    );
    println!(
        "{:>9} {:>11} {:>7} {:>11} {:>7} {:>11} {:>7}",
        "rows", "bound s", "share", "gradient s", "share", "gains s", "share"
    );
    let mut points = Vec::new();
    let sizes = [10_000, 30_000, 100_000, 300_000, 1_000_000];
    for n in sizes.into_iter().filter(|n| *n <= largest) {
        let (x, y) = (x.slice(ndarray::s![..n, ..]), y.slice(ndarray::s![..n]));
        let rows: Vec<usize> = (0..m).map(|i| i * (n / m)).collect();
        let candidates: Vec<usize> = (0..1000).map(|i| i * (n / 1000) + 1).collect();
        let runs = (3_000_000 / n).clamp(2, 20);
        let peak = peak();
        let covariance = Stationary::new(Kernel::Rbf, &hyper, x, &[0.0; D]).unwrap();
        let bound = best(runs, || drop(State::new(&covariance, y, &rows, level).unwrap()));
        let gradient = best(runs, || drop(bound_with_gradient(x, y, Kernel::Rbf, &hyper, &rows, JITTER).unwrap()));
        let (nf, mf, df, jf) = (n as f64, m as f64, D as f64, candidates.len() as f64);
        // Distances, triangular solve, W; with the gradient D Vᵀ too.
        let bound_flops = nf * mf * (2.0 * df + 2.0 * mf);
        let gradient_flops = bound_flops + 2.0 * nf * mf * mf;
        print!(
            "{n:>9} {bound:>11.4} {:>7.2} {gradient:>11.4} {:>7.2}",
            bound_flops / bound / peak,
            gradient_flops / gradient / peak
        );
        if n <= 100_000 {
            let state = State::new(&covariance, y, &rows, level).unwrap();
            let gains = best(2, || drop(Gains::new(&covariance, y, &state, &candidates).unwrap()));
            let gains_flops = nf * jf * (2.0 * df + 4.0 * mf) + nf * mf * (2.0 * df + mf);
            print!(" {gains:>11.4} {:>7.2}", gains_flops / gains / peak);
        }
        println!("   ({:.1} GFLOP/s)", peak * 1e-9);
        points.push((nf, bound));
    }
    println!("log-log slope of the bound: {:.3}", slope(&points));
}
