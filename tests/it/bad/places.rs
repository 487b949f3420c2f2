//! Paths that lead nowhere, in circles, to devices, or to where one may not go.

use super::{Case, SCORE, TRAIN, check_all, each, pipeline, refuses};
use crate::sandbox::Sandbox;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};

fn input(sandbox: &Sandbox, path: &str) {
    pipeline(sandbox, "rows.parquet", path);
}

fn pipe(sandbox: &Sandbox, name: &str) {
    let path = sandbox.path(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
}

const INPUTS: [Case; 16] = [
    Case::new("path_missing", 66, "no such file", |s| input(s, "gone/deeper/rows.parquet")),
    Case::new("path_through_a_file", 66, "a path through a file", |s| input(s, "rows.parquet/more.parquet")),
    Case::new("path_too_long", 66, "a path of 9,000 characters", |s| input(s, &"long/".repeat(1800))),
    Case::new("path_name_too_long", 66, "a file name of 300 characters", |s| input(s, &"x".repeat(300))),
    Case::new("path_with_nul", 66, "a path with a NUL", |s| input(s, r#""rows\0.parquet""#)),
    Case::new("path_with_escape", 66, "a path that would rename the terminal", |s| input(s, r#""\e]0;title\a""#)),
    Case::new("path_empty_directory", 66, "a directory without files", |s| {
        fs::create_dir(s.path("empty")).unwrap();
        input(s, "empty");
    }),
    Case::new("path_hidden_files", 66, "a directory with hidden files only", |s| {
        fs::create_dir(s.path("hidden")).unwrap();
        fs::copy(s.path("rows.parquet"), s.path("hidden/.rows.parquet")).unwrap();
        fs::copy(s.path("rows.parquet"), s.path("hidden/_rows.parquet")).unwrap();
        input(s, "hidden");
    }),
    Case::new("path_pattern_without_match", 66, "a pattern that nothing matches", |s| {
        input(s, "'*/nothing-*.parquet'");
    }),
    Case::new("path_broken_pattern", 65, "a pattern with an open bracket", |s| input(s, "'rows[.parquet'")),
    Case::new("path_link_to_itself", 66, "links in a circle", |s| {
        symlink("b.parquet", s.path("a.parquet")).unwrap();
        symlink("a.parquet", s.path("b.parquet")).unwrap();
        input(s, "a.parquet");
    }),
    Case::new("path_dangling_link", 66, "a directory with a link to nothing", |s| {
        fs::create_dir(s.path("dangling")).unwrap();
        symlink("nothing", s.path("dangling/rows.parquet")).unwrap();
        input(s, "dangling");
    }),
    Case::new("path_null_device", 65, "a device that is empty", |s| input(s, "/dev/null")),
    Case::new("path_zero_device", 65, "a device that never ends", |s| input(s, "/dev/zero")),
    Case::new("path_pipe", 65, "a pipe that nobody writes to", |s| {
        pipe(s, "pipe.parquet");
        input(s, "pipe.parquet");
    }),
    Case::new("path_pipe_in_a_directory", 65, "a directory with a pipe", |s| {
        pipe(s, "pipes/pipe.parquet");
        input(s, "pipes");
    }),
];

#[test]
fn every_bad_input_path_has_its_message() {
    check_all(&INPUTS, Sandbox::new);
}

/// Links in a circle are no problem where every file can still be reached once.
#[test]
fn a_directory_that_links_to_itself_is_read_once() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("loop")).unwrap();
    fs::copy(sandbox.path("rows.parquet"), sandbox.path("loop/rows.parquet")).unwrap();
    symlink(".", sandbox.path("loop/again")).unwrap();
    input(&sandbox, "loop");
    sandbox.run("run bad.yaml --quiet").succeeded();
}

fn lock(sandbox: &Sandbox, name: &str, mode: u32) {
    fs::set_permissions(sandbox.path(name), Permissions::from_mode(mode)).unwrap();
}

const FORBIDDEN: [Case; 7] = [
    Case::new("forbidden_pipeline", 66, "a pipeline file that may not be read", |s| {
        input(s, "rows.parquet");
        lock(s, "bad.yaml", 0);
    }),
    Case::new("forbidden_input", 66, "an input that may not be read", |s| {
        input(s, "rows.parquet");
        lock(s, "rows.parquet", 0);
    }),
    Case::new("forbidden_directory", 66, "an input directory that may not be listed", |s| {
        fs::create_dir(s.path("closed")).unwrap();
        lock(s, "closed", 0);
        input(s, "closed");
    }),
    Case::new("forbidden_results", 73, "a results directory that may not be written", |s| {
        fs::create_dir(s.path("results")).unwrap();
        lock(s, "results", 0o555);
        input(s, "rows.parquet");
    }),
    Case::new("forbidden_parent_of_results", 73, "a place where no results directory may be made", |s| {
        fs::create_dir(s.path("closed")).unwrap();
        lock(s, "closed", 0o555);
        pipeline(s, "seed: 7", "results: closed/results");
    }),
    Case::new("forbidden_publish", 73, "a place where no model may be published", |s| {
        fs::create_dir(s.path("closed")).unwrap();
        lock(s, "closed", 0o555);
        s.write("bad.yaml", &TRAIN.replace("publish: model", "publish: closed"));
    }),
    Case::new("forbidden_model", 66, "a model that may not be read", |s| {
        fs::create_dir(s.path("closed")).unwrap();
        s.write("closed/model.safetensors", "");
        lock(s, "closed/model.safetensors", 0);
        s.write("bad.yaml", &SCORE.replace("./model", "./closed"));
    }),
];

/// Permissions hold here even when the tests run as root.
#[test]
fn every_forbidden_place_has_its_message() {
    each(FORBIDDEN.iter().map(|case| (case.name, case)), |case| {
        let sandbox = Sandbox::new();
        (case.prepare)(&sandbox);
        refuses(&sandbox, case.name, case.what, case.code, &["run", "bad.yaml", "--quiet"], true);
    });
}

const OUTPUTS: [Case; 5] = [
    Case::new("results_file", 73, "a file where the results directory should be", |s| {
        s.write("results", "a file");
        input(s, "rows.parquet");
    }),
    Case::new("results_through_a_file", 73, "results below a file", |s| {
        pipeline(s, "seed: 7", "results: rows.parquet/results");
    }),
    Case::new("results_link_to_itself", 73, "results behind links in a circle", |s| {
        symlink("results", s.path("results")).unwrap();
        input(s, "rows.parquet");
    }),
    Case::new("results_name_too_long", 73, "a results directory of 300 characters", |s| {
        pipeline(s, "seed: 7", &format!("results: {}", "r".repeat(300)));
    }),
    Case::new("publish_over_a_directory", 73, "a directory where the model file should be", |s| {
        fs::create_dir_all(s.path("closed/model.safetensors")).unwrap();
        s.write("bad.yaml", &TRAIN.replace("publish: model", "publish: closed"));
    }),
];

#[test]
fn every_bad_output_has_its_message() {
    check_all(&OUTPUTS, Sandbox::new);
}
