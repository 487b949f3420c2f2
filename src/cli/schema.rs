//! `stride-pipe schema`: the JSON Schema of pipeline files.

use super::exit::Failure;
use super::print_raw;
use crate::stages::LANGUAGE;
use clap::Args as ClapArgs;

/// Arguments of `schema`.
#[derive(Debug, ClapArgs)]
pub struct Args {}

pub fn execute(_: &Args) -> Result<(), Failure> {
    print_raw(&format!("{:#}\n", LANGUAGE.schema()))
}
