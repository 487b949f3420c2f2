//! The data as Parquet: files that are something else are imported first.

use super::columns::ColumnChoice;
use crate::import::{CsvOptions, ImportOptions, import};
use crate::pipeline::is_name;
use crate::store::{StoreError, footer_value};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Data that can be read.
#[derive(Debug)]
pub struct Prepared {
    pub path: PathBuf,
    /// Where the rows were imported to, if they were.
    pub imported: bool,
    /// The column that the import has added, to number the rows.
    added: Option<&'static str>,
    /// What the user may want to know.
    pub notes: Vec<String>,
}

impl Prepared {
    /// Speaks of the columns of the user's own data: not of one that was added and left out.
    #[must_use]
    pub fn own(&self, mut columns: ColumnChoice) -> ColumnChoice {
        if let Some(added) = self.added {
            columns.columns -= 1;
            columns.left_out.retain(|left| left.name != added);
        }
        columns
    }
}

/// The footer entry of a Parquet file that was imported here: it may be replaced.
const ORIGIN: &str = "stride.imported_from";
/// Words that stand for a missing value, beside an empty field.
const NULLS: [&str; 6] = ["NA", "N/A", "n/a", "NULL", "null", "NaN"];
/// The key that rows get.
const KEY: &str = "row_id";

/// Parquet as it is; anything else becomes `NAME-data.parquet` in this directory.
pub fn prepare(
    data: &Path,
    (directory, name): (&Path, &str),
    csv: &CsvOptions,
    force: bool,
) -> Result<Prepared, StoreError> {
    if !data.is_file() || begins_as_parquet(data) {
        let idle = "the data are Parquet: `--delimiter`, `--decimal-comma` and `--dates` change nothing".to_owned();
        let notes = if *csv == CsvOptions::default() { Vec::new() } else { vec![idle] };
        return Ok(Prepared { path: data.to_owned(), imported: false, added: None, notes });
    }
    let path = directory.join(format!("{name}-data.parquet"));
    if path.symlink_metadata().is_ok() && !force && footer_value(&path, ORIGIN).is_none() {
        let there = std::io::Error::new(
            std::io::ErrorKind::AlreadyExists,
            "it is there already, and no import of this program's `fit`; move it away, choose another `--output`, or give \
             `--force`",
        );
        return Err(StoreError::write(&path, there));
    }
    let origin = data.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let options = ImportOptions {
        key: KEY.to_owned(),
        csv: CsvOptions { nulls: NULLS.map(str::to_owned).to_vec(), ..csv.clone() },
        footer: vec![(ORIGIN.to_owned(), origin)],
        ..ImportOptions::default()
    };
    let imported = import(&[data.to_owned()], &path, &options)?;
    Ok(Prepared { path, imported: true, added: imported.adds_key.then_some(KEY), notes: imported.notes })
}

/// A file that is empty or damaged is for the reader of Parquet to complain about, if that is what it is called.
fn begins_as_parquet(path: &Path) -> bool {
    let known = ["parquet", "parq", "pq"];
    let called = path.extension().is_some_and(|ending| known.iter().any(|known| ending.eq_ignore_ascii_case(known)));
    let mut four = [0_u8; 4];
    called || File::open(path).and_then(|mut file| file.read_exact(&mut four)).is_ok_and(|()| four == *b"PAR1")
}

/// A name for the pipeline, from that of the data.
pub fn name_of(data: &Path) -> String {
    let pattern = |text: &str| text.contains(['*', '?', '[', '{', '=']);
    let parts = data.components().rev().map(|part| part.as_os_str().to_string_lossy().into_owned());
    let plain = parts.map(|part| part.split('.').find(|part| !part.is_empty()).unwrap_or_default().to_owned());
    let chosen = plain.filter(|part| !pattern(part) && part.chars().any(char::is_alphabetic)).map(|part| {
        let word = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '-' };
        let name = part.chars().map(word).collect::<String>();
        let words: Vec<&str> = name.split('-').filter(|word| !word.is_empty()).collect();
        words.join("-").trim_start_matches(|c: char| !c.is_ascii_lowercase()).to_owned()
    });
    chosen.into_iter().find(|name| is_name(name)).unwrap_or_else(|| "data".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_data() {
        for (data, name) in [
            ("energy.parquet", "energy"),
            ("../My Sales (2).csv.gz", "my-sales-2"),
            ("data/orders/date=2026-01-01/", "orders"),
            ("data/orders/*.parquet", "orders"),
            ("2024.csv", "data"),
            ("sales2024.csv", "sales2024"),
            ("s3://bucket/orders/", "orders"),
            ("é.csv", "data"),
        ] {
            assert_eq!(name_of(Path::new(data)), name, "{data}");
        }
    }
}
