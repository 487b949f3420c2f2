//! The JSON Schema: what is committed is what the types say, and a standard validator accepts our pipelines by it.

use crate::sandbox::{SMALL, stride_pipe};
use std::path::{Path, PathBuf};
use stride_pipe::pipeline::{Diagnostics, tree};
use stride_pipe::stages::LANGUAGE;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn validator() -> jsonschema::Validator {
    jsonschema::validator_for(&LANGUAGE.schema()).unwrap()
}

fn json(text: &str) -> serde_json::Value {
    let mut problems = Diagnostics::default();
    tree::parse(text, &mut problems).filter(|_| problems.is_empty()).unwrap().to_json()
}

/// All pipelines of the repository.
pub fn pipelines() -> Vec<PathBuf> {
    fn collect(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "yaml") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    collect(&repository("pipelines"), &mut found);
    found.sort();
    assert!(found.len() >= 3);
    found
}

#[test]
fn committed_schema_is_current() {
    let printed = stride_pipe().arg("schema").output().unwrap();
    let committed = std::fs::read_to_string(repository("pipelines/schema/pipeline.schema.json")).unwrap();
    let same = String::from_utf8(printed.stdout).unwrap() == committed;
    assert!(same, "run: stride-pipe schema > pipelines/schema/pipeline.schema.json");
}

#[test]
fn every_pipeline_is_accepted() {
    for path in pipelines() {
        let document = json(&std::fs::read_to_string(&path).unwrap());
        let errors: Vec<String> = validator().iter_errors(&document).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", path.display());
        let output = stride_pipe().arg("validate").arg(&path).output().unwrap();
        assert!(output.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
    }
}

/// The validator finds what we find, so the schema is not merely permissive.
#[test]
fn mistakes_are_refused() {
    assert!(validator().is_valid(&json(SMALL)));
    for (from, to) in [
        ("folds: 5", "folds: 1"),
        ("method: gp", "method: gpp"),
        ("target: y", "taget: y"),
        ("version: 1", "version: 2"),
        ("input: folds, method", "method"),
        ("intervals: [0.5, 0.95]", "intervals: [0.5, 1.5]"),
        ("name: small", "name: Small"),
        ("  metrics:", "  Metrics:"),
        ("evaluate: {", "evalute: {"),
    ] {
        assert!(SMALL.contains(from));
        assert!(!validator().is_valid(&json(&SMALL.replace(from, to))), "{to}");
    }
    assert!(validator().is_valid(&json(&SMALL.replace("folds: 5", "folds: '${params.k}'"))));
}
