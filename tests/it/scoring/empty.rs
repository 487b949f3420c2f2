//! Days without rows, columns without values, and scorings that fail.

use super::{GP, published};
use crate::sandbox::Sandbox;
use arrow::array::{Array as _, AsArray as _};
use arrow::datatypes::Float64Type;
use std::fmt::Write as _;
use stride_pipe::store::history::History;
use stride_pipe::store::{Manifest, open_batches};

/// A model of a number with gaps, a category and a date.
fn varied() -> Sandbox {
    let sandbox = Sandbox::new();
    let mut text = "id,a,town,day,y\n".to_owned();
    for i in 0..40 {
        let a = if i % 5 == 0 { String::new() } else { format!("{}.5", i % 7) };
        let _ = writeln!(text, "{i},{a},t{},2026-01-{:02},{}.25", i % 3, 1 + i % 28, i % 7 + i % 3);
    }
    sandbox.write("train.csv", &text);
    sandbox.run("import train.csv -o train.parquet --key id").succeeded();
    let features = "[{ name: a, missing: indicator }, { name: town, missing: indicator }, { name: day, kind: timestamp, missing: median }]";
    sandbox.write(
        "train.yaml",
        &format!(
            "version: 1\nname: train\nstages:\n  rows:\n    ingest: {{ path: train.parquet, key: id, features: {features}, target: y }}\n  \
             all:\n    split: {{ input: rows, all: {{}} }}\n  model:\n    train: {{ input: all, method: ridge, publish: models/m }}\n"
        ),
    );
    sandbox.run("run train.yaml --quiet").succeeded();
    sandbox
}

/// A column that is blank on a day has no type, and fits whatever the model takes.
#[test]
fn blank_columns_and_days_without_rows_are_scored() {
    let sandbox = varied();
    let score = "score --model models/m --input day.parquet --output s.parquet --key id";
    let mut day = "id,a,town,day\n".to_owned();
    (0..12).for_each(|i| writeln!(day, "{i},,,2026-02-01").unwrap());
    sandbox.write("day.csv", &day);
    sandbox.run("import day.csv -o day.parquet --key id").succeeded();
    let ran = sandbox.run(score).succeeded();
    assert!(ran.stdout.starts_with("s.parquet: 12 rows, 0 invalid"), "{}", ran.stdout);
    // What was there in training and is gone is an alarm by default.
    assert!(
        ran.stderr.contains("no value: `a` in 100 % of the rows, `town` in 100 % of the rows (`share_missing > 0.9`)"),
        "{}",
        ran.stderr
    );
    let (_, mut batches) = open_batches(&sandbox.path("s.parquet")).unwrap();
    let means =
        batches.next().unwrap().unwrap().column_by_name("y_mean").unwrap().as_primitive::<Float64Type>().clone();
    assert_eq!((means.len(), means.null_count()), (12, 0));
    // Levels that are written otherwise, too.
    let other = day.replace(",,,", ",1.5,T0,");
    sandbox.write("day.csv", &other);
    sandbox.run("import day.csv -o day.parquet --key id").succeeded();
    let ran = sandbox.run(score).succeeded();
    assert!(
        ran.stderr
            .contains("levels that training has not seen: `town` in 100 % of the rows (`share_unseen_levels > 0.5`)"),
        "{}",
        ran.stderr
    );

    sandbox.write("day.csv", "id,a,town,day\n");
    sandbox.run("import day.csv -o day.parquet --key id").succeeded();
    let ran = sandbox.run(score).succeeded();
    assert!(ran.stdout.starts_with("s.parquet: 0 rows, 0 invalid"), "{}", ran.stdout);
    let (schema, _) = open_batches(&sandbox.path("s.parquet")).unwrap();
    assert!(schema.column_with_name("y_mean").is_some());
    // One of several files, first and last.
    std::fs::create_dir(sandbox.path("days")).unwrap();
    std::fs::copy(sandbox.path("train.parquet"), sandbox.path("days/m.parquet")).unwrap();
    for name in ["days/a.parquet", "days/z.parquet"] {
        std::fs::copy(sandbox.path("day.parquet"), sandbox.path(name)).unwrap();
        let ran = sandbox.run("score --model models/m --input days --output s.parquet").succeeded();
        assert!(ran.stdout.starts_with("s.parquet: 40 rows, 0 invalid"), "{name}: {}", ran.stdout);
    }
}

#[test]
fn failed_scorings_are_noted() {
    let sandbox = published(GP);
    let score = "score --model models/m --key id --output s.parquet --results results --name night";
    assert_eq!(sandbox.run(&format!("{score} --input none.parquet")).code, 66);
    sandbox.write("bad.parquet", "no rows");
    assert_eq!(sandbox.run(&format!("{score} --input bad.parquet")).code, 65);
    let history = History::open(&sandbox.path("results")).unwrap();
    let manifests: Vec<&Manifest> =
        history.runs.iter().filter_map(|run| run.manifest.as_ref()).filter(|found| found.pipeline == "night").collect();
    assert_eq!(manifests.iter().map(|manifest| manifest.status.as_str()).collect::<Vec<_>>(), ["failed", "failed"]);
    let listed = sandbox.run("runs list").succeeded().stdout;
    assert_eq!(listed.matches(" failed ").count(), 2, "{listed}");
    let shown = sandbox.run("runs show last").succeeded().stdout;
    assert!(shown.contains("status    failed") && shown.contains("bad.parquet: not a Parquet file"), "{shown}");
    sandbox.run("report last -o page.html").succeeded();
    sandbox.run(&format!("{score} --input rows.parquet")).succeeded();
}
