//! `views.sql`: the tables of a results directory as `DuckDB` views.
//!
//! The text is the same for every results directory of a version. A table without files would make `read_parquet` fail,
//! so each view asks when it is created whether there are any, and is empty with the right columns otherwise.

use std::fs;

use arrow::datatypes::DataType;

use super::{ResultsDir, StoreError, write_atomic};
use crate::eval::metrics::{Metric, headline, of_chains, of_drift, of_predictions};
use crate::tables::TableKind;

const HEADER: &str = "\
-- DuckDB views over the tables of this directory; every run of stride-pipe keeps this file current.
--
--   cd results && duckdb -init views.sql
--
-- From elsewhere, say first where the directory is:  SET VARIABLE results = 'path/to/results';
-- A table that had no file when this was read is empty until it is read again.

SET VARIABLE results = coalesce(getvariable('results'), '.');
";

/// Views that are made of the tables' views; `$…` stands for names of metrics.
const DERIVED: &str = include_str!("views.sql");

/// Writes the views into a results directory, unless they are there already.
pub fn write_views(results: &ResultsDir) -> Result<(), StoreError> {
    let (path, text) = (results.views_path(), views());
    if fs::read(&path).is_ok_and(|found| found == text.as_bytes()) {
        return Ok(());
    }
    write_atomic(&path, text.as_bytes()).map(drop)
}

fn views() -> String {
    let mut text = HEADER.to_owned();
    for kind in TableKind::ALL {
        text.push('\n');
        text.push_str(&table_view(kind));
    }
    text.push('\n');
    let columns: Vec<String> = of_predictions()
        .chain(of_chains())
        .map(|Metric { name, .. }| format!("max(value) FILTER (metric = '{name}') AS {name}"))
        .collect();
    let drift: Vec<String> = of_drift().map(|metric| format!("'{}'", metric.name)).collect();
    let derived = DERIVED
        .replace("$METRIC_COLUMNS", &columns.join(",\n        "))
        .replace("$DRIFT_METRICS", &drift.join(", "))
        .replace("$HEADLINE", headline());
    text.push_str(&derived);
    text
}

/// `query` takes the statement to read from as text, which may depend on what is there.
fn table_view(kind: TableKind) -> String {
    let schema = kind.schema();
    let columns: Vec<String> = schema
        .fields()
        .iter()
        .map(|field| format!("NULL::{} AS \"{}\"", sql_type(field.data_type()), field.name()))
        .chain(["NULL::VARCHAR AS pipeline".to_owned(), "NULL::DATE AS run_date".to_owned()])
        .collect();
    // The view looks its variables up whenever it is used: each table needs its own.
    format!(
        "SET VARIABLE {kind}_glob = getvariable('results') || '/{kind}/pipeline=*/run_date=*/*.parquet';
SET VARIABLE {kind}_found = (SELECT count(*) > 0 FROM glob(getvariable('{kind}_glob')));
CREATE OR REPLACE VIEW {kind} AS FROM query(CASE WHEN getvariable('{kind}_found')
    THEN 'FROM read_parquet(''' || replace(getvariable('{kind}_glob'), '''', '''''') || ''',
        union_by_name = true, hive_partitioning = true, hive_types = {{pipeline: VARCHAR, run_date: DATE}})'
    ELSE 'SELECT {} WHERE false' END);
",
        columns.join(", ")
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
