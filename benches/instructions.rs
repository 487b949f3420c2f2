//! How many instructions a small training takes: a guard against slower code that noise cannot disturb.
//!
//! ```text
//! cargo bench --bench instructions             count, and compare with benches/instructions.txt
//! cargo bench --bench instructions -- check    the same, and fail when it is more than 10 % off (CI does)
//! cargo bench --bench instructions -- accept   count, and write that file
//! ```
//!
//! Counted by Valgrind's callgrind, on one thread, with the BLAS kernels of one fixed processor type. Code that finds a
//! processor without AVX2 and FMA takes another path; nothing is compared there.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a program for developers")]

use std::path::Path;
use std::process::{Command, ExitCode};

use ndarray::{Array1, Array2};
use stride_pipe::gp::deep::{DeepOptions, HiddenKind, SamplerKind, Start, fit};
use stride_pipe::gp::inducing::Candidates;
use stride_pipe::gp::observer::Silent;
use stride_pipe::gp::random::{StreamKey, standard_normal};
use stride_pipe::gp::sparse::SparseOptions;

const SLACK: f64 = 0.1;

/// Fits STRIDE with both samplers to some rows, and predicts them.
fn work() {
    let (n, d) = (1000, 8);
    let mut rng = StreamKey::new(1).generator();
    let x = Array2::from_shape_fn((n, d), |_| standard_normal(&mut rng));
    let y: Array1<f64> = x.outer_iter().map(|row| (row[0] + row[1]).sin()).collect();
    for sampler in [SamplerKind::Hmc { transitions: 2, leapfrog: 4 }, SamplerKind::Pcn { steps: 20 }] {
        let start = SparseOptions {
            count: 20,
            candidates: Candidates::Count(100),
            subset: 60,
            starts: 1,
            rounds: 1,
            ..SparseOptions::default()
        };
        let options = DeepOptions {
            start: Start::Sparse(start),
            hidden: HiddenKind::Aca { rank: 20, tolerance: 0.0, repivot: true },
            particles: 2,
            iterations: 2,
            final_transitions: 2,
            sampler,
            ..DeepOptions::default()
        };
        let model = fit(x.view(), y.view(), &options, &StreamKey::new(2), None, &mut Silent).unwrap();
        assert!(model.predict(x.view(), true).unwrap().mean.iter().all(|value| value.is_finite()));
    }
}

/// Runs this program under callgrind.
fn count() -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let output = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe().unwrap())
        .arg("work")
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

#[cfg(target_arch = "x86_64")]
fn comparable() -> bool {
    std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
}

#[cfg(not(target_arch = "x86_64"))]
fn comparable() -> bool {
    false
}

fn main() -> ExitCode {
    let asked = |word: &str| std::env::args().any(|argument| argument == word);
    // `cargo test --benches` only wants to know that it compiles.
    if asked("--test") {
        return ExitCode::SUCCESS;
    }
    if asked("work") {
        work();
        return ExitCode::SUCCESS;
    }
    if !comparable() {
        println!("instructions: this processor has no AVX2 or no FMA, so that nothing can be compared");
        return ExitCode::SUCCESS;
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/instructions.txt");
    let counted = count();
    if asked("accept") {
        std::fs::write(&file, format!("{counted}\n")).unwrap();
    }
    let known: u64 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    let change = counted as f64 / known as f64 - 1.0;
    println!(
        "instructions: {counted} for a small training, {:+.1} % against benches/instructions.txt ({known})",
        100.0 * change
    );
    if change.abs() <= SLACK || !asked("check") {
        return ExitCode::SUCCESS;
    }
    let what =
        if change > 0.0 { "more work than before. If it is meant" } else { "less work than before. To keep it so" };
    println!("instructions: {what}: cargo bench --bench instructions -- accept");
    ExitCode::FAILURE
}
