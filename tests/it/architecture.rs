//! Rules of the source that no compiler checks: who may use whom, lengths of files, names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The modules of the crate that each one may use, beside itself.
const ALLOWED: [(&str, &[&str]); 14] = [
    (
        "cli",
        &["engine", "pipeline", "store", "tables", "stages", "report", "datasets", "import", "eval", "fit", "tune"],
    ),
    ("tune", &["engine", "fit", "pipeline", "stages", "tables"]),
    ("fit", &["engine", "pipeline", "stages", "store", "tables", "import", "features", "eval"]),
    ("engine", &["pipeline", "stages", "store", "tables"]),
    ("pipeline", &[]),
    ("stages", &["pipeline", "gp", "eval", "features", "tables", "store", "report"]),
    ("report", &["tables", "eval"]),
    ("store", &["tables", "eval", "features"]),
    ("import", &["store", "tables"]),
    ("tables", &[]),
    ("gp", &["eval"]),
    ("eval", &[]),
    ("features", &[]),
    ("datasets", &[]),
];

/// The source files below `src/` and this directory, with their text.
fn sources(below: &str) -> Vec<(PathBuf, String)> {
    fn collect(directory: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push((path.clone(), std::fs::read_to_string(path).unwrap()));
            }
        }
    }
    let mut found = Vec::new();
    collect(&source().join(below), &mut found);
    found
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn word(text: &str) -> &str {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap()
}

#[test]
fn modules_use_only_what_they_may() {
    for (module, allowed) in ALLOWED {
        for (path, text) in sources(module) {
            for (position, _) in text.match_indices("crate::") {
                let name = word(&text[position + 7..]);
                let is_module = ALLOWED.iter().any(|(known, _)| *known == name);
                let may = !is_module || name == module || allowed.contains(&name);
                assert!(may, "{module} uses {name} in {}", path.display());
            }
        }
    }
    let modules = std::fs::read_dir(source()).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir()).count();
    assert_eq!(modules, ALLOWED.len(), "every module has its row");
}

#[test]
fn files_open_with_their_purpose_and_stay_short() {
    for (path, text) in sources("") {
        assert!(text.starts_with("//! "), "{} does not say what it is for", path.display());
        assert!(text.lines().count() <= 400, "{} is too long", path.display());
    }
}

#[test]
fn a_type_name_is_used_once() {
    let mut seen: BTreeMap<String, PathBuf> = BTreeMap::new();
    for (path, text) in sources("") {
        for line in text.lines() {
            let declared = line.trim_start_matches("pub(super) ").trim_start_matches("pub(crate) ");
            let declared = declared.trim_start_matches("pub ");
            // What is indented is of a trait, a function or a test.
            let kinds = ["struct ", "enum ", "trait ", "type "];
            let Some(name) = kinds.iter().find_map(|kind| declared.strip_prefix(kind)).map(word) else { continue };
            // Every command has its arguments.
            let before = (name != "Args").then(|| seen.insert(name.to_owned(), path.clone())).flatten();
            assert!(before.is_none(), "{name}: {} and {}", path.display(), before.unwrap().display());
        }
    }
    assert!(seen.len() > 300, "only {} types found", seen.len());
}
