//! Results directories of a thousand runs, of other versions, and half deleted.

use super::{page, runs, with_report, without_hashes};
use crate::sandbox::Sandbox;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use stride_pipe::store::{RunId, open_batches, write_parquet};
use stride_pipe::tables::Timestamp;

const TABLES: [&str; 6] = ["predictions", "metrics", "timings", "traces", "runs", "cases"];

/// The file of a run's table.
fn table(sandbox: &Sandbox, table: &str, run: &str) -> std::path::PathBuf {
    let date = run.parse::<RunId>().unwrap().run_date();
    sandbox.path(format!("results/{table}/pipeline=small/run_date={date}/{run}.parquet"))
}

/// Copies a run so often, each copy an hour after the one before.
fn copies(sandbox: &Sandbox, run: &str, count: i64) -> Vec<String> {
    let first = run.parse::<RunId>().unwrap().started().micros();
    let place = |name: &str| sandbox.path(format!("results/run/{name}"));
    let mut names = Vec::new();
    for copy in 1..=count {
        let started = Timestamp::from_micros(first + copy * 3_600_000_000);
        let name = RunId::new(started, &copy.to_le_bytes()).to_string();
        fs::create_dir_all(place(&name)).unwrap();
        for file in ["manifest.json", "events.jsonl", "resolved.yaml"] {
            let text = fs::read_to_string(place(run).join(file)).unwrap();
            fs::write(place(&name).join(file), text.replace(run, &name)).unwrap();
        }
        without_hashes(sandbox, &name, &[]);
        for kind in TABLES {
            let target = table(sandbox, kind, &name);
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::hard_link(table(sandbox, kind, run), target).unwrap();
        }
        names.push(name);
    }
    names
}

#[test]
fn a_thousand_runs_are_one_page() {
    let sandbox = with_report();
    sandbox.run("run small.yaml --quiet").succeeded();
    copies(&sandbox, &runs(&sandbox)[0], 999);
    // How long it takes is measured by `benches/report.rs`.
    let said = sandbox.run("report").succeeded().stdout;
    assert!(said.contains("1000 run(s)"), "{said}");
    let html = fs::read_to_string(sandbox.path("results/report.html")).unwrap();
    assert!(html.len() < 5_000_000, "{}", html.len());
    assert!(html.contains("1000 succeeded"));
}

/// The table again, with a column more and without one that may be null: what another version could have written.
fn rewrite(path: &Path, gone: &str) {
    let (schema, batches) = open_batches(path).unwrap();
    let kept: Vec<usize> = (0..schema.fields().len()).filter(|at| schema.field(*at).name() != gone).collect();
    let mut fields: Vec<Field> = kept.iter().map(|at| schema.field(*at).clone()).collect();
    fields.insert(0, Field::new("since", DataType::Utf8, false));
    let schema = Arc::new(Schema::new(fields));
    let batches: Vec<RecordBatch> = batches
        .map(|batch| {
            let batch = batch.unwrap();
            let mut columns: Vec<ArrayRef> = kept.iter().map(|at| Arc::clone(batch.column(*at))).collect();
            columns.insert(0, Arc::new(StringArray::from_iter_values((0..batch.num_rows()).map(|_| "version 9"))));
            RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
        })
        .collect();
    fs::remove_file(path).unwrap();
    write_parquet(path, &schema, &[], &batches).unwrap();
}

#[test]
fn whatever_is_left_is_reported() {
    let sandbox = with_report();
    sandbox.run("run small.yaml --quiet").succeeded();
    let run = runs(&sandbox).remove(0);
    let names = copies(&sandbox, &run, 12);
    let directory = |name: &str| sandbox.path(format!("results/run/{name}"));
    let manifest = |name: &str, from: &str, to: &str| {
        let path = directory(name).join("manifest.json");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from}");
        fs::write(&path, text.replace(from, to)).unwrap();
    };
    // Their tables are changed, and not damaged.
    for changed in [4, 6, 11] {
        without_hashes(&sandbox, &names[changed], &["metrics", "timings", "traces"]);
    }
    fs::remove_file(table(&sandbox, "metrics", &names[0])).unwrap();
    fs::remove_file(table(&sandbox, "predictions", &names[1])).unwrap();
    fs::remove_dir_all(directory(&names[2])).unwrap();
    fs::remove_file(directory(&names[3]).join("manifest.json")).unwrap();
    fs::remove_file(table(&sandbox, "metrics", &names[4])).unwrap();
    fs::write(table(&sandbox, "metrics", &names[4]), b"PAR1 cut off").unwrap();
    manifest(&names[5], "\"succeeded\"", "\"transcended\"");
    manifest(&names[6], env!("CARGO_PKG_VERSION"), "9.1.0");
    rewrite(&table(&sandbox, "metrics", &names[6]), "feature");
    rewrite(&table(&sandbox, "timings", &names[6]), "fold");
    fs::write(directory(&names[7]).join("manifest.json"), "{ \"run_id\": ").unwrap();
    for file in ["manifest.json", "resolved.yaml", "events.jsonl"] {
        fs::remove_file(directory(&names[8]).join(file)).unwrap();
    }
    for kind in TABLES {
        fs::remove_file(table(&sandbox, kind, &names[9])).unwrap();
    }
    fs::write(directory(&names[10]).join("resolved.yaml"), "cases: [\n\u{0}").unwrap();
    fs::remove_file(table(&sandbox, "traces", &names[11])).unwrap();
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    stride_pipe::store::write_columns(&table(&sandbox, "traces", &names[11]), vec![("stage", column)]).unwrap();
    fs::create_dir(sandbox.path("results/run/notes")).unwrap();

    sandbox.run("report").succeeded();
    let all = fs::read_to_string(sandbox.path("results/report.html")).unwrap();
    for text in [
        "metrics table is missing",
        "directory is gone",
        "no manifest",
        "unknown status",
        "cannot be read",
        "9.1.0",
        "run/notes is not a run",
        "of its",
    ] {
        assert!(all.contains(text), "{text}");
    }
    // Each of them alone.
    for name in &names {
        sandbox.run(&format!("report {name} -o {name}.html")).succeeded();
    }
    let alone = |name: &str| fs::read_to_string(sandbox.path(format!("{name}.html"))).unwrap();
    assert!(alone(&names[0]).contains("its metrics table is missing"));
    assert!(alone(&names[1]).contains("its predictions table is missing"));
    assert!(alone(&names[8]).contains("resolved pipeline is gone"));
    for good in [&names[5], &names[6], &names[8], &names[10], &names[11]] {
        assert!(alone(good).contains("How good?") && alone(good).contains("data-chart=\"predicted-true\""), "{good}");
    }
    // The untouched run is as good as ever.
    sandbox.run(&format!("report {run}")).succeeded();
    assert!(!page(&sandbox, &run).contains("notes warning"));
}
