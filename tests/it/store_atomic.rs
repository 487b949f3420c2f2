//! Files appear whole or not at all.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use stride_pipe::store::{AtomicFile, StoreError, sweep, write_atomic};

fn names(dir: &std::path::Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_committed_file_is_there_with_its_hash() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/b/out.parquet");
    let written = write_atomic(&path, b"hello").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"hello");
    assert_eq!(written.bytes, 5);
    assert_eq!(written.sha256, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
    assert_eq!(names(path.parent().unwrap()), ["out.parquet"]);
}

#[test]
fn a_dropped_file_leaves_nothing_and_keeps_the_old() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.parquet");
    write_atomic(&path, b"old").unwrap();
    let mut file = AtomicFile::create(&path).unwrap();
    file.write_all(b"new").unwrap();
    let temporary = file.temporary_path().file_name().unwrap().to_str().unwrap().to_owned();
    assert!(temporary.starts_with('.') && !temporary.ends_with(".parquet"), "{temporary}");
    assert!(temporary.contains(&std::process::id().to_string()));
    assert_eq!(names(dir.path()).len(), 2);
    drop(file);
    assert_eq!(names(dir.path()), ["out.parquet"]);
    assert_eq!(fs::read(&path).unwrap(), b"old");
}

#[test]
fn a_commit_replaces_the_old_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    write_atomic(&path, b"old").unwrap();
    write_atomic(&path, b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
}

#[test]
fn two_writers_of_one_file_do_not_meet() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    let (mut one, mut two) = (AtomicFile::create(&path).unwrap(), AtomicFile::create(&path).unwrap());
    assert_ne!(one.temporary_path(), two.temporary_path());
    one.write_all(b"one").unwrap();
    two.write_all(b"two").unwrap();
    one.commit().unwrap();
    two.commit().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"two");
    assert_eq!(names(dir.path()), ["x"]);
}

/// Process 1 lives, and so does this one: whether somebody is still writing is told by the lock.
#[test]
fn what_nobody_writes_any_more_is_swept_and_what_somebody_writes_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    let left = [1, std::process::id()].map(|process| dir.path().join(format!(".x.{process}-0badcafe-0.tmp")));
    for path in &left {
        fs::write(path, "left").unwrap();
    }
    fs::write(dir.path().join(".y.1-0badcafe-0.tmp"), "of another").unwrap();
    let mut alive = AtomicFile::create(&path).unwrap();
    alive.write_all(b"alive").unwrap();
    sweep(&path);
    assert!(left.iter().all(|path| !path.exists()));
    assert_eq!(names(dir.path()).len(), 2, "{:?}", names(dir.path()));
    alive.commit().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"alive");
}

#[test]
fn what_cannot_be_written_says_so() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    fs::create_dir(dir.path().join("dir")).unwrap();
    let error = write_atomic(&dir.path().join("file/out"), b"").unwrap_err();
    assert!(matches!(error, StoreError::Write { .. }) && error.to_string().contains("cannot be written"), "{error}");
    let error = write_atomic(&dir.path().join("dir"), b"").unwrap_err();
    assert!(error.to_string().contains("a directory has this name"), "{error}");
}

#[test]
fn a_closed_directory_says_so() {
    if rustix::process::geteuid().is_root() {
        return; // permissions do not bind this user
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let error = write_atomic(&dir.path().join("out"), b"").unwrap_err();
    assert!(error.to_string().contains("check the permissions"), "{error}");
}

#[test]
fn a_full_disk_says_so() {
    // /dev/full accepts a rename target nowhere, so the message is tested on the error itself.
    let source =
        fs::OpenOptions::new().write(true).open("/dev/full").and_then(|mut full| full.write_all(b"x")).unwrap_err();
    let error = StoreError::Write { path: "out.parquet".into(), source };
    assert!(error.to_string().contains("free some space"), "{error}");
}

#[test]
fn long_names_are_written_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x".repeat(250));
    write_atomic(&path, b"x").unwrap();
    assert!(path.exists());
}
