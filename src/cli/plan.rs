//! `stride-pipe plan`: what a pipeline would do.

use super::exit::{self, Failure};
use super::pipeline::{PipelineArgs, load};
use super::{print, print_raw};
use crate::engine::{self, Decision};
use crate::plan::{Case, Preview, Stage, to_dot, to_json, to_mermaid, to_text};
use clap::{Args as ClapArgs, ValueEnum};
use std::collections::HashMap;

/// Arguments of `plan`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Exit with 3 when there is work to do
    #[arg(long)]
    exit_code: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
    Dot,
    Mermaid,
}

pub fn execute(args: &Args) -> Result<(), Failure> {
    let plan = load(&args.pipeline)?;
    let forecasts: HashMap<&str, Vec<Decision>> =
        plan.cases.iter().map(|case| (case.label.as_str(), engine::forecast(&plan, case))).collect();
    let preview = |case: &Case, stage: &Stage| -> Preview {
        let position = case.stages.iter().position(|other| other.id == stage.id).unwrap_or(0);
        let decision =
            forecasts.get(case.label.as_str()).and_then(|all| all.get(position)).cloned().unwrap_or_default();
        let Decision { run, skip, reason } = decision;
        // A plan may be looked at before its data are there: what is not known is left out.
        Preview { run, skip, reason, ..engine::preview(case, stage).unwrap_or_default() }
    };
    match args.format {
        Format::Text => print(&to_text(&plan, &preview))?,
        Format::Json => print_raw(&format!("{:#}\n", to_json(&plan, &preview)))?,
        Format::Dot => print_raw(&to_dot(&plan))?,
        Format::Mermaid => print_raw(&to_mermaid(&plan))?,
    }
    let work = forecasts.values().flatten().any(|decision| decision.run > 0);
    if args.exit_code && work { Err(Failure::new(exit::WORK_TO_DO, "")) } else { Ok(()) }
}
