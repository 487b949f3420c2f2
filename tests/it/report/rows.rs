//! What a report says of single rows: tails on the scale of the model, differences on the rows of one fold, usual errors; and
//! what work cost that cases share.

use super::{page, runs};
use crate::sandbox::{SMALL, Sandbox};
use arrow::array::{ArrayRef, Float64Array, Int64Array};
use std::sync::Arc;
use stride_pipe::store::{read_known, write_columns};
use stride_pipe::tables::TimingRow;

/// Rows whose target is exp of a wave and normal noise.
fn skewed(sandbox: &Sandbox, rows: i64) {
    let uniform = |i: i64, step: f64| (i as f64 * step + 0.5 * step).fract();
    // Normal numbers from even ones, by the sum of twelve.
    let noise = |i: i64| (1..13).map(|k| uniform(i, (f64::from(k) * 0.618_033_988_75).sqrt())).sum::<f64>() - 6.0;
    let a = |i: i64| uniform(i, 0.754_877_666);
    let column = |value: &dyn Fn(i64) -> f64| Arc::new((0..rows).map(value).collect::<Float64Array>()) as ArrayRef;
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..rows))),
        ("a", column(&a)),
        ("b", column(&|i| uniform(i, 0.569_840_291))),
        ("y", column(&|i| (3.0 * (6.0 * a(i)).sin() + noise(i)).exp())),
    ];
    write_columns(&sandbox.path("rows.parquet"), columns).unwrap();
}

fn run(sandbox: &Sandbox, text: &str) -> String {
    sandbox.write("rows.yaml", &format!("{text}  page:\n    report: {{ input: metrics }}\n"));
    sandbox.run("run rows.yaml --quiet").succeeded();
    page(sandbox, runs(sandbox).last().unwrap())
}

#[test]
fn tails_are_judged_where_the_target_is_modelled() {
    let sandbox = Sandbox::new();
    skewed(&sandbox, 600);
    let text = SMALL
        .replace("method: gp", "method: sparse_gp, inducing: { count: 20 }")
        .replace("target: y", "target: { name: y, transform: log }");
    for transform in ["log", "yeo_johnson"] {
        let html = run(&sandbox, &text.replace("transform: log", &format!("transform: {transform}")));
        let first = html.split("<section").next().unwrap();
        assert!(!first.contains("heavy tails"), "{transform}: {first}");
        assert!(first.contains("in its units (half of the errors are smaller; RMSE "), "{first}");
    }
    // On its own scale the same target has heavy tails, and a few errors are larger than all others.
    let html = run(&sandbox, &text.replace(", transform: log", ""));
    let first = html.split("<section").next().unwrap();
    assert!(first.contains("heavy tails"), "{first}");
    let number = |after: &str| -> f64 {
        let rest = first.split(after).nth(1).unwrap_or_else(|| panic!("{after}: {first}"));
        rest.split([' ', ')']).next().unwrap().parse().unwrap()
    };
    assert!(number("is usually about ") < 0.5 * number("smaller; RMSE "), "{first}");
}

#[test]
fn one_fold_is_compared_row_by_row() {
    let sandbox = Sandbox::new();
    let one = "holdout: { test_fraction: 0.4 }";
    let text = SMALL
        .replace("kfold: { folds: 5 }", one)
        .replace("method: gp", "method: '${matrix.method}'")
        .replace("stages:\n", "matrix: { method: [gp, mean] }\nstages:\n");
    let html = run(&sandbox, &text);
    let table =
        html.split("Differences on the same test rows, stage metrics").nth(2).unwrap_or_else(|| panic!("{html}"));
    let table = table.split("</table>").next().unwrap();
    assert!(table.contains("smse higher by") && table.contains("nlpd higher by") && table.contains(">24<"), "{table}");
    assert!(table.contains("±") && table.contains("&lt; 0.001"), "{table}");
    // Several folds are compared fold by fold.
    let html = run(&sandbox, &text.replace(one, "kfold: { folds: 5 }"));
    assert!(
        html.contains("Differences on the same folds, stage metrics")
            && !html.contains("Differences on the same test rows")
    );
}

/// Three cases with one model: its training is there once.
#[test]
fn shared_work_counts_once() {
    let sandbox = Sandbox::new();
    let text = SMALL
        .replace("intervals: [0.5, 0.95]", "intervals: ['${matrix.level}']")
        .replace("stages:\n", "matrix: { level: [0.5, 0.8, 0.9] }\nstages:\n");
    let html = run(&sandbox, &text);
    let rows: Vec<TimingRow> = read_known(sandbox.table_files("timings").last().unwrap()).unwrap();
    let mut done: Vec<&TimingRow> = rows.iter().filter(|row| row.stage == "model" && row.phase == "offline").collect();
    assert_eq!(done.len(), 15);
    done.dedup_by_key(|row| (row.fold, row.started_at));
    done.sort_by_key(|row| row.started_at);
    done.dedup_by_key(|row| row.started_at);
    let once: f64 = done.iter().map(|row| row.wall_s).sum();
    assert_eq!(done.len(), 5);
    let shown = sandbox.run("runs show last").succeeded().stdout;
    let line = shown
        .lines()
        .find(|line| line.split_whitespace().take(2).eq(["model", "offline"]))
        .unwrap_or_else(|| panic!("{shown}"));
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells[2..4], ["15", "10"], "{line}");
    assert!((cells[4].parse::<f64>().unwrap() - once).abs() < 2e-3, "{once}: {line}");
    assert!(html.contains("Work that several cases share counts once."), "{html}");
}
