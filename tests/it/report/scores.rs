//! Reports of scoring runs: all cases count, drifted ones are not hidden, pipelines are not mixed.

use crate::sandbox::Sandbox;
use crate::scoring::{GP, published, rows};
use arrow::array::{ArrayRef, Float64Array, Int64Array};
use std::sync::Arc;
use stride_pipe::store::write_columns;

/// Six days of 10, 20, … rows; on the last one all rows are far away and two cannot be scored.
fn days() -> Sandbox {
    let sandbox = published(GP);
    for day in 1..=5_i64 {
        rows(&sandbox.path(format!("inbox/{day}.parquet")), 0..10 * day);
    }
    let invalid = (0..60).map(|i| if i >= 58 { f64::NAN } else { 3.0 });
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..60))),
        ("a", Arc::new(Float64Array::from(vec![900.0; 60]))),
        ("b", Arc::new(Float64Array::from_iter_values(invalid))),
    ];
    write_columns(&sandbox.path("inbox/6.parquet"), columns).unwrap();
    sandbox
}

fn backfill(sandbox: &Sandbox, name: &str, days: &str) -> String {
    let text = format!(
        "version: 1\nname: {name}\nmatrix: {{ day: [{days}] }}\nstages:\n  batch:\n    \
         ingest: {{ path: \"inbox/${{matrix.day}}.parquet\", key: id, features: [a, b] }}\n  scores:\n    \
         predict: {{ model: ./models/m, input: batch, on_invalid: skip }}\n"
    );
    sandbox.write("backfill.yaml", &text);
    sandbox.run("run backfill.yaml --quiet").succeeded();
    sandbox.run("report last -o page.html").succeeded();
    std::fs::read_to_string(sandbox.path("page.html")).unwrap()
}

fn tile(html: &str, question: &str) -> String {
    let rest = html.split(&format!("<div class=\"question\">{question}</div>")).nth(1).unwrap();
    rest.split("</div></div>").next().unwrap().to_owned()
}

#[test]
fn every_case_of_a_backfill_counts() {
    let sandbox = days();
    let html = backfill(&sandbox, "backfill", "1, 2, 3, 4, 5, 6");
    let many = tile(&html, "How many?");
    assert!(many.contains(">208<") && many.contains("2 could not be"), "{many}");
    let sure = tile(&html, "How sure?");
    assert!(sure.contains("day=6") && sure.contains("the most of 6 cases"), "{sure}");
    // The order of the days makes no difference.
    let turned = backfill(&sandbox, "backfill", "6, 5, 4, 3, 2, 1");
    assert_eq!(tile(&turned, "How sure?"), sure);
}

#[test]
fn pipelines_have_lines_of_their_own() {
    let sandbox = days();
    backfill(&sandbox, "near", "1, 2");
    backfill(&sandbox, "far", "6, 1");
    backfill(&sandbox, "near", "2, 3");
    sandbox.run("report -o all.html").succeeded();
    let html = std::fs::read_to_string(sandbox.path("all.html")).unwrap();
    let (_, chart) = html.split_once("Predictive variance over that of training").unwrap();
    let chart = chart.split("</figure>").next().unwrap();
    assert!(chart.contains("far, day=6, ") && chart.contains("near, day="), "{chart}");
    // One mark per run, whatever the number of its cases.
    assert_eq!(chart.matches("near, ").count(), 2, "{chart}");
    assert!(html.contains("far: a"), "features are told apart by pipeline");
}
