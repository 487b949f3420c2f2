//! Jobs that die, disks that are full, inputs that vanish.

use super::{GP, content, published, rows};
use crate::locks::SmallDisk;
use crate::sandbox::{Ran, Sandbox};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The same "random" moments every time.
fn moments(count: u64) -> impl Iterator<Item = f64> {
    (1..=count).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64 / (1_u64 << 53) as f64)
}

fn is_unfinished(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "tmp")
}

/// Kills a job at 20 moments; after each the output is the old one or the new one, and running it again gives the new one.
fn killed(sandbox: &Sandbox, arguments: &str, output: &str, clean: &[&str]) {
    let target = sandbox.path(output);
    let start = Instant::now();
    sandbox.run(arguments).succeeded();
    let whole = start.elapsed();
    let new = content(&target);
    let earlier = sandbox.path("rows.parquet");
    let old = content(&earlier);
    let directory = target.parent().unwrap();
    let mut unfinished = 0;
    for moment in moments(20) {
        for place in clean {
            let _ = fs::remove_dir_all(sandbox.path(place));
        }
        fs::copy(&earlier, &target).unwrap();
        let words = arguments.split(' ');
        let mut job = sandbox.command().args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_secs_f64(whole.as_secs_f64() * moment));
        job.kill().unwrap();
        job.wait().unwrap();
        let found = content(&target);
        assert!(found == old || found == new, "killed after {moment} of the time: a file that is neither");
        unfinished += u32::from(found == old);
        sandbox.run(arguments).succeeded();
        assert!(content(&target) == new, "killed after {moment} of the time, then run again");
        let left: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| is_unfinished(name))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
    assert!(unfinished >= 5, "only {unfinished} of 20 were killed before they were done");
}

#[test]
fn a_pipeline_killed_at_any_moment_is_finished_by_the_next_run() {
    let sandbox = published(GP);
    rows(&sandbox.path("inbox/batch.parquet"), 0..60_000);
    sandbox.write("score.yaml", &super::pipelines::score("output: scores/out.parquet"));
    killed(&sandbox, "run score.yaml --quiet", "scores/out.parquet", &["results"]);
}

#[test]
fn a_score_killed_at_any_moment_is_finished_by_the_next_one() {
    let sandbox = published(GP);
    rows(&sandbox.path("inbox/batch.parquet"), 0..60_000);
    let arguments = "score --model models/m --input inbox --output scores/out.parquet --key id --quiet";
    killed(&sandbox, arguments, "scores/out.parquet", &[]);
}

/// In a container every job is process 1: its number says nothing about who left a file behind.
#[test]
fn what_a_job_left_that_died_as_process_1_is_swept_by_the_next_one() {
    let sandbox = published(GP);
    rows(&sandbox.path("inbox/batch.parquet"), 0..300_000);
    sandbox.write("score.yaml", &super::pipelines::score("output: scores/out.parquet"));
    let program = crate::sandbox::stride_pipe().get_program().to_owned();
    let contained = |arguments: &str| {
        let mut command = Command::new("unshare");
        if !rustix::process::getuid().is_root() {
            command.arg("-r");
        }
        command.args(["--pid", "--fork", "--kill-child"]).arg(&program).args(arguments.split(' '));
        command.current_dir(sandbox.path("")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let left = || {
        let of_rows = |name: &String| is_unfinished(name) && name.contains(".parquet.");
        let ours = |name: &String| of_rows(name) || name.starts_with("results/cache/drafts/");
        sandbox.files("").into_iter().filter(ours).collect::<Vec<_>>()
    };
    let score = "score --model models/m --input inbox --output scores/out.parquet --key id --quiet --lock-timeout 30s";
    for arguments in [score, "run score.yaml --quiet --lock-timeout 30s"] {
        // Again, when the job was quicker than we are.
        let writes_rows = || left().iter().any(|name| name.contains(".parquet.1-"));
        let caught = (0..20).any(|_| {
            let mut job = contained(arguments).spawn().unwrap();
            while !writes_rows() && job.try_wait().unwrap().is_none() {}
            job.kill().unwrap();
            job.wait().unwrap();
            writes_rows()
        });
        assert!(caught, "{:?}", left());
        assert!(contained(arguments).status().unwrap().success(), "{arguments}");
        assert_eq!(left(), Vec::<String>::new(), "{arguments}");
    }
}

#[test]
fn a_full_disk_and_a_read_only_one_leave_earlier_scores() {
    let sandbox = published(GP);
    rows(&sandbox.path("few.parquet"), 0..50);
    rows(&sandbox.path("many.parquet"), 0..200_000);
    let disk = SmallDisk::new(&sandbox, "size=1m");
    let score = |input: &str| {
        disk.stride_pipe(&format!(
            "score --model models/m --input {input} --output results/out.parquet --key id --quiet"
        ))
    };
    score("few.parquet").succeeded();
    let sum = "sha256sum results/out.parquet && ls -A results";
    let before = disk.shell(sum);
    let full = score("many.parquet");
    assert_eq!(full.code, 73, "{}", full.stderr);
    assert!(full.stderr.contains("free some space"), "{}", full.stderr);
    assert_eq!(disk.shell(sum), before);
    disk.shell("mount -o remount,ro results");
    let read_only = score("few.parquet");
    assert_eq!(read_only.code, 73, "{}", read_only.stderr);
    assert!(read_only.stderr.contains("read-only"), "{}", read_only.stderr);
    assert_eq!(disk.shell(sum), before);
}

/// The results are elsewhere; only the file of scores has no room.
#[test]
fn a_full_disk_and_a_read_only_one_under_the_output_of_a_pipeline() {
    let sandbox = published(GP);
    rows(&sandbox.path("few.parquet"), 0..50);
    rows(&sandbox.path("many.parquet"), 0..200_000);
    let disk = SmallDisk::new(&sandbox, "size=1m");
    for (name, input) in [("few", "few.parquet"), ("many", "many.parquet")] {
        let text = super::pipelines::score("output: results/out.parquet").replace("inbox", input);
        sandbox.write(&format!("{name}.yaml"), &text.replace("stages:", "results: elsewhere\nstages:"));
    }
    disk.stride_pipe("run few.yaml --quiet").succeeded();
    let sum = "sha256sum results/out.parquet && ls -A results";
    let before = disk.shell(sum);
    let full = disk.stride_pipe("run many.yaml --quiet");
    assert_eq!(full.code, 73, "{}", full.stderr);
    assert!(full.stderr.contains("results/out.parquet: cannot be written"), "{}", full.stderr);
    assert!(full.stderr.contains("free some space") && full.stderr.contains("to go on:"), "{}", full.stderr);
    assert_eq!(disk.shell(sum), before);
    disk.shell("mount -o remount,ro results");
    let read_only = disk.stride_pipe("run many.yaml --quiet");
    assert_eq!(read_only.code, 73, "{}", read_only.stderr);
    assert!(read_only.stderr.contains("results/out.parquet: cannot be written"), "{}", read_only.stderr);
    assert!(read_only.stderr.contains("the file system is read-only"), "{}", read_only.stderr);
    assert_eq!(disk.shell(sum), before);
    // With room again nothing has to be computed a second time.
    disk.shell("mount -o remount,rw,size=64m results");
    let again = disk.stride_pipe("run many.yaml --quiet").succeeded();
    assert!(again.stdout.contains("0 task(s) done, 2 taken from the cache"), "{}", again.stdout);
    assert_ne!(disk.shell(sum), before);
}

#[test]
fn an_input_that_vanishes_is_missing_and_earlier_scores_stay() {
    let sandbox = published(GP);
    rows(&sandbox.path("inbox/a.parquet"), 0..300_000);
    rows(&sandbox.path("inbox/b.parquet"), 300_000..300_010);
    fs::write(sandbox.path("out.parquet"), "earlier").unwrap();
    let arguments = "score --model models/m --input inbox --output out.parquet --key id --quiet";
    let mut command = sandbox.command();
    let mut job = command.args(arguments.split(' ')).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    // The unfinished file appears after all footers were read, and long before the first file is done.
    let unfinished = || sandbox.files("").iter().any(|name| is_unfinished(name));
    while !unfinished() {
        assert!(job.try_wait().unwrap().is_none(), "it was too quick");
    }
    fs::remove_file(sandbox.path("inbox/b.parquet")).unwrap();
    let ran = Ran::from(&job.wait_with_output().unwrap());
    assert_eq!(ran.code, 66, "{}", ran.stderr);
    assert!(ran.stderr.contains("b.parquet: was there when the job began, and is gone"), "{}", ran.stderr);
    assert_eq!(fs::read(sandbox.path("out.parquet")).unwrap(), b"earlier");
    assert!(!unfinished());
}
