//! Other tools read the results: the queries of the manual, and the `DuckDB` views in every state of a directory.

use crate::python::{programs, succeed};
use crate::sandbox::{SMALL, Sandbox};
use std::path::Path;
use std::process::Command;
use stride_pipe::tables::TableKind;

/// The manual's page about reading results.
fn manual() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/results.md")).unwrap()
}

/// The fenced blocks of a language on that page.
fn cookbook(language: &str) -> Vec<String> {
    let (page, fence) = (manual(), format!("```{language}\n"));
    let blocks = page.split(&fence).skip(1);
    blocks.map(|block| block.split_once("\n```").unwrap().0.to_owned()).collect()
}

/// A results directory with several runs: other intervals, a matrix, a failure.
fn results() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.run("run small.yaml --quiet").succeeded();
    sandbox.run("run small.yaml --quiet --set stages.predictions.predict.intervals=[0.9]").succeeded();
    let matrix = SMALL
        .replace("name: small", "name: quickstart")
        .replace("method: gp", "method: gp, kernel: '${matrix.kernel}'")
        .replace("stages:\n", "matrix: { kernel: [rbf, matern12] }\nstages:\n");
    sandbox.write("quickstart.yaml", &matrix);
    sandbox.run("run quickstart.yaml --quiet").succeeded();
    assert_eq!(sandbox.run("run small.yaml --quiet --set stages.folds.split.kfold.folds=61").code, 65);
    sandbox
}

/// What the `duckdb` program says to a query, as CSV, with the views of the directory it runs in.
fn duckdb(directory: &Path, query: &str) -> String {
    let mut command = Command::new(programs().join("duckdb"));
    // A user's own settings must not matter.
    command.env("HOME", directory).current_dir(directory);
    succeed(command.args(["-bail", "-csv", "-init", "views.sql", "-c", query]))
}

#[test]
fn duckdb_runs_the_cookbook() {
    let sandbox = results();
    let expected = [
        &["quickstart,kernel=matern12,smse", "small,failed,1,", "matern12,0", "model,offline,", "kernel=rbf,4,"][..],
        // Panels of a dashboard.
        &["quickstart,succeeded,1,", "small,failed,1,", "rbf,smse,", ",0.95,", "model,quickstart,"],
    ];
    let blocks = cookbook("sql");
    assert_eq!(blocks.len(), expected.len());
    for (block, lines) in blocks.iter().zip(expected) {
        let answer = duckdb(&sandbox.path("results"), block);
        for line in lines {
            assert!(answer.contains(line), "{line} is not in\n{answer}");
        }
    }
}

#[test]
fn python_runs_the_cookbook() {
    let sandbox = results();
    let blocks = cookbook("python");
    for library in ["duckdb", "pandas", "polars"] {
        assert!(blocks.iter().any(|block| block.contains(&format!("import {library}"))), "{library}");
    }
    for block in blocks {
        let mut python = Command::new(programs().join("python"));
        let answer = succeed(python.args(["-c", &block]).current_dir(sandbox.path("")));
        assert!(answer.contains("kernel=matern12"), "{answer}");
    }
}

#[test]
fn views_agree_with_the_tables() {
    let sandbox = results();
    let directory = sandbox.path("results");
    let one = |query: &str| duckdb(&directory, query).lines().last().unwrap_or_default().to_owned();
    assert_eq!(one("SELECT count(*), count(DISTINCT run_id), count(DISTINCT pipeline) FROM predictions"), "240,3,2");
    assert_eq!(one("SELECT count(y_q25), count(y_q05) FROM predictions"), "180,60", "null where not asked for");
    assert_eq!(one("SELECT count(*) FROM runs"), "4");
    assert_eq!(one("SELECT count(*), count(DISTINCT pipeline) FROM latest_runs"), "2,2");
    assert_eq!(one("SELECT count(*) FROM metrics_wide"), "20");
    assert_eq!(
        one("SELECT count(*) FROM metrics m JOIN metrics_wide w USING (run_id, stage, \"case\", fold)
            WHERE m.metric = 'crps' AND m.stat = 'value' AND m.value = w.crps"),
        "20"
    );
    assert_eq!(one("SELECT count(DISTINCT run_id) FROM latest_metrics"), "2");
    assert_eq!(one("SELECT count(*), count(smse), count(DISTINCT best_case) FROM run_summary"), "4,3,2");
    assert_eq!(
        one("SELECT count(*) FROM metrics_summary s JOIN metrics m USING (run_id, stage, \"case\", metric)
            WHERE m.stat = 'mean' AND abs(m.value - s.mean) > 1e-12"),
        "0"
    );
    assert_eq!(
        one("SELECT DISTINCT variables['kernel'] AS k FROM metrics_summary WHERE k IS NOT NULL ORDER BY k"),
        "rbf"
    );
    // Two ways to nearly the same share: folds have equal sizes, and intervals end at one of some dozen rows.
    assert_eq!(
        one("SELECT count(*), bool_and(abs(c.observed - s.mean) < 0.1)
            FROM calibration c JOIN metrics_summary s USING (run_id, \"case\")
            WHERE s.metric = 'coverage_' || round(100 * c.nominal)::INT"),
        "12,true"
    );
    assert_eq!(one("SELECT sum(pieces) = (SELECT count(*) FROM timings) FROM timings_by_phase"), "true");
    assert_eq!(
        one("SELECT typeof(run_date), typeof(pipeline), typeof(started_at) FROM runs LIMIT 1"),
        "DATE,VARCHAR,TIMESTAMP WITH TIME ZONE"
    );
}

/// The manual's list of tables has their columns, but for quantiles and what comes from the names of directories.
#[test]
fn the_manual_has_the_columns() {
    let sandbox = results();
    let section = manual().split_once("\n## Tables\n").unwrap().1.split("\n## ").next().unwrap().to_owned();
    let rows: Vec<Vec<String>> = section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split('`').skip(1).step_by(2).map(str::to_owned).filter(|name| name != "y_q05").collect())
        .collect();
    assert_eq!(rows.len(), TableKind::ALL.len());
    let everywhere = |name: &str| TableKind::ALL.iter().any(|kind| kind.name() == name && kind.is_always_written());
    for row in rows.iter().filter(|row| everywhere(&row[0])) {
        let not_ours = "column_name NOT IN ('pipeline', 'run_date') AND column_name NOT LIKE 'y\\_q%' ESCAPE '\\'";
        let query = format!("SELECT column_name FROM (DESCRIBE {}) WHERE {not_ours}", row[0]);
        let answer = duckdb(&sandbox.path("results"), &query);
        assert_eq!(answer.lines().skip(1).collect::<Vec<_>>(), row[1..], "{}", row[0]);
    }
}

#[test]
fn views_work_where_tables_are_empty_or_missing() {
    let sandbox = Sandbox::new();
    // The first run fails: there is a `runs` table and no other.
    assert_eq!(sandbox.run("run small.yaml --quiet --set stages.folds.split.kfold.folds=61").code, 65);
    let directory = sandbox.path("results");
    let everything = "predictions metrics timings traces runs cases latest_runs latest_metrics metrics_wide timings_by_phase drift \
         run_summary metrics_summary calibration drift_wide";
    // One query each: starting the program takes longer than answering.
    let all = |directory: &Path, part: &dyn Fn(&str) -> String| -> Vec<String> {
        let query = everything.split(' ').map(part).collect::<Vec<_>>().join(" UNION ALL ");
        duckdb(directory, &query).lines().skip(1).map(str::to_owned).collect()
    };
    let counts = |directory: &Path| all(directory, &|view| format!("SELECT count(*) FROM {view}"));
    assert_eq!(counts(&directory), ["0", "0", "0", "0", "1", "0", "0", "0", "0", "0", "0", "1", "0", "0", "0"]);
    // The columns are those of a table with files.
    let column = |view: &str| format!("SELECT '{view}', column_name, column_type FROM (DESCRIBE {view})");
    let before = all(&directory, &column);
    assert!(before.len() > 90);
    sandbox.run("run small.yaml --quiet --set stages.predictions.predict.intervals=[]").succeeded();
    assert_eq!(before, all(&directory, &column));
    // `cases` has a file without rows; the others have some.
    assert_eq!(counts(&directory)[5], "0");
    // Nothing at all.
    let bare = sandbox.path("it's bare");
    std::fs::create_dir(&bare).unwrap();
    std::fs::copy(directory.join("views.sql"), bare.join("views.sql")).unwrap();
    assert_eq!(counts(&bare), ["0"; 15]);
}

#[test]
fn views_are_found_from_elsewhere_and_written_when_they_differ() {
    let sandbox = Sandbox::new();
    sandbox.run("run small.yaml --quiet --results it's/results").succeeded();
    let path = sandbox.path("it's/results/views.sql");
    let query = "import duckdb; db = duckdb.connect(); db.execute(\"SET VARIABLE results = 'it''s/results'\"); \
        db.execute(open(\"it's/results/views.sql\").read()); print(db.sql('SELECT count(*) FROM latest_metrics').fetchall())";
    let answer = succeed(Command::new(programs().join("python")).args(["-c", query]).current_dir(sandbox.path("")));
    assert_eq!(answer, "[(105,)]\n");
    let modified = || std::fs::metadata(&path).unwrap().modified().unwrap();
    let before = modified();
    sandbox.run("run small.yaml --quiet --results it's/results").succeeded();
    assert_eq!(modified(), before, "the same views are not written again");
    std::fs::write(&path, "-- of another version").unwrap();
    sandbox.run("run small.yaml --quiet --results it's/results").succeeded();
    assert!(std::fs::read_to_string(&path).unwrap().contains("latest_metrics"));
}

/// The view counts what the rows say; where all files are older than its columns, it is empty.
#[test]
fn the_view_of_the_local_layer() {
    let sandbox = Sandbox::new();
    let model = "method: sparse_gp, inducing: { count: 4, candidates: 20 }, local: { neighbours: 8 }";
    sandbox.write("small.yaml", &SMALL.replace("method: gp", model));
    sandbox.run("run small.yaml --quiet").succeeded();
    let directory = sandbox.path("results");
    let one = |query: &str| duckdb(&directory, query).lines().last().unwrap_or_default().to_owned();
    assert_eq!(one("SELECT count(*), sum(rows), min(tenth), max(tenth) FROM local_layer"), "10,60,1,10");
    assert_eq!(
        one("SELECT abs(sqrt(sum(rows * rmse * rmse) / 60) - (SELECT sqrt(avg((y_true - y_mean) ** 2)) FROM predictions)) < 1e-12,
                abs(sqrt(sum(rows * rmse_global ** 2) / 60) - (SELECT sqrt(avg((y_true - y_mean_global) ** 2)) FROM predictions)) < 1e-12
            FROM local_layer"),
        "true,true"
    );
    let file = sandbox.table_files("predictions").remove(0);
    let older = "import duckdb, sys; duckdb.sql(f\"COPY (SELECT * EXCLUDE (y_mean_global, nearest_distance, y_pit) FROM \
        read_parquet('{sys.argv[1]}', hive_partitioning = false)) TO '{sys.argv[1]}.new' (FORMAT parquet)\")";
    succeed(Command::new(programs().join("python")).args(["-c", older]).arg(&file));
    std::fs::rename(file.with_extension("parquet.new"), &file).unwrap();
    assert_eq!(one("SELECT count(*), (SELECT count(*) FROM predictions) FROM local_layer"), "0,60");
}
