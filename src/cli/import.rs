//! `stride-pipe import`: CSV, NPZ, NPY and IDX to Parquet.

use super::csv::CsvArgs;
use super::exit::{self, Failure};
use super::print;
use crate::import::{CsvOptions, FileFormat, ImportOptions, Imported, ImportedColumn, import};
use crate::text::cell;
use clap::{Args as ClapArgs, ValueEnum};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Arguments of `import`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Inputs stand side by side; one whose columns are there already begins a new block of rows below. So images, labels, \
test images, test labels become one table with the test rows at its end.

Columns: a 1-dimensional array `y` becomes the column `y`, a 2-dimensional one `x` the columns x00, x01, …. IDX images \
become p000, p001, …, IDX labels `label`.")]
pub struct Args {
    /// Files to convert; gzip is recognised
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// The Parquet file to write
    #[arg(long, short, value_name = "FILE.parquet")]
    output: PathBuf,
    /// Format of the inputs; default: by their names and contents
    #[arg(long, value_enum)]
    format: Option<InputFormat>,
    /// Column that identifies rows: used if it is there, otherwise added, counted from 0
    #[arg(long, value_name = "NAME", default_value = "row_id", value_parser = not_empty)]
    key: String,
    /// CSV columns or NPZ arrays to take, in this order
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// New names: of CSV columns, of NPZ arrays, or of IDX and NPY files with OLD in their names
    #[arg(long, value_name = "OLD=NEW", value_delimiter = ',', value_parser = renaming)]
    columns: Vec<(String, String)>,
    /// Add a text column that tells blocks of rows apart: `split=train,test`
    #[arg(long, value_name = "NAME=VALUE,VALUE", value_parser = parts)]
    parts: Option<(String, Vec<String>)>,
    #[command(flatten)]
    csv: CsvArgs,
    /// CSV: the first line is a row; columns are called c00, c01, …
    #[arg(long)]
    no_header: bool,
    /// CSV: a field that stands for a missing value, beside the empty one; may be given several times
    #[arg(long = "null", value_name = "TEXT", allow_hyphen_values = true)]
    nulls: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum InputFormat {
    /// Text with separators
    Csv,
    /// `NumPy` arrays, .npz or .npy
    #[value(alias = "npy")]
    Npz,
    /// The format of the MNIST family
    Idx,
}

impl From<InputFormat> for FileFormat {
    fn from(format: InputFormat) -> Self {
        match format {
            InputFormat::Csv => Self::Csv,
            InputFormat::Npz => Self::Numpy,
            InputFormat::Idx => Self::Idx,
        }
    }
}

fn not_empty(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("a column needs a name".to_owned()) } else { Ok(text.to_owned()) }
}

fn renaming(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(old, new)| !old.is_empty() && !new.is_empty());
    let (old, new) = pair.ok_or("write OLD=NEW, for example `images=p`")?;
    Ok((old.to_owned(), new.to_owned()))
}

fn parts(text: &str) -> Result<(String, Vec<String>), String> {
    let pair = text.split_once('=').filter(|(name, values)| !name.is_empty() && !values.is_empty());
    let (name, values) = pair.ok_or("write NAME=VALUE,VALUE, for example `split=train,test`")?;
    Ok((name.to_owned(), values.split(',').map(str::to_owned).collect()))
}

pub fn execute(args: &Args) -> Result<(), Failure> {
    check_output(&args.output)?;
    let options = ImportOptions {
        format: args.format.map(FileFormat::from),
        key: args.key.clone(),
        only: args.only.clone(),
        names: args.columns.clone(),
        parts: args.parts.clone(),
        csv: CsvOptions { no_header: args.no_header, nulls: args.nulls.clone(), ..args.csv.options() },
        footer: Vec::new(),
    };
    let imported = import(&args.inputs, &args.output, &options)?;
    for note in &imported.notes {
        exit::say(&format!("note: {note}"));
    }
    print(&describe(&args.output, &imported))
}

/// A slip such as `--output rows.csv` must not replace a source by its conversion.
fn check_output(output: &Path) -> Result<(), Failure> {
    let known = ["parquet", "parq", "pq"];
    if output.extension().is_some_and(|extension| known.iter().any(|known| extension.eq_ignore_ascii_case(known))) {
        return Ok(());
    }
    let message = format!("stride-pipe: --output {}: give a name that ends in .parquet", output.display());
    Err(Failure::new(exit::USAGE, message))
}

/// What was written; neighbours of the same type in one line.
fn describe(output: &Path, imported: &Imported) -> String {
    let mut out = format!("{}: {} rows", output.display(), imported.rows);
    if let [_, _, ..] = imported.blocks[..] {
        let blocks: Vec<String> = imported.blocks.iter().map(u64::to_string).collect();
        let _ = write!(out, " ({})", blocks.join(" + "));
    }
    let _ = writeln!(out, ", {} columns", imported.columns.len());
    let groups: Vec<(String, String)> =
        imported.columns.chunk_by(alike).map(line).map(|(name, rest)| (cell(&name), rest)).collect();
    let width = groups.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, rest) in groups {
        let _ = writeln!(out, "  {name:<width$}  {rest}");
    }
    out
}

fn alike(left: &ImportedColumn, right: &ImportedColumn) -> bool {
    let stem = |column: &ImportedColumn| column.name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
    let whole = |column: &ImportedColumn| column.nulls == 0 && column.not_finite == 0;
    let numbered = stem(left) == stem(right) && left.name != stem(left);
    numbered && left.data_type == right.data_type && whole(left) && whole(right)
}

fn line(columns: &[ImportedColumn]) -> (String, String) {
    let (Some(first), Some(last)) = (columns.first(), columns.last()) else { return Default::default() };
    let mut rest = first.data_type.to_string().to_lowercase();
    if columns.len() > 1 {
        let _ = write!(rest, " × {}", columns.len());
        return (format!("{} … {}", first.name, last.name), rest);
    }
    if first.nulls > 0 {
        let _ = write!(rest, ", {} null", first.nulls);
    }
    if first.not_finite > 0 {
        let _ = write!(rest, ", {} NaN or infinite", first.not_finite);
    }
    (first.name.clone(), rest)
}
