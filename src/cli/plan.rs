//! `stride-pipe plan`: what a pipeline would do.

use super::exit::{self, Failure};
use super::pipeline::{MemoryArgs, PipelineArgs, load};
use super::{print, print_raw};
use crate::engine;
use crate::engine::plan::{Case, PlannedStage, Preview, to_dot, to_json, to_mermaid, to_text};
use crate::stages::Sources;
use clap::{Args as ClapArgs, ValueEnum};
use std::collections::HashMap;

/// Arguments of `plan`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// How to show it
    #[arg(long, value_enum, default_value_t = PlanFormat::Text)]
    format: PlanFormat,
    #[command(flatten)]
    memory: MemoryArgs,
    /// Exit with 3 when there is work to do
    #[arg(long)]
    exit_code: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PlanFormat {
    Text,
    Json,
    Dot,
    Mermaid,
}

pub fn execute(args: &Args) -> Result<(), Failure> {
    let plan = load(&args.pipeline)?;
    let sources = Sources::default();
    let forecasts: HashMap<&str, Vec<Preview>> = plan
        .cases
        .iter()
        .map(|case| case.label.as_str())
        .zip(engine::forecast(&plan, &sources, args.memory.bytes()))
        .collect();
    let preview = |case: &Case, stage: &PlannedStage| -> Preview {
        let position = case.stages.iter().position(|other| other.id == stage.id).unwrap_or(0);
        forecasts.get(case.label.as_str()).and_then(|all| all.get(position)).cloned().unwrap_or_default()
    };
    match args.format {
        PlanFormat::Text => print(&plan.redactor.clean(&to_text(&plan, &preview)))?,
        PlanFormat::Json => print_raw(&format!("{:#}\n", plan.redactor.clean_json(to_json(&plan, &preview))))?,
        PlanFormat::Dot => print_raw(&plan.redactor.clean(&to_dot(&plan)))?,
        PlanFormat::Mermaid => print_raw(&plan.redactor.clean(&to_mermaid(&plan)))?,
    }
    let work = forecasts.values().flatten().any(|preview| preview.run > 0);
    if args.exit_code && work { Err(Failure::new(exit::WORK_TO_DO, "")) } else { Ok(()) }
}
