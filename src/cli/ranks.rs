//! A job of several processes: rank 0 is the program, the others train with it.

use super::exit::{self, Failure};
use super::{Cli, Command, answer, words};
use crate::engine;
use crate::ranks::{Comm, check_same_program, start, started_apart, world};
use crate::stages::train::TeamOrder;
use clap::Parser as _;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::process::ExitCode;

/// Runs the command line, alone or as one of several processes.
pub fn main() -> ExitCode {
    let job = start();
    let refused = |text: String| Failure::new(exit::INVALID_PIPELINE, format!("stride-pipe: {text}"));
    let Some(comm) = world() else {
        let code = started_apart().map_err(refused).map_or_else(|failure| failure.report(), |()| answer());
        return ExitCode::from(code);
    };
    if let Err(failure) = check_same_program(&**comm).map_err(refused) {
        return ExitCode::from(if job.rank == 0 { failure.report() } else { failure.code() });
    }
    let work = || if comm.rank() == 0 { lead(&**comm) } else { follow(&**comm) };
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    match outcome {
        // The others may be waiting for numbers: whoever started them all ends them too.
        Err(_) | Ok(exit::BUG) => std::process::exit(exit::BUG.into()),
        Ok(code) => ExitCode::from(code),
    }
}

fn lead(comm: &dyn Comm) -> u8 {
    let code = answer();
    if code != exit::BUG {
        TeamOrder::End.send(comm);
    }
    code
}

fn follow(comm: &dyn Comm) -> u8 {
    // When to stop is for rank 0 to say.
    for signal in [SIGINT, SIGTERM] {
        let _ = signal_hook::flag::register(signal, std::sync::Arc::default());
    }
    let plan = match Cli::try_parse_from(words::words()).map(|cli| cli.command) {
        Ok(Command::Run(args)) => args.prepare_to_follow().map_err(|failure| failure.message()),
        _ => Err("only `run` trains with several processes".to_owned()),
    };
    let say = |text: &str| exit::say(&format!("stride-pipe: rank {}: {text}", comm.rank()));
    match engine::follow(plan.as_ref().map_err(String::as_str), comm, &say) {
        Ok(()) => exit::DONE,
        Err(error) => Failure::from(error).report(),
    }
}
