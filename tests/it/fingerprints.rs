//! Results must not change behind the cache's back: what every method and kernel predicts is pinned, together with the
//! version of the stages that made it.
//!
//! When results change on purpose, raise `version` of the stage in `src/stages` and accept the new figures: under an old
//! version, old models would still be taken from people's caches.
//!
//! Fits are short and figures rounded, so that processors, whose last digits differ, agree.

use crate::sandbox::Sandbox;
use arrow::array::{ArrayRef, Float64Array};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use stride_pipe::stages::KINDS;
use stride_pipe::store::{read_predictions, write_columns};

const ROWS: usize = 40;
/// What the first line opens with.
const VERSIONS: &str = "stages: ";

/// A smooth function of two features, the first of which is all that one-feature methods see.
fn rows() -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let x = |row: usize| row as f64 / 6.5 - 3.0;
    let z = |row: usize| ((row * 7) % 11) as f64 / 5.0 - 1.0;
    let y = |row: usize| (1.3 * x(row)).sin() + 0.4 * z(row) + 0.02 * ((row * 5) % 7) as f64;
    ((0..ROWS).map(x).collect(), (0..ROWS).map(z).collect(), (0..ROWS).map(y).collect())
}

/// What is fitted: a name, the features and the options of the train stage.
fn fits() -> Vec<(String, &'static str, String)> {
    let mut fits = Vec::new();
    let short = "em: { iterations: 1, particles: 2, final_transitions: 0, sampler:";
    let points = "local: false, inducing: { count: 8, candidates: 20 }";
    for kernel in ["rbf", "matern12", "matern32", "matern52", "rational_quadratic"] {
        for method in ["gp", "sparse_gp"] {
            fits.push((
                format!("{method} {kernel}"),
                "[a, b]",
                format!("method: {method}, kernel: {kernel}, {points}"),
            ));
        }
        let local = format!("local: {{ neighbours: 6, kernel: {kernel} }}");
        let sampler = format!("{short} {{ hmc: {{ transitions: 1, leapfrog: 2 }} }} }}");
        let sparse = format!("method: sparse_gp, {local}, inducing: {{ count: 8, candidates: 20 }}");
        fits.push((format!("sparse_gp local {kernel}"), "[a, b]", sparse));
        let top = format!("method: stride, top: {{ neighbours: 4, kernel: {kernel} }}, {local}, {sampler}");
        fits.push((format!("stride neighbours {kernel}"), "[a, b]", top));
        for (architecture, features) in [("composition", "[a, b]"), ("convolution", "[a, b]"), ("injective", "[a]")] {
            for (method, hidden) in [("deep_gp", "full"), ("stride", "full"), ("stride", "aca"), ("stride", "sparse")] {
                for sampler in ["hmc: { transitions: 1, leapfrog: 2 }", "pcn: { steps: 2 }"] {
                    let name = format!("{method} {kernel} {architecture} {hidden} {}", &sampler[..3]);
                    let deep =
                        format!("deep: {{ architecture: {architecture}, hidden: {{ method: {hidden}, rank: 6 }} }}");
                    let options =
                        format!("method: {method}, kernel: {kernel}, {points}, {deep}, {short} {{ {sampler} }} }}");
                    fits.push((name, features, options));
                }
            }
        }
    }
    for method in ["mean", "ridge", "knn"] {
        fits.push((method.to_owned(), "[a, b]", format!("method: {method}")));
    }
    fits.push(("knn 3".to_owned(), "[a, b]", "method: knn, knn: { neighbours: 3 }".to_owned()));
    fits
}

/// Three digits; what rounds to nothing is nothing.
fn rounded(value: f64) -> String {
    let text = format!("{value:.2}");
    if text == "-0.00" { "0.00".to_owned() } else { text }
}

/// One line per stage version, then one per fit.
fn fingerprints() -> String {
    let sandbox = Sandbox::new();
    let (a, b, y) = rows();
    let columns = [("a", a), ("b", b), ("y", y)];
    let columns = columns.map(|(name, values)| (name, Arc::new(Float64Array::from(values)) as ArrayRef));
    write_columns(&sandbox.path("rows.parquet"), columns.to_vec()).unwrap();
    let mut text = "version: 1\nname: fingerprint\nseed: 3\nstages:\n".to_owned();
    for features in ["[a, b]", "[a]"] {
        let id = features.len();
        let _ = write!(
            text,
            "  rows{id}: {{ ingest: {{ path: rows.parquet, features: {features}, target: y }} }}\n  \
             folds{id}: {{ split: {{ input: rows{id}, holdout: {{ test_fraction: 0.1 }} }} }}\n"
        );
    }
    let fits = fits();
    for (number, (_, features, options)) in fits.iter().enumerate() {
        let folds = format!("folds{}", features.len());
        let _ = write!(
            text,
            "  model{number}: {{ train: {{ input: {folds}, {options} }} }}\n  \
             test{number}: {{ predict: {{ model: model{number}, input: {folds} }} }}\n"
        );
    }
    sandbox.write("fingerprint.yaml", &text);
    sandbox.run_with_common_loops("run fingerprint.yaml --quiet").succeeded();
    let predictions = read_predictions(&sandbox.table_files("predictions")[0]).unwrap();
    let each = predictions.y_mean.len() / fits.len();
    let std = predictions.y_std.unwrap();
    let versions = KINDS.iter().map(|kind| format!("{} {}", kind.language.name, kind.version));
    let mut shown = format!("{VERSIONS}{}\n", versions.collect::<Vec<_>>().join(", "));
    for (number, (name, ..)) in fits.iter().enumerate() {
        let rows = number * each..(number + 1) * each;
        let pairs = predictions.y_mean[rows.clone()].iter().zip(&std[rows]);
        let pairs: Vec<String> = pairs.map(|(mean, std)| format!("{} ± {}", rounded(*mean), rounded(*std))).collect();
        let _ = writeln!(shown, "{name}: {}", pairs.join(", "));
    }
    shown
}

#[test]
fn results_change_only_with_a_version() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/reference/fingerprints.txt");
    let (found, known) = (fingerprints(), std::fs::read_to_string(&path).unwrap_or_default());
    if found == known {
        return;
    }
    let versions = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let changed: Vec<&str> = found.lines().filter(|line| !known.lines().any(|other| other == *line)).collect();
    let raised = versions(&found) != versions(&known);
    if raised && std::env::var_os("STRIDE_ACCEPT_FINGERPRINTS").is_some() {
        std::fs::write(&path, found).unwrap();
        return;
    }
    let advice = if raised {
        "a version was raised: accept the new figures with STRIDE_ACCEPT_FINGERPRINTS=1"
    } else {
        "results have changed under the same version, and caches would keep old models: raise `version` of the stage"
    };
    panic!("{advice}\n{}", changed.join("\n"));
}
