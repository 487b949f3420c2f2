//! The `stride-pipe` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    stride_pipe::startup::with_fitting_kernels();
    #[cfg(feature = "mpi")]
    return stride_pipe::cli::main_of_rank();
    #[cfg(not(feature = "mpi"))]
    stride_pipe::cli::main()
}
