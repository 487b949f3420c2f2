//! `stride-pipe model`: what a trained model is, was trained on, and how well it did; the versions of a published one.

mod diff;
mod versions;

use super::exit::{self, Failure};
use super::{TextOrJson, print, print_raw};
use crate::eval::transform::Transform;
use crate::store::{ModelFile, ModelMeta, Tensor};
use crate::text::{cell, one_line};
use clap::{Args as ClapArgs, Subcommand};
use serde_json::{Value as Json, json};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Arguments of `model`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    what: ModelCommand,
}

#[derive(Debug, Subcommand)]
enum ModelCommand {
    /// What a model is, was trained on, and how well it did
    Show {
        /// A model's directory, or its file
        #[arg(value_name = "DIR|FILE")]
        path: PathBuf,
        /// How to show it
        #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
        format: TextOrJson,
    },
    /// The versions of a published model
    List(versions::ListArgs),
    /// Publish an earlier version again, in one step
    Rollback(versions::RollbackArgs),
    /// What two models differ in
    Diff(diff::Args),
}

pub fn execute(args: &Args) -> Result<(), Failure> {
    match &args.what {
        ModelCommand::Show { path, format } => show(&ModelFile::load(path)?, *format),
        ModelCommand::List(args) => versions::list(args),
        ModelCommand::Rollback(args) => versions::roll_back(args),
        ModelCommand::Diff(args) => diff::execute(args),
    }
}

fn show(model: &ModelFile, format: TextOrJson) -> Result<(), Failure> {
    match format {
        TextOrJson::Text => print(&text(model)),
        TextOrJson::Json => print_raw(&as_json(model)?),
    }
}

/// The description as it stands in the file, and the shapes of the tensors.
fn as_json(model: &ModelFile) -> Result<String, Failure> {
    let failed = |error: serde_json::Error| Failure::new(exit::BUG, format!("stride-pipe: {error}"));
    let mut description = serde_json::to_value(&model.meta).map_err(failed)?;
    let shapes = model.tensors.iter().map(|(name, tensor)| (name.clone(), json!(tensor.shape()))).collect();
    description["tensors"] = serde_json::Value::Object(shapes);
    Ok(format!("{description:#}\n"))
}

fn text(model: &ModelFile) -> String {
    let meta = &model.meta;
    let training = &meta.training;
    let mut out = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(out, "{name:<16}  {}", one_line(value));
    };
    let kernel = if meta.kernel.is_empty() { String::new() } else { format!(", kernel {}", meta.kernel) };
    line("method", &format!("{}{kernel}", meta.method));
    line("trained", &format!("{} by stride-pipe {}", training.created, training.version));
    line("run", &training.run_id);
    line("case", &format!("{}, fold {}, seed {}", training.case, training.fold, training.seed));
    line("rows", &training.rows.to_string());
    for input in &training.inputs {
        let short = input.sha256.get(..12).unwrap_or(&input.sha256);
        line("input", &format!("{} ({} rows, sha256 {short}…)", input.path, input.rows));
    }
    let scale =
        meta.target_transform.map_or_else(String::new, |transform| format!(" of its {}", scale_name(transform)));
    let (mean, std) = (number(meta.target_scaling.mean), number(meta.target_scaling.std));
    line("target", &format!("mean {mean}, standard deviation {std}{scale}"));
    if let Some(variance) = meta.predictive_variance {
        let std = number(variance.sqrt());
        line("predicts within", &format!("{std} (standard deviation{scale} at training rows)"));
    }
    if let Some(published) = &meta.published {
        line("published", &format!("because {}", published.condition));
    }
    for (name, value) in deep(meta) {
        line(name, &value);
    }
    if let Some(local) = local(model) {
        line("local layer", &local);
    }
    if let Some(rows) = calibration_rows(model) {
        line("intervals", &format!("calibrated by {rows} training rows, each left out in its turn"));
    }
    let shown = model.tensors.iter().take(SHOWN_TENSORS);
    let mut tensors: Vec<String> = shown.map(|(name, tensor)| format!("{name} {:?}", tensor.shape())).collect();
    if model.tensors.len() > SHOWN_TENSORS {
        tensors.push(format!("and {} more", model.tensors.len() - SHOWN_TENSORS));
    }
    line("tensors", &tensors.join(", "));
    values(
        &mut out,
        "hyper-parameters, in scaled units",
        meta.hyperparameters.iter().map(|(name, value)| (name, Some(*value))),
    );
    values(&mut out, "metrics of the training", meta.metrics.iter().map(|(name, value)| (name, *value)));
    if let Some(published) = &meta.published {
        values(&mut out, "metrics of test rows", published.metrics.iter().map(|(name, value)| (name, *value)));
    }
    columns(&mut out, meta);
    features(&mut out, meta);
    out
}

/// The scale on which a target is modelled, in words.
fn scale_name(transform: Transform) -> String {
    match transform {
        Transform::Log => "logarithm".to_owned(),
        Transform::Log1p => "log1p".to_owned(),
        Transform::YeoJohnson { lambda } => format!("Yeo-Johnson power {}", number(lambda)),
    }
}

/// The columns that the model takes, and what they become; nothing where they are taken as they are.
fn columns(out: &mut String, meta: &ModelMeta) {
    let Some(encoding) = &meta.columns else { return };
    let names: Vec<String> = encoding.columns.iter().map(|column| cell(&column.name)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(14);
    let _ = writeln!(out, "\n{} columns of the input", names.len());
    for (name, column) in names.iter().zip(&encoding.columns) {
        let _ = writeln!(out, "  {name:<width$}  {:<9}  {}", column.kind.name(), column.becomes());
    }
}

/// What a deep model is made of, from the options it was trained with; nothing for other models.
fn deep(meta: &ModelMeta) -> Vec<(&'static str, String)> {
    let options = &meta.options["method"][&meta.method];
    let (deep, em) = (&options["deep"], &options["em"]);
    let word = |value: &Json| match value {
        Json::String(text) => text.clone(),
        // An option with options of its own: `{ aca: { rank: 50 } }`.
        Json::Object(fields) => fields.keys().next().cloned().unwrap_or_default(),
        other => other.to_string(),
    };
    if !deep.is_object() || !em.is_object() {
        return Vec::new();
    }
    let rank = deep["hidden"]["aca"]["rank"].as_u64().map_or_else(String::new, |rank| format!(" (rank {rank})"));
    let layers = format!(
        "{}, {} layers, hidden layers {}{rank}, prior mean {}",
        word(&deep["architecture"]),
        deep["layers"],
        word(&deep["hidden"]),
        word(&deep["prior_mean"])
    );
    let draws = em["draws"].as_u64().map_or_else(String::new, |draws| format!(", {draws} states of each kept"));
    let chains = format!(
        "{} particles, sampler {}, {} EM iterations, {} final transitions{draws}",
        em["particles"],
        word(&em["sampler"]),
        em["iterations"],
        em["final_transitions"]
    );
    vec![("layers", layers), ("chains", chains)]
}

/// The layer that remembers training rows, and what they take; nothing where there is none.
fn local(model: &ModelFile) -> Option<String> {
    let kernel = model.meta.words.get("local.kernel")?;
    let (rows, own) = (model.tensors.get("local.x")?, |name: &String| name.starts_with("local."));
    let numbers = |tensor: &Tensor| tensor.shape().iter().product::<usize>() as u64;
    let bytes: u64 = model.tensors.iter().filter(|(name, _)| own(name)).map(|(_, tensor)| 8 * numbers(tensor)).sum();
    Some(format!(
        "{kernel}, {} training rows, which take {}: predictions look for neighbours among them",
        rows.shape().first().copied().unwrap_or(0),
        crate::text::bytes(bytes)
    ))
}

/// The training rows that its intervals are calibrated by; nothing for those of the normal distribution.
fn calibration_rows(model: &ModelFile) -> Option<i64> {
    model.tensors.get("calibration.ranks")?.integers()?.iter().last().copied()
}

/// Tensors that are told one by one; a deep model has many.
const SHOWN_TENSORS: usize = 24;

fn values<'a>(out: &mut String, title: &str, values: impl Iterator<Item = (&'a String, Option<f64>)>) {
    let values: Vec<(String, Option<f64>)> = values.map(|(name, value)| (cell(name), value)).collect();
    if values.is_empty() {
        return;
    }
    let width = values.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max(14);
    let _ = writeln!(out, "\n{title}");
    for (name, value) in values {
        let _ = writeln!(out, "  {name:<width$}  {}", value.map_or_else(|| "not defined".to_owned(), number));
    }
}

/// Names, training ranges and scaling.
fn features(out: &mut String, meta: &ModelMeta) {
    let names: Vec<String> = meta.feature_names.iter().map(|name| cell(name)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(14);
    let _ = writeln!(out, "\n{} features", meta.feature_names.len());
    let _ =
        writeln!(out, "  {:<width$}  {:>12}  {:>12}  {:>12}  {:>12}", "name", "smallest", "largest", "centre", "scale");
    let scaling = meta.feature_scaling.centre.iter().zip(&meta.feature_scaling.scale);
    for ((name, range), (centre, scale)) in names.iter().zip(&meta.feature_ranges).zip(scaling) {
        let [low, high, centre, scale] = [range.min, range.max, *centre, *scale].map(number);
        let _ = writeln!(out, "  {name:<width$}  {low:>12}  {high:>12}  {centre:>12}  {scale:>12}");
    }
}

/// Six significant digits.
pub(super) fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let exponent = value.abs().log10().floor();
    if !(-4.0..9.0).contains(&exponent) {
        return format!("{value:.5e}");
    }
    let decimals = (5.0 - exponent).max(0.0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}
