//! Headless Chromium opens reports: every chart has marks, sorting and hovering work, nothing is fetched, and axe-core finds
//! no serious obstacle.

use super::pages::hostile;
use super::{runs, with_report};
use crate::python::{browser_programs, succeed};
use crate::sandbox::{SMALL, Sandbox};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// What the browser met on a page. `STRIDE_PIPE_SHOTS=DIRECTORY` keeps its pictures.
fn visit(page: &Path) -> Json {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/reference/browser.py");
    let mut command = Command::new(browser_programs().join("python"));
    command.arg(script).arg(page).args(std::env::var_os("STRIDE_PIPE_SHOTS"));
    serde_json::from_str(&succeed(&mut command)).unwrap()
}

/// Opens a page, checks what must hold of every page, and returns the kinds of its charts.
#[track_caller]
fn check(page: &Path) -> BTreeSet<String> {
    check_found(&visit(page))
}

#[track_caller]
fn check_found(found: &Json) -> BTreeSet<String> {
    let none = |key: &&str| assert_eq!(found[*key].as_array().map(Vec::len), Some(0), "{key}: {}", found[*key]);
    ["console", "requests", "violations", "overflow", "overlaps"].iter().for_each(none);
    assert_eq!(found["injected"], false);
    assert_eq!(found["print_overflow"], false);
    let charts = found["charts"].as_array().unwrap();
    assert!(!charts.is_empty());
    for chart in charts {
        assert!(chart["marks"].as_u64().unwrap() > 0, "{chart}");
        assert_eq!((&chart["named"], &chart["wild"]), (&Json::Bool(true), &Json::Bool(false)), "{chart}");
    }
    let sorted = found["sorted"].as_array().unwrap();
    assert!(!sorted.is_empty());
    assert!(sorted.iter().all(|table| table["up"] == true && table["down"] == true), "{sorted:?}");
    let hover = &found["hover"];
    assert!(hover["wanted"].is_string() && hover["shown"] == hover["wanted"] && hover["gone"] == true, "{hover}");
    charts.iter().map(|chart| chart["kind"].as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn has(kinds: &BTreeSet<String>, wanted: &str) {
    for kind in wanted.split(' ') {
        assert!(kinds.contains(kind), "{kind} is not among {kinds:?}");
    }
}

const OF_EVERY_TEST: &str = "predicted-true calibration spread residuals deviations phases graph";

/// Runs a pipeline of the repository with fewer iterations, and opens its report under a name.
fn run_and_check(pipeline: &str, sets: &str) -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sandbox = Sandbox::new();
    let mut command = crate::sandbox::stride_pipe();
    let file = format!("pipelines/{pipeline}.yaml");
    command.args(["run", &file, "--quiet", "--results"]).arg(sandbox.path("results"));
    // From the repository: inputs are found where the report looks for them again.
    succeed(command.current_dir(root).args(sets.split_whitespace().flat_map(|set| ["--set", set])));
    let page = sandbox.path(format!("{pipeline}.html"));
    std::fs::copy(sandbox.path(format!("results/run/{}/report.html", runs(&sandbox)[0])), &page).unwrap();
    check(&page)
}

/// Whoever prints a page, or looks at it on a small screen, does not know that there is more to the right.
#[test]
fn tables_of_methods_and_baselines_are_not_cut_off() {
    let sandbox = Sandbox::new();
    let text = SMALL.replace("method: gp", "method: '${matrix.method}', inducing: { count: 20 }");
    let text = text.replace("stages:\n", "matrix: { method: [sparse_gp, gp, knn, ridge, mean] }\nstages:\n");
    sandbox.write("many.yaml", &format!("{text}  page:\n    report: {{ input: metrics }}\n"));
    sandbox.run("run many.yaml --quiet").succeeded();
    let page = sandbox.path("baselines.html");
    std::fs::copy(sandbox.path(format!("results/run/{}/report.html", runs(&sandbox)[0])), &page).unwrap();
    let found = visit(&page);
    check_found(&found);
    assert_eq!(found["cut"], serde_json::json!([]));
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains(">nearest neighbours<") && !html.contains("neighbour…"));
    assert!(html.contains(">NLPD<") && !html.contains(">MNLL<"), "it misranks");
}

#[test]
fn the_report_of_toy1d() {
    let sets = "matrix.draw=[1,2] stages.model.train.em.iterations=2 stages.model.train.em.particles=3 \
        stages.model.train.em.sampler.pcn.steps=100";
    let kinds = run_and_check("toy1d", sets);
    has(&kinds, OF_EVERY_TEST);
    has(&kinds, "metric time fit chains");
}

#[test]
fn the_report_of_fashion() {
    let sets = "m=8 rank=8 particles=2 iterations=1 final=2 stages.model.train.inducing.candidates=50 \
        stages.model.train.em.sampler.hmc.transitions=2 stages.model.train.em.sampler.hmc.leapfrog=2";
    let kinds = run_and_check("fashion", sets);
    has(&kinds, OF_EVERY_TEST);
    has(&kinds, "chains");
}

/// The UCI sets with a variable to sweep over.
#[test]
fn the_report_of_a_uci_sweep() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sandbox = Sandbox::new();
    let text = std::fs::read_to_string(root.join("pipelines/uci.yaml")).unwrap();
    let text =
        text.replace("method: [gp, sparse_gp, stride]", "method: [sparse_gp, stride]\n  m: [5, 10, 20]").replace(
            "inducing: { count: \"${params.m}\" },\n           em: { draws: \"${params.draws}\" }",
            "inducing: { count: '${matrix.m}', candidates: 50 }, \
         deep: { hidden: { method: aca, rank: 8 } }, \
         em: { iterations: 2, particles: 2, final_transitions: 4, sampler: { hmc: { transitions: 3, leapfrog: 3 } } }",
        );
    let text = text.replace("folds: 10", "folds: 2").replace("../data", &root.join("data").to_string_lossy());
    assert!(text.contains("matrix.m") && text.contains("folds: 2"));
    sandbox.write("uci.yaml", &text);
    sandbox.run("run uci.yaml --quiet --results results").succeeded();
    let page = sandbox.path("uci.html");
    std::fs::copy(sandbox.path(format!("results/run/{}/report.html", runs(&sandbox)[0])), &page).unwrap();
    let kinds = check(&page);
    has(&kinds, OF_EVERY_TEST);
    has(&kinds, "metric time chains");
}

#[test]
fn the_report_of_explanations() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sandbox = Sandbox::new();
    let text = format!(
        "version: 1\nname: why\nseed: 1\nstages:\n  rows:\n    ingest: {{ path: {}/data/uci/energy.parquet, key: row_id, features: \
         ['relative_*', '*_area', overall_height, orientation, 'glazing_*'], exclude: [], target: heating_load }}\n  parts:\n    \
         split: {{ input: rows, holdout: {{ test_fraction: 0.2 }} }}\n  model:\n    train: {{ input: parts, method: sparse_gp }}\n  \
         predictions:\n    predict: {{ model: model, input: parts }}\n  metrics:\n    evaluate: {{ input: predictions }}\n  why:\n    \
         explain: {{ model: model, input: parts }}\n  report:\n    report: {{ input: metrics }}\n",
        root.display()
    );
    sandbox.write("why.yaml", &text);
    sandbox.run("run why.yaml --quiet").succeeded();
    let page = sandbox.path("why.html");
    std::fs::copy(sandbox.path(format!("results/run/{}/report.html", runs(&sandbox)[0])), &page).unwrap();
    let kinds = check(&page);
    has(&kinds, OF_EVERY_TEST);
    has(&kinds, "features partial");
}

#[test]
fn the_report_of_many_runs() {
    let sandbox = with_report();
    for seed in 1..=3 {
        sandbox.run(&format!("run small.yaml --quiet --set seed={seed}")).succeeded();
    }
    assert_ne!(sandbox.run("run small.yaml --quiet --set stages.folds.split.kfold.folds=61").code, 0);
    sandbox.run("report -o runs.html").succeeded();
    has(&check(&sandbox.path("runs.html")), "history metric predicted-true");
}

/// Scoring runs of three days, the last with rows that training has not seen.
#[test]
fn the_report_of_scoring_runs() {
    let sandbox = Sandbox::new();
    let train = "version: 1\nname: teach\nstages:\n  rows:\n    ingest: { path: rows.parquet, key: id, features: [a, b], target: y }\n  \
        all:\n    split: { input: rows, all: {} }\n  model:\n    train: { input: all, method: gp, publish: models/m }\n";
    sandbox.write("teach.yaml", train);
    sandbox.run("run teach.yaml --quiet").succeeded();
    let score = "version: 1\nname: score\nparams: { file: rows.parquet }\nstages:\n  batch:\n    \
        ingest: { path: '${params.file}', key: id, features: [a, b] }\n  scores:\n    predict: { model: ./models/m, input: batch }\n";
    sandbox.write("score.yaml", score);
    sandbox.run("run score.yaml --quiet").succeeded();
    sandbox.run("run score.yaml --quiet --force").succeeded();
    crate::report::pages::shifted(&sandbox, "far.parquet");
    sandbox.run("run score.yaml --quiet --set file=far.parquet").succeeded();
    sandbox.run("report last -o score.html").succeeded();
    has(&check(&sandbox.path("score.html")), "drift means spread phases graph");
    sandbox.run("report -o scoring-runs.html").succeeded();
    has(&check(&sandbox.path("scoring-runs.html")), "drift");
}

#[test]
fn markup_in_names_does_nothing() {
    let sandbox = hostile();
    sandbox.run("run hostile<u>.yaml --quiet").succeeded();
    let page = sandbox.path(format!("results/run/{}/report.html", runs(&sandbox)[0]));
    has(&check(&page), "fit metric");
}
