//! What is on a page: nothing that acts, nothing secret, nothing from outside, and never too much.

use super::{page, runs, with_report};
use crate::sandbox::Sandbox;
use arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, StringArray};
use std::sync::Arc;
use stride_pipe::store::{Footer, ResultsDir, write_columns};
use stride_pipe::tables::TableKind;
use stride_pipe::tables::predictions::{self, PredictionBlock};

/// Markup wherever a name can come from: columns, matrix values, the pipeline file, the host's file names.
pub fn hostile() -> Sandbox {
    let sandbox = Sandbox::new();
    let bad = "<script>window.injected=1</script>";
    let values = |shift: f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values((0..60).map(|i| (f64::from(i) / 9.0 + shift).sin())))
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..60))),
        ("x\"><img src=x onerror=window.injected=1>", Arc::new(Float64Array::from_iter_values((0..60).map(f64::from)))),
        (bad, values(0.3)),
    ];
    write_columns(&sandbox.path("rows<b>.parquet"), columns).unwrap();
    let pipeline = format!(
        "version: 1\nname: hostile\nmatrix:\n  \
         note: ['{bad}', \"'><svg onload=window.injected=1>\", '&lt;i&gt;']\n\
         stages:\n  rows:\n    ingest: {{ path: \"rows<b>.parquet\", key: id, features: ['x*'], target: '{bad}' }}\n  \
         folds:\n    split: {{ input: rows, kfold: {{ folds: 3 }} }}\n  \
         model:\n    train: {{ input: folds, method: gp }}\n  \
         fit:\n    predict: {{ model: model, input: folds }}\n  \
         metrics:\n    evaluate: {{ input: fit }}\n  page:\n    report: {{ input: metrics }}\n"
    );
    sandbox.write("hostile<u>.yaml", &pipeline);
    sandbox
}

#[test]
fn names_never_become_markup() {
    let sandbox = hostile();
    sandbox.run("run hostile<u>.yaml --quiet").succeeded();
    let html = page(&sandbox, &runs(&sandbox)[0]);
    assert_eq!(html.matches("<script").count(), 1, "our own");
    for bad in ["<img", "<svg onload", "<b>", "<u>", "'><", "<i>"] {
        assert!(!html.contains(bad), "{bad}");
    }
    assert!(html.contains("&lt;script&gt;window.injected=1&lt;/script&gt;"), "shown as text");
    // What was escaped in the data stays as it was written there.
    assert!(html.contains("&amp;lt;i&amp;gt;"));
    sandbox.run("report -o all.html").succeeded();
    let all = std::fs::read_to_string(sandbox.path("all.html")).unwrap();
    assert_eq!(all.matches("<script").count(), 1);
}

#[test]
fn nothing_comes_from_outside() {
    let sandbox = with_report();
    sandbox.run("run small.yaml --quiet").succeeded();
    let html = page(&sandbox, &runs(&sandbox)[0]);
    for outside in ["http:", "https:", "//cdn", "@import", "url(", " src="] {
        assert!(!html.contains(outside), "{outside}");
    }
    // And nothing would be let in, or run, if a name became markup after all.
    let policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';";
    assert!(html.contains(policy), "{}", &html[..html.len().min(1000)]);
}

#[test]
fn secrets_are_masked() {
    let sandbox = with_report();
    let text = std::fs::read_to_string(sandbox.path("small.yaml")).unwrap();
    sandbox.write("small.yaml", &text.replace("path: rows.parquet", "path: '${env.PLACE}.parquet'"));
    std::fs::copy(sandbox.path("rows.parquet"), sandbox.path("hunter22.parquet")).unwrap();
    let mut command = sandbox.command();
    let output = command.args(["run", "small.yaml", "--quiet"]).env("PLACE", "hunter22").output().unwrap();
    assert!(output.status.success());
    let html = page(&sandbox, &runs(&sandbox)[0]);
    assert!(
        !html.contains("hunter22") && html.contains("***"),
        "masked in the pipeline, the inputs and everywhere else"
    );
}

/// Rows like those of the sandbox, with a first feature that is twice as large.
pub fn shifted(sandbox: &Sandbox, name: &str) {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..60))),
        ("a", Arc::new(Float64Array::from_iter_values((0..60).map(|i| f64::from(i) / 30.0)))),
        ("b", Arc::new(Int64Array::from_iter_values((0..60).map(|i| i % 17)))),
    ];
    write_columns(&sandbox.path(name), columns).unwrap();
}

#[test]
fn hidden_layers_are_drawn_where_a_run_has_them() {
    let sandbox = with_report();
    sandbox.run("run small.yaml --quiet").succeeded();
    let run = runs(&sandbox).remove(0);
    let date = run.parse::<stride_pipe::store::RunId>().unwrap().run_date();
    let path = sandbox.path(format!("results/hidden/pipeline=small/run_date={date}/{run}.parquet"));
    let rows = 200_i32;
    let text = |value: &str| -> ArrayRef { Arc::new(StringArray::from(vec![value; rows as usize])) };
    let number = |value: fn(f64) -> f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values((0..rows).map(|row| value(f64::from(row % 100) / 100.0))))
    };
    let whole = |value: fn(i32) -> i32| -> ArrayRef { Arc::new(Int32Array::from_iter_values((0..rows).map(value))) };
    let columns = |x2: ArrayRef| {
        vec![
            ("run_id", text(&run)),
            ("stage", text("model")),
            ("case", text("kernel=rbf")),
            ("fold", whole(|_| 0)),
            ("key", text("k")),
            ("layer", whole(|row| 1 + row / 100)),
            ("output", whole(|_| 0)),
            ("x1", number(|at| at)),
            ("x2", x2),
            ("mean", number(|at| (5.0 * at).sin())),
            ("std", number(|at| 0.1 + 0.1 * at)),
        ]
    };
    let none: ArrayRef = Arc::new(Float64Array::new_null(rows as usize));
    for (x2, marks) in [(none, "<polyline"), (number(|at| (17.0 * at).fract()), "<rect class=\"mark d")] {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        write_columns(&path, columns(x2)).unwrap();
        sandbox.run(&format!("report {run}")).succeeded();
        let html = page(&sandbox, &run);
        let charts: Vec<&str> = html.split("data-chart=\"hidden\"").skip(1).collect();
        assert_eq!(charts.len(), 2, "one of each layer");
        assert!(charts.iter().all(|chart| chart.split("</figure>").next().unwrap().contains(marks)), "{marks}");
    }
    // Something else of that name is no reason to fail.
    write_columns(&path, vec![("stage", text("x"))]).unwrap();
    sandbox.run(&format!("report {run}")).succeeded();
    std::fs::write(&path, "PAR1").unwrap();
    sandbox.run(&format!("report {run}")).succeeded();
    assert!(page(&sandbox, &run).contains("cannot be read"));
}

/// Predictions of many rows in place of a run's own.
fn fill_predictions(sandbox: &Sandbox, run: &str, blocks: usize, rows: usize) {
    let results = ResultsDir::new(sandbox.path("results"));
    let block = |fold: usize, case: &str| {
        let at = |row: usize| (row * 7919 % 10_007) as f64 / 10_007.0;
        let noise = |row: usize| (row * 104_729 % 9973) as f64 / 9973.0 - 0.5;
        let truth: Vec<f64> = (0..rows).map(|row| (6.0 * at(row)).sin()).collect();
        PredictionBlock {
            stage: "predictions".to_owned(),
            case: case.to_owned(),
            fold: fold as i32,
            split: "test".to_owned(),
            key: (0..rows).map(|row| format!("key-{row}")).collect(),
            row: (0..rows as i64).collect(),
            y_mean: truth.iter().enumerate().map(|(row, truth)| truth + 0.2 * noise(row)).collect(),
            y_std: Some((0..rows).map(|row| 0.05 + 0.02 * at(row)).collect()),
            y_true: Some(truth),
            ..PredictionBlock::default()
        }
    };
    let schema = predictions::schema();
    let id = run.parse().unwrap();
    let footer = Footer { version: "0".to_owned(), spec_hash: String::new(), seed: 0 };
    let cases = ["kernel=rbf", "kernel=matern12"];
    let batches = (0..blocks).map(|fold| Ok(block(fold, cases[2 * fold / blocks]).batch(run, &schema).unwrap()));
    results.stream_table((TableKind::Predictions, "small", &id), &footer, &schema, batches).unwrap();
}

/// Ten million are measured by `benches/report.rs`.
#[test]
fn many_rows_give_a_small_page() {
    let sandbox = with_report();
    sandbox.run("run small.yaml --quiet").succeeded();
    let run = runs(&sandbox).remove(0);
    fill_predictions(&sandbox, &run, 10, 50_000);
    super::without_hashes(&sandbox, &run, &["predictions"]);
    sandbox.run(&format!("report {run}")).succeeded();
    let html = page(&sandbox, &run);
    assert!(html.contains("of 250\u{202f}000 rows"), "all of them are counted");
    assert!(html.len() < 1_000_000, "{}", html.len());
}
