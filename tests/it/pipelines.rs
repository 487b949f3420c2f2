//! The pipelines of the repository are valid, as they stand and as the Makefile runs them.

use crate::sandbox::Sandbox;
use std::path::{Path, PathBuf};

fn pipelines(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pipelines(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            found.push(path);
        }
    }
}

#[test]
fn every_pipeline_is_valid_with_its_data() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    pipelines(&root.join("pipelines"), &mut found);
    assert!(found.len() >= 12, "{found:?}");
    let sandbox = Sandbox::new();
    for path in found {
        sandbox.run(&format!("validate {}", path.display())).succeeded();
    }
    for name in ["toy1d", "uci", "fashion", "quickstart", "fashion-sparse"] {
        let path = root.join("pipelines").join(format!("{name}.yaml"));
        sandbox.run(&format!("validate --data {}", path.display())).succeeded();
    }
}

#[test]
fn the_makefile_sets_what_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let makefile = std::fs::read_to_string(root.join("Makefile")).unwrap();
    let line = makefile.lines().find(|line| line.contains("run pipelines/fashion.yaml --set")).unwrap();
    let set: Vec<&str> = line.split_whitespace().skip_while(|word| *word != "--set").collect();
    let set: Vec<&str> = set.into_iter().take_while(|word| *word == "--set" || word.contains('=')).collect();
    assert!(set.len() >= 2, "{line}");
    let fashion = root.join("pipelines/fashion.yaml");
    Sandbox::new().run(&format!("plan {} {}", fashion.display(), set.join(" "))).succeeded();
}
