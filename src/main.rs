//! The `stride-pipe` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    stride_pipe::startup::with_fitting_kernels();
    stride_pipe::cli::main()
}
