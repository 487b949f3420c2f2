//! `stride-pipe model list` and `model rollback`: the versions of a published model.

use crate::cli::exit::{self, Failure};
use crate::cli::grid::Grid;
use crate::cli::logging::LogFormat;
use crate::cli::progress::ProgressBars;
use crate::cli::run::duration;
use crate::cli::signals;
use crate::cli::{TextOrJson, print, print_raw};
use crate::engine;
use crate::store::model::{ModelVersion, versions};
use crate::store::object::size_of;
use crate::store::{ModelFile, StoreError};
use crate::text::bytes;
use clap::Args as ClapArgs;
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `model list`.
#[derive(Debug, ClapArgs)]
pub struct ListArgs {
    /// The directory that a pipeline publishes to
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// How to show them
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    format: TextOrJson,
}

/// Arguments of `model rollback`.
#[derive(Debug, ClapArgs)]
pub struct RollbackArgs {
    /// The directory that a pipeline publishes to
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The version to publish again; default: the one before
    #[arg(long, value_name = "N")]
    to: Option<u64>,
    /// How long to wait for a training that publishes there: `30s`, `10m`, `2h`
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    lock_timeout: Duration,
}

pub fn list(args: &ListArgs) -> Result<(), Failure> {
    let found = versions(&args.directory)?;
    if found.is_empty() {
        return Err(nothing_there(&args.directory).into());
    }
    match args.format {
        TextOrJson::Text => print(&table(&found)),
        TextOrJson::Json => print_raw(&format!("{:#}\n", found.iter().map(described).collect::<Json>())),
    }
}

fn nothing_there(directory: &Path) -> StoreError {
    let hint = "give the directory that `publish` of a pipeline names";
    StoreError::missing(directory, "no model is published here", hint)
}

fn table(found: &[ModelVersion]) -> String {
    let mut grid = Grid::new(["version", "", "trained", "method", "published because", "rows", "size"], 5);
    for version in found {
        let mark = if version.is_published { "published" } else { "" };
        let size = size_of(&version.path).map_or_else(|_| "-".to_owned(), bytes);
        let number = version.number.to_string();
        let row = match ModelFile::load(&version.path) {
            Ok(ModelFile { meta, .. }) => {
                let because = meta.published.as_ref().map_or("-", |published| published.condition.as_str()).to_owned();
                let trained = meta.training.created.to_string();
                [number, mark.to_owned(), trained, meta.method, because, meta.training.rows.to_string(), size]
            }
            // The others are still worth a line.
            Err(error) => {
                [number, mark.to_owned(), "-".to_owned(), error.to_string(), "-".to_owned(), "-".to_owned(), size]
            }
        };
        grid.push(row);
    }
    grid.to_text(0)
}

fn described(version: &ModelVersion) -> Json {
    let model = ModelFile::load_hashed(&version.path);
    let (model, error) = match model {
        Ok((file, sha256)) => {
            let training = &file.meta.training;
            let model = json!({
                "sha256": sha256, "method": file.meta.method, "kernel": file.meta.kernel, "training": training,
                "published": file.meta.published,
            });
            (model, Json::Null)
        }
        Err(error) => (Json::Null, json!(error.to_string())),
    };
    json!({
        "version": version.number, "is_published": version.is_published, "path": version.path, "model": model,
        "error": error,
    })
}

pub fn roll_back(args: &RollbackArgs) -> Result<(), Failure> {
    let progress = ProgressBars::new(LogFormat::Text, true);
    let cancel = signals::listen(String::new)?;
    let done = engine::roll_back(&args.directory, args.to, args.lock_timeout, &cancel, &progress)?;
    let directory = args.directory.display();
    if done.from == done.to {
        return print(&format!("{directory}: version {} is published already: nothing to do\n", done.to));
    }
    exit::say("note: the next training that publishes there replaces it");
    print(&format!("{directory}: version {} is published again, instead of version {}\n", done.to, done.from))
}
