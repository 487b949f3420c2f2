//! The pipeline files in `pipelines/`, and abuse of `--set`.

use super::{each, pipeline, refuses};
use crate::sandbox::Sandbox;
use std::path::{Path, PathBuf};

#[test]
fn every_bad_pipeline_has_its_message() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/bad/pipelines");
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 70, "{}", files.len());
    let named = files.iter().map(|file| (file.file_stem().unwrap().to_str().unwrap(), file));
    each(named.map(|(name, file)| (name, (name, file))), |(name, file)| {
        let text = std::fs::read_to_string(file).unwrap();
        let (code, what) = text.lines().next().unwrap().strip_prefix("# ").unwrap().split_once(": ").unwrap();
        let sandbox = Sandbox::new();
        sandbox.write("bad.yaml", &text);
        let snapshot = format!("pipeline_{name}");
        refuses(&sandbox, &snapshot, what, code.parse().unwrap(), &["run", "bad.yaml", "--quiet"], false);
    });
}

/// Name, exit code, what is wrong, the arguments.
const SETS: [(&str, i32, &str, &[&str]); 14] = [
    ("without_value", 78, "no equals sign", &["--set", "seed"]),
    ("without_name", 78, "no name, or names that are empty", &["--set", "=1", "--set", "..=1", "--set", "="]),
    ("of_a_whole_stage", 78, "a stage, not one of its options", &["--set", "stages.model=1"]),
    ("of_a_whole_kind", 78, "a kind, not one of its options", &["--set", "stages.model.train=1"]),
    ("inside_a_number", 78, "an option inside a number", &["--set", "stages.folds.split.kfold.folds.x=1"]),
    ("of_the_name", 78, "something that cannot be set", &["--set", "name=other", "--set", "version=2"]),
    ("of_a_parameter_that_is_not_there", 78, "an unknown parameter", &["--set", "params.m.n=1", "--set", "k=1"]),
    ("seed_text", 78, "a seed that is no number", &["--set", "seed=many"]),
    ("seed_huge", 78, "a seed that is too large", &["--set", "seed=99999999999999999999"]),
    ("not_yaml", 78, "a value that is no YAML", &["--set", "seed=[1", "--set", "seed={"]),
    ("two_documents", 78, "a value that is two documents", &["--set", "seed=1\n---\n2"]),
    ("escape", 78, "escape sequences in name and value", &["--set", "\u{1b}[2Jx=\u{1b}[31m"]),
    ("empty_path", 78, "an empty path", &["--set", "stages.rows.ingest.path="]),
    (
        "secret",
        78,
        "a value from the environment where it does not fit",
        &[
            "--set",
            "seed=${env.STRIDE_TEST_SECRET}",
            "--set",
            "stages.folds.split.kfold.folds=${env.STRIDE_TEST_SECRET}",
        ],
    ),
];

#[test]
fn every_bad_set_has_its_message() {
    each(SETS.iter().map(|case| (case.0, case)), |(name, code, what, sets)| {
        let sandbox = Sandbox::new();
        pipeline(&sandbox, "seed: 7", "seed: 7");
        let arguments = [&["run", "bad.yaml", "--quiet"][..], sets].concat();
        refuses(&sandbox, &format!("set_{name}"), what, *code, &arguments, false);
    });
}

#[test]
fn bad_arguments_have_their_message() {
    const CASES: [(&str, i32, &[&str]); 5] = [
        ("no_file", 2, &["run"]),
        ("missing_file", 66, &["run", "nothing.yaml"]),
        ("a_directory", 66, &["run", "."]),
        ("threads_zero", 2, &["run", "small.yaml", "--threads", "0"]),
        ("results_empty", 2, &["run", "small.yaml", "--quiet", "--results", ""]),
    ];
    each(CASES.iter().map(|case| (case.0, case)), |(name, code, arguments)| {
        refuses(&Sandbox::new(), &format!("argument_{name}"), "the command line", *code, arguments, false);
    });
}
