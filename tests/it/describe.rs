//! The stage `describe`: statistics of the columns of an input.

use crate::sandbox::Sandbox;
use stride_pipe::store::read_table;
use stride_pipe::tables::ColumnRow;

const DESCRIBE: &str = "\
version: 1
name: described
stages:
  rows: { ingest: { path: rows.parquet, key: id, features: [a, b], target: y } }
  columns: { describe: { input: rows } }
";

#[test]
fn columns_are_described_once_and_then_taken_from_the_cache() {
    let sandbox = Sandbox::new();
    sandbox.write("described.yaml", DESCRIBE);
    sandbox.run("run described.yaml").succeeded();
    let rows: Vec<ColumnRow> = read_table(&sandbox.table_files("columns")[0]).unwrap();
    let names: Vec<(&str, &str)> = rows.iter().map(|row| (row.column.as_str(), row.role.as_str())).collect();
    assert_eq!(names, [("a", "feature"), ("b", "feature"), ("y", "target")]);
    // a = i/60 in single precision, i = 0…59: its mean is 59/120, its variance (60² − 1)/12/60².
    let a = &rows[0];
    assert_eq!((a.rows, a.stage.as_str(), a.case.as_str(), a.min), (60, "columns", "default", Some(0.0)));
    assert!((a.mean.unwrap() - 59.0 / 120.0).abs() < 1e-7, "{a:?}");
    assert!((a.std.unwrap() - (3599.0_f64 / 43_200.0).sqrt()).abs() < 1e-7, "{a:?}");
    assert!((a.max.unwrap() - 59.0 / 60.0).abs() < 1e-7, "{a:?}");
    assert_eq!(sandbox.run("plan described.yaml --exit-code").code, 0);
    let again = sandbox.run("run described.yaml").succeeded();
    assert!(again.stderr.contains("columns: skipped"), "{}", again.stderr);
    // The rows of a table say which run they are of, also when they come from the cache.
    let last: Vec<ColumnRow> = read_table(sandbox.table_files("columns").last().unwrap()).unwrap();
    assert_ne!(last[0].run_id, a.run_id);
}

#[test]
fn what_cannot_be_described_is_said_before_anything_runs() {
    let sandbox = Sandbox::new();
    sandbox.write("described.yaml", &DESCRIBE.replace("input: rows", "input: columns"));
    let refused = sandbox.run("validate described.yaml");
    assert_eq!(refused.code, 78);
    assert!(refused.stderr.contains("`columns` cannot take its own output"), "{}", refused.stderr);
}
