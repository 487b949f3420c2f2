//! SMSE and time of deep Gaussian processes on the data sets of the repository.
//!
//! `cargo bench --bench deep_accuracy -- energy folds=3 m=50 rank=50 s=5 em=10 hmc=12x8 hyper=1 prior=zero trace`
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a program for developers")]

mod common;

use std::collections::BTreeMap;
use std::time::Instant;

use common::{Clock, SETS, Set, read};
use ndarray::{Array1, Array2, Axis};
use stride_pipe::eval::folds::{Fold, holdout, kfold};
use stride_pipe::gp::deep::{
    Architecture, CrossOptions, DeepOptions, EmOptions, HiddenMethod, HmcOptions, LayerOptions, PcnOptions, PriorMean,
    SamplerOptions, Start, fit,
};
use stride_pipe::gp::exact::ExactOptions;
use stride_pipe::gp::inducing::{Candidates, InducingOptions};
use stride_pipe::gp::observer::TracePoint;
use stride_pipe::gp::random::{StreamKey, below};
use stride_pipe::gp::scaling::Scaling;
use stride_pipe::gp::sparse::SparseOptions;

fn show(point: &TracePoint) {
    if matches!(point.phase, "e_step" | "final" | "exchange" | "hyper") && point.particle == 0 {
        println!(
            "    {:9} {:>2} {:>4}: ell {:>10.2} bound {:>10.2}  accept {:.2} step {:.4}  variance {:>8.3} length {:>7.3} noise {:.5}",
            point.phase,
            point.iteration,
            point.step,
            point.log_likelihood,
            point.bound.unwrap_or(f64::NAN),
            point.acceptance.unwrap_or(f64::NAN),
            point.step_size.unwrap_or(f64::NAN),
            point.variance,
            point.length.unwrap_or(f64::NAN),
            point.noise
        );
    }
}

fn smse(truth: &Array1<f64>, mean: &[f64]) -> f64 {
    let centre = truth.mean().unwrap();
    let error: f64 = truth.iter().zip(mean).map(|(y, f)| (y - f).powi(2)).sum();
    error / truth.iter().map(|y| (y - centre).powi(2)).sum::<f64>()
}

fn run(set: &Set, x: &Array2<f64>, y: &Array1<f64>, fold: &Fold, options: &DeepOptions, seed: u64, trace: bool) -> f64 {
    let (x_train, y_train) = (x.select(Axis(0), &fold.train), y.select(Axis(0), &fold.train));
    let scaling = Scaling::fit(x_train.view(), y_train.view(), set.scaling);
    let (x_train, y_train) = (scaling.features(x_train.view()), scaling.target(y_train.view()));
    let mut clock = Clock::new(trace.then_some(show));
    let start = Instant::now();
    let gp = fit(x_train.view(), y_train.view(), options, &StreamKey::new(seed), None, &mut clock).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let x_test = scaling.features(x.select(Axis(0), &fold.test).view());
    let y_test = scaling.target(y.select(Axis(0), &fold.test).view());
    let start = Instant::now();
    let prediction = gp.predict(x_test.view(), true).unwrap();
    let online = start.elapsed().as_secs_f64();
    let parts = gp.parts();
    let noise = parts.hyper.noise;
    let variance = prediction.latent_variance.unwrap();
    let nlpd = y_test
        .iter()
        .zip(&prediction.mean)
        .zip(&variance)
        .map(|((y, f), v)| 0.5 * ((std::f64::consts::TAU * (v + noise)).ln() + (y - f).powi(2) / (v + noise)))
        .sum::<f64>()
        / y_test.len() as f64;
    let error = smse(&y_test, prediction.mean.as_slice().unwrap());
    println!(
        "  {:9} smse {error:.5} nlpd {nlpd:>7.3}  ell {:>10.2} bound {:>10.2}  rhat {:.3} ess {:>5.0} accept {:.2}  variance {:>7.3} length {:>6.3} noise {:.5} jitter {:.0e}  {seconds:>6.1} s (e {:.1}, m {:.1}) online {online:.3}",
        set.name,
        parts.log_likelihood,
        parts.bound.unwrap_or(f64::NAN),
        parts.diagnostics.rhat.unwrap_or(f64::NAN),
        parts.diagnostics.ess.unwrap_or(f64::NAN),
        parts.diagnostics.acceptance.unwrap_or(f64::NAN),
        parts.hyper.variance,
        parts.hyper.lengths[0],
        noise,
        parts.diagnostics.jitter,
        clock.seconds("offline.e_step"),
        clock.seconds("offline.m_step"),
    );
    error
}

fn options(given: &BTreeMap<&str, &str>) -> DeepOptions {
    let number = |name: &str, otherwise: usize| given.get(name).map_or(otherwise, |text| text.parse().unwrap());
    let real = |name: &str| given.get(name).map(|text| text.parse::<f64>().unwrap());
    let basis = EmOptions::default();
    let hidden = match given.get("hidden").copied().unwrap_or("aca") {
        "full" => HiddenMethod::Full.into(),
        "sparse" => HiddenMethod::Sparse.into(),
        _ => {
            CrossOptions { rank: number("rank", 50) as u32, tolerance: 1e-6, repivot: number("repivot", 1) > 0 }.into()
        }
    };
    let start = if number("exact", 0) > 0 {
        Start::Exact(ExactOptions::default())
    } else {
        let candidates = match number("candidates", 1000) {
            0 => Candidates::All,
            count => Candidates::Count(count as u32),
        };
        let inducing = InducingOptions { count: number("m", 50) as u32, candidates, rows: None };
        Start::Sparse(SparseOptions { inducing, ..SparseOptions::default() })
    };
    let sampler = match (given.get("pcn"), given.get("hmc").and_then(|text| text.split_once('x'))) {
        (Some(steps), _) => SamplerOptions::Pcn(PcnOptions { steps: steps.parse().unwrap() }),
        (None, Some((a, b))) => SamplerOptions::Hmc(HmcOptions {
            transitions: a.parse().unwrap(),
            leapfrog: b.parse().unwrap(),
            ..HmcOptions::default()
        }),
        _ => basis.sampler,
    };
    DeepOptions {
        start,
        layers: LayerOptions {
            architecture: match given.get("arch").copied().unwrap_or("composition") {
                "convolution" => Architecture::Convolution,
                "injective" => Architecture::Injective,
                _ => Architecture::Composition,
            },
            layers: number("layers", 2) as u32,
            width: given.get("width").map(|text| text.parse().unwrap()),
            prior_mean: if given.get("prior") == Some(&"identity") { PriorMean::Identity } else { PriorMean::Zero },
            hidden,
            length: real("length"),
            u_min: real("u_min"),
            u_max: real("u_max"),
        },
        em: EmOptions {
            iterations: Some(number("em", basis.iterations() as usize) as u32),
            particles: number("s", basis.particles as usize) as u32,
            exchanges: number("exchanges", basis.exchanges as usize) as u32,
            hyperparameters: number("hyper", 1) > 0,
            sampler,
            final_transitions: Some(number("final", 50) as u32),
            draws: Some(number("draws", basis.draws() as usize) as u32),
            climb: given.get("climb").and_then(|value| value.parse().ok()),
            ..EmOptions::default()
        },
    }
}

fn main() {
    stride_pipe::startup::with_fitting_kernels();
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let given: BTreeMap<&str, &str> = words.iter().filter_map(|word| word.split_once('=')).collect();
    let number = |name: &str, otherwise: usize| given.get(name).map_or(otherwise, |text| text.parse().unwrap());
    let options = options(&given);
    for set in SETS.iter().filter(|set| words.iter().any(|word| word == set.name)) {
        let (x, y) = read(set);
        let mut rng = StreamKey::new(number("seed", 1) as u64).with("folds").generator();
        let mut draw = |n: usize| below(&mut rng, n);
        let mut folds = if set.name == "fashion" {
            vec![holdout(x.nrows(), 0.1, &mut draw).unwrap()]
        } else {
            kfold(x.nrows(), 10, &mut draw).unwrap()
        };
        folds.truncate(number("folds", 10));
        if let Some(rows) = given.get("rows") {
            for fold in &mut folds {
                fold.train.truncate(rows.parse().unwrap());
            }
        }
        let errors: Vec<f64> = folds
            .iter()
            .map(|fold| {
                run(set, &x, &y, fold, &options, number("seed", 1) as u64, words.iter().any(|word| word == "trace"))
            })
            .collect();
        println!(
            "{} mean smse {:.5} over {} fold(s)",
            set.name,
            errors.iter().sum::<f64>() / errors.len() as f64,
            errors.len()
        );
    }
}
