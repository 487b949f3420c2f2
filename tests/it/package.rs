//! The Python package: `python/tests` with the extension that belongs to this build, in an environment with the libraries
//! whose tables it takes.

use crate::python::{package_programs, succeed};
use crate::sandbox::stride_pipe;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The extension, compiled now if it is older than its sources, with the profile and in the place of the program.
fn extension() -> PathBuf {
    let program = PathBuf::from(stride_pipe().get_program());
    let directory = program.parent().unwrap();
    let profile = match directory.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        name => name,
    };
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--locked", "--package", "stride-pipe-python", "--profile", profile, "--target-dir"]);
    // What cargo tells a test of its package: build scripts that look at it, such as ring's, would run again, and polars and all
    // else above them be compiled anew.
    let told = |name: &str| name == "OUT_DIR" || name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(told)) {
        build.env_remove(name);
    }
    succeed(build.arg(directory.parent().unwrap()).current_dir(repository()));
    directory.join("libstride_pipe_python.so")
}

/// Runs the tests of a file with the package as it would be installed.
fn pytest(arguments: &[&str]) {
    let place = tempfile::tempdir().unwrap();
    let package = place.path().join("stride_pipe");
    std::fs::create_dir(&package).unwrap();
    symlink(extension(), package.join("_core.abi3.so")).unwrap();
    for entry in std::fs::read_dir(repository().join("python/stride_pipe")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            symlink(&path, package.join(path.file_name().unwrap())).unwrap();
        }
    }
    let mut command = Command::new(package_programs().join("python"));
    command.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=3"]).args(arguments);
    command.current_dir(repository().join("python/tests")).env("PYTHONPATH", place.path());
    command.env("STRIDE_PIPE_PROGRAM", stride_pipe().get_program()).env("PYTHONDONTWRITEBYTECODE", "1");
    // Settings and notebooks' files of a user must not matter. A directory of their own: IPython does not look for packages in its.
    let settings = tempfile::tempdir().unwrap();
    command.env("IPYTHONDIR", settings.path()).env("JUPYTER_CONFIG_DIR", settings.path());
    // The notebook's kernel chooses the backend that shows pictures in place, unless this says another.
    command.env_remove("MPLBACKEND");
    let said = succeed(&mut command);
    assert!(said.contains(" passed") && !said.contains("skipped"), "{said}");
}

#[test]
fn scores() {
    pytest(&["test_scores.py"]);
}

#[test]
fn runs() {
    pytest(&["test_runs.py"]);
}

#[test]
fn scikit_learns_own_checks() {
    pytest(&["test_estimator.py", "-k", "own_checks"]);
}

#[test]
fn estimator() {
    pytest(&["test_estimator.py", "-k", "not own_checks"]);
}

#[test]
fn manual() {
    pytest(&["test_docs.py"]);
}

#[test]
fn types() {
    pytest(&["test_types.py"]);
}

#[test]
fn notebook() {
    pytest(&["test_notebook.py"]);
}
