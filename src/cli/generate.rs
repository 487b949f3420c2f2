//! `stride-pipe generate`: sample data made from formulas.

use super::exit::Failure;
use super::print;
use crate::datasets::{steps2d, toy1d};
use crate::store::write_columns;
use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;

/// Arguments of `generate`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    what: Dataset,
}

#[derive(Debug, Subcommand)]
enum Dataset {
    /// The paper's one-dimensional function: noisy training rows, noise-free test rows
    Toy1d {
        /// Seed of the noise
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The Parquet file to write
        #[arg(long, value_name = "FILE")]
        output: PathBuf,
    },
    /// A piecewise-constant function of two features: noisy training rows, a grid of noise-free test rows
    Steps2d {
        /// Seed of the places and the noise
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The Parquet file to write
        #[arg(long, value_name = "FILE")]
        output: PathBuf,
    },
}

pub fn execute(args: &Args) -> Result<(), Failure> {
    match &args.what {
        Dataset::Toy1d { seed, output } => {
            let sample = toy1d::sample(*seed, &toy1d::Sampling::default());
            write_columns(output, sample.columns())?;
            print(&format!("{}: {} rows\n", output.display(), sample.x.len()))
        }
        Dataset::Steps2d { seed, output } => {
            let sample = steps2d::sample(*seed);
            write_columns(output, sample.columns())?;
            print(&format!("{}: {} rows\n", output.display(), sample.x.len()))
        }
    }
}
