//! Cost of one evaluation and one gradient of a deep log-likelihood against the machine's matrix product.
//!
//! `cargo bench --bench deep_speed -- n=63000 r=50 m=25,50,125,500 threads=1,2 layers=2`
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program for developers")]

mod common;

use common::{best, peak};
use ndarray::{Array1, Array2};
use stride_pipe::gp::deep::{DeepOptions, HiddenKind, LogDensity, Points, Problem};
use stride_pipe::gp::kernel::Hyper;
use stride_pipe::gp::random::{StreamKey, standard_normal, uniform};
use stride_pipe::gp::sparse::JITTER;

const D: usize = 30;

fn report(n: usize, r: usize, m: usize, layers: usize) {
    let mut rng = StreamKey::new(1).generator();
    let x = Array2::from_shape_fn((n, D), |_| standard_normal(&mut rng));
    let y: Array1<f64> = x.outer_iter().map(|row| (row[0] + row[1]).sin() + 0.1 * uniform(&mut rng)).collect();
    let hidden = HiddenKind::Aca { rank: r, tolerance: 0.0, repivot: false };
    let options = DeepOptions { hidden, layers, ..DeepOptions::default() };
    let rows: Vec<usize> = (0..m).map(|i| i * (n / m)).collect();
    let pivots: Vec<usize> = (0..r).map(|i| i * (n / r) + 1).collect();
    let points = Points { inducing: rows, pivots: Ok(pivots), jitter: JITTER };
    let problem = Problem::new(x.view(), y.view(), &options, &Hyper::isotropic(1.0, 5.0, 0.1), points).unwrap();
    let white = problem.start_white().unwrap();
    let peak = peak();
    let value = best(7, || assert!(problem.value(&white).is_ok()));
    let gradient = best(5, || drop(problem.value_and_gradient(&white).unwrap()));
    let (nf, rf, mf, df) = (n as f64, r as f64, m as f64, D as f64);
    // Hidden values, distances, triangular solve, W.
    let hidden = 2.0 * rf * df + (layers - 2) as f64 * 4.0 * rf * df;
    let value_flops = nf * (hidden + 2.0 * mf * df + 2.0 * mf * mf);
    // All of it, and: V once more (hidden values, distances, solve), B⁻¹V, L⁻ᵀ, back to rows, inducing points and ξ.
    let back = 2.0 * hidden + 2.0 * mf * df + mf * mf + 3.0 * mf * mf + 4.0 * mf * df;
    println!(
        "{:>2} threads  m = {m:>3}  value {:>8.2} ms ({:.2} of peak)  gradient {:>8.2} ms ({:.2} of peak, {:.2} values)  peak {:.1} GFLOP/s",
        rayon::current_num_threads(),
        value * 1e3,
        value_flops / value / peak,
        gradient * 1e3,
        (value_flops + nf * back) / gradient / peak,
        gradient / value,
        peak / 1e9,
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let list = |name: &str, otherwise: &[usize]| -> Vec<usize> {
        let found = arguments.iter().find_map(|a| a.strip_prefix(&format!("{name}=")));
        found.map_or(otherwise.to_vec(), |text| text.split(',').filter_map(|word| word.parse().ok()).collect())
    };
    let first = |name: &str, otherwise: usize| list(name, &[otherwise]).first().copied().unwrap_or(otherwise);
    let (n, r, layers) = (first("n", 63_000), first("r", 50), first("layers", 2));
    println!("n = {n}, d = {D}, r = {r}, {layers} layers");
    for threads in list("threads", &[1, 2]) {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        for m in list("m", &[25, 50, 125]) {
            pool.install(|| report(n, r, m, layers));
        }
    }
}
