//! `stride-pipe views`: views that a database file keeps, and the table `params` that they date scored rows by.

use crate::python::{programs, succeed};
use crate::sandbox::{Ran, SMALL, Sandbox};
use std::path::Path;
use std::process::Command;
use stride_pipe::store::read_table;
use stride_pipe::tables::ParamRow;

/// The answer of a new process that opens the database, as CSV without its header.
fn ask(program: &str, database: &Path, query: &str) -> String {
    let script = "import duckdb, sys\nfor row in duckdb.connect(sys.argv[1], read_only=True).execute(sys.argv[2]).fetchall():\n    print(*row, sep=',')";
    let mut command = Command::new(programs().join(program));
    if program == "python" {
        command.args(["-c", script]).arg(database).arg(query);
    } else {
        command.args(["-readonly", "-noheader", "-csv", "-init", "/dev/null"]).arg(database).arg(query);
    }
    succeed(&mut command).trim_end().to_owned()
}

/// Makes the database with a program of the test environment.
fn make(sandbox: &Sandbox, program: &str, results: &str, database: &str) -> Ran {
    let output = sandbox
        .command()
        .args(["views", "--results", results, "--database", database, "--duckdb"])
        .arg(programs().join(program))
        .output()
        .unwrap();
    Ran::from(&output)
}

const TABLES: &str = "predictions metrics timings traces hidden runs cases params columns latest_runs latest_metrics \
    metrics_wide timings_by_phase timings_by_stage scored_days drift run_summary metrics_summary metrics_by_variable calibration local_layer drift_wide";

#[test]
fn a_database_keeps_the_views_and_sees_later_runs() {
    // Marks of patterns and of SQL in the path stand for themselves.
    let (sandbox, results) = (Sandbox::new(), "it's [a] *new* one");
    for program in ["python", "duckdb"] {
        let _ = std::fs::remove_dir_all(sandbox.path(results));
        let run = |more: &[&str]| {
            let arguments = ["run", "small.yaml", "--quiet", "--results", results];
            Ran::from(&sandbox.command().args(arguments).args(more).output().unwrap())
        };
        // Only a failed run: nearly every table is without a file.
        assert_eq!(run(&["--set", "stages.folds.split.kfold.folds=61"]).code, 65);
        let name = format!("{program}.duckdb");
        make(&sandbox, program, results, &name).succeeded();
        let database = sandbox.path(&name);
        let ask = |query: &str| ask(program, &database, query);
        let all = TABLES.split(' ').map(|view| format!("SELECT count(*) FROM {view}")).collect::<Vec<_>>();
        let counts = || ask(&all.join(" UNION ALL ")).replace('\n', " ");
        assert_eq!(counts(), "0 0 0 0 0 1 0 1 0 0 0 0 0 0 0 0 1 0 0 0 0 0");
        // Later runs show, with quantiles that the views do not know and will not fail of.
        run(&[]).succeeded();
        run(&["--set", "stages.predictions.predict.intervals=[0.9]"]).succeeded();
        assert_eq!(ask("SELECT count(*), count(DISTINCT run_id) FROM predictions"), "120,2");
        assert_eq!(ask("SELECT count(*), count(smse) FROM run_summary"), "3,2");
        assert!(!ask("SELECT column_name FROM (DESCRIBE predictions)").contains("y_q"));
        make(&sandbox, program, results, &name).succeeded();
        assert_eq!(ask("SELECT count(y_q25), count(y_q05) FROM predictions"), "60,60");
        // Other readers of the directory see the runs alone.
        let script = "import pandas, sys; print(len(pandas.read_parquet(sys.argv[1] + '/metrics')), sorted(pandas.read_parquet(sys.argv[1] + '/runs').pipeline.unique()))";
        let pandas = succeed(Command::new(programs().join("python")).args(["-c", script]).arg(sandbox.path(results)));
        assert_eq!(pandas, format!("{} ['small']\n", ask("SELECT count(*) FROM metrics")));
        // What is gone is gone, and no error; the columns of its intervals stay.
        let prune = ["runs", "prune", "--results", results, "--keep", "0"];
        Ran::from(&sandbox.command().args(prune).output().unwrap()).succeeded();
        assert_eq!(ask("SELECT count(*), count(y_q25) FROM predictions"), "0,0");
    }
    // The newest DuckDB made a file that older ones open.
    ask("duckdb", &sandbox.path("python.duckdb"), "SELECT count(*) FROM runs");
}

#[test]
fn what_is_printed_makes_the_same_views() {
    let sandbox = Sandbox::new();
    sandbox.run("run small.yaml --quiet").succeeded();
    let printed = sandbox.run("views").succeeded().stdout;
    sandbox.write("views.sql", &printed);
    let mut duckdb = Command::new(programs().join("duckdb"));
    succeed(
        duckdb.args(["-bail", "-init", "/dev/null", "printed.duckdb", ".read views.sql"]).current_dir(sandbox.path("")),
    );
    make(&sandbox, "duckdb", "results", "made.duckdb").succeeded();
    let views = "SELECT view_name, sql FROM duckdb_views() WHERE NOT internal ORDER BY ALL";
    let of = |name: &str| ask("duckdb", &sandbox.path(name), views);
    assert_eq!(of("printed.duckdb"), of("made.duckdb"));
    assert_eq!(ask("duckdb", &sandbox.path("printed.duckdb"), "SELECT count(*) FROM runs"), "1");
}

#[test]
fn what_is_missing_is_said() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run("views --results nowhere");
    assert_eq!(ran.code, 66);
    assert!(ran.stderr.contains("nowhere") && ran.stderr.contains("--results DIR"), "{}", ran.stderr);
    sandbox.run("run small.yaml --quiet").succeeded();
    let mut command = sandbox.command();
    let ran = Ran::from(&command.args(["views", "--database", "a.duckdb"]).env("PATH", "").output().unwrap());
    assert_eq!(ran.code, 66);
    assert!(ran.stderr.contains("pip install duckdb") && ran.stderr.contains("--duckdb PROGRAM"), "{}", ran.stderr);
    let ran = sandbox.run("views --database a.duckdb --duckdb /bin/false");
    assert_eq!(ran.code, 66);
    assert!(ran.stderr.contains("/bin/false is neither"), "{}", ran.stderr);
    for program in ["python", "duckdb"] {
        let ran = make(&sandbox, program, "results", "small.yaml");
        assert_eq!(ran.code, 73);
        assert!(ran.stderr.contains("not a valid DuckDB database"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("Traceback"), "{}", ran.stderr);
    }
    assert!(std::fs::read_to_string(sandbox.path("small.yaml")).unwrap().starts_with("version"), "it was not touched");
}

fn params(sandbox: &Sandbox, run: usize) -> Vec<(String, String, String)> {
    let rows: Vec<ParamRow> = read_table(&sandbox.table_files("params")[run]).unwrap();
    rows.into_iter().map(|row| (row.name, row.value, row.origin)).collect()
}

#[test]
fn runs_write_down_what_they_were_given() {
    let sandbox = Sandbox::new();
    let text = SMALL.replace(
        "stages:\n",
        "params: { folds: 5, path: 'rows.parquet', who: 'by ${env.STRIDE_TEST_SECRET}', seed: 3 }\nstages:\n",
    );
    sandbox.write("given.yaml", &text.replace("folds: 5 }", "folds: '${params.folds}' }"));
    let run = |more: &[&str]| {
        let mut command = sandbox.command();
        command.args(["run", "given.yaml", "--quiet"]).args(more).env("STRIDE_TEST_SECRET", "hunter2000");
        Ran::from(&command.output().unwrap())
    };
    let rows = |run| {
        let rows = params(&sandbox, run);
        rows.into_iter().map(|(name, value, origin)| format!("{name}={value} ({origin})")).collect::<Vec<_>>()
    };
    run(&[]).succeeded();
    assert_eq!(rows(0), ["folds=5 (file)", "path=rows.parquet (file)", "who=by *** (file)", "params.seed=3 (file)"]);
    let sets = ["--set", "folds=4", "--set", "seed=9", "--set", "stages.predictions.predict.intervals=[0.5,0.9]"];
    run(&[&sets[..], &["--set", "stages.rows.ingest.path=${params.path}"]].concat()).succeeded();
    assert_eq!(
        rows(1)[0..1].iter().chain(&rows(1)[4..]).collect::<Vec<_>>(),
        [
            "folds=4 (set)",
            "seed=9 (set)",
            "stages.predictions.predict.intervals=[0.5,0.9] (set)",
            "stages.rows.ingest.path=rows.parquet (set)"
        ]
    );
    // A run that failed was given something, too.
    assert_eq!(run(&["--set", "params.folds=61", "--set", "stages.model.train.kernel=rbf"]).code, 65);
    assert_eq!(rows(2)[0], "folds=61 (set)");
    assert_eq!(rows(2)[4], "stages.model.train.kernel=rbf (set)");
    for file in sandbox.files("results/params") {
        let bytes = std::fs::read(sandbox.path("results/params").join(file)).unwrap();
        assert!(!bytes.windows(10).any(|window| window == b"hunter2000"));
    }
}

/// A scored day is that of the data: a parameter, a matrix variable, a path; else that of the run.
#[test]
fn drift_stands_at_the_day_of_the_data() {
    let sandbox = Sandbox::new();
    let train =
        SMALL.replace("kfold: { folds: 5 }", "all: {}").replace("method: gp }", "method: gp, publish: models/m }");
    sandbox.write("teach.yaml", train.split("  predictions:").next().unwrap());
    sandbox.run("run teach.yaml --quiet").succeeded();
    for day in ["2026-01-05", "2026-01-06"] {
        std::fs::create_dir_all(sandbox.path(format!("inbox/date={day}"))).unwrap();
        std::fs::copy(sandbox.path("rows.parquet"), sandbox.path(format!("inbox/date={day}/rows.parquet"))).unwrap();
    }
    let pipeline = |name: &str, head: &str, path: &str| {
        let text = format!(
            "version: 1\nname: {name}\n{head}stages:\n  batch:\n    ingest: {{ path: '{path}', key: id, features: [a, b] }}\n  \
             scores:\n    predict: {{ model: ./models/m, input: batch }}\n"
        );
        sandbox.write(&format!("{name}.yaml"), &text);
    };
    pipeline("param", "params: { date: 2026-01-01 }\n", "inbox/date=${params.date}/");
    pipeline("cases", "matrix: { date: [2026-01-05, 2026-01-06] }\n", "inbox/date=${matrix.date}/");
    pipeline("path", "params: { input: inbox/date=2026-01-05/ }\n", "${params.input}");
    pipeline("compact", "params: { date: 20260105, input: rows.parquet }\n", "${params.input}");
    pipeline("none", "", "rows.parquet");
    sandbox.run("run param.yaml --quiet --set date=2026-01-06").succeeded();
    for name in ["cases", "path", "compact", "none"] {
        sandbox.run(&format!("run {name}.yaml --quiet")).succeeded();
    }
    let score =
        "score --model models/m --input inbox/date=2026-01-06/ --output s.parquet --results results --name hand";
    sandbox.run(score).succeeded();
    make(&sandbox, "duckdb", "results", "made.duckdb").succeeded();
    let query =
        "SELECT pipeline, CASE scored_day WHEN started_at::DATE THEN 'the day it ran' ELSE scored_day::VARCHAR END
        FROM drift_wide ORDER BY ALL";
    // A clock at midnight aside, runs start and are named on the same day.
    let answer = ask("duckdb", &sandbox.path("made.duckdb"), &format!("SET TimeZone = 'UTC'; {query}"));
    assert_eq!(
        answer.lines().collect::<Vec<_>>(),
        [
            "cases,2026-01-05",
            "cases,2026-01-06",
            "compact,2026-01-05",
            "hand,2026-01-06",
            "none,the day it ran",
            "param,2026-01-06",
            "path,2026-01-05"
        ]
    );
}
