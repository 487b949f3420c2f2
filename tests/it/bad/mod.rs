//! Bad input of every kind: what is said, the exit code, and that nothing is left behind.
//!
//! Every case has its message under `expected/`. `pipelines/` holds pipeline files with one problem each; the first line
//! says the exit code and the problem. To change messages: `INSTA_UPDATE=always`, then read the diff.

mod bytes;
mod data;
mod fuzz;
mod fuzz_models;
mod models;
mod pipelines;
mod places;

use crate::sandbox::{Ran, SMALL, Sandbox};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One bad input: its name, what is wrong with it, the exit code, and how the sandbox is prepared.
struct Case {
    name: &'static str,
    what: &'static str,
    code: i32,
    prepare: fn(&Sandbox),
}

impl Case {
    const fn new(name: &'static str, code: i32, what: &'static str, prepare: fn(&Sandbox)) -> Self {
        Self { name, what, code, prepare }
    }
}

/// Runs `bad.yaml` of every case's sandbox, and reports all cases that fail, not only the first.
fn check_all(cases: &[Case], start: impl Fn() -> Sandbox) {
    each(cases.iter().map(|case| (case.name, case)), |case| {
        let sandbox = start();
        (case.prepare)(&sandbox);
        refuses(&sandbox, case.name, case.what, case.code, &["run", "bad.yaml", "--quiet"], false);
    });
}

/// Runs a check for every item and names the items for which it fails.
fn each<N: std::fmt::Display, T>(items: impl Iterator<Item = (N, T)>, check: impl Fn(T)) {
    let mut failed = Vec::new();
    for (name, item) in items {
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(item))).is_err() {
            failed.push(name.to_string());
        }
    }
    assert!(failed.is_empty(), "failed: {}", failed.join(", "));
}

/// The exit code and the message are as expected, nothing crashed, and no result is left behind.
///
/// `weak`: without the privilege to read and write whatever root wants.
fn refuses(sandbox: &Sandbox, name: &str, what: &str, code: i32, arguments: &[&str], weak: bool) {
    let before = listing(&sandbox.path(""));
    let ran = run(sandbox, arguments, weak);
    assert_eq!(ran.code, code, "{name}: {what}\nstdout:\n{}\nstderr:\n{}", ran.stdout, ran.stderr);
    for word in ["panicked", "bug in stride-pipe", "RUST_BACKTRACE", "memory allocation"] {
        assert!(!ran.stderr.contains(word), "{name}: {}", ran.stderr);
    }
    let acts = |c: char| c.is_control() && c != '\n';
    assert!(!ran.stderr.contains(acts), "{name}: control characters in {:?}", ran.stderr);
    assert!(ran.stderr.len() < 50_000, "{name}: {} bytes of messages", ran.stderr.len());
    if code != 0 {
        let after = listing(&sandbox.path(""));
        let left: Vec<&PathBuf> = after.iter().filter(|(path, _)| !allowed(path)).map(|(path, _)| path).collect();
        let known: Vec<&PathBuf> = before.keys().collect();
        assert_eq!(left, known, "{name}: files before and after");
        assert!(before.iter().all(|(path, contents)| after.get(path) == Some(contents)), "{name}: a file changed");
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("expected");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_description(format!("exit code {code}: {what}"));
    settings.add_filter(r" *\d+\.\d\ds  WARN", "WARN");
    settings.add_filter(r"to go on: \S*/stride-pipe", "to go on: stride-pipe");
    settings.add_filter(r"\d{8}T\d{12}Z-[0-9a-f]{6}", "RUN");
    settings.add_filter(&format!("(/private)?{}", sandbox.path("").display()), "SANDBOX/");
    settings.bind(|| insta::assert_snapshot!(name, ran.stderr));
}

/// What a failed run may leave: its record, finished work that the next run can use, and files that are only locked.
fn allowed(path: &Path) -> bool {
    let text = path.to_string_lossy();
    if text.ends_with(".lock") || text == "results/views.sql" {
        return true;
    }
    [
        "results/run/",
        "results/runs/",
        "results/params/",
        "results/cache/entries/",
        "results/cache/last/",
        "results/models/",
    ]
    .iter()
    .any(|place| text.starts_with(place))
}

/// All files below a directory with their contents; links are not followed, what cannot be read counts as empty.
fn listing(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if kind.is_dir() {
                open.push(path);
            } else {
                let contents = if kind.is_file() { std::fs::read(&path).unwrap_or_default() } else { Vec::new() };
                found.insert(path.strip_prefix(root).unwrap().to_owned(), contents);
            }
        }
    }
    found
}

/// The binary within limits of time and memory, so that a bomb that works fails the test and not the machine.
fn run(sandbox: &Sandbox, arguments: &[&str], weak: bool) -> Ran {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "60", "prlimit", "--as=8589934592"]);
    if weak && is_root() {
        // Root without its power over files: permissions hold for it as for anybody.
        command.args(["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"]);
    }
    let program = sandbox.command();
    command.arg(program.get_program()).args(arguments).current_dir(sandbox.path(""));
    command.env_remove("RUST_BACKTRACE").env_remove("STRIDE_TEST_UNSET").env("STRIDE_TEST_SECRET", "hunter22");
    Ran::from(&command.output().expect("timeout, prlimit and setpriv are part of every Linux system"))
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The small pipeline under the name that all cases use, with one text replaced.
fn pipeline(sandbox: &Sandbox, from: &str, to: &str) {
    assert!(SMALL.contains(from), "{from}");
    sandbox.write("bad.yaml", &SMALL.replace("name: small", "name: bad").replace(from, to));
}
