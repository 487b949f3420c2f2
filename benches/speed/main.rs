//! How close training comes to what the machine can do: ratios to its own matrix product, measured side by side.
//!
//! ```text
//! cargo bench --bench speed                        everything but `million`
//! cargo bench --bench speed -- evaluation m_step   some of: evaluation m_step prediction growth threads peers million
//! ```
//!
//! Only ratios within one line are worth comparing: how fast a shared machine is changes from minute to minute. `peers` needs
//! a Python with the packages of `benches/peers/requirements.txt`, named by `STRIDE_BENCH_PYTHON`; `make bench` makes one.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program for developers")]

#[path = "../common/mod.rs"]
mod common;
mod evaluation;
mod growth;
mod m_step;
mod million;
mod peers;
mod prediction;
mod problem;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

const PARTS: [(&str, fn()); 7] = [
    ("evaluation", evaluation::report),
    ("m_step", m_step::report),
    ("prediction", prediction::report),
    ("growth", growth::rows_points_and_particles),
    ("threads", growth::threads),
    ("peers", peers::report),
    ("million", million::report),
];

/// Runs `work` on so many threads.
fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

/// How many threads there are to compare: one, and all.
fn thread_counts() -> Vec<usize> {
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    if all > 1 { vec![1, all] } else { vec![1] }
}

/// Set when something could not be compared.
static FAILED: AtomicBool = AtomicBool::new(false);

fn main() -> ExitCode {
    stride_pipe::startup::with_fitting_kernels();
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    // `cargo test --benches` only wants to know that it compiles.
    if arguments.iter().any(|argument| argument == "--test") {
        return ExitCode::SUCCESS;
    }
    if let Some(unknown) = arguments.iter().find(|name| PARTS.iter().all(|(part, _)| part != name)) {
        let known: Vec<&str> = PARTS.iter().map(|(part, _)| *part).collect();
        println!("`{unknown}` is not among {}", known.join(", "));
        return ExitCode::FAILURE;
    }
    for (name, report) in PARTS {
        let wanted = if arguments.is_empty() { name != "million" } else { arguments.iter().any(|a| a == name) };
        if wanted {
            report();
            println!();
        }
    }
    if FAILED.load(Ordering::Relaxed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
