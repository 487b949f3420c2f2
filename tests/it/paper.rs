//! The paper's experiments run to the end, each at a small fraction of its size.

use crate::sandbox::Sandbox;
use std::path::Path;
use stride_pipe::store::read_table;
use stride_pipe::tables::{HiddenRow, MetricRow};

/// Two short EM iterations with two chains.
const SHORT: [&str; 7] = [
    "stages.paper-model.train.em.iterations=2",
    "stages.paper-model.train.em.particles=2",
    "stages.paper-model.train.em.sampler={pcn: {steps: 4}}",
    "stages.ours-model.train.em.iterations=2",
    "stages.ours-model.train.em.particles=2",
    "stages.ours-model.train.em.sampler={hmc: {transitions: 2, leapfrog: 2}}",
    "stages.ours-model.train.em.final_transitions=4",
];

/// One split that trains with a tenth of the rows, where a pipeline has ten folds.
const TENTH: &str = "stages.folds.split={input: rows, holdout: {test_fraction: 0.9}}";

/// The error that a stage has measured in each case.
fn smse(sandbox: &Sandbox, stage: &str) -> Vec<f64> {
    let metrics: Vec<MetricRow> = read_table(&sandbox.table_files("metrics")[0]).unwrap();
    let all = metrics.iter().filter(|row| row.stage == stage && row.metric == "smse" && row.stat == "mean");
    all.filter_map(|row| row.value).collect()
}

/// Runs a pipeline of the paper with these changes; there are `cases` of them, each measured with both settings.
fn runs(file: &str, changes: &[&str], cases: usize) -> Sandbox {
    let sandbox = Sandbox::new();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("pipelines/paper").join(file);
    let path = path.display().to_string();
    let mut words = vec!["run", path.as_str(), "--quiet", "--results", "results"];
    words.extend(SHORT.iter().chain(changes).flat_map(|change| ["--set", change]));
    crate::sandbox::Ran::from(&sandbox.command().args(words).output().unwrap()).succeeded();
    for stage in ["paper", "ours"] {
        let values = smse(&sandbox, stage);
        assert_eq!(values.len(), cases, "{file} {stage}");
        assert!(values.iter().all(|value| (0.0..2.0).contains(value)), "{file} {stage}: {values:?}");
    }
    sandbox
}

/// The one-dimensional function has a third setting, in which the noise has to be found.
fn runs_toy1d(file: &str, changes: [&str; 2], cases: usize) {
    let em = "stages.found-model.train.em={iterations: 1, particles: 2, final_transitions: 4, \
        sampler: {hmc: {transitions: 2, leapfrog: 2}}}";
    let sandbox = runs(file, &[changes[0], changes[1], em], cases);
    let found = smse(&sandbox, "found");
    assert_eq!(found.len(), cases, "{file}");
    assert_ne!(found, smse(&sandbox, "ours"), "{file}");
}

#[test]
fn toy1d_against_inducing_points() {
    runs_toy1d("toy1d/inducing.yaml", ["matrix.m=[5,10]", "matrix.draw=[1,2]"], 12);
}

#[test]
fn toy1d_against_layers() {
    runs_toy1d("toy1d/layers.yaml", ["matrix.layers=[2,4]", "matrix.draw=[3]"], 6);
}

#[test]
fn layers2d_writes_its_hidden_layers() {
    let sandbox = runs("layers2d/layers.yaml", &["m=15", "stages.ours-model.train.em.exchanges=1"], 2);
    let hidden: Vec<HiddenRow> = read_table(&sandbox.table_files("hidden")[0]).unwrap();
    // Each train stage keeps its own model.
    for stage in ["paper-model", "ours-model"] {
        let ending = format!("architecture=composition/{stage}/fold=0/model.safetensors");
        assert!(sandbox.files("results/models").iter().any(|file| file.ends_with(&ending)), "{stage}");
    }
    // 33 × 33 places, two settings, two hidden layers; composition has two outputs, convolution one.
    let count = |case: &str| hidden.iter().filter(|row| row.case == case).count();
    assert_eq!(count("architecture=composition"), 1089 * 2 * 2 * 2);
    assert_eq!(count("architecture=convolution"), 1089 * 2 * 2);
    let corner = hidden.iter().find(|row| row.x1 == 1.0 && row.x2 == Some(1.0)).unwrap();
    assert_eq!((corner.key.as_str(), corner.row), ("1488", 1488));
    assert!(hidden.iter().all(|row| row.mean.is_finite() && row.std >= 0.0 && (1..=2).contains(&row.layer)));
}

#[test]
fn uci_energy() {
    runs("uci/energy.yaml", &["m=8", "chains=2", TENTH], 8);
}

#[test]
fn uci_energy_with_the_standard_deep_process() {
    runs("uci/energy-deep-gp.yaml", &["chains=2", TENTH], 2);
}

#[test]
fn uci_energy_with_three_layers() {
    runs("uci/energy-3-layers.yaml", &["m=8", "chains=2", TENTH], 10);
}

#[test]
fn uci_concrete_and_boston() {
    runs("uci/concrete.yaml", &["m=8", "chains=2", TENTH], 10);
    runs("uci/boston.yaml", &["m=8", "chains=2", TENTH], 10);
}

#[test]
fn fashion() {
    let small = [
        "stages.folds.split={input: features, holdout: {test_fraction: 0.97}}",
        "matrix.m=[5]",
        "stages.paper-model.train.inducing.candidates=50",
        "stages.ours-model.train.inducing.candidates=50",
    ];
    runs("fashion/fashion.yaml", &small, 2);
}
