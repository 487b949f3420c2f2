//! Notes the commit that the program is built from. Outside of a checkout of its own there is none, and that is fine.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(&root).args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        Some(text.trim().to_owned())
    };
    // Sources that were unpacked inside of somebody else's checkout are not of its commit.
    let own = git(&["rev-parse", "--show-toplevel"]).is_some_and(|top| {
        let real = |path: &str| Path::new(path).canonicalize().ok();
        real(&top).is_some() && real(&top) == real(&root)
    });
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).filter(|_| own).unwrap_or_default();
    println!("cargo::rustc-env=STRIDE_PIPE_COMMIT={commit}");
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name]).filter(|_| own).map(|path| Path::new(&root).join(path));
        if let Some(path) = path.filter(|path| path.exists()) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
}
