//! `stride-pipe generate`: sample data made from formulas.

use super::exit::Failure;
use super::print;
use crate::datasets::{orders, steps2d, toy1d};
use crate::store::write_columns;
use clap::{Args as ClapArgs, Subcommand};
use std::fmt::Write as _;
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
    /// 20,000 made-up orders of a shop: categories, dates, customers, gaps, log-normal amounts, weights
    Orders {
        /// Seed of everything
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The Parquet file to write
        #[arg(long, value_name = "FILE")]
        output: PathBuf,
        /// A further file: the orders of the next day, with products, a region and columns that are new
        #[arg(long, value_name = "FILE")]
        next: Option<PathBuf>,
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
        Dataset::Orders { seed, output, next } => {
            let (year, day) = orders::columns(*seed);
            write_columns(output, year)?;
            let mut text = format!("{}: {} rows\n", output.display(), orders::ORDERS);
            if let Some(next) = next {
                write_columns(next, day)?;
                let _ = writeln!(text, "{}: {} rows", next.display(), orders::NEXT);
            }
            print(&text)
        }
    }
}
