//! The tables of a results directory as `DuckDB` views, in two ways.
//!
//! `views.sql` is the same text for every results directory of a version, and asks a session where the directory is. What is
//! kept in a database file must know that by itself, and must not fail when a table has no file: see [`live_views`].

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};

use super::guard::guarded;
use super::object::is_address;
use super::parquet_out::write_parquet;
use super::record::Manifest;
use super::{ResultsDir, RunId, StoreError, sweep, write_atomic};
use crate::eval::metrics::{Metric, headline, of_chains, of_drift, of_predictions};
use crate::tables::TableKind;

const HEADER: &str = "\
-- DuckDB views over the tables of this directory; every run of stride-pipe keeps this file current.
--
--   cd results && duckdb -init views.sql
--
-- From elsewhere, say first where the directory is:  SET VARIABLE results = 'path/to/results';
-- A table that had no file when this was read is empty until it is read again.
-- Not for a database file, which forgets the variable: `stride-pipe views --database FILE` makes one.

SET VARIABLE results = coalesce(getvariable('results'), '.');
";

const LIVE_HEADER: &str = "\
-- DuckDB views over the tables of a results directory, for a database file: later runs show by themselves.
";

/// Views that are made of the tables' views; `$…` stands for names of metrics.
const DERIVED: &str = include_str!("views.sql");

/// What every table's file is among.
const FILES: &str = "pipeline=*/run_date=*/*.parquet";
/// How files of several runs become one table.
const OPTIONS: &str =
    "union_by_name = true, hive_partitioning = true, hive_types = {pipeline: VARCHAR, run_date: DATE}";
/// A file without rows that is found with those of the runs. No pipeline has this name, and readers that are pointed at a
/// whole directory (Arrow, pandas, Spark) pass over files that begin with `_`.
const EMPTY: &str = "pipeline=_/run_date=1970-01-01/_empty.parquet";

/// Writes the views into a results directory, unless they are there already.
pub fn write_views(results: &ResultsDir) -> Result<(), StoreError> {
    let (path, text) = (results.views_path(), session_views());
    if fs::read(&path).is_ok_and(|found| found == text.as_bytes()) {
        return Ok(());
    }
    sweep(&path);
    write_atomic(&path, text.as_bytes()).map(drop)
}

/// Statements for a database file, with the path of the results directory in them.
///
/// `DuckDB` looks for the files of a view whenever it is used, and fails without any. So every table gets a file without
/// rows beside those of its runs. Columns are named one by one, because a view whose `*` has become more columns is an
/// error in `DuckDB` before 1.4.
pub fn live_views(results: &ResultsDir) -> Result<String, StoreError> {
    let kept = results.place(results.root());
    let root = if is_address(&kept) { Ok(kept) } else { std::path::absolute(kept) };
    let root = root.map_err(|source| StoreError::read(results.root(), source))?;
    let Some(path) = root.to_str() else {
        let advice = "rename it: SQL has no way to write its name";
        return Err(StoreError::invalid(&root, "the path is not UTF-8", advice));
    };
    let mut text = LIVE_HEADER.to_owned();
    for kind in TableKind::ALL {
        let schema = columns(results, kind);
        write_parquet(&results.place(&results.table_dir(kind).join(EMPTY)), &schema, &[], [])?;
        let names = schema.fields().iter().map(|field| field.name().replace('"', "\"\""));
        let names: Vec<String> = names.chain(["pipeline", "run_date"].map(str::to_owned)).collect();
        let files = format!("{}/{kind}/{FILES}", without_patterns(path)).replace('\'', "''");
        let _ = write!(
            text,
            "\nCREATE OR REPLACE VIEW {kind} AS\n    SELECT \"{}\"\n    FROM read_parquet('{files}',\n        {OPTIONS});\n",
            names.join("\", \"")
        );
    }
    text.push('\n');
    text.push_str(&derived());
    Ok(text)
}

/// The columns of a table, and those more that any of its files has: predictions have quantiles.
fn columns(results: &ResultsDir, kind: TableKind) -> SchemaRef {
    let schema = kind.schema();
    if kind != TableKind::Predictions {
        return schema;
    }
    let below = |directory: PathBuf| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let files = below(results.table_dir(kind)).into_iter().flat_map(below).flat_map(below);
    let read = |path: &Path| {
        let file = File::open(path).ok()?;
        let metadata = guarded(|| ArrowReaderMetadata::load(&file, ArrowReaderOptions::default())).ok()?;
        Some(Arc::clone(metadata.schema()))
    };
    let mut more: BTreeMap<String, Arc<Field>> = BTreeMap::new();
    for path in files.filter(|path| path.extension().is_some_and(|end| end == "parquet")) {
        let Some(found) = read(&path) else { continue };
        let is_new = |name: &str| schema.field_with_name(name).is_err() && !more.contains_key(name);
        let new: Vec<_> = found.fields().iter().filter(|field| is_new(field.name())).map(Arc::clone).collect();
        // A name that nobody else has may be one in which a bit has flipped.
        if !new.is_empty() && !is_damaged(results, &path) {
            more.extend(new.into_iter().map(|field| (field.name().clone(), field)));
        }
    }
    let fields: Vec<Arc<Field>> = schema.fields().iter().cloned().chain(more.into_values()).collect();
    Arc::new(Schema::new(fields))
}

/// Whether a table's file is not as its run has written it. Of a run without a manifest nobody knows.
fn is_damaged(results: &ResultsDir, path: &Path) -> bool {
    let id = path.file_stem().and_then(|name| name.to_str()?.parse::<RunId>().ok());
    let checked = id.map(|id| Manifest::load(results, &id).and_then(|manifest| manifest.check_file(path)));
    matches!(checked, Some(Err(StoreError::Invalid { .. })))
}

/// A path whose `*`, `?` and `[` stand for themselves in a pattern.
fn without_patterns(path: &str) -> String {
    let escape = |letter: char| if "*?[".contains(letter) { format!("[{letter}]") } else { letter.to_string() };
    path.chars().map(escape).collect()
}

fn session_views() -> String {
    let mut text = HEADER.to_owned();
    for kind in TableKind::ALL {
        text.push('\n');
        text.push_str(&session_view(kind));
    }
    text.push('\n');
    text.push_str(&derived());
    text
}

fn derived() -> String {
    let columns: Vec<String> = of_predictions()
        .chain(of_chains())
        .map(|Metric { name, .. }| format!("max(value) FILTER (metric = '{name}') AS {name}"))
        .collect();
    let drift: Vec<String> = of_drift().map(|metric| format!("'{}'", metric.name)).collect();
    DERIVED
        .replace("$METRIC_COLUMNS", &columns.join(",\n        "))
        .replace("$DRIFT_METRICS", &drift.join(", "))
        .replace("$HEADLINE", headline())
}

/// `query` takes the statement to read from as text, which may depend on what is there.
fn session_view(kind: TableKind) -> String {
    let schema = kind.schema();
    let columns: Vec<String> = schema
        .fields()
        .iter()
        .map(|field| format!("NULL::{} AS \"{}\"", sql_type(field.data_type()), field.name()))
        .chain(["NULL::VARCHAR AS pipeline".to_owned(), "NULL::DATE AS run_date".to_owned()])
        .collect();
    // Columns that none of the files has, because they are older, are there all the same.
    let none = format!("SELECT {} WHERE false", columns.join(", "));
    // The view looks its variables up whenever it is used: each table needs its own.
    format!(
        "SET VARIABLE {kind}_glob = getvariable('results') || '/{kind}/{FILES}';
SET VARIABLE {kind}_found = (SELECT count(*) > 0 FROM glob(getvariable('{kind}_glob')));
CREATE OR REPLACE VIEW {kind} AS FROM query(CASE WHEN getvariable('{kind}_found')
    THEN '{none} UNION ALL BY NAME SELECT * FROM read_parquet(''' || replace(getvariable('{kind}_glob'), '''', '''''') || ''',
        {OPTIONS})'
    ELSE '{none}' END);
"
    )
}

fn sql_type(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Int32 => "INTEGER",
        DataType::Int64 => "BIGINT",
        DataType::Float64 => "DOUBLE",
        DataType::Boolean => "BOOLEAN",
        DataType::Timestamp(..) => "TIMESTAMPTZ",
        _ => "VARCHAR",
    }
}
