//! The same problem in other programs, in the same minute and on the same cores: numpy in tiles for one evaluation of ℓ,
//! `GPyTorch` for the sparse bound with its gradient. Their results must agree with ours.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;

use ndarray::{Array1, Array2};
use serde_json::{Value, json};
use stride_pipe::gp::deep::LogDensity;
use stride_pipe::gp::kernel::Kernel;
use stride_pipe::gp::sparse::{JITTER, bound_with_gradient};

use crate::common::best;
use crate::problem::{INDUCING, RANK, ROWS, data, hyper, spread, stride};
use crate::{FAILED, on_threads, thread_counts};

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers").join(name)
}

// What the script prints, or why it did not.
fn run(name: &str, more: &[&str], directory: &Path, threads: usize) -> Result<Value, String> {
    let python = std::env::var("STRIDE_BENCH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut command = Command::new(&python);
    // Ours may have been chosen for an older library than theirs.
    command.env_remove(stride_pipe::gp::linalg::KERNELS_VARIABLE);
    for variable in ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"] {
        command.env(variable, threads.to_string());
    }
    let output =
        command.arg(script(name)).arg(directory).args(more).output().map_err(|error| format!("{python}: {error}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(text.lines().last().unwrap_or_default().to_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

fn write(directory: &Path, name: &str, values: &[f64]) {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    std::fs::write(directory.join(name), bytes).unwrap();
}

fn describe(directory: &Path, x: &Array2<f64>, y: &Array1<f64>, m: usize, white: Option<&Array2<f64>>) {
    let hyper = hyper();
    write(directory, "x", x.as_slice().unwrap());
    write(directory, "y", y.as_slice().unwrap());
    if let Some(white) = white {
        write(directory, "white", white.as_slice().unwrap());
    }
    let text = json!({
        "n": x.nrows(), "d": x.ncols(), "variance": hyper.variance, "length": hyper.lengths[0], "noise": hyper.noise,
        "jitter": JITTER, "inducing": spread(x.nrows(), m, 0), "pivots": spread(x.nrows(), RANK, 1),
    });
    std::fs::write(directory.join("problem.json"), text.to_string()).unwrap();
}

fn compare(name: &str, threads: usize, m: usize, ours: (f64, f64), theirs: Result<Value, String>) {
    let number = |value: &Value, key: &str| value[key].as_f64().unwrap_or(f64::NAN);
    match theirs {
        Err(why) => {
            println!("{threads:>8} {m:>5} {name:>10}   did not run: {why}");
            FAILED.store(true, Ordering::Relaxed);
        }
        Ok(theirs) => {
            let (seconds, value) = (number(&theirs, "seconds"), number(&theirs, "value"));
            let differ = ((value - ours.1) / ours.1).abs();
            println!(
                "{threads:>8} {m:>5} {name:>10} {:>12.1} {:>12.1} {:>7.1}× {differ:>16.0e}",
                ours.0 * 1e3,
                seconds * 1e3,
                seconds / ours.0
            );
            assert!(differ < 1e-8, "{name} and stride-pipe do not compute the same");
        }
    }
}

pub fn report() {
    println!(
        "peers: n = {ROWS}; tiled numpy for one evaluation of ℓ, GPyTorch for the sparse bound with its gradient;"
    );
    println!("       `our way`: numpy, too, whitens the sums once instead of every row");
    println!(
        "{:>8} {:>5} {:>10} {:>12} {:>12} {:>8} {:>16}",
        "threads", "m", "peer", "ours ms", "theirs ms", "ratio", "values differ by"
    );
    let (x, y) = data(ROWS);
    let directory = tempfile::tempdir().unwrap();
    for threads in thread_counts() {
        for m in INDUCING {
            let problem = stride(&x, &y, m);
            let white = problem.start_xi().unwrap();
            describe(directory.path(), &x, &y, m, Some(&white[0]));
            // As often as the scripts.
            let runs = if m > 200 { 4 } else { 12 };
            let measure = || best(runs, || assert!(problem.value(&white).is_ok()));
            // Before and after: the machine may change its speed meanwhile.
            let before = on_threads(threads, measure);
            let numpy = run("tiled_numpy.py", &[], directory.path(), threads);
            let scipy = run("tiled_numpy.py", &["scipy"], directory.path(), threads);
            let afterwards = run("tiled_numpy.py", &["afterwards"], directory.path(), threads);
            let seconds = before.min(on_threads(threads, measure));
            let value = problem.value(&white).unwrap().log_likelihood;
            compare("numpy", threads, m, (seconds, value), numpy);
            compare("+ scipy", threads, m, (seconds, value), scipy);
            compare("+ our way", threads, m, (seconds, value), afterwards);
        }
        for m in [50, 125] {
            describe(directory.path(), &x, &y, m, None);
            let rows = spread(ROWS, m, 0);
            let evaluate = || bound_with_gradient(x.view(), y.view(), Kernel::Rbf, &hyper(), &rows, JITTER).unwrap();
            let measure = || best(5, || drop(evaluate()));
            let before = on_threads(threads, measure);
            let theirs = run("gpytorch_bound.py", &[], directory.path(), threads);
            let seconds = before.min(on_threads(threads, measure));
            compare("GPyTorch", threads, m, (seconds, evaluate().at.value), theirs);
        }
    }
}
