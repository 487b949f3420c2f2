//! Python environments with the packages of `reference/requirements*.txt`, made once and kept outside the checkout.

use sha2::{Digest as _, Sha256};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The environment's directory of programs. It must be there: whoever cannot make it has not tested the readers.
pub fn programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| make("requirements.txt"))
}

/// The same of an environment with `PySpark`, which is large.
pub fn spark_programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| make("requirements-spark.txt"))
}

/// The same of an environment with scikit-learn.
pub fn sklearn_programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| make("requirements-sklearn.txt"))
}

/// The same of an environment with the rules of accessibility that pages are checked against.
pub fn browser_programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| make("requirements-browser.txt"))
}

/// The same of an environment with servers of object storage, and clients of them.
pub fn storage_programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| make("requirements-storage.txt"))
}

/// The same of an environment with what the Python package of `python/` is used with.
pub fn package_programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| make("requirements-package.txt"))
}

/// A directory of the cache that is filled once.
pub fn install(name: &str, fill: impl FnOnce(&Path)) -> PathBuf {
    let directory = cache().join(name);
    fs::create_dir_all(cache()).unwrap();
    let lock = File::create(cache().join(format!("{name}.lock"))).unwrap();
    // Tests are processes of their own: one of them makes it, the others wait.
    lock.lock().unwrap();
    // Written last: an environment without it was left half-made.
    let ready = directory.join("ready");
    if !ready.exists() {
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        fill(&directory);
        File::create(&ready).unwrap();
    }
    directory
}

fn make(requirements: &str) -> PathBuf {
    let requirements = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/reference").join(requirements);
    let made = install(&format!("test-venv-{}", identity(&requirements)), |directory| {
        succeed(Command::new("python3").args(["-m", "venv"]).arg(directory));
        // PySpark is plain Python and Java, but only to be had as a source package.
        let binary = ["--only-binary=:all:", "--no-binary=pyspark"];
        let pip = ["-m", "pip", "--disable-pip-version-check", "install", "--quiet"];
        let mut install = Command::new(directory.join("bin/python"));
        install.args(pip).args(binary).arg("--requirement").arg(&requirements);
        if requirements.ends_with("requirements-browser.txt") {
            // Only a file of the package is used, not the browsers that it would bring.
            install.arg("--no-deps");
        }
        succeed(&mut install);
    });
    made.join("bin")
}

fn cache() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").expect("HOME or XDG_CACHE_HOME is set")).join(".cache");
    let set = std::env::var_os("XDG_CACHE_HOME").filter(|directory| !directory.is_empty());
    set.map_or_else(home, PathBuf::from).join("stride-pipe")
}

/// Of the requirements and of the Python they are installed for.
fn identity(requirements: &Path) -> String {
    let which = "import sys; print(sys.version, sys.base_prefix)";
    let python = succeed(Command::new("python3").args(["-c", which]));
    let digest = Sha256::new().chain_update(fs::read(requirements).unwrap()).chain_update(python).finalize();
    let start = digest.iter().take(6).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    format!("{start:012x}")
}

/// What a command prints; it must succeed.
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; `make setup` installs it"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}:\n{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}
