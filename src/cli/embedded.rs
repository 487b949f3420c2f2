//! The commands for a program that uses us as a library, such as a Python module: the same words, options and messages, but
//! nothing is printed, no signal is listened to, and several may go on at once.

use super::exit::{self, Failure};
pub use super::progress::briefly;
pub use super::run::RunOutcome;
use super::run::threads;
use super::{Cli, Command, answer, run, words};
use crate::stages::job::{Cancel, Listener};
use crate::startup;
use clap::Parser as _;
use std::ffi::OsString;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Does what the program would do when called with these words, its name first; returns the exit code.
pub fn main(words: Vec<OsString>) -> u8 {
    words::set_for_process(words);
    let code = answer();
    // Only the end of a Rust program writes what is left of a last line.
    let _ = std::io::stdout().flush();
    code
}

/// Runs a pipeline as `stride-pipe run` with these words would, with threads of its own. Where there is nothing to resume,
/// the run is an ordinary one, which takes from the cache what is done: whoever calls gets its results either way.
pub fn run(words: Vec<OsString>, cancel: &Cancel, listener: &dyn Listener) -> Result<RunOutcome, Failure> {
    let refused = |error: clap::Error| Failure::new(exit::USAGE, error.render().to_string().trim_end());
    let Command::Run(args) = Cli::try_parse_from(&words).map_err(refused)?.command else {
        return Err(Failure::new(exit::BUG, "stride-pipe: these are not the words of a run"));
    };
    in_threads(args.work.threads(), || {
        let outcome = words::with(words.clone(), || run::perform(&args, cancel, listener));
        match outcome {
            Err(failure) if failure.code() == exit::DONE => {
                let words = words::with(words, run::without_resume);
                words::with(words, || run::perform(&args.anew(), cancel, listener))
            }
            outcome => outcome,
        }
    })
}

/// How many threads are used where nothing is said.
pub fn default_threads() -> usize {
    threads(None)
}

/// A wish that cannot be understood.
pub fn usage(text: &str) -> Failure {
    run::usage(text)
}

/// Does something with so many threads, which end with it. A panic is a bug, and said to be one.
pub fn in_threads<T: Send>(threads: usize, work: impl FnOnce() -> Result<T, Failure> + Send) -> Result<T, Failure> {
    startup::check_address_space(threads).map_err(|text| run::usage(&text))?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(|error| {
        Failure::new(exit::BUG, format!("stride-pipe: {threads} threads cannot be started: {error}"))
    })?;
    startup::keep_single_threaded();
    let outcome = catch_unwind(AssertUnwindSafe(|| pool.install(work)));
    outcome.unwrap_or_else(|_| Err(Failure::new(exit::BUG, exit::PANICKED)))
}
