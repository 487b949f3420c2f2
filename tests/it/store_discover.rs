//! Which files a path stands for.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use stride_pipe::store::{StoreError, discover};

/// Makes empty files; discovery does not open them.
fn touch(root: &Path, names: &[&str]) {
    for name in names {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
}

fn found(root: &Path, path: &str) -> Vec<String> {
    let strip = |path: &Path| path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
    discover(&root.join(path)).unwrap().iter().map(|file| strip(&file.path)).collect()
}

fn refused(root: &Path, path: &str) -> String {
    let error = discover(&root.join(path)).unwrap_err();
    assert!(matches!(error, StoreError::Missing { .. }), "{error}");
    error.to_string().replace(root.to_str().unwrap(), "ROOT")
}

#[test]
fn directories_are_read_in_order_without_hidden_names() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    touch(root, &["b.parquet", "a/2.parquet", "a/10.PARQUET", "c/d/e.pq", "README.txt", ".hidden.parquet", "_SUCCESS"]);
    touch(root, &["_meta.parquet", "_tmp/x.parquet", ".git/x.parquet", ".out.parquet.12-0.tmp", "_k=1/x.parquet"]);
    assert_eq!(found(root, "."), ["_k=1/x.parquet", "a/10.PARQUET", "a/2.parquet", "b.parquet", "c/d/e.pq"]);
    assert_eq!(found(root, "a"), ["a/10.PARQUET", "a/2.parquet"]);
    assert_eq!(found(root, "README.txt"), ["README.txt"]);
    assert_eq!(found(root, "_meta.parquet"), ["_meta.parquet"]);
}

#[test]
fn directory_names_give_partition_values() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    touch(
        root,
        &[
            "date=2026-11-15/city=S%C3%A3o%20Paulo/x.parquet",
            "date=2026-11-16/city=__HIVE_DEFAULT_PARTITION__/x.parquet",
        ],
    );
    let files = discover(root).unwrap();
    let hive = |index: usize| {
        files[index].hive.iter().map(|(key, value)| (key.as_str(), value.as_deref())).collect::<Vec<_>>()
    };
    assert_eq!(hive(0), [("date", Some("2026-11-15")), ("city", Some("São Paulo"))]);
    assert_eq!(hive(1), [("date", Some("2026-11-16")), ("city", None)]);
    let inner = discover(&root.join("date=2026-11-15/")).unwrap();
    assert_eq!(inner[0].hive.len(), 2);
}

#[test]
fn patterns_match_within_and_across_directories() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    touch(
        root,
        &["a1.parquet", "a2.parquet", "b1.parquet", "x/a3.parquet", "x/y/a4.parquet", "x/y/notes.txt", ".h/a5.parquet"],
    );
    assert_eq!(found(root, "a*.parquet"), ["a1.parquet", "a2.parquet"]);
    assert_eq!(found(root, "?1.parquet"), ["a1.parquet", "b1.parquet"]);
    assert_eq!(found(root, "[ab]1.*"), ["a1.parquet", "b1.parquet"]);
    assert_eq!(found(root, "[!b]1.parquet"), ["a1.parquet"]);
    assert_eq!(found(root, "**/a*.parquet"), ["a1.parquet", "a2.parquet", "x/a3.parquet", "x/y/a4.parquet"]);
    assert_eq!(found(root, "x/**/*.parquet"), ["x/a3.parquet", "x/y/a4.parquet"]);
    assert_eq!(found(root, "x*"), ["x/a3.parquet", "x/y/a4.parquet"]);
    assert_eq!(found(root, "*/y/*.txt"), ["x/y/notes.txt"]);
    assert_eq!(found(root, "*/../a1.parquet"), ["x/../a1.parquet"]);
}

#[test]
fn a_name_that_exists_is_not_a_pattern() {
    let dir = tempfile::tempdir().unwrap();
    touch(dir.path(), &["a[1].parquet", "a1.parquet"]);
    assert_eq!(found(dir.path(), "a[1].parquet"), ["a[1].parquet"]);
}

#[test]
fn links_in_a_circle_end_and_files_count_once() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    touch(root, &["data/k=1/x.parquet", "data/k=2/y.parquet", "elsewhere/z.parquet"]);
    symlink(root.join("data"), root.join("data/k=1/loop")).unwrap();
    symlink(root.join("data/k=2"), root.join("data/aaa")).unwrap();
    symlink(root.join("data/k=1/x.parquet"), root.join("data/also_x.parquet")).unwrap();
    symlink(root.join("elsewhere"), root.join("data/k=3")).unwrap();
    let expected = ["data/k=1/x.parquet", "data/k=2/y.parquet", "data/k=3/z.parquet"];
    assert_eq!(found(root, "data"), expected);
    assert_eq!(found(root, "data/**/*.parquet"), expected);
    symlink(root.join("self"), root.join("self")).unwrap();
    assert!(discover(&root.join("self")).is_err());
}

#[test]
fn nothing_found_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    touch(root, &["empty/.keep", "data/README.txt"]);
    assert_eq!(
        refused(root, "empty"),
        "ROOT/empty: no Parquet file in this directory; put *.parquet files there (a time without rows is a file without rows), or check the path (names that begin with `.` or `_` are left out)"
    );
    assert_eq!(
        refused(root, "data/x*.parquet"),
        "ROOT/data/x*.parquet: no file matches this pattern; check the pattern: `*` stays within one directory, `**` crosses directories"
    );
    assert_eq!(
        refused(root, "data/no/such.parquet"),
        "ROOT/data/no/such.parquet: does not exist; check the path (the nearest directory that exists is ROOT/data)"
    );
    symlink(root.join("gone"), root.join("dangling.parquet")).unwrap();
    assert!(refused(root, "dangling.parquet").contains("does not exist"));
}

#[test]
fn a_broken_pattern_says_so() {
    let error = discover(Path::new("no-such-dir/x[1.parquet")).unwrap_err();
    assert!(matches!(error, StoreError::Invalid { .. }), "{error}");
    assert!(error.to_string().contains("not a valid pattern"), "{error}");
}
