//! The dashboards of `dashboards/`, installed, started, and opened in headless Chromium: every chart has marks, the numbers
//! are those of `runs list`, nothing is an error, and nothing leaves the machine.

use crate::python::succeed;
use crate::sandbox::{SMALL, Sandbox};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A matrix with a number, two runs to compare, a failure, and four scored days, the last of which is far off.
fn results() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.run("fit rows.parquet --target y --time-limit 1s --quiet").succeeded();
    let sweep = SMALL
        .replace("name: small", "name: sweep")
        .replace("method: gp", "method: '${matrix.method}', inducing: { count: '${matrix.m}' }")
        .replace("stages:\n", "matrix: { method: [gp, sparse_gp], m: [5, 20] }\nstages:\n");
    sandbox.write("sweep.yaml", &sweep);
    sandbox.run("run sweep.yaml --quiet").succeeded();
    sandbox.run("run small.yaml --quiet").succeeded();
    sandbox.run("run small.yaml --quiet --set seed=8").succeeded();
    assert_eq!(sandbox.run("run small.yaml --quiet --set stages.folds.split.kfold.folds=61").code, 65);
    let train = "version: 1\nname: teach\nstages:\n  rows:\n    ingest: { path: rows.parquet, key: id, features: [a, b], target: y }\n  \
        all:\n    split: { input: rows, all: {} }\n  model:\n    train: { input: all, method: gp, publish: models/m }\n";
    sandbox.write("teach.yaml", train);
    sandbox.run("run teach.yaml --quiet").succeeded();
    let score = "version: 1\nname: score\nparams: { date: 2026-11-01, file: rows.parquet }\nstages:\n  batch:\n    \
        ingest: { path: '${params.file}', key: id, features: [a, b] }\n  scores:\n    predict: { model: ./models/m, input: batch }\n";
    sandbox.write("score.yaml", score);
    for day in 1..4 {
        sandbox.run(&format!("run score.yaml --quiet --set date=2026-11-0{day}")).succeeded();
    }
    crate::report::pages::shifted(&sandbox, "far.parquet");
    sandbox.run("run score.yaml --quiet --set date=2026-11-04 --set file=far.parquet").succeeded();
    sandbox
}

/// The runs as the program lists them, but for what `fit` only tried.
fn listed(sandbox: &Sandbox) -> Vec<Json> {
    let list = sandbox.run("runs list --format json").succeeded();
    let all: Vec<Json> = serde_json::from_str(&list.stdout).unwrap();
    let (trials, others): (Vec<Json>, Vec<Json>) = all.into_iter().partition(|run| run["pipeline"] == "rows-fit");
    assert!(!trials.is_empty() && others.iter().any(|run| run["pipeline"] == "rows"), "{trials:?}");
    others
}

/// A server that ends with the test, helpers included.
struct Server {
    child: Child,
    outside: PathBuf,
    /// Kept open: a server that cannot write ends.
    said: BufReader<ChildStdout>,
}

impl Server {
    /// Starts it with nothing of a user's settings, and waits for a line that contains `ready`.
    fn start(command: &mut Command, sandbox: &Sandbox, ready: &str) -> (Self, String) {
        let outside = sandbox.path("outside.txt");
        let home = sandbox.path("home");
        std::fs::create_dir_all(&home).unwrap();
        let watch = repository().join("tests/it/reference/offline");
        command.env("PYTHONPATH", watch).env("STRIDE_PIPE_OUTSIDE", &outside).env("PYTHONUNBUFFERED", "1");
        command.env("XDG_CACHE_HOME", cache()).env("HOME", home).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.process_group(0).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut server = Self { child, outside, said };
        loop {
            let mut line = String::new();
            assert_ne!(server.said.read_line(&mut line).unwrap(), 0, "{command:?} ended");
            if line.contains(ready) {
                return (server, line);
            }
        }
    }

    /// What the server itself tried to reach.
    fn outside(&self) -> String {
        std::fs::read_to_string(&self.outside).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.child.wait();
    }
}

fn cache() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache");
    std::env::var_os("XDG_CACHE_HOME").filter(|set| !set.is_empty()).map_or_else(home, PathBuf::from)
}

/// A port that nobody had a moment ago.
fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// What the browser finds. `STRIDE_PIPE_SHOTS=DIRECTORY` keeps its pictures.
fn look(arguments: &[&str]) -> Json {
    let mut command = Command::new("python3");
    command.arg(repository().join("tests/it/reference/boards.py")).args(arguments);
    let found: Json = serde_json::from_str(&succeed(command.args(std::env::var_os("STRIDE_PIPE_SHOTS")))).unwrap();
    for key in ["foreign", "console"] {
        assert_eq!(found[key].as_array().map(Vec::len), Some(0), "{key}: {}", found[key]);
    }
    found
}

/// Words that a dashboard says instead of a chart.
#[track_caller]
fn no_error(text: &str) {
    for word in ["Error", "error", "No results", "Traceback", "Unexpected", "There was an issue"] {
        assert!(!text.contains(word), "{word} is in\n{text}");
    }
}

#[test]
fn superset_shows_the_runs() {
    let sandbox = results();
    let start = repository().join("dashboards/superset/start.py");
    // What is installed comes from elsewhere; what is started may not ask for more.
    succeed(Command::new("python3").arg(&start).arg("--install-only"));
    let number = port().to_string();
    let mut command = Command::new("python3");
    command.arg(&start).arg(sandbox.path("results")).args(["--port", &number]);
    command.arg("--stride-pipe").arg(assert_cmd::cargo::cargo_bin!("stride-pipe"));
    let (server, line) = Server::start(&mut command, &sandbox, "http://");
    let words: Vec<&str> = line.split_whitespace().collect();
    let found = look(&["superset", words[1], words[words.len() - 1]]);

    let runs = listed(&sandbox);
    let charts = found["charts"].as_array().unwrap();
    for chart in charts {
        let marks = ["coloured", "rows"].map(|key| chart[key].as_u64().unwrap());
        assert!(marks[0] > 100 || marks[1] > 0 || chart["number"].is_string(), "{chart} has no marks");
    }
    let names: BTreeSet<&str> = charts.iter().map(|chart| chart["name"].as_str().unwrap()).collect();
    let declared = declared();
    assert_eq!(names, declared.iter().map(String::as_str).collect());
    let of = |name: &str| charts.iter().find(|chart| chart["name"] == name).unwrap();
    assert_eq!(of("Runs")["number"], runs.len().to_string());
    assert_eq!(of("Last runs")["rows"], runs.len());
    let failed = of("Last runs")["text"].as_str().unwrap().matches("failed").count();
    assert_eq!(failed, runs.iter().filter(|run| run["status"] == "failed").count());
    no_error(found["text"].as_str().unwrap());
    assert_eq!(server.outside(), "");
}

/// The charts as code: their names.
fn declared() -> BTreeSet<String> {
    let charts = repository().join("dashboards/superset/assets/charts");
    let name = |path: PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("slice_name: ")).unwrap();
        line.trim_matches('\'').to_owned()
    };
    std::fs::read_dir(charts).unwrap().map(|entry| name(entry.unwrap().path())).collect()
}

#[test]
fn streamlit_shows_the_runs() {
    let sandbox = results();
    let directory = repository().join("dashboards");
    let place = succeed(Command::new("python3").arg(directory.join("environment.py")).arg("streamlit"));
    let number = port().to_string();
    let mut command = Command::new(Path::new(place.trim()).join("bin/streamlit"));
    command.arg("run").arg(directory.join("streamlit/app.py")).args(["--server.port", &number, "--"]);
    let (server, _) = Server::start(command.arg(sandbox.path("results")), &sandbox, "URL:");
    let runs = listed(&sandbox);
    let sweep = runs.iter().find(|run| run["pipeline"] == "sweep").unwrap()["run_id"].as_str().unwrap();
    let found = look(&["streamlit", &format!("http://127.0.0.1:{number}"), sweep]);

    let pages = found["pages"].as_object().unwrap();
    // Pages, and how many charts and tables each has.
    for (name, charts, tables) in [("", 2, 1), ("run?sweep", 6, 0), ("run", 6, 1), ("compare", 1, 2), ("scoring", 1, 1)]
    {
        let page = &pages[name];
        assert_eq!(page["problems"].as_array().map(Vec::len), Some(0), "{name}: {}", page["problems"]);
        let marks: Vec<u64> =
            page["charts"].as_array().unwrap().iter().map(|chart| chart["marks"].as_u64().unwrap()).collect();
        assert!(marks.len() == charts && marks.iter().all(|count| *count > 0), "{name}: {marks:?}");
        assert!(page["tables"].as_u64().unwrap() >= tables, "{name}: {}", page["tables"]);
        no_error(page["text"].as_str().unwrap());
    }
    let count = |status: &str| runs.iter().filter(|run| run["status"] == status).count().to_string();
    let figures = &pages[""]["figures"];
    assert_eq!(figures["Runs"], runs.len().to_string());
    assert_eq!((&figures["Succeeded"], &figures["Failed"]), (&count("succeeded").into(), &count("failed").into()));
    // A day is unusual if it is in any metric, whichever is looked at.
    let scoring = pages["scoring"]["text"].as_str().unwrap();
    for said in [
        "variance_ratio: 1 of 4 days are above 3.",
        "1 of 4 days are unlike those of training",
        "share_outside_range above 0.2 on 1 day",
    ] {
        assert!(scoring.contains(said), "{said}: {scoring}");
    }
    assert!(!pages[""]["text"].as_str().unwrap().contains("rows-fit"), "{}", pages[""]["text"]);
    assert_eq!(server.outside(), "");
}
