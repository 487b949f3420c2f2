//! The paper's experiments run to the end, each at a small fraction of its size.

use crate::sandbox::Sandbox;
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use stride_pipe::engine::plan::{Plan, PlanRequest, build};
use stride_pipe::store::read_table;
use stride_pipe::tables::{HiddenRow, MetricRow};

/// Two short EM iterations; our defaults with two chains.
const SHORT: [&str; 6] = [
    "stages.paper-model.train.em.iterations=2",
    "stages.paper-model.train.em.sampler={pcn: {steps: 4}}",
    "stages.ours-model.train.em.iterations=2",
    "stages.ours-model.train.em.particles=2",
    "stages.ours-model.train.em.sampler={hmc: {transitions: 2, leapfrog: 2}}",
    "stages.ours-model.train.em.final_transitions=4",
];

/// Two chains with the paper's settings, where a pipeline has no parameter for it.
const TWO_CHAINS: &str = "stages.paper-model.train.em.particles=2";

/// One split that trains with a tenth of the rows, where a pipeline has ten folds.
const TENTH: &str = "stages.folds.split={input: rows, holdout: {test_fraction: 0.9}}";

fn pipeline(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("pipelines/paper").join(file)
}

/// The error that a stage has measured in each case.
fn smse(sandbox: &Sandbox, stage: &str) -> Vec<f64> {
    let metrics: Vec<MetricRow> = read_table(&sandbox.table_files("metrics")[0]).unwrap();
    let all = metrics.iter().filter(|row| row.stage == stage && row.metric == "smse" && row.stat == "mean");
    all.filter_map(|row| row.value).collect()
}

/// Runs a pipeline of the paper with these changes; there are `cases` of them, each measured with both settings.
fn runs(file: &str, changes: &[&str], cases: usize) -> Sandbox {
    let sandbox = Sandbox::new();
    let path = pipeline(file).display().to_string();
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

/// The one-dimensional function has a third setting, in which the noise has to be found. It is otherwise ours, so that only
/// this can make a difference to exact and sparse regression, which have no EM iterations to be shortened.
fn runs_toy1d(file: &str, changes: [&str; 2], cases: usize) {
    let em = "stages.found-model.train.em={iterations: 1, particles: 2, final_transitions: 4, \
        sampler: {hmc: {transitions: 2, leapfrog: 2}}}";
    let sandbox = runs(file, &[changes[0], changes[1], em, TWO_CHAINS], cases);
    let (found, ours) = (smse(&sandbox, "found"), smse(&sandbox, "ours"));
    assert_eq!(found.len(), cases, "{file}");
    let shallow = cases * 2 / 3;
    assert!(found.iter().zip(&ours).take(shallow).all(|(found, ours)| found != ours), "{file}: {found:?} {ours:?}");
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
    let sandbox = runs("layers2d/layers.yaml", &["m=15", "chains=2", "stages.ours-model.train.em.exchanges=1"], 2);
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
    runs("uci/energy.yaml", &["m=8", "chains=2", TENTH], 10);
}

#[test]
fn uci_energy_with_the_standard_deep_process_only() {
    runs("uci/energy.yaml", &["matrix.method=[deep_gp]", "chains=3", TENTH], 2);
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
        TWO_CHAINS,
        "stages.paper-model.train.inducing.candidates=50",
        "stages.ours-model.train.inducing.candidates=50",
    ];
    runs("fashion/fashion.yaml", &small, 2);
}

fn plan(file: &str) -> Plan {
    let path = pipeline(file);
    let text = std::fs::read_to_string(&path).unwrap();
    let request = PlanRequest { file: &path, text: &text, sets: &[], results: None, env: &|_: &str| None };
    build(&request).unwrap_or_else(|problems| panic!("{file}: {problems:?}"))
}

/// The train stage of every case, and how often each is trained.
fn trained(plan: &Plan, stage: &str) -> Vec<(String, Json, u32)> {
    let options = |case: &stride_pipe::engine::plan::Case| {
        let stage = case.stage(stage).unwrap();
        let method = stage.stage.key_options()["method"].as_object().unwrap().clone();
        let (name, options) = method.into_iter().next().unwrap();
        (name, options, stage.tasks())
    };
    plan.cases.iter().map(options).collect()
}

/// What the paper says of a deep process: particles, steps, inducing points (none for the standard one), exchanges,
/// candidates (none: all), layers.
type Said = (u64, u64, Option<u64>, Option<u64>, Option<u64>, u64);

/// The settings of all deep cases, which have no more than 10 EM iterations and fixed hyper-parameters.
fn said(plan: &Plan) -> Vec<Said> {
    let deep = trained(plan, "paper-model").into_iter().filter(|(_, options, _)| options["deep"].is_object());
    deep.map(|(_, options, _)| {
        let em = &options["em"];
        assert_eq!((&em["iterations"], &em["hyperparameters"]), (&10.into(), &false.into()), "{options}");
        assert_eq!(options["deep"]["prior_mean"], "zero");
        let chosen = &options["inducing"]["chosen"];
        (
            em["particles"].as_u64().unwrap(),
            em["sampler"]["pcn"]["steps"].as_u64().unwrap(),
            chosen["count"].as_u64(),
            options["exchanges"].as_u64(),
            chosen["candidates"].as_u64(),
            options["deep"]["layers"].as_u64().unwrap(),
        )
    })
    .collect()
}

fn kernel(options: &Json) -> &str {
    let places = ["/kernel", "/gp/kernel", "/start/kernel"];
    places.into_iter().find_map(|place| options.pointer(place)?.as_str()).unwrap()
}

#[test]
fn settings_are_the_papers() {
    let toy = |m, layers| (10, 1000, Some(m), Some(5), None, layers);
    let inducing: Vec<Said> = [10, 20, 30, 40, 50].into_iter().flat_map(|m| [toy(m, 3); 5]).collect();
    assert_eq!(said(&plan("toy1d/inducing.yaml")), inducing);
    let layers: Vec<Said> = [2, 3, 4, 5].into_iter().flat_map(|layers| [toy(20, layers); 5]).collect();
    assert_eq!(said(&plan("toy1d/layers.yaml")), layers);
    for (file, layers) in [("energy", 2), ("energy-3-layers", 3), ("concrete", 2), ("boston", 2)] {
        let plan = plan(&format!("uci/{file}.yaml"));
        let mut expected = vec![(50, 400, None, None, None, layers); 2];
        expected.extend(vec![(50, 400, Some(50), Some(5), Some(500), layers); 6]);
        assert_eq!(said(&plan), expected, "{file}");
        assert!(
            trained(&plan, "paper-model").iter().all(|(_, options, folds)| *folds == 10 && kernel(options) == "rbf"),
            "{file}"
        );
        let methods: Vec<String> = trained(&plan, "ours-model").into_iter().map(|(method, ..)| method).collect();
        assert_eq!(methods[..4], ["gp", "sparse_gp", "deep_gp", "deep_gp"], "{file}");
    }
    let fashion = plan("fashion/fashion.yaml");
    let expected: Vec<Said> = [25, 50, 75, 100, 125].map(|m| (10, 400, Some(m), Some(3), Some(1000), 2)).to_vec();
    assert_eq!(said(&fashion), expected);
    let split = fashion.cases[0].stage("folds").unwrap().stage.key_options();
    assert_eq!(split, json!({ "holdout": { "test_fraction": 0.1, "repeats": 5 } }));
    for file in ["toy1d/inducing.yaml", "toy1d/layers.yaml"] {
        assert!(
            trained(&plan(file), "paper-model").iter().all(|(_, options, _)| kernel(options) == "matern32"),
            "{file}"
        );
    }
}
