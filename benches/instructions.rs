//! How many instructions training takes, piece by piece: a guard against slower code that noise cannot disturb.
//!
//! ```text
//! cargo bench --bench instructions             count, and compare with benches/instructions.txt
//! cargo bench --bench instructions -- check    the same, and fail when something is more than 10 % off (CI does)
//! cargo bench --bench instructions -- accept   count, and write that file
//! ```
//!
//! Counted by Valgrind's callgrind, on one thread, with the BLAS kernels of one fixed processor type. Code that finds a
//! processor without AVX2 and FMA takes another path; nothing is compared there.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a program for developers")]

#[path = "speed/problem.rs"]
#[allow(dead_code, reason = "shared with the benchmark of speed")]
mod problem;

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use ndarray::{Array1, Array2, s};
use stride_pipe::gp::deep::{
    CrossOptions, DeepGp, DeepOptions, EmOptions, HmcOptions, LayerOptions, LogDensity, PcnOptions, SamplerOptions,
    Start, fit,
};
use stride_pipe::gp::inducing::{Candidates, Choice, InducingOptions, Member};
use stride_pipe::gp::kernel::{Kernel, Stationary};
use stride_pipe::gp::observer::{Silent, TracePoint};
use stride_pipe::gp::random::{StreamKey, standard_normal};
use stride_pipe::gp::sparse::{JITTER, Level, SparseOptions, State};

use problem::{FEATURES, LENGTH, LONG_LENGTH, data, hyper, spread, stride_with};

const SLACK: f64 = 0.1;
const ROWS: usize = 2000;
const INDUCING: usize = 60;

/// Each with so many repetitions that what comes before does not count.
const PARTS: [(&str, fn()); 6] = [
    ("training", training),
    ("value", || values(LENGTH)),
    ("value, rows solved", || values(LONG_LENGTH)),
    ("gradient", gradients),
    ("exchange", exchange),
    ("prediction", prediction),
];

fn small_fit(x: &Array2<f64>, y: &Array1<f64>, sampler: SamplerOptions) -> DeepGp {
    let start = SparseOptions {
        inducing: InducingOptions { count: 20, candidates: Candidates::Count(100), rows: None },
        subset: 60,
        starts: 1,
        rounds: 1,
        ..SparseOptions::default()
    };
    let options = DeepOptions {
        start: Start::Sparse(start),
        layers: LayerOptions {
            hidden: CrossOptions { rank: 20, tolerance: 0.0, repivot: true }.into(),
            ..LayerOptions::default()
        },
        em: EmOptions {
            particles: 2,
            iterations: Some(2),
            final_transitions: Some(2),
            sampler,
            ..EmOptions::default()
        },
    };
    fit(x.view(), y.view(), &options, &StreamKey::new(2), None, &mut Silent).unwrap()
}

/// STRIDE with both samplers, from some rows to predictions.
fn training() {
    let (n, d) = (1000, 8);
    let mut rng = StreamKey::new(1).generator();
    let x = Array2::from_shape_fn((n, d), |_| standard_normal(&mut rng));
    let y: Array1<f64> = x.outer_iter().map(|row| (row[0] + row[1]).sin()).collect();
    for sampler in [
        SamplerOptions::Hmc(HmcOptions { transitions: 2, leapfrog: 4, ..HmcOptions::default() }),
        SamplerOptions::Pcn(PcnOptions { steps: 20 }),
    ] {
        let model = small_fit(&x, &y, sampler);
        assert!(model.predict(x.view(), true).unwrap().mean.iter().all(|value| value.is_finite()));
    }
}

fn values(length: f64) {
    let (x, y) = data(ROWS);
    let problem = stride_with(&x, &y, INDUCING, length);
    let xi = problem.start_xi().unwrap();
    for _ in 0..30 {
        assert!(problem.value(&xi).unwrap().log_likelihood.is_finite());
    }
}

fn gradients() {
    let (x, y) = data(ROWS);
    let problem = stride_with(&x, &y, INDUCING, LENGTH);
    let xi = problem.start_xi().unwrap();
    for _ in 0..10 {
        assert!(problem.value_and_gradient(&xi).unwrap().0.log_likelihood.is_finite());
    }
}

/// What an M step does to inducing points.
fn exchange() {
    let (x, y) = data(ROWS);
    let hyper = hyper();
    let covariance = Stationary::new(Kernel::Rbf, &hyper, x.view(), &[0.0; FEATURES]).unwrap();
    let level = Level { noise: hyper.noise, jitter: JITTER };
    let state = State::new(&covariance, y.view(), &spread(ROWS, INDUCING, 0), level).unwrap();
    let (candidates, key) = (Candidates::Count(200), StreamKey::new(2));
    let choice = Choice { y: y.view(), candidates, key, trace: TracePoint::default() };
    choice.exchange(&mut [Member { covariance: &covariance, state }], 3, &mut Silent).unwrap();
}

fn prediction() {
    let (x, y) = data(ROWS);
    let few = (x.slice(s![..100, ..]).to_owned(), y.slice(s![..100]).to_owned());
    let model = small_fit(&few.0, &few.1, SamplerOptions::Pcn(PcnOptions { steps: 1 }));
    for _ in 0..10 {
        assert!(model.predict(x.view(), true).unwrap().mean.iter().all(|value| value.is_finite()));
    }
}

/// Runs a part of this program under callgrind.
fn count(part: &str) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let output = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe().unwrap())
        .args(["work", part])
        .env("OPENBLAS_CORETYPE", "Haswell")
        .env("OPENBLAS_NUM_THREADS", "1")
        .env("RAYON_NUM_THREADS", "1")
        .output()
        .unwrap_or_else(|error| panic!("valgrind: {error}; `make bench` installs it"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(out).unwrap();
    let total = text.lines().find_map(|line| line.strip_prefix("totals:").or_else(|| line.strip_prefix("summary:")));
    total.and_then(|total| total.trim().parse().ok()).unwrap()
}

/// All parts, at the same time.
fn count_all() -> Vec<u64> {
    std::thread::scope(|scope| {
        let running = PARTS.map(|(part, _)| scope.spawn(move || count(part)));
        running.into_iter().map(|part| part.join().unwrap()).collect()
    })
}

/// What the code was compiled with: another compiler counts otherwise.
fn compiler() -> String {
    let output = Command::new("rustc").arg("--version").output();
    output.map_or_else(|_| "unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(target_arch = "x86_64")]
fn comparable() -> bool {
    std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
}

#[cfg(not(target_arch = "x86_64"))]
fn comparable() -> bool {
    false
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let asked = |word: &str| arguments.iter().any(|argument| argument == word);
    // `cargo test --benches` only wants to know that it compiles.
    if asked("--test") {
        return ExitCode::SUCCESS;
    }
    if asked("work") {
        PARTS.iter().filter(|(part, _)| asked(part)).for_each(|(_, work)| work());
        return ExitCode::SUCCESS;
    }
    if !comparable() {
        println!("instructions: this processor has no AVX2 or no FMA, so that nothing can be compared");
        return ExitCode::SUCCESS;
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/instructions.txt");
    let counted = count_all();
    if asked("accept") {
        let mut text = format!("compiler: {}\n", compiler());
        for ((part, _), count) in PARTS.iter().zip(&counted) {
            writeln!(text, "{part}: {count}").unwrap();
        }
        std::fs::write(&file, text).unwrap();
    }
    let text = std::fs::read_to_string(&file).unwrap();
    let known = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap();
    println!("{:>20} {:>14} {:>14} {:>9}", "instructions", "counted", "committed", "change");
    let mut worst: f64 = 0.0;
    for ((part, _), count) in PARTS.iter().zip(&counted) {
        let committed: f64 = known(part).parse().unwrap();
        let change = *count as f64 / committed - 1.0;
        println!("{part:>20} {count:>14} {committed:>14} {:>+8.1}%", 100.0 * change);
        worst = if change.abs() > worst.abs() { change } else { worst };
    }
    if worst.abs() <= SLACK || !asked("check") {
        return ExitCode::SUCCESS;
    }
    let what =
        if worst > 0.0 { "more work than before. If it is meant" } else { "less work than before. To keep it so" };
    println!("instructions: {what}: cargo bench --bench instructions -- accept");
    if known("compiler") != compiler() {
        println!("instructions: the committed figures are those of {}, this is {}", known("compiler"), compiler());
    }
    ExitCode::FAILURE
}
