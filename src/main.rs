//! The `stride-pipe` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    stride_pipe::cli::main()
}
