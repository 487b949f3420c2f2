//! Rows unlike those of training raise an alarm: in the run's output and record, in the report, in the exit code.

use super::pipelines::score;
use super::{GP, STRIDE, published, scores};
use crate::sandbox::{SMALL, Sandbox};
use arrow::array::{ArrayRef, Float64Array, Int64Array};
use std::sync::Arc;
use stride_pipe::store::history::History;
use stride_pipe::store::{Manifest, read_table, write_columns};
use stride_pipe::tables::MetricRow;

/// Rows like those of training; `a` goes through this first.
fn inbox(sandbox: &Sandbox, rows: i64, a: fn(f64) -> f64) {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..rows))),
        ("a", Arc::new((0..rows).map(|i| a((i * 13 % rows) as f64 / rows as f64 * 0.98)).collect::<Float64Array>())),
        ("b", Arc::new((0..rows).map(|i| ((i * 37) % 17) as f64).collect::<Float64Array>())),
    ];
    write_columns(&sandbox.path("inbox/rows.parquet"), columns).unwrap();
}

fn fahrenheit(celsius: f64) -> f64 {
    32.0 + 1.8 * celsius
}

fn manifest(sandbox: &Sandbox) -> Manifest {
    let history = History::open(&sandbox.path("results")).unwrap();
    history.find("last").unwrap().manifest.clone().unwrap()
}

#[test]
fn fahrenheit_warns_and_names_the_column_also_from_the_cache() {
    let sandbox = published(GP);
    sandbox.write("score.yaml", &score("output: out.parquet"));
    inbox(&sandbox, 50, |celsius| celsius);
    let quiet = sandbox.run("run score.yaml --quiet").succeeded();
    assert_eq!(quiet.stderr, "", "a day like any other");
    assert!(manifest(&sandbox).alarms.is_empty());
    let report = |sandbox: &Sandbox| {
        sandbox.run("report last -o page.html").succeeded();
        std::fs::read_to_string(sandbox.path("page.html")).unwrap()
    };
    assert!(report(&sandbox).contains("<span class=\"chip ok\">succeeded</span>"));

    inbox(&sandbox, 50, fahrenheit);
    for time in ["first", "from the cache"] {
        let ran = sandbox.run("run score.yaml --quiet").succeeded();
        let outside = "outside the range of training: `a` in 100 % of the rows (`share_outside_range > 0.2`)";
        assert!(ran.stderr.contains(outside), "{time}: {}", ran.stderr);
        assert!(ran.stderr.contains("times that of training (`variance_ratio > 3`)"), "{time}: {}", ran.stderr);
        let manifest = manifest(&sandbox);
        assert_eq!(manifest.status, "succeeded");
        let conditions: Vec<&str> = manifest.alarms.iter().map(|alarm| alarm.condition.as_str()).collect();
        assert_eq!(conditions, ["variance_ratio > 3", "share_outside_range > 0.2"], "{time}");
        let shown = sandbox.run("runs show last").succeeded().stdout;
        assert!(shown.contains("`a` in 100 % of the rows"), "{shown}");
        let page = report(&sandbox);
        assert!(!page.contains("chip ok"), "not all is well");
        // The first screen names the feature.
        assert!(page.contains("a is outside the range of training in 100 % of the rows"), "{time}");
        assert!(
            page.contains("succeeded, drift is high") && page.contains("<code>a</code> in 100 % of the rows"),
            "{time}"
        );
    }
    for off in ["[]", "false"] {
        let ran = sandbox.run(&format!("run score.yaml --quiet --set stages.scores.predict.warn_if={off}")).succeeded();
        assert_eq!(ran.stderr, "", "{off}");
    }
}

#[test]
fn a_condition_that_fails_ends_with_4_and_leaves_everything() {
    let sandbox = published(GP);
    let fails = "output: out.parquet, warn_if: false, fail_if: [rows_invalid > 0.05, variance_ratio > 3]";
    sandbox.write("score.yaml", &score(fails));
    inbox(&sandbox, 50, fahrenheit);
    for arguments in ["run score.yaml --quiet", "run score.yaml --quiet", "run score.yaml --quiet --resume"] {
        let ran = sandbox.run(arguments);
        assert_eq!(ran.code, 4, "{arguments}: {}", ran.stderr);
        let said = "all results are written, and a `fail_if` condition holds:\nscores / fold 0 (of 1): the predictive variance";
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
        assert!(ran.stdout.contains("tables: "), "{}", ran.stdout);
        assert_eq!(scores(&sandbox.path("out.parquet")).len(), 50);
        let manifest = manifest(&sandbox);
        assert_eq!((manifest.status.as_str(), manifest.alarms[0].fails), ("alarm", true));
    }
    let listed = sandbox.run("runs list").succeeded().stdout;
    assert_eq!(listed.matches(" alarm ").count(), 3, "{listed}");
    assert_eq!(sandbox.run("runs prune --status alarm --dry-run").succeeded().stdout.matches("remove  run").count(), 3);
    // The next day is a day like any other.
    inbox(&sandbox, 50, |celsius| celsius);
    sandbox.run("run score.yaml --quiet --resume").succeeded();
    assert_eq!(manifest(&sandbox).status, "succeeded");
}

#[test]
fn the_command_warns_and_fails_likewise() {
    let sandbox = published(STRIDE);
    inbox(&sandbox, 50, fahrenheit);
    let arguments = "score --model models/m --input inbox --output out.parquet --key id --quiet";
    let ran = sandbox.run(arguments).succeeded();
    assert!(ran.stderr.contains("outside the range of training: `a` in 100 % of the rows"), "{}", ran.stderr);
    assert_eq!(sandbox.run(&format!("{arguments} --warn-if false")).succeeded().stderr, "");
    let fails = ["--fail-if", "share_outside_range >= 1", "--results", "results"];
    let output = sandbox.command().args(arguments.split(' ')).args(fails).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    assert!(stderr.contains("a `fail_if` condition holds:\noutside the range of training: `a`"), "{stderr}");
    assert_eq!(scores(&sandbox.path("out.parquet")).len(), 50);
    assert_eq!(manifest(&sandbox).status, "alarm");
    let shown = sandbox.run("runs show last").succeeded().stdout;
    assert!(shown.contains("status    alarm") && shown.contains("`a` in 100 % of the rows"), "{shown}");

    let output =
        sandbox.command().args(arguments.split(' ')).args(["--fail-if", "varianse_ratio > 3"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("there is no metric `varianse_ratio`; did you mean `variance_ratio`?"), "{stderr}");
}

/// A handful of rows has one outside of some range now and then.
#[test]
fn the_default_is_for_more_than_a_handful_of_rows() {
    let sandbox = published(GP);
    inbox(&sandbox, 6, fahrenheit);
    let arguments = "score --model models/m --input inbox --output out.parquet --key id --quiet";
    assert_eq!(sandbox.run(arguments).succeeded().stderr, "");
    let output =
        sandbox.command().args(arguments.split(' ')).args(["--warn-if", "variance_ratio > 3"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("variance_ratio"), "what is written holds for all");
}

/// Test rows are looked at where a condition is written, and only there.
#[test]
fn test_rows_are_watched_on_request() {
    let sandbox = Sandbox::new();
    let plain = sandbox.run("run small.yaml").succeeded();
    assert!(!plain.stderr.contains("WARN"), "{}", plain.stderr);
    let watched =
        SMALL.replace("intervals: [0.5, 0.95]", "warn_if: variance_ratio > 0.01, fail_if: rows_invalid > 0.05");
    sandbox.write("small.yaml", &watched);
    for _ in 0..2 {
        let ran = sandbox.run("run small.yaml").succeeded();
        assert_eq!(ran.stderr.matches("(`variance_ratio > 0.01`)").count(), 5, "{}", ran.stderr);
        let rows: Vec<MetricRow> = read_table(&sandbox.table_files("metrics").pop().unwrap()).unwrap();
        let drift = rows.iter().filter(|row| row.metric == "variance_ratio" && row.split == "test").count();
        assert_eq!(drift, 5);
    }
    sandbox.write("small.yaml", &watched.replace("variance_ratio > 0.01", "nearest_distance_ratio > 5"));
    let ran = sandbox.run("run small.yaml").succeeded();
    let said = "`nearest_distance_ratio > 5` cannot be looked at: the model has no local layer";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
}
