//! Two runs at once, full disks and read-only places.

use crate::sandbox::{Ran, SMALL, Sandbox};
use std::path::Path;
use std::process::{Command, Stdio};
use stride_pipe::store::lock::{Locking, pipeline_lock, target_lock, try_lock};

fn held(path: &Path) -> stride_pipe::store::lock::Lock {
    match try_lock(path, "somebody else").unwrap() {
        Locking::Held(lock) => lock,
        other => panic!("taken: {other:?}"),
    }
}

#[test]
fn the_same_pipeline_twice_waits_or_ends_with_75() {
    let sandbox = Sandbox::new();
    let lock = held(&pipeline_lock(&sandbox.path("results"), "small"));
    let refused = sandbox.run("run small.yaml");
    assert_eq!(refused.code, 75, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("somebody else") && refused.stderr.contains("--lock-timeout"),
        "{}",
        refused.stderr
    );
    assert!(sandbox.files("results/run").is_empty());
    assert_eq!(sandbox.run("run small.yaml --lock-timeout 1s").code, 75);
    // Another pipeline in the same results directory is not in the way.
    sandbox.write("other.yaml", &SMALL.replace("name: small", "name: other"));
    sandbox.run("run other.yaml --lock-timeout 99999999999999999h").succeeded();

    let child = child_of(sandbox.command().args(["run", "small.yaml", "--lock-timeout", "1m"]));
    std::thread::sleep(std::time::Duration::from_millis(300));
    drop(lock);
    let ran = Ran::from(&child.wait_with_output().unwrap()).succeeded();
    assert!(ran.stderr.contains("waiting for"), "{}", ran.stderr);
}

fn child_of(command: &mut Command) -> std::process::Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn two_real_runs_at_once() {
    let sandbox = Sandbox::new();
    let start = |file: &str| child_of(sandbox.command().args(["run", file, "--lock-timeout", "1m"]));
    sandbox.write("other.yaml", &SMALL.replace("name: small", "name: other"));
    let children = [start("small.yaml"), start("small.yaml"), start("other.yaml")];
    for child in children {
        Ran::from(&child.wait_with_output().unwrap()).succeeded();
    }
    assert_eq!(sandbox.table_files("metrics").len(), 3);
}

#[test]
fn a_published_model_is_locked_too() {
    let sandbox = Sandbox::new();
    let text = SMALL
        .replace("kfold: { folds: 5 }", "holdout: { test_fraction: 0.2 }")
        .replace("method: gp", "method: gp, publish: models/m");
    sandbox.write("publish.yaml", &text);
    let lock = held(&target_lock(&sandbox.path("models/m")));
    assert_eq!(sandbox.run("run publish.yaml").code, 75);
    drop(lock);
    sandbox.run("run publish.yaml").succeeded();
    assert!(sandbox.path("models/m/model.safetensors").is_file());
}

/// A results directory on a small file system of its own, so that it can be full or read-only. It lives in a mount
/// namespace that a sleeping process keeps open: that takes no root where users may make namespaces.
pub struct SmallDisk<'a> {
    sandbox: &'a Sandbox,
    keeper: std::process::Child,
}

impl<'a> SmallDisk<'a> {
    pub fn new(sandbox: &'a Sandbox, options: &str) -> Self {
        let results = sandbox.path("results");
        std::fs::create_dir_all(&results).unwrap();
        let kind = if rustix::process::getuid().is_root() { "-m" } else { "-rm" };
        let script = "mount -t tmpfs -o \"$1\" tmpfs \"$2\" && touch \"$3\" && exec sleep 600";
        let ready = sandbox.path("mounted");
        let mut command = Command::new("unshare");
        command.args([kind, "sh", "-c", script, "sh", options]).arg(&results).arg(&ready);
        let mut keeper = command.stdin(Stdio::null()).spawn().unwrap();
        while !ready.exists() {
            assert!(keeper.try_wait().unwrap().is_none(), "a mount namespace cannot be made here");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Self { sandbox, keeper }
    }

    /// Runs a command in the namespace and in the sandbox's directory.
    fn run(&self, words: &[&str]) -> Ran {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.keeper.id().to_string(), "--mount", "--preserve-credentials"]);
        if !rustix::process::getuid().is_root() {
            command.arg("--user");
        }
        // Entered by name from inside: a directory opened outside would show what lies below the mount.
        command.args(["sh", "-c", "cd \"$0\" && exec \"$@\""]).arg(self.sandbox.path(""));
        Ran::from(&command.args(words).output().unwrap())
    }

    pub fn stride_pipe(&self, arguments: &str) -> Ran {
        let program = crate::sandbox::stride_pipe().get_program().to_string_lossy().into_owned();
        self.run(&[&[program.as_str()][..], &arguments.split_whitespace().collect::<Vec<_>>()].concat())
    }

    pub fn shell(&self, script: &str) -> String {
        self.run(&["sh", "-c", script]).succeeded().stdout
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

#[test]
fn a_full_disk_and_a_read_only_one_end_with_73() {
    let sandbox = Sandbox::new();
    let disk = SmallDisk::new(&sandbox, "size=1m");
    disk.stride_pipe("run small.yaml").succeeded();
    let sums =
        "cd results && find . -type f -not -path './locks/*' -not -path './cache/last/*' | sort | xargs sha256sum";
    let before = disk.shell(sums);

    // All space is taken and a little given back: the run gets going and then has no room.
    disk.shell("dd if=/dev/zero of=results/filler bs=4k count=512 2>/dev/null; truncate -s -32K results/filler");
    let full = disk.stride_pipe("run small.yaml --set seed=8");
    assert_eq!(full.code, 73, "{}", full.stderr);
    assert!(full.stderr.contains("free some space"), "{}", full.stderr);
    disk.shell("rm results/filler");
    let after = disk.shell(sums);
    let lost: Vec<&str> = before.lines().filter(|line| !after.contains(line)).collect();
    assert!(lost.is_empty(), "earlier results changed: {lost:?}");
    let tables = disk.shell("find results/predictions results/metrics -name '*.parquet'");
    assert_eq!(tables.lines().count(), 2, "{tables}");

    disk.shell("mount -o remount,ro results");
    let read_only = disk.stride_pipe("run small.yaml --set seed=9");
    assert_eq!(read_only.code, 73, "{}", read_only.stderr);
    assert!(read_only.stderr.contains("read-only"), "{}", read_only.stderr);
    disk.shell("mount -o remount,rw,size=8m results");
    disk.stride_pipe("run small.yaml --set seed=8 --resume").succeeded();
}

/// A link that somebody planted in the place of a lock must not have its target written to.
#[test]
fn locks_do_not_follow_links() {
    let sandbox = Sandbox::new();
    sandbox.run("run small.yaml --quiet").succeeded();
    for place in ["results/locks/small.lock", "results/cache/in-use.lock"] {
        sandbox.write("precious.txt", "precious");
        std::fs::remove_file(sandbox.path(place)).unwrap();
        std::os::unix::fs::symlink(sandbox.path("precious.txt"), sandbox.path(place)).unwrap();
        let ran = sandbox.run("run small.yaml --quiet");
        assert_eq!(ran.code, 73, "{place}: {}", ran.stderr);
        assert!(ran.stderr.contains("a link stands where the lock file belongs"), "{place}: {}", ran.stderr);
        assert_eq!(std::fs::read_to_string(sandbox.path("precious.txt")).unwrap(), "precious");
        std::fs::remove_file(sandbox.path(place)).unwrap();
    }
}
