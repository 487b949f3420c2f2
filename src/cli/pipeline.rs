//! What the commands that take a pipeline file have in common.

use super::exit::{self, Failure};
use crate::engine::plan::{Plan, PlanRequest, build};
use crate::pipeline::PipelineText;
use crate::pipeline::tree::MAX_BYTES;
use crate::startup;
use crate::store::object::refuse_secrets;
use crate::text;
use clap::Args;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// A pipeline file and changes to it.
#[derive(Debug, Args)]
pub struct PipelineArgs {
    /// The pipeline file
    pub file: PathBuf,
    /// Change a parameter or option: `m=125`, `seed=7`, `stages.model.train.kernel=matern32`
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub sets: Vec<String>,
    /// Write results here instead of where the pipeline says
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
}

/// How much memory work may take.
#[derive(Debug, Args)]
pub struct MemoryArgs {
    /// Memory to use: `8GiB`, `500MiB`; default: three quarters of what there is
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<u64>,
}

impl MemoryArgs {
    /// In bytes.
    pub fn bytes(&self) -> u64 {
        self.memory.unwrap_or_else(|| startup::memory().map_or(u64::MAX, |all| all / 4 * 3))
    }
}

fn size(text: &str) -> Result<u64, String> {
    text::parse_bytes(text).ok_or_else(|| "write a number and a unit: 500MiB, 8GiB or 1.5TiB".to_owned())
}

/// The bytes of a file, as far as a pipeline can be long: it may be a device that never ends.
fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a pipeline file.
pub fn text_of(file: &Path) -> Result<String, Failure> {
    let name = file.display().to_string();
    let bytes = read(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Failure::new(exit::MISSING_INPUT, format!("stride-pipe: there is no pipeline file {name}"))
        }
        _ => Failure::new(exit::MISSING_INPUT, format!("stride-pipe: {name} cannot be read: {error}")),
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]).into_owned();
        let line = 1 + valid.matches('\n').count();
        let column = 1 + valid.rsplit('\n').next().map_or(0, |text| text.chars().count());
        let message = format!("{name}:{line}:{column}: the file is not UTF-8 text; save it as UTF-8");
        Failure::new(exit::INVALID_PIPELINE, message)
    })
}

/// Reads and plans; every problem of the file is in the failure.
pub fn load(args: &PipelineArgs) -> Result<Plan, Failure> {
    let (name, text) = (args.file.display().to_string(), text_of(&args.file)?);
    let env = |variable: &str| std::env::var(variable).ok();
    let request =
        PlanRequest { file: &args.file, text: &text, sets: &args.sets, results: args.results.as_deref(), env: &env };
    let plan = build(&request).map_err(|problems| {
        let source = PipelineText { name: name.clone(), text: text.clone(), sets: args.sets.clone() };
        Failure::new(exit::INVALID_PIPELINE, problems.render(&source))
    })?;
    check_addresses(&name, &plan)?;
    Ok(plan)
}

/// Refuses addresses with secrets before anything is written down. They are not shown, nor is the line that has them.
fn check_addresses(name: &str, plan: &Plan) -> Result<(), Failure> {
    let results = plan.results.display().to_string();
    let is_between = |letter: char| letter.is_whitespace() || "\"',".contains(letter);
    for text in plan.resolved_yaml.split(is_between).chain([results.as_str()]) {
        if let Err((shown, detail, hint)) = refuse_secrets(text) {
            let message = format!("stride-pipe: {name}: {shown}: {detail}; {hint}");
            return Err(Failure::new(exit::INVALID_PIPELINE, message));
        }
    }
    Ok(())
}
