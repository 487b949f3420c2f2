//! Who may use whom, by the `use` lines and paths of the source.

use std::collections::BTreeMap;
use std::path::Path;

/// The modules of the crate that each one may use, beside itself.
const ALLOWED: [(&str, &[&str]); 11] = [
    ("cli", &["engine", "pipeline", "store", "tables", "stages", "report", "datasets", "import", "eval"]),
    ("engine", &["pipeline", "stages", "store", "tables"]),
    ("pipeline", &[]),
    ("stages", &["pipeline", "gp", "eval", "tables", "store", "report"]),
    ("report", &["tables", "eval"]),
    ("store", &["tables", "eval"]),
    ("import", &["store", "tables"]),
    ("tables", &[]),
    ("gp", &["eval"]),
    ("eval", &[]),
    ("datasets", &[]),
];

fn used_by(directory: &Path, found: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            used_by(&path, found);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for (position, _) in text.match_indices("crate::") {
            let name: String = text[position + 7..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            found.insert(name, path.display().to_string());
        }
    }
}

#[test]
fn modules_use_only_what_they_may() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (module, allowed) in ALLOWED {
        let mut found = BTreeMap::new();
        used_by(&source.join(module), &mut found);
        for (name, path) in found {
            let is_module = ALLOWED.iter().any(|(known, _)| *known == name);
            assert!(!is_module || name == module || allowed.contains(&name.as_str()), "{module} uses {name} in {path}");
        }
    }
    let modules = std::fs::read_dir(&source).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir()).count();
    assert_eq!(modules, ALLOWED.len(), "every module has its row");
}

#[test]
fn files_open_with_their_purpose_and_stay_short() {
    fn check(directory: &Path) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                check(&path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(text.starts_with("//! "), "{} does not say what it is for", path.display());
                assert!(text.lines().count() <= 400, "{} is too long", path.display());
            }
        }
    }
    check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
}
