//! argv → exit code, one file per command: parses and prints, decides nothing.

mod completions;
mod csv;
pub mod embedded;
mod exit;
mod fit;
mod generate;
mod grid;
mod import;
mod init;
mod logging;
mod manual;
mod model;
mod pipeline;
mod plan;
mod progress;
#[cfg(feature = "mpi")]
mod ranks;
mod report;
mod run;
mod runs;
mod schema;
mod score;
mod signals;
mod summary;
mod tune;
mod validate;
mod views;
mod words;

use clap::{Parser, Subcommand, ValueEnum};
pub use exit::Failure;
#[cfg(feature = "mpi")]
pub use ranks::main as main_of_rank;
use std::process::ExitCode;

/// Deep Gaussian-process regression as pipelines over Parquet.
#[derive(Debug, Parser)]
#[command(name = "stride-pipe", version, arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a model of a table: look at the columns, try methods, compare, write the pipeline
    Fit(fit::Args),
    /// Check a pipeline, plan it and run it
    Run(run::Args),
    /// Search settings on rows inside the training rows, within a budget, and write the pipeline with the best
    Tune(tune::Args),
    /// Check a pipeline without running anything
    Validate(validate::Args),
    /// Show what a pipeline would do
    Plan(plan::Args),
    /// Score rows with a trained model, without a pipeline
    Score(score::Args),
    /// Convert CSV, NPZ, NPY or IDX files to Parquet with a key column
    Import(import::Args),
    /// Look at trained models, and go back to earlier ones
    Model(model::Args),
    /// Write a small pipeline and its data, to start from
    Init(init::Args),
    /// Make an HTML report of one run, several, or all runs of a results directory
    Report(report::Args),
    /// List, show, compare and remove the runs of a results directory
    Runs(runs::Args),
    /// Print SQL views over a results directory, or put them into a database file
    Views(views::Args),
    /// Print the JSON Schema of pipeline files, or the reference of their options
    Schema(schema::Args),
    /// Write sample data made from formulas
    Generate(generate::Args),
    /// Print what makes a shell complete commands and options
    Completions(completions::Args),
}

/// How a command shows what it found.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum TextOrJson {
    Text,
    Json,
}

/// Runs the command line; every way out has its documented exit code.
pub fn main() -> ExitCode {
    ExitCode::from(answer())
}

fn answer() -> u8 {
    // A panic is a bug: say so, with its own code, instead of a bare abort in the middle of a log.
    let outcome = std::panic::catch_unwind(|| {
        if let Err(message) = crate::startup::check_address_space(0) {
            exit::at_once(&Failure::new(exit::USAGE, format!("stride-pipe: {message}")));
        }
        let cli = match Cli::try_parse_from(words::words()) {
            Ok(cli) => cli,
            Err(error) => {
                // Help and version are answers, not mistakes.
                if !error.use_stderr() {
                    let _ = error.print();
                    return exit::DONE;
                }
                // It quotes what was written on the command line, which may have come from anywhere.
                exit::say(error.render().to_string().trim_end());
                return exit::USAGE;
            }
        };
        match dispatch(&cli.command) {
            Ok(()) => exit::DONE,
            Err(failure) => failure.report(),
        }
    });
    outcome.unwrap_or_else(|_| {
        exit::say(exit::PANICKED);
        exit::BUG
    })
}

fn dispatch(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Fit(args) => fit::execute(args),
        Command::Run(args) => run::execute(args),
        Command::Tune(args) => tune::execute(args),
        Command::Validate(args) => validate::execute(args),
        Command::Plan(args) => plan::execute(args),
        Command::Score(args) => score::execute(args),
        Command::Import(args) => import::execute(args),
        Command::Model(args) => model::execute(args),
        Command::Init(args) => init::execute(args),
        Command::Report(args) => report::execute(args),
        Command::Runs(args) => runs::execute(args),
        Command::Views(args) => views::execute(args),
        Command::Schema(args) => schema::execute(args),
        Command::Generate(args) => generate::execute(args),
        Command::Completions(args) => completions::execute(args, <Cli as clap::CommandFactory>::command()),
    }
}

/// Writes a command's result for people to stdout: nothing in it acts on their terminal.
fn print(text: &str) -> Result<(), Failure> {
    print_raw(&crate::text::printable(text))
}

/// Writes a command's result for programs to stdout, as it is unless a person looks at it. A reader that has seen enough
/// (`| head`) is no failure.
fn print_raw(text: &str) -> Result<(), Failure> {
    use std::io::{IsTerminal as _, Write as _};
    let text = if std::io::stdout().is_terminal() { &crate::text::printable(text) } else { text };
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new(exit::CANNOT_WRITE, format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}
