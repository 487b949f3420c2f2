//! `stride-pipe schema`: the language of pipeline files, for editors (JSON Schema) and for people (Markdown).

use super::exit::Failure;
use super::{manual, print_raw};
use crate::stages::LANGUAGE;
use clap::{Args as ClapArgs, ValueEnum};

/// Arguments of `schema`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// How to print it
    #[arg(long, value_enum, default_value_t = SchemaFormat::Json)]
    format: SchemaFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SchemaFormat {
    /// The JSON Schema
    Json,
    /// The reference of all stages and options
    Markdown,
}

pub fn execute(args: &Args) -> Result<(), Failure> {
    match args.format {
        SchemaFormat::Json => print_raw(&format!("{:#}\n", LANGUAGE.schema())),
        SchemaFormat::Markdown => print_raw(&manual::markdown(&LANGUAGE.schema())),
    }
}
