//! `stride-pipe model diff`: what two models differ in.

use super::number;
use crate::cli::exit::Failure;
use crate::cli::grid::Grid;
use crate::cli::{TextOrJson, print, print_raw};
use crate::store::ModelFile;
use clap::Args as ClapArgs;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Arguments of `model diff`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// A model's directory, or its file; versions of a published one are `DIR/versions/N`
    #[arg(value_name = "A")]
    first: PathBuf,
    /// Another model
    #[arg(value_name = "B")]
    second: PathBuf,
    /// How to show it
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    format: TextOrJson,
}

/// A name with its values on both sides; null where a side does not have it.
type ModelChange = (String, Json, Json);

pub fn execute(args: &Args) -> Result<(), Failure> {
    let (first, first_hash) = ModelFile::load_hashed(&args.first)?;
    let (second, second_hash) = ModelFile::load_hashed(&args.second)?;
    let same = first_hash == second_hash;
    let sections: Vec<(&str, Vec<ModelChange>)> = SECTIONS
        .iter()
        .map(|(title, part)| (*title, changes(&part(&first), &part(&second))))
        .filter(|(_, changes)| !changes.is_empty())
        .collect();
    match args.format {
        TextOrJson::Text => {
            let names = [&args.first, &args.second].map(|path| path.display().to_string());
            print(&text(&names, same, &sections))
        }
        TextOrJson::Json => {
            let section = |(title, changes): &(&str, Vec<ModelChange>)| {
                let entries = changes.iter().map(|(name, a, b)| (name.clone(), json!([a, b])));
                ((*title).to_owned(), Json::Object(entries.collect()))
            };
            let differences = Json::Object(sections.iter().map(section).collect());
            let all = json!({ "same": same, "sha256": [first_hash, second_hash], "differences": differences });
            print_raw(&format!("{all:#}\n"))
        }
    }
}

/// A part of a model's description, by name.
type DescribedPart = fn(&ModelFile) -> BTreeMap<String, Json>;

const SECTIONS: &[(&str, DescribedPart)] = &[
    ("model", about),
    ("options", |model| flat(&model.meta.options)),
    ("inputs", inputs),
    ("features", features),
    ("hyper-parameters", |model| {
        model.meta.hyperparameters.iter().map(|(name, value)| (name.clone(), json!(value))).collect()
    }),
    ("metrics of the training", |model| values(&model.meta.metrics)),
    ("metrics of test rows", |model| {
        model.meta.published.as_ref().map_or_else(BTreeMap::new, |published| values(&published.metrics))
    }),
    ("tensors", |model| model.tensors.iter().map(|(name, tensor)| (name.clone(), json!(tensor.shape()))).collect()),
];

fn values(metrics: &BTreeMap<String, Option<f64>>) -> BTreeMap<String, Json> {
    metrics.iter().map(|(name, value)| (name.clone(), json!(value))).collect()
}

fn about(model: &ModelFile) -> BTreeMap<String, Json> {
    let (meta, training) = (&model.meta, &model.meta.training);
    let condition = meta.published.as_ref().map(|published| published.condition.clone());
    [
        ("method", json!(meta.method)),
        ("kernel", json!(meta.kernel)),
        ("rows", json!(training.rows)),
        ("trained", json!(training.created.to_string())),
        ("run", json!(training.run_id)),
        ("case", json!(training.case)),
        ("fold", json!(training.fold)),
        ("seed", json!(training.seed)),
        ("version of stride-pipe", json!(training.version)),
        ("published because", json!(condition)),
        ("target mean", json!(meta.target_scaling.mean)),
        ("target standard deviation", json!(meta.target_scaling.std)),
        ("predictive variance", json!(meta.predictive_variance)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

fn inputs(model: &ModelFile) -> BTreeMap<String, Json> {
    let short = |hash: &str| hash.get(..12).unwrap_or(hash).to_owned();
    let inputs = model.meta.training.inputs.iter();
    inputs
        .map(|input| (input.path.clone(), json!(format!("{} rows, sha256 {}…", input.rows, short(&input.sha256)))))
        .collect()
}

/// The range of each: what a model has seen of it.
fn features(model: &ModelFile) -> BTreeMap<String, Json> {
    let ranges = model.meta.feature_names.iter().zip(&model.meta.feature_ranges);
    ranges
        .map(|(name, range)| (name.clone(), json!(format!("{} … {}", number(range.min), number(range.max)))))
        .collect()
}

/// Options within options, by their whole names.
fn flat(value: &Json) -> BTreeMap<String, Json> {
    fn collect(name: &str, value: &Json, found: &mut BTreeMap<String, Json>) {
        match value {
            Json::Object(fields) if !fields.is_empty() => {
                for (key, value) in fields {
                    let full = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                    collect(&full, value, found);
                }
            }
            other => drop(found.insert(name.to_owned(), other.clone())),
        }
    }
    let mut found = BTreeMap::new();
    collect("", value, &mut found);
    found
}

fn changes(left: &BTreeMap<String, Json>, right: &BTreeMap<String, Json>) -> Vec<ModelChange> {
    let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let side = |side: &BTreeMap<String, Json>, name: &String| side.get(name).cloned().unwrap_or_default();
    let pairs = names.into_iter().map(|name| (name.clone(), side(left, name), side(right, name)));
    pairs.filter(|(_, left, right)| left != right).collect()
}

fn text([first, second]: &[String; 2], same: bool, sections: &[(&str, Vec<ModelChange>)]) -> String {
    let mut out = format!("first   {first}\nsecond  {second}\n");
    for (title, changes) in sections {
        let mut grid = Grid::new([*title, "first", "second"], 3);
        for (name, left, right) in changes {
            grid.push([name.clone(), shown(left), shown(right)]);
        }
        let _ = write!(out, "\n{}", grid.to_text(0));
    }
    if same {
        out.push_str("\nthe same model, byte for byte\n");
    } else if sections.is_empty() {
        out.push_str("\nthe same description; other numbers\n");
    }
    out
}

fn shown(value: &Json) -> String {
    match value {
        Json::Null => "-".to_owned(),
        Json::String(text) => text.clone(),
        Json::Number(value) if value.is_f64() => value.as_f64().map_or_else(String::new, number),
        other => other.to_string(),
    }
}
