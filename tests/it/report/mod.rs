//! The HTML report: the stage, the command, results in any state, and what a browser shows.

mod boss;
mod browser;
mod columns;
mod command;
mod local;
mod many;
pub mod pages;
mod rows;
mod scores;
mod stage;

use crate::sandbox::{SMALL, Sandbox};

/// The small pipeline with two kernels and a report.
pub fn with_report() -> Sandbox {
    let sandbox = Sandbox::new();
    let text = SMALL
        .replace("method: gp", "method: gp, kernel: '${matrix.kernel}'")
        .replace("stages:\n", "matrix: { kernel: [rbf, matern12] }\nstages:\n");
    sandbox.write("small.yaml", &format!("{text}  page:\n    report: {{ input: metrics }}\n"));
    sandbox
}

/// The names of the runs in a sandbox, oldest first.
pub fn runs(sandbox: &Sandbox) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(sandbox.path("results/run"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Makes a run one of an older program, which wrote no hash into its manifest; it does not name the files of these tables.
pub fn without_hashes(sandbox: &Sandbox, run: &str, tables: &[&str]) {
    let path = sandbox.path(format!("results/run/{run}/manifest.json"));
    let mut manifest: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    manifest.as_object_mut().unwrap().remove("sha256");
    let named = |file: &serde_json::Value| {
        let path = file["path"].as_str().unwrap();
        tables.iter().any(|table| path.starts_with(&format!("{table}/")))
    };
    manifest["files"].as_array_mut().unwrap().retain(|file| !named(file));
    std::fs::write(path, serde_json::to_string_pretty(&manifest).unwrap()).unwrap();
}

/// The report of a run, as its stage or command wrote it.
pub fn page(sandbox: &Sandbox, run: &str) -> String {
    std::fs::read_to_string(sandbox.path(format!("results/run/{run}/report.html"))).unwrap()
}
