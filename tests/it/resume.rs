//! Interrupted, failed and killed runs: what was done is not lost, and the end is the same.

use crate::sandbox::{Ran, SMALL, Sandbox};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use stride_pipe::store::{Manifest, ResultsDir, read_predictions, read_table};
use stride_pipe::tables::{CaseRow, MetricRow, RunRow, TimingRow, TraceRow};

/// Cross-validation long enough to be killed in the middle: two cases of five folds on 60 rows.
fn sweep(sandbox: &Sandbox) {
    let matrix = "matrix: { kernel: [rbf, matern32] }\nstages:\n";
    let text =
        SMALL.replace("stages:\n", matrix).replace("method: gp", "method: gp, kernel: '${matrix.kernel}', ard: true");
    sandbox.write("sweep.yaml", &text);
}

pub fn start(sandbox: &Sandbox, arguments: &[&str]) -> Child {
    sandbox.command().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Everything in the tables but ids and times.
pub fn contents(sandbox: &Sandbox) -> String {
    let last = |table: &str| sandbox.table_files(table).last().unwrap().clone();
    let metrics: Vec<MetricRow> = read_table(&last("metrics")).unwrap();
    let traces: Vec<TraceRow> = read_table(&last("traces")).unwrap();
    let timings: Vec<TimingRow> = read_table(&last("timings")).unwrap();
    let cases: Vec<CaseRow> = read_table(&last("cases")).unwrap();
    let block = read_predictions(&last("predictions")).unwrap();
    let metrics: Vec<_> = metrics.into_iter().map(|row| MetricRow { run_id: String::new(), ..row }).collect();
    let traces: Vec<_> = traces.into_iter().map(|row| TraceRow { run_id: String::new(), ..row }).collect();
    let cases: Vec<_> = cases.into_iter().map(|row| CaseRow { run_id: String::new(), ..row }).collect();
    let timings: Vec<_> =
        timings.iter().map(|row| (&row.stage, &row.case, row.fold, &row.phase, row.rows, row.cached)).collect();
    format!("{metrics:?}{traces:?}{cases:?}{timings:?}{:?}{:?}{:?}", block.row, block.y_mean, block.y_std)
}

#[test]
fn killed_at_thirty_moments_and_resumed_it_ends_the_same() {
    let undisturbed = Sandbox::new();
    sweep(&undisturbed);
    let begun = Instant::now();
    undisturbed.run("run sweep.yaml").succeeded();
    let whole = begun.elapsed();
    let expected = contents(&undisturbed);

    let mut killed = 0_u32;
    let mut sandbox = Sandbox::new();
    sweep(&sandbox);
    // Moments spread over the run and beyond it by a fixed irrational step: each attempt dies somewhere else.
    for attempt in 0..200_u32 {
        let mut child = start(&sandbox, &["run", "sweep.yaml", "--resume"]);
        let share = (f64::from(attempt) * 0.618_034).fract();
        std::thread::sleep(whole.mul_f64(share * 0.5));
        let _ = child.kill();
        let ended = Ran::from(&child.wait_with_output().unwrap());
        if ended.code == -1 {
            killed += 1;
        } else {
            ended.succeeded();
        }
        for table in ["predictions", "metrics", "traces", "timings", "cases", "runs"] {
            for file in sandbox.table_files(table) {
                let name = file.file_name().unwrap().to_string_lossy().into_owned();
                // Hidden names are unfinished; what has a final name is whole.
                assert!(
                    name.starts_with('.')
                        || stride_pipe::store::peek(&[stride_pipe::store::InputFile::new(file)]).is_ok()
                );
            }
        }
        if !sandbox.table_files("metrics").iter().any(|file| file.extension().is_some_and(|e| e == "parquet")) {
            continue;
        }
        sandbox.run("run sweep.yaml --resume").succeeded();
        assert_eq!(contents(&sandbox), expected, "after {killed} kills");
        if killed >= 30 {
            return;
        }
        sandbox = Sandbox::new();
        sweep(&sandbox);
    }
    panic!("killed only {killed} times");
}

#[test]
fn an_interrupted_run_says_how_to_go_on_and_does() {
    let sandbox = Sandbox::new();
    sweep(&sandbox);
    let child = start(&sandbox, &["run", "sweep.yaml", "--set", "seed=7"]);
    let deadline = Instant::now() + Duration::from_secs(60);
    while sandbox.files("results/cache/entries").len() < 12 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    let ended = Ran::from(&child.wait_with_output().unwrap());
    assert_eq!(ended.code, 143, "{}", ended.stderr);
    let command = ended.stderr.lines().find_map(|line| line.strip_prefix("to go on: ")).unwrap().to_owned();
    let (_, arguments) = command.split_once(" run ").unwrap();
    let (_, run_id) = command.rsplit_once(' ').unwrap();

    let results = ResultsDir::new(sandbox.path("results"));
    let interrupted = std::fs::read(results.manifest_path(&run_id.parse().unwrap())).unwrap();
    let resumed = sandbox.run(&format!("run {arguments}")).succeeded();
    assert!(resumed.stderr.contains("done before the interruption"), "{}", resumed.stderr);
    assert!(resumed.stdout.contains(run_id), "the run keeps its name: {}", resumed.stdout);
    let runs: Vec<RunRow> = read_table(&sandbox.table_files("runs")[0]).unwrap();
    assert_eq!((sandbox.table_files("runs").len(), runs[0].status.as_str()), (1, "succeeded"));
    let kept = std::fs::read(results.run_dir(&run_id.parse().unwrap()).join("manifest-1.json")).unwrap();
    assert_eq!(kept, interrupted, "the record of the first attempt stays");
    assert_eq!(Manifest::load(&results, &run_id.parse().unwrap()).unwrap().status, "succeeded");

    let nothing = sandbox.run("run sweep.yaml --set seed=7 --resume");
    assert_eq!(nothing.code, 0);
    assert!(nothing.stderr.contains("nothing to do"), "{}", nothing.stderr);
    let changed = sandbox.run(&format!("run sweep.yaml --set seed=8 --resume {run_id}"));
    assert_eq!(changed.code, 2, "{}", changed.stderr);
    assert_eq!(sandbox.run("run sweep.yaml --resume 20200101T000000000000Z-000000").code, 66);
    assert_eq!(sandbox.run("run sweep.yaml --resume yesterday").code, 2);
}

#[test]
fn keep_going_finishes_the_other_cases() {
    let sandbox = Sandbox::new();
    let text = SMALL
        .replace("rows.parquet", "'${matrix.file}.parquet'")
        .replace("stages:\n", "matrix: { file: [gone, rows] }\nstages:\n");
    sandbox.write("two.yaml", &text);
    let stopped = sandbox.run("run two.yaml");
    assert_eq!(stopped.code, 66);
    assert!(sandbox.table_files("metrics").is_empty());
    let finished = sandbox.run("run two.yaml --keep-going");
    assert_eq!(finished.code, 1, "{}", finished.stderr);
    assert!(finished.stderr.contains("gone.parquet") && finished.stderr.contains("to go on: "), "{}", finished.stderr);
    let metrics: Vec<MetricRow> = read_table(&sandbox.table_files("metrics")[0]).unwrap();
    assert!(metrics.iter().all(|row| row.case == "file=rows"));
    std::fs::copy(sandbox.path("rows.parquet"), sandbox.path("gone.parquet")).unwrap();
    let resumed = sandbox.run("run two.yaml --keep-going --resume").succeeded();
    assert!(resumed.stdout.contains("file=gone"), "{}", resumed.stdout);
    let metrics: Vec<MetricRow> = read_table(&sandbox.table_files("metrics")[0]).unwrap();
    assert!(metrics.iter().any(|row| row.case == "file=gone"));
}

type Damage = fn(&std::path::Path);

/// What a kill in the first moments leaves, and what a failing disk does.
#[test]
fn resume_without_a_run_to_go_on_with_runs_what_was_never_done() {
    let sandbox = Sandbox::new();
    let first = sandbox.run("run small.yaml --resume").succeeded();
    assert!(first.stdout.contains("13 task(s) done"), "{}{}", first.stdout, first.stderr);
    let again = sandbox.run("run small.yaml --resume").succeeded();
    assert!(again.stderr.contains("nothing to do"), "{}", again.stderr);
    // Other options were never run, nor was the rest of a run that was told to stop early.
    let other = sandbox.run("run small.yaml --resume --set seed=8").succeeded();
    assert!(other.stdout.contains("12 task(s) done"), "{}{}", other.stdout, other.stderr);
    sandbox.run("run small.yaml --set seed=9 --to folds").succeeded();
    let rest = sandbox.run("run small.yaml --resume --set seed=9").succeeded();
    assert!(rest.stdout.contains("11 task(s) done"), "{}{}", rest.stdout, rest.stderr);

    let damages: [(&str, Damage); 4] = [
        ("missing", |log| std::fs::remove_file(log).unwrap()),
        ("empty", |log| std::fs::write(log, "").unwrap()),
        ("cut", |log| std::fs::write(log, "{\"at\":\"2026-11").unwrap()),
        ("not text", |log| std::fs::write(log, b"\xff\xfe\n").unwrap()),
    ];
    for (what, damage) in damages {
        let sandbox = Sandbox::new();
        sandbox.write("bad.yaml", &SMALL.replace("rows.parquet", "later.parquet"));
        assert_eq!(sandbox.run("run bad.yaml").code, 66);
        let run = std::fs::read_dir(sandbox.path("results/run")).unwrap().next().unwrap().unwrap().path();
        damage(&run.join("events.jsonl"));
        let name = run.file_name().unwrap().to_string_lossy().into_owned();
        let asked = sandbox.run(&format!("run bad.yaml --resume {name}"));
        assert!(asked.code == 66 && asked.stderr.contains("has lost its log"), "{what}: {}", asked.stderr);
        std::fs::copy(sandbox.path("rows.parquet"), sandbox.path("later.parquet")).unwrap();
        let ran = sandbox.run("run bad.yaml --resume").succeeded();
        assert!(ran.stdout.contains("13 task(s) done"), "{what}: {}{}", ran.stdout, ran.stderr);
        assert_eq!(sandbox.table_files("metrics").len(), 1, "{what}");
    }
}
