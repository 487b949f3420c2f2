//! SMSE and time of the sparse Gaussian process on the data sets of the repository.
//!
//! `cargo bench --bench sparse_accuracy -- fashion energy m=25,50 seeds=5 rounds=2 trace`
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a program for developers")]

mod common;

use std::time::Instant;

use common::{Clock, SETS, Set, read};

use ndarray::{Array1, Array2, Axis};
use stride_pipe::eval::folds::{Fold, holdout, kfold};
use stride_pipe::gp::inducing::{Candidates, InducingOptions};
use stride_pipe::gp::kernel::StationaryOptions;
use stride_pipe::gp::observer::TracePoint;
use stride_pipe::gp::random::{StreamKey, below};
use stride_pipe::gp::scaling::Scaling;
use stride_pipe::gp::sparse::{SparseOptions, fit};

fn show(point: &TracePoint) {
    if point.phase != "select" || point.step % 25 == 0 {
        println!(
            "    {:12} {} {:>3}: bound {:>11.2}  variance {:>9.4} length {:>8.4} noise {:.5}",
            point.phase,
            point.iteration,
            point.step,
            point.bound.unwrap_or(point.log_likelihood),
            point.variance,
            point.length.unwrap_or(f64::NAN),
            point.noise
        );
    }
}

/// SMSE of one fold, and one line about it.
fn run(
    set: &Set,
    x: &Array2<f64>,
    y: &Array1<f64>,
    fold: &Fold,
    options: &SparseOptions,
    seed: u64,
    trace: bool,
) -> f64 {
    let (x_train, y_train) = (x.select(Axis(0), &fold.train), y.select(Axis(0), &fold.train));
    let scaling = Scaling::fit(x_train.view(), y_train.view(), set.scaling);
    let (x_train, y_train) = (scaling.features(x_train.view()), scaling.target(y_train.view()));
    let x_test = scaling.features(x.select(Axis(0), &fold.test).view());
    let mut clock = Clock::new(trace.then_some(show));
    let start = Instant::now();
    let gp = fit(x_train.view(), y_train.view(), options, &StreamKey::new(seed), &mut clock).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let prediction = gp.predict(x_test.view(), true).unwrap();
    let truth = scaling.target(y.select(Axis(0), &fold.test).view());
    let mean = truth.mean().unwrap();
    let variance = truth.mapv(|v| (v - mean).powi(2)).mean().unwrap();
    let smse = (&truth - &prediction.mean).mapv(|v| v * v).mean().unwrap() / variance;
    println!(
        "  {} m={} seed={seed}: SMSE {smse:.4}  F_V {:.1}  {seconds:.1} s (select {:.1}, hyper {:.1})  variance {:.4} \
         length {:.4} noise {:.5}{}",
        set.name,
        gp.rows().len(),
        gp.bound(),
        clock.seconds("offline.select"),
        clock.seconds("offline.hyper"),
        gp.hyper().variance,
        gp.hyper().lengths[0],
        gp.hyper().noise,
        if gp.hyper().noise > 0.8 { "  ALL NOISE" } else { "" },
    );
    smse
}

fn peak_memory_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok()).unwrap_or(f64::NAN) / 1024.0
}

fn main() {
    stride_pipe::startup::with_fitting_kernels();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| arguments.iter().find_map(|a| a.strip_prefix(&format!("{name}=")).map(str::to_owned));
    let flag = |name: &str| arguments.iter().any(|a| a == name);
    let counts = value("m").unwrap_or_else(|| "50".into());
    let seeds: u64 = value("seeds").map_or(1, |v| v.parse().unwrap());
    for set in SETS.iter().filter(|set| flag(set.name)) {
        let (x, y) = read(set);
        println!("{}: {} rows, {} features", set.name, x.nrows(), x.ncols());
        for m in counts.split(',') {
            let options = SparseOptions {
                stationary: StationaryOptions { ard: flag("ard"), ..StationaryOptions::default() },
                inducing: InducingOptions {
                    count: m.parse().unwrap(),
                    candidates: value("candidates")
                        .map_or(Candidates::default(), |v| Candidates::Count(v.parse().unwrap())),
                    rows: None,
                },
                rounds: value("rounds").map_or(SparseOptions::default().rounds, |v| v.parse().unwrap()),
                ..SparseOptions::default()
            };
            let mut all = Vec::new();
            for seed in 0..seeds {
                let mut rng = StreamKey::new(seed).with("folds").generator();
                let mut draw = |k: usize| below(&mut rng, k);
                let folds = if set.name == "fashion" {
                    vec![holdout(x.nrows(), 0.1, &mut draw).unwrap()]
                } else {
                    kfold(x.nrows(), 10, &mut draw).unwrap()
                };
                let smse: Vec<f64> =
                    folds.iter().map(|fold| run(set, &x, &y, fold, &options, seed, flag("trace"))).collect();
                all.extend(smse);
            }
            let mean = all.iter().sum::<f64>() / all.len() as f64;
            let worst = all.iter().copied().fold(0.0, f64::max);
            println!("{} m={m}: mean SMSE {mean:.4}, worst {worst:.4}, {} folds", set.name, all.len());
        }
    }
    println!("peak memory {:.0} MiB", peak_memory_mib());
}
