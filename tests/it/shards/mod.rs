//! `run --shard`: many processes on one results directory, and the run that collects.

mod examples;

use crate::sandbox::{Ran, SMALL, Sandbox};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use stride_pipe::store::lock::{Locking, pipeline_lock, try_lock};
use stride_pipe::store::read_table;
use stride_pipe::tables::MetricRow;

/// Three methods, five folds; two of the cases differ in an option that does not count.
const SWEEP: &str =
    "matrix:\n  method: [gp, ridge, knn]\n  m: [10, 20]\n  exclude: [{ method: knn, m: 20 }, { method: gp, m: 20 }]\n";

fn sweep() -> Sandbox {
    let sandbox = Sandbox::new();
    let text = SMALL.replace("method: gp", "method: \"${matrix.method}\", inducing: { count: \"${matrix.m}\" }");
    sandbox.write("small.yaml", &text.replace("stages:\n", &format!("{SWEEP}stages:\n")));
    sandbox
}

/// Models and predictions of three methods on five folds, the rows and the folds.
const TASKS: u64 = 2 * 3 * 5 + 2;

fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn shards(sandbox: &Sandbox, count: usize, prepare: impl Fn(&mut Command)) {
    let shard = |index: usize| {
        let mut command = sandbox.command();
        command.args(["run", "small.yaml", "--threads", "1", "--shard"]).arg(format!("{index}/{count}"));
        prepare(&mut command);
        start(&mut command)
    };
    let all: Vec<Child> = (0..count).map(shard).collect();
    for child in all {
        Ran::from(&child.wait_with_output().unwrap()).succeeded();
    }
}

/// How often each piece of work was done rather than found, by all runs so far.
fn done(sandbox: &Sandbox) -> BTreeMap<String, u64> {
    let mut done = BTreeMap::new();
    for file in sandbox.files("results/run").iter().filter(|file| file.ends_with("events.jsonl")) {
        let text = fs::read_to_string(sandbox.path("results/run").join(file)).unwrap();
        let mut keys: BTreeMap<String, String> = BTreeMap::new();
        for event in text.lines().map(|line| serde_json::from_str::<Json>(line).unwrap()) {
            let task = format!("{} {} {}", event["case"], event["stage"], event["fold"]);
            match event["event"].as_str() {
                Some("task_started") => drop(keys.insert(task, event["key"].as_str().unwrap().to_owned())),
                Some("task_finished") if event["cached"] == false => {
                    *done.entry(format!("{} {}", event["kind"], keys[&task])).or_default() += 1;
                }
                _ => {}
            }
        }
    }
    done
}

/// The metrics of the latest run, without what is different in every run.
fn metrics(sandbox: &Sandbox) -> Vec<MetricRow> {
    let files = sandbox.table_files("metrics");
    let rows: Vec<MetricRow> = read_table(files.last().unwrap()).unwrap();
    rows.into_iter().map(|row| MetricRow { run_id: String::new(), ..row }).collect()
}

/// The collecting run finds every model and prediction, and comes to what one process comes to.
fn collect(sandbox: &Sandbox) {
    assert!(
        sandbox.table_files("metrics").is_empty() && sandbox.table_files("runs").is_empty(),
        "shards write no tables"
    );
    let before = done(sandbox);
    assert!(before.values().all(|times| *times == 1), "{before:#?}");
    assert_eq!(before.values().sum::<u64>(), TASKS, "{before:#?}");
    sandbox.run("run small.yaml").succeeded();
    let after = done(sandbox);
    let fresh = after.keys().filter(|task| !before.contains_key(*task)).collect::<Vec<_>>();
    assert!(fresh.iter().all(|task| task.starts_with("\"evaluate\"")), "{fresh:?}");
    let alone = sweep();
    alone.run("run small.yaml").succeeded();
    assert_eq!(metrics(sandbox), metrics(&alone));
}

#[test]
fn four_at_once_do_every_task_once() {
    let sandbox = sweep();
    shards(&sandbox, 4, |_| {});
    let listed = sandbox.run("runs list --results results").succeeded().stdout;
    assert_eq!(listed.matches(" shard ").count(), 4, "{listed}");
    collect(&sandbox);
    // Shards that come later find everything done; nothing goes on with a shard.
    let late = sandbox.run("run small.yaml --shard 2/4").succeeded();
    assert!(
        late.stdout.contains("shard 2/4: 0 task(s) done") && late.stdout.contains("left to other shards"),
        "{}",
        late.stdout
    );
    let resumed = sandbox.run("run small.yaml --resume");
    assert!(resumed.stderr.contains("nothing to do"), "{}", resumed.stderr);
}

#[test]
fn a_shard_that_is_killed_and_started_again_changes_nothing() {
    let sandbox = sweep();
    for moment in [40, 80, 120, 160, 200] {
        let mut command = sandbox.command();
        let mut child = start(command.args(["run", "small.yaml", "--threads", "1", "--shard", "1/2"]));
        std::thread::sleep(Duration::from_millis(moment));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // Killed between the result and the word about it, a task is done and not counted.
    shards(&sandbox, 2, |_| {});
    assert!(done(&sandbox).values().all(|times| *times == 1));
    sandbox.run("run small.yaml").succeeded();
    let alone = sweep();
    alone.run("run small.yaml").succeeded();
    assert_eq!(metrics(&sandbox), metrics(&alone));
    assert!(sandbox.files("results/cache/drafts").is_empty());
}

#[test]
fn sixteen_at_once_with_the_locks_of_nfs() {
    let sandbox = sweep();
    let (shim, seen) = (sandbox.path("nfs_locks.so"), sandbox.path("seen"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/shards/nfs_locks.c");
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&shim).arg(source).status().unwrap();
    assert!(compiled.success());
    let under = |command: &mut Command| {
        command.env("LD_PRELOAD", &shim).env("NFS_LOCKS_SEEN", &seen);
    };
    shards(&sandbox, 16, under);
    assert!(seen.exists(), "the locks were not those of the shim");
    collect(&sandbox);
    let mut plain = sandbox.command();
    under(plain.args(["run", "small.yaml", "--force"]));
    Ran::from(&plain.output().unwrap()).succeeded();
    let mut prune = sandbox.command();
    under(prune.args(["runs", "prune", "--results", "results", "--keep", "1"]));
    Ran::from(&prune.output().unwrap()).succeeded();
}

#[test]
fn shards_and_other_runs_keep_out_of_each_others_way() {
    let sandbox = sweep();
    let path = pipeline_lock(&sandbox.path("results"), "small");
    let Locking::Held(lock) = try_lock(&path, "somebody else").unwrap() else { panic!("taken") };
    let refused = sandbox.run("run small.yaml --shard 0/2");
    assert_eq!(refused.code, 75, "{}", refused.stderr);
    assert!(refused.stderr.contains("held by somebody else"), "{}", refused.stderr);
    drop(lock);
    let shared = fs::File::open(&path).unwrap();
    shared.lock_shared().unwrap();
    let refused = sandbox.run("run small.yaml");
    assert_eq!(refused.code, 75, "{}", refused.stderr);
    assert!(refused.stderr.contains("held by shards of this pipeline"), "{}", refused.stderr);
    sandbox.run("run small.yaml --shard 0/2").succeeded();
    drop(shared);
    sandbox.run("run small.yaml").succeeded();
    let owner = fs::read_to_string(&path).unwrap();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert!(owner.contains(&format!(" on {host} since ")), "{owner}");
}

#[test]
fn what_is_no_shard_is_refused() {
    let sandbox = sweep();
    for arguments in ["--shard 4/4", "--shard 1", "--shard 0/0", "--shard 0/2 --resume", "--shard 0/2 --only model"] {
        let ran = sandbox.run(&format!("run small.yaml {arguments}"));
        assert_eq!(ran.code, 2, "{arguments}: {}", ran.stderr);
    }
    assert!(sandbox.run("run small.yaml --shard 4/4").stderr.contains("0/4 to 3/4"));
    assert!(!sandbox.path("results").exists());
}

/// Shards publish nothing: what is done with a model that the pipeline publishes waits for the run that collects.
#[test]
fn a_model_that_the_pipeline_publishes_is_used_by_the_run_that_collects() {
    let pipeline = |sandbox: &Sandbox| {
        let text = SMALL.replace(
            "  metrics:",
            "  all:\n    split: { input: rows, all: {} }\n  final:\n    train: { input: all, method: gp, publish: models/m }\n  \
             scores:\n    predict: { model: ./models/m, input: rows, output: scores.parquet }\n  metrics:",
        );
        sandbox.write("small.yaml", &text);
    };
    let scores = |sandbox: &Sandbox| crate::scoring::content(&sandbox.path("scores.parquet"));
    let whole = Sandbox::new();
    pipeline(&whole);
    whole.run("run small.yaml --quiet").succeeded();
    let sandbox = Sandbox::new();
    // An older model is there, which must not be used.
    sandbox.write(
        "older.yaml",
        &SMALL
            .replace("kfold: { folds: 5 }", "all: {}")
            .split_once("  predictions:")
            .unwrap()
            .0
            .replace("name: small", "name: older")
            .replace("method: gp", "method: mean, publish: models/m"),
    );
    for older in [false, true] {
        let sandbox = if older { &sandbox } else { &Sandbox::new() };
        if older {
            sandbox.run("run older.yaml --quiet").succeeded();
        }
        pipeline(sandbox);
        shards(sandbox, 2, |_| {});
        assert!(!sandbox.path("scores.parquet").exists());
        sandbox.run("run small.yaml --quiet").succeeded();
        assert_eq!(scores(sandbox), scores(&whole));
    }
}

/// What a shard expects to do is its share.
#[test]
fn the_work_of_a_shard_is_a_share_of_the_plan() {
    use std::io::BufRead as _;
    let expected = |shard: &[&str]| {
        let sandbox = Sandbox::new();
        let deep = "method: stride, inducing: { count: 40 }, em: { iterations: 3000, particles: 20 }";
        sandbox.write("small.yaml", &SMALL.replace("method: gp", deep));
        let mut command = sandbox.command();
        command.args(["run", "small.yaml", "--log-format", "json"]).args(shard);
        let mut child = start(&mut command);
        let lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
        let said = lines.map_while(Result::ok).find(|line| line.contains("of work")).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let said: Json = serde_json::from_str(&said).unwrap();
        said["fields"]["seconds"].as_f64().or_else(|| said["seconds"].as_f64()).unwrap()
    };
    let (whole, quarter) = (expected(&[]), expected(&["--shard", "1/4"]));
    assert!((quarter - whole / 4.0).abs() < 0.01 * whole, "{quarter} {whole}");
}
