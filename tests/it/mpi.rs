//! Several processes: the bits of one, refusals, and a rank that is killed. For the program with the feature `mpi`, whose path is in
//! `STRIDE_MPI_PROGRAM`; without it there is nothing to test.

use crate::sandbox::{Ran, Sandbox};
use arrow::array::{ArrayRef, Float64Array};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stride_pipe::store::{ModelFile, read_known, read_predictions, write_columns};
use stride_pipe::tables::TraceRow;

fn program() -> Option<PathBuf> {
    let program = std::env::var_os("STRIDE_MPI_PROGRAM").map(PathBuf::from);
    if program.is_none() {
        eprintln!("STRIDE_MPI_PROGRAM is not set: not tested");
    }
    program
}

/// Enough rows for several leaves, the last of them not full.
fn sandbox(models: &[(&str, &str)]) -> Sandbox {
    let sandbox = Sandbox::new();
    let rows = 5300;
    let x = |row: usize, by: usize| ((row * by) % 997) as f64 / 499.0 - 1.0;
    let y = |row: usize| (3.0 * x(row, 7)).sin() + 0.5 * x(row, 31) * x(row, 7) + 0.05 * x(row, 113);
    let column = |values: Vec<f64>| Arc::new(Float64Array::from(values)) as ArrayRef;
    let columns = vec![
        ("a", column((0..rows).map(|row| x(row, 7)).collect())),
        ("b", column((0..rows).map(|row| x(row, 31)).collect())),
        ("y", column((0..rows).map(y).collect())),
    ];
    write_columns(&sandbox.path("many.parquet"), columns).unwrap();
    let mut text = "version: 1\nname: many\nseed: 5\nstages:\n  \
         rows: { ingest: { path: many.parquet, features: [a, b], target: y } }\n  \
         folds: { split: { input: rows, kfold: { folds: 2 } } }\n"
        .to_owned();
    for (name, options) in models {
        let _ = writeln!(text, "  {name}: {{ train: {{ input: folds, {options} }} }}");
        let _ = writeln!(text, "  test_{name}: {{ predict: {{ model: {name}, input: folds }} }}");
    }
    sandbox.write("many.yaml", &text);
    sandbox
}

const SPARSE: (&str, &str) = ("sparse", "method: sparse_gp, local: false, inducing: { count: 12, candidates: 30 }");
const TWO: (&str, &str) = (
    "two",
    "method: stride, inducing: { count: 10, candidates: 30 }, local: { neighbours: 8, rows: 600 }, deep: { hidden: { rank: 8 } }, \
     em: { iterations: 2, particles: 2, exchanges: 1, final_transitions: 2, sampler: { hmc: { transitions: 2, leapfrog: 2 } } }",
);
/// One length for every feature takes a second pass over the rows, and the local layer remembers all of them.
const LENGTHS: (&str, &str) =
    ("lengths", "method: sparse_gp, ard: true, local: { neighbours: 8 }, inducing: { count: 12, candidates: 30 }");
/// Many EM iterations for new pivots; rows are weighed one by one.
const RECOMPUTED: (&str, &str) = (
    "tight",
    "method: stride, local: false, inducing: { count: 10, candidates: 30 }, deep: { hidden: { rank: 8 } }, \
     em: { objective: tight, iterations: 3, particles: 2, exchanges: 1, final_transitions: 2, \
     sampler: { hmc: { transitions: 2, leapfrog: 2 } } }",
);
const CONVOLUTION: (&str, &str) = (
    "convolution",
    "method: stride, local: false, inducing: { count: 10, candidates: 30 }, \
     deep: { architecture: convolution, hidden: { rank: 8 } }, \
     em: { iterations: 2, particles: 2, exchanges: 1, final_transitions: 2, sampler: { hmc: { transitions: 2, leapfrog: 2 } } }",
);
/// Rows are interpolated in blocks of their own.
const BY_POINTS: (&str, &str) = (
    "points",
    "method: stride, local: false, inducing: { count: 10, candidates: 30 }, deep: { hidden: { method: sparse } }, \
     em: { iterations: 2, particles: 2, exchanges: 1, final_transitions: 2, sampler: { hmc: { transitions: 2, leapfrog: 2 } } }",
);
const THREE: (&str, &str) = (
    "three",
    "method: stride, local: false, inducing: { count: 10, candidates: 30 }, deep: { layers: 3, hidden: { rank: 8 } }, \
     em: { iterations: 2, particles: 2, exchanges: 1, final_transitions: 2, sampler: { pcn: { steps: 4 } } }",
);

fn on(sandbox: &Sandbox, program: &PathBuf, ranks: usize, arguments: &str) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", &ranks.to_string()]);
    command.arg(program).args(arguments.split_whitespace()).current_dir(sandbox.path(""));
    command
}

fn run(sandbox: &Sandbox, program: &PathBuf, ranks: usize, arguments: &str) -> Ran {
    Ran::from(&on(sandbox, program, ranks, arguments).output().unwrap())
}

/// Everything that a run leaves, but for names and times of it.
fn left_by(sandbox: &Sandbox, results: &str) -> String {
    let all = |ending: &str| -> Vec<PathBuf> {
        let files = sandbox.files(results);
        let mut found: Vec<String> = files.into_iter().filter(|file| file.contains(ending)).collect();
        found.sort();
        found.into_iter().map(|file| sandbox.path(results).join(file)).collect()
    };
    let mut text = String::new();
    for path in all("predictions/") {
        let block = read_predictions(&path).unwrap();
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        let _ = writeln!(text, "{:?} {:?}", bits(&block.y_mean), block.y_std.as_deref().map(bits));
    }
    for path in all("traces/") {
        let rows: Vec<TraceRow> = read_known(&path).unwrap();
        for row in rows {
            let _ = writeln!(text, "{:?}", TraceRow { run_id: String::new(), ..row });
        }
    }
    let models: Vec<PathBuf> =
        all(".safetensors").into_iter().filter(|path| path.to_string_lossy().contains("models")).collect();
    assert!(!models.is_empty(), "{:?}", sandbox.files(results));
    for path in models {
        let _ = writeln!(text, "{:?}", ModelFile::load(&path).unwrap().tensors);
    }
    text
}

/// What was said of the rows that rank 0 holds: those, and all.
fn rows_held(sandbox: &Sandbox, results: &str) -> Vec<(usize, usize)> {
    let events: Vec<String> =
        sandbox.files(results).into_iter().filter(|file| file.ends_with("events.jsonl")).collect();
    assert_eq!(events.len(), 1, "{:?}", sandbox.files(results));
    let text = std::fs::read_to_string(sandbox.path(results).join(&events[0])).unwrap();
    let said = text.lines().filter_map(|line| line.split_once("this one with ")?.1.split_once(" rows"));
    let both = said.map(|(numbers, _)| numbers.split_once(" of ").unwrap());
    both.map(|(held, all)| (held.parse().unwrap(), all.parse().unwrap())).collect()
}

#[test]
fn ranks_have_the_bits_of_the_plain_program() {
    have_the_same_bits(&[SPARSE, TWO, THREE], &[(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2), (4, 1), (4, 2)]);
}

#[test]
fn ranks_have_the_bits_of_the_plain_program_whatever_is_trained() {
    have_the_same_bits(&[LENGTHS, RECOMPUTED, CONVOLUTION, BY_POINTS], &[(2, 1), (4, 2)]);
}

fn have_the_same_bits(models: &[(&str, &str)], jobs: &[(usize, usize)]) {
    let Some(program) = program() else { return };
    let sandbox = sandbox(models);
    sandbox.run("run many.yaml --quiet --results plain").succeeded();
    let plain = left_by(&sandbox, "plain");
    for (ranks, threads) in jobs {
        let results = format!("ranks{ranks}x{threads}");
        let arguments = format!("run many.yaml --quiet --threads {threads} --results {results}");
        let ran = run(&sandbox, &program, *ranks, &arguments).succeeded();
        assert!(!ran.stderr.contains("rank"), "{}", ran.stderr);
        assert!(left_by(&sandbox, &results) == plain, "{ranks} ranks, {threads} threads");
        let held = rows_held(&sandbox, &results);
        assert_eq!(held.len(), if *ranks == 1 { 0 } else { 2 * models.len() }, "{held:?}");
        // Three leaves of two tiles; what is held ends with a block of three tiles.
        for (held, all) in held {
            assert!(all == 2650 && held <= 1536, "{ranks} ranks: {held}");
        }
    }
}

/// Columns that have to be looked at as a whole, and what needs all rows: every process holds them, with the same bits.
#[test]
fn ranks_that_hold_all_rows_have_the_same_bits() {
    let Some(program) = program() else { return };
    let parts = "method: sparse_gp, local: false, calibrate: out_of_fold, inducing: { count: 12, candidates: 30 }";
    let sandbox = sandbox(&[("parts", parts)]);
    sandbox.run("run many.yaml --quiet --results plain").succeeded();
    run(&sandbox, &program, 2, "run many.yaml --quiet --threads 1 --results two").succeeded();
    assert!(left_by(&sandbox, "two") == left_by(&sandbox, "plain"));
    assert!(rows_held(&sandbox, "two").is_empty());
}

#[test]
fn what_cannot_be_spread_is_refused() {
    let Some(program) = program() else { return };
    for (options, instead) in [
        ("method: gp", "`method: gp` cannot be spread over several processes: use `method: sparse_gp`"),
        ("method: deep_gp", "use `method: stride`"),
        ("method: stride, deep: { hidden: { method: full } }", "`hidden: full` cannot be spread"),
        ("method: sparse_gp, inducing: { candidates: all }", "`candidates: all` cannot be spread"),
    ] {
        let sandbox = sandbox(&[("model", options)]);
        let ran = run(&sandbox, &program, 2, "run many.yaml --quiet");
        assert_eq!(ran.code, 78, "{}", ran.stderr);
        assert!(ran.stderr.contains(instead), "{}", ran.stderr);
        assert_eq!(ran.stderr.matches("stride-pipe: model").count(), 1, "one rank says it: {}", ran.stderr);
    }
    // Other methods are left to rank 0.
    let sandbox = sandbox(&[("model", "method: ridge")]);
    run(&sandbox, &program, 2, "run many.yaml --quiet").succeeded();
}

/// The processes that another one has started.
fn children(of: u32) -> Vec<u32> {
    let stat = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let parent = |text: &str| text.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse::<u32>().ok());
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| parent(&stat(*pid)) == Some(of)).collect()
}

fn ended(mut job: Child) {
    let begun = Instant::now();
    while job.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60), "a job without one of its ranks goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_run_goes_on_after_a_rank_was_killed_with_another_number_of_ranks() {
    let Some(program) = program() else { return };
    let sandbox = sandbox(&[TWO]);
    sandbox.run("run many.yaml --quiet --results plain").succeeded();
    let plain = left_by(&sandbox, "plain");
    let moments = [200, 700, 1300, 2000];
    for (moment, (before, after)) in moments.into_iter().zip([(3, 2), (2, 4), (4, 1), (2, 3)]) {
        let results = format!("killed{moment}");
        let arguments = format!("run many.yaml --quiet --threads 1 --results {results}");
        let mut command = on(&sandbox, &program, before, &arguments);
        let job = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(moment));
        let ranks = children(job.id());
        if let Some(rank) = ranks.get(moment as usize % ranks.len().max(1)) {
            let _ = Command::new("kill").args(["-9", &rank.to_string()]).status();
        }
        ended(job);
        // What was interrupted before it was a run, or after it had ended, is not resumed.
        let ran = run(&sandbox, &program, after, &format!("{arguments} --resume"));
        if ran.stderr.contains("nothing to do") && sandbox.files(&format!("{results}/predictions")).is_empty() {
            run(&sandbox, &program, after, &arguments).succeeded();
        } else {
            assert_eq!(ran.code, 0, "{}", ran.stderr);
        }
        assert!(left_by(&sandbox, &results) == plain, "killed after {moment} ms");
    }
}
