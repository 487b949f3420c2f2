//! The command line itself: plans, logs, exit codes, signals.

use crate::sandbox::{Ran, SMALL, Sandbox};
use arrow::array::{ArrayRef, Float64Array};
use insta::assert_snapshot;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stride_pipe::store::write_columns;

#[test]
fn plan_in_every_format() {
    let sandbox = Sandbox::new();
    assert_snapshot!("plan_text", sandbox.run("plan small.yaml").succeeded().stdout);
    assert_snapshot!("plan_dot", sandbox.run("plan small.yaml --format dot").succeeded().stdout);
    assert_snapshot!("plan_mermaid", sandbox.run("plan small.yaml --format mermaid").succeeded().stdout);
    let json: serde_json::Value =
        serde_json::from_str(&sandbox.run("plan small.yaml --format json").succeeded().stdout).unwrap();
    assert_eq!(json["tasks"], 13);
    assert_eq!(json["cases"][0]["stages"][2]["folds"], 5);
    assert!(sandbox.files("results").is_empty(), "planning writes nothing");
}

#[test]
fn validate_says_so() {
    assert_snapshot!(Sandbox::new().run("validate small.yaml").succeeded().stdout);
}

#[test]
fn exit_codes() {
    let sandbox = Sandbox::new();
    let code = |arguments: &str| sandbox.run(arguments).code;
    assert_eq!(code("run"), 2);
    assert_eq!(code("frobnicate"), 2);
    assert_eq!(code("run small.yaml --threads 0"), 2);
    assert_eq!(code("--version"), 0);
    assert_eq!(code("run nothing.yaml"), 66);
    sandbox.write("broken.yaml", "version: one");
    assert_eq!(code("run broken.yaml"), 78);
    sandbox.write("missing.yaml", &SMALL.replace("rows.parquet", "gone.parquet"));
    assert_eq!(code("run missing.yaml"), 66);
    sandbox.write("notparquet.yaml", &SMALL.replace("rows.parquet", "small.yaml"));
    assert_eq!(code("run notparquet.yaml"), 65);
    sandbox.write("column.yaml", &SMALL.replace("features: [a, b]", "features: [a, bb]"));
    assert_eq!(code("run column.yaml"), 65);
    sandbox.write("folds.yaml", &SMALL.replace("folds: 5", "folds: 61"));
    assert_eq!(code("run folds.yaml"), 65);
    sandbox.write("blocked", "a file where the results directory should be");
    assert_eq!(code("run small.yaml --results blocked"), 73);
}

#[test]
fn json_logs_are_json() {
    let ran = Sandbox::new().run("run small.yaml --log-format json").succeeded();
    let lines: Vec<serde_json::Value> = ran.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["stage"] == "model" && line["fold"] == 4 && line["cached"] == false));
    // Whatever is said while a task is done is within its span, which says whose it is.
    let of =
        |line: &&serde_json::Value| line["message"].as_str().is_some_and(|text| text.contains("fold 4 (of 5): done"));
    let span = &lines.iter().find(of).unwrap()["span"];
    assert_eq!((&span["name"], &span["stage"], &span["kind"]), (&"task".into(), &"model".into(), &"train".into()));
    assert!(span["phase"].is_null(), "a task that is done is in no phase: {span}");
}

/// A pipeline that warns while it reads: a column of this name is constant.
fn flat(sandbox: &Sandbox, name: &str) {
    let flat: ArrayRef = Arc::new(Float64Array::from(vec![1.0; 60]));
    write_columns(&sandbox.path("flat.parquet"), vec![(name, Arc::clone(&flat)), ("y", flat)]).unwrap();
    let pipeline = SMALL.replace("rows.parquet, key: id, features: [a, b]", "flat.parquet, features: [\"x*\"]");
    sandbox.write("flat.yaml", &pipeline);
}

#[test]
fn json_logs_say_which_task_they_are_about() {
    let sandbox = Sandbox::new();
    flat(&sandbox, "x");
    let ran = sandbox.run("run flat.yaml --to rows --quiet --log-format json").succeeded();
    let line: serde_json::Value = serde_json::from_str(ran.stderr.lines().next().unwrap()).unwrap();
    assert!(line["message"].as_str().unwrap().contains("constant column(s) x"), "{line}");
    let (case, stage, kind) = ("default", "rows", "ingest");
    let span = serde_json::json!({ "name": "task", "case": case, "stage": stage, "kind": kind });
    assert_eq!(line["span"], span);
}

#[test]
fn nothing_in_a_log_acts_on_a_terminal() {
    let (sandbox, name) = (Sandbox::new(), "x\u{202e}y\u{9b}");
    let acts = |c: char| c != '\n' && stride_pipe::text::acts(c);
    flat(&sandbox, name);
    let text = sandbox.run("run flat.yaml --to rows --quiet").succeeded().stderr;
    assert!(text.contains("constant column(s) x\\u{202e}y\\u{9b}") && !text.contains(acts), "{text:?}");
    let json = sandbox.run("run flat.yaml --to rows --quiet --force --log-format json").succeeded().stderr;
    assert!(!json.contains(acts), "{json:?}");
    let line: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert!(line["message"].as_str().unwrap().contains(name), "programs get the name as it is: {line}");
}

#[test]
fn plain_lines_where_there_is_no_terminal() {
    let ran = Sandbox::new().run("run small.yaml").succeeded();
    assert!(ran.stderr.contains("model / fold 4 (of 5): done in"), "{}", ran.stderr);
    assert!(!ran.stderr.contains('\u{1b}') && !ran.stderr.contains('\r'));
}

/// A training that takes long enough to be interrupted.
fn slow(sandbox: &Sandbox) {
    let grow = |name: &str| {
        let n = 1500;
        let column = |f: fn(f64) -> f64| -> ArrayRef {
            Arc::new(Float64Array::from_iter_values((0..n).map(|i| f(f64::from(i)))))
        };
        let columns = vec![
            ("a", column(|i| (i * 0.37).sin())),
            ("b", column(|i| (i * 0.11).cos())),
            ("y", column(|i| (i * 0.05).sin() + (i * 1.7).sin())),
        ];
        write_columns(&sandbox.path(name), columns).unwrap();
    };
    grow("many.parquet");
    sandbox
        .write("slow.yaml", &SMALL.replace("rows.parquet, key: id", "many.parquet").replace("folds: 5", "folds: 20"));
}

#[test]
fn signals_end_a_run_cleanly() {
    for (signal, code) in [(rustix::process::Signal::INT, 130), (rustix::process::Signal::TERM, 143)] {
        let sandbox = Sandbox::new();
        slow(&sandbox);
        let child =
            sandbox.command().args(["run", "slow.yaml"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let started = || {
            sandbox.files("results/run").iter().any(|file| {
                let events = std::fs::read_to_string(sandbox.path("results/run").join(file)).unwrap_or_default();
                file.ends_with("events.jsonl") && events.contains("\"stage\":\"model\"")
            })
        };
        while !started() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        let ran = Ran::from(&child.wait_with_output().unwrap());
        assert_eq!(ran.code, code, "{}", ran.stderr);
        assert!(ran.stderr.contains("stopping …") && ran.stderr.contains("interrupted"), "{}", ran.stderr);
        let files = sandbox.files("results");
        assert!(!files.iter().any(|file| file.contains(".tmp") || file.starts_with("predictions/")), "{files:?}");
        let runs: Vec<stride_pipe::tables::RunRow> =
            stride_pipe::store::read_table(&sandbox.table_files("runs")[0]).unwrap();
        assert_eq!(runs[0].status, "interrupted");
    }
}

/// As `timeout` and terminals send it: to the process, and to its group.
#[test]
fn two_signals_at_once_are_one_and_the_way_to_go_on_is_said() {
    let sandbox = Sandbox::new();
    slow(&sandbox);
    let child = sandbox.command().args(["run", "slow.yaml"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while sandbox.files("results/cache").len() < 4 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    for _ in 0..3 {
        let _ = rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM);
        std::thread::sleep(Duration::from_millis(5));
    }
    let ran = Ran::from(&child.wait_with_output().unwrap());
    assert_eq!(ran.code, 143, "{}", ran.stderr);
    assert!(ran.stderr.contains("stopping …") && ran.stderr.contains("to go on: "), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("stopping …").count(), 1, "{}", ran.stderr);
    let list = sandbox.run("runs list --results results").succeeded().stdout;
    assert!(list.contains("interrupted") && !list.contains("unfinished"), "{list}");
}

/// The time of work grows with it, and what is done takes none.
#[test]
fn plan_says_about_how_long_it_will_take() {
    let sandbox = Sandbox::new();
    slow(&sandbox);
    let seconds = |options: &str| {
        let json = sandbox.run(&format!("plan slow.yaml --format json {options}")).succeeded().stdout;
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        json["cases"][0]["stages"][2]["estimated_seconds"].as_f64().unwrap()
    };
    let exact = seconds("");
    assert!(exact > 1.0 && exact < 3600.0, "{exact}");
    assert!(seconds("--set stages.model.train.method=ridge") < exact / 10.0);
    assert!(seconds("--set stages.folds.split.kfold.folds=2") < exact / 5.0);
    // Five more models, each of four fifths of the rows.
    let calibrated = seconds("--set stages.model.train.calibrate=out_of_fold");
    assert!(calibrated > 2.0 * exact && calibrated < 6.0 * exact, "{calibrated} {exact}");
    let deep = "--set stages.model.train.method=stride --set stages.model.train.inducing.count=20";
    assert!(seconds(&format!("{deep} --set stages.model.train.em.until.rhat=1.1")) > 1.2 * seconds(deep));
    // A second for each of the twenty folds.
    let deep = format!("{deep} --set stages.model.train.em.particles=500");
    let bound = seconds(&format!("{deep} --set stages.model.train.em.time_budget=1s"));
    assert!(bound < 20.1 && seconds(&deep) > 2.0 * bound, "{bound}");
    // Half of the rows are left when training rows are divided again.
    let nested = std::fs::read_to_string(sandbox.path("slow.yaml")).unwrap().replace(
        "  model:\n    train: { input: folds",
        "  again:\n    split: { input: folds, holdout: { test_fraction: 0.5 } }\n  model:\n    train: { input: again",
    );
    let nested = nested.replace("model: model, input: folds", "model: model, input: again");
    sandbox.write("nested.yaml", &nested);
    let json = sandbox.run("plan nested.yaml --format json").succeeded().stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let inner = json["cases"][0]["stages"][3]["estimated_seconds"].as_f64().unwrap();
    assert!(inner < exact / 3.0, "{inner} {exact}");
    let text = sandbox.run("plan slow.yaml").succeeded().stdout;
    let line = text.lines().find(|line| line.starts_with("time ")).unwrap();
    assert!(line.contains("about ") && text.contains("1500 rows, about "), "{text}");
    sandbox.run("run small.yaml --quiet").succeeded();
    let done = sandbox.run("plan small.yaml").succeeded().stdout;
    assert!(done.contains("time     nothing to do"), "{done}");
}

/// Row by row: the bytes of a file may change with the compression library.
#[test]
fn generate_makes_the_committed_data() {
    use stride_pipe::store::{InputFile, InvalidPolicy, Selection, open};
    let sandbox = Sandbox::new();
    let committed = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data/toy1d");
    let read = |path| {
        let selection = Selection {
            key: Some("row_id".to_owned()),
            features: vec!["x*".to_owned()],
            target: Some("y".to_owned()),
            extra: vec!["split".to_owned()],
            ..Selection::default()
        };
        let table = open(&[InputFile::new(path)], &selection, InvalidPolicy::Error).unwrap();
        (table.key, table.features, table.target, table.extra)
    };
    for draw in 1..=5 {
        sandbox.run(&format!("generate toy1d --seed {draw} --output made.parquet")).succeeded();
        let same = read(sandbox.path("made.parquet")) == read(committed.join(format!("draw-{draw}.parquet")));
        assert!(same, "draw {draw}: run the command in data/README.md");
    }
    sandbox.run("generate steps2d --seed 1 --output made.parquet").succeeded();
    let same = read(sandbox.path("made.parquet")) == read(committed.with_file_name("steps2d.parquet"));
    assert!(same, "steps2d: run the command in data/README.md");
}
