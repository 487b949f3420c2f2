//! `stride-pipe completions`: what makes a shell complete commands and options.

use super::exit::Failure;
use super::print_raw;
use clap::{Args as ClapArgs, Command};
use clap_complete::{Shell, generate};

/// Arguments of `completions`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub fn execute(args: &Args, mut command: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    generate(args.shell, &mut command, "stride-pipe", &mut script);
    print_raw(&String::from_utf8_lossy(&script))
}
