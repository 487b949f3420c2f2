//! What the deep methods are asked to do: defaults, the preset, options that do not count, checks before anything runs.

use crate::sandbox::{SMALL, Sandbox};
use insta::assert_snapshot;
use serde_json::{Value as Json, json};
use std::path::Path;
use stride_pipe::engine::plan::{PlanRequest, build};
use stride_pipe::stages::LANGUAGE;
use stride_pipe::store::read_predictions;

/// The small pipeline with these options of the train stage.
fn text(train: &str) -> String {
    SMALL.replace("method: gp", train)
}

#[track_caller]
fn step(train: &str) -> Json {
    let text = text(train);
    let request =
        PlanRequest { file: Path::new("p.yaml"), text: &text, sets: &[], results: None, env: &|_: &str| None };
    let plan = build(&request).unwrap_or_else(|problems| panic!("{train}: {problems:?}"));
    plan.cases[0].stage("model").unwrap().stage.key_options()
}

fn options(train: &str) -> Json {
    step(train)["method"].clone()
}

fn options_of_em(train: &str) -> Json {
    options(train)["stride"]["em"].clone()
}

#[test]
fn defaults_and_preset() {
    let pretty = |train: &str| format!("{:#}", options(train));
    assert_snapshot!("stride_defaults", pretty("method: stride"));
    assert_snapshot!("deep_gp_defaults", pretty("method: deep_gp"));
    assert_snapshot!("stride_as_in_the_paper", pretty("method: stride, preset: paper"));
}

#[test]
fn what_is_written_wins_over_the_preset() {
    let em = "em: { particles: 7, hyperparameters: true, sampler: { hmc: { leapfrog: 2 } }, final_transitions: 9 }";
    let stride = &options(&format!("method: stride, preset: paper, deep: {{ prior_mean: identity }}, {em}"))["stride"];
    assert_eq!(stride["em"]["particles"], 7);
    assert_eq!(stride["em"]["hyperparameters"], true);
    assert_eq!(stride["em"]["sampler"], json!({ "hmc": { "transitions": 12, "leapfrog": 2 } }));
    assert_eq!(stride["em"]["final_transitions"], 9);
    assert_eq!(stride["deep"]["prior_mean"], "identity");
    assert_eq!(stride["exchanges"], 5, "what is not written is as in the paper");
    // `--set` replaces the sampler, too.
    let sandbox = Sandbox::new();
    sandbox.write("set.yaml", &text("method: stride, em: { sampler: { hmc: { transitions: 3 } } }"));
    sandbox.run("validate set.yaml --set stages.model.train.em.sampler.pcn.steps=7").succeeded();
}

#[test]
fn inducing_points_that_are_given_are_kept() {
    let stride = &options("method: stride, inducing: { rows: [3, 9] }, em: { exchanges: 4 }")["stride"];
    assert_eq!((&stride["exchanges"], &stride["inducing"]), (&json!(0), &json!({ "given": { "rows": [3, 9] } })));
}

#[test]
fn the_frozen_chain_is_long_enough_for_the_draws() {
    let em = |options: &str| options_of_em(&format!("method: stride, {options}"));
    assert_eq!(em("em: { draws: 1 }"), em("em: { particles: 10 }"));
    assert_eq!(em("em: { draws: 1 }").get("draws"), None, "fits from before this option stay known");
    assert_eq!(em("em: { draws: 2 }")["draws"], 2);
    for (written, length) in [
        ("em: { draws: 20 }", 50),
        ("em: { draws: 70 }", 70),
        ("em: { draws: 70, sampler: { pcn: { steps: 300 } } }", 300),
        ("preset: paper, em: { draws: 1 }", 0),
        ("preset: paper, em: { draws: 4 }", 4),
        ("preset: paper, em: { draws: 4, final_transitions: 9 }", 9),
        ("em: { draws: 70, final_transitions: null }", 70),
    ] {
        assert_eq!(em(written)["final_transitions"], length, "{written}");
    }
}

/// The step is all that the cache key of a model knows of the options.
#[test]
fn options_that_are_not_used_do_not_count() {
    for (with, without) in [
        ("method: deep_gp, inducing: { count: 7 }, em: { exchanges: 9 }", "method: deep_gp"),
        ("method: stride, deep: { u_min: 3, u_max: 2 }", "method: stride"),
        (
            "method: stride, deep: { architecture: convolution, width: 1 }",
            "method: stride, deep: { architecture: convolution }",
        ),
        (
            "method: stride, deep: { architecture: injective, u_min: 0.1, u_max: 9 }",
            "method: stride, deep: { architecture: injective, u_min: 0.1 }",
        ),
        (
            "method: stride, deep: { hidden: { method: full, rank: 7, tolerance: 0.1, repivot: false } }",
            "method: stride, deep: { hidden: { method: full } }",
        ),
        (
            "method: gp, deep: { hidden: { method: sparse }, architecture: convolution, width: 4, u_min: 3, u_max: 2 }",
            "method: gp",
        ),
        ("method: sparse_gp, preset: paper", "method: sparse_gp, local: false, calibrate: none"),
        ("method: gp, local: { neighbours: 7 }", "method: gp"),
        ("method: stride, em: { particles: 10 }, deep: { layers: 2 }", "method: stride"),
    ] {
        assert_eq!(step(with), step(without), "{with}");
    }
    for (one, other) in [
        ("method: stride", "method: stride, deep: { width: 1 }"),
        ("method: stride", "method: stride, em: { exchanges: 4 }"),
        ("method: stride", "method: stride, preset: paper"),
        ("method: stride", "method: stride, local: false"),
        ("method: stride", "method: stride, top: { neighbours: 16 }"),
        ("method: stride", "method: stride, hyperparameters: { optimise: false }"),
        ("method: deep_gp", "method: deep_gp, deep: { hidden: { method: aca } }"),
    ] {
        assert_ne!(step(one), step(other), "{other}");
    }
}

#[test]
fn plan_knows_the_methods_and_their_memory() {
    let sandbox = Sandbox::new();
    let memory = |train: &str| {
        sandbox.write("deep.yaml", &text(train));
        let shown = sandbox.run("plan deep.yaml --format json").succeeded().stdout;
        let plan: Json = serde_json::from_str(&shown).unwrap();
        plan["cases"][0]["stages"][2]["memory_bytes"].as_u64().unwrap()
    };
    let (rows, features, particles) = (60, 2, 10);
    let hidden = 8 * particles * rows * features;
    let copies = 3 * 8 * rows * (features + 2);
    // Pivots are chosen anew: there are two bases then for a while.
    let basis = 8 * rows * 50;
    let inputs = 8 * rows * particles * (2 * features + 1);
    // The program, and sums of products of 50 points, with derivatives, for 32 parts of the rows.
    let program = 48 << 20;
    let sums = program + 8 * 32 * 2 * 50 * 50;
    let global = copies + sums + (2 * basis).max(basis + inputs);
    assert_eq!(memory("method: stride, local: false"), global);
    // For every chain the rows as it sees them, an index that holds them twice, and three numbers of each.
    let layer = |kept: u64, draws: u64| 8 * kept * (features + draws * (3 * features + 3));
    assert_eq!(memory("method: stride"), global + layer(rows, particles));
    assert_eq!(memory("method: stride, local: { rows: 20 }"), global + layer(20, particles));
    assert_eq!(memory("method: sparse_gp"), copies + sums + layer(rows, 1));
    let lists = 4 * rows * (7 + 1) * particles;
    let neighbours = lists + 5 * 8 * rows * features + layer(rows, particles);
    let by_neighbours = copies + sums + 2 * basis + hidden + neighbours;
    assert_eq!(memory("method: stride, top: { neighbours: 7 }"), by_neighbours);
    assert_eq!(memory("method: deep_gp"), copies + program + 4 * 8 * rows * rows + hidden);
    assert_eq!(
        memory("method: deep_gp, deep: { layers: 4, width: 3 }"),
        copies + program + 32 * rows * rows + hidden / 2 * 9
    );
    let kept = 8 * particles * features * 4;
    assert_eq!(memory("method: stride, local: false, em: { draws: 5 }"), global + 50 * kept);
    let all = global + 50 * kept + layer(rows, 5 * particles);
    assert_eq!(memory("method: stride, em: { draws: 5 }"), all);
    assert_eq!(memory("method: deep_gp, em: { draws: 5 }"), memory("method: deep_gp") + rows * kept);
    let shown = sandbox.run("plan deep.yaml").succeeded().stdout;
    assert!(shown.contains("run: train deep_gp × 5 folds"), "{shown}");
}

#[test]
fn the_schema_knows_the_deep_options() {
    let validator = jsonschema::validator_for(&LANGUAGE.schema()).unwrap();
    let valid = |train: &str| {
        let mut problems = stride_pipe::pipeline::Diagnostics::default();
        let document = stride_pipe::pipeline::tree::parse(&text(train), &mut problems).unwrap().to_json();
        validator.is_valid(&document)
    };
    assert!(valid("method: stride, preset: paper, deep: { hidden: { method: aca, rank: 5 } }"));
    assert!(valid("method: deep_gp, em: { sampler: { pcn: { steps: 5 } }, iterations: 0 }"));
    assert!(!valid("method: strides"));
    assert!(!valid("method: stride, preset: book"));
    assert!(!valid("method: stride, deep: { layers: 1 }"));
    assert!(!valid("method: stride, em: { particles: 0 }"));
    assert!(!valid("method: stride, em: { sampler: { hmc: { leapfrog: 0 } } }"));
}

#[test]
fn validate_sees_features_that_the_architecture_cannot_take() {
    let sandbox = Sandbox::new();
    let injective = text("method: stride, deep: { architecture: injective }");
    sandbox.write("deep.yaml", &injective);
    sandbox.run("validate deep.yaml").succeeded();
    let ran = sandbox.run("validate deep.yaml --data");
    assert_eq!(ran.code, 65, "{}", ran.stderr);
    assert!(ran.stdout.contains("1 problem(s), see below"), "{}", ran.stdout);
    assert_snapshot!("injective_features", ran.stderr);
    sandbox.write("deep.yaml", &injective.replace("features: [a, b]", "features: [a]"));
    sandbox.run("validate deep.yaml --data").succeeded();
    // Not every case has to be able to.
    let matrix = "matrix: { architecture: [composition, injective] }\nstages:\n";
    sandbox
        .write("deep.yaml", &injective.replace("injective", "'${matrix.architecture}'").replace("stages:\n", matrix));
    let ran = sandbox.run("validate deep.yaml --data");
    assert!(ran.code == 65 && ran.stdout.contains("(architecture=injective)"), "{}{}", ran.stdout, ran.stderr);
}

/// What `plan` says of the train stage, with so much memory.
fn planned(sandbox: &Sandbox, memory: u64) -> Json {
    let shown = sandbox.run(&format!("plan deep.yaml --format json --memory {memory}")).succeeded().stdout;
    serde_json::from_str::<Json>(&shown).unwrap()["cases"][0]["stages"][2].clone()
}

#[test]
fn with_less_memory_hidden_layers_are_computed_again() {
    let sandbox = Sandbox::new();
    sandbox.write("deep.yaml", &text(
        "method: stride, deep: { hidden: { rank: 5, repivot: false } }, em: { iterations: 2, particles: 2, final_transitions: 2 }",
    ));
    let whole = planned(&sandbox, 1 << 40);
    assert_eq!(whole["computed_again"], Json::Null);
    let peak = whole["memory_bytes"].as_u64().unwrap();
    let less = planned(&sandbox, peak - 1);
    assert_eq!(less["computed_again"], "hidden values in M steps are computed again");
    assert!(less["memory_bytes"].as_u64().unwrap() < peak, "{less}");
    let shown = sandbox.run(&format!("plan deep.yaml --memory {}", peak - 1)).succeeded().stdout;
    assert!(shown.contains("MiB; hidden values in M steps are computed again"), "{shown}");
    // What does not fit is computed again, to the same bits; a cache would know the model.
    let least = less["memory_bytes"].as_u64().unwrap();
    sandbox.run(&format!("run deep.yaml --quiet --memory {}", 1_u64 << 40)).succeeded();
    sandbox.run(&format!("run deep.yaml --quiet --force --memory {least}")).succeeded();
    let [whole, again] = &sandbox.table_files("predictions")[..] else { panic!("two runs") };
    let bits = |path: &Path| {
        let predictions = read_predictions(path).unwrap();
        let values = predictions.y_mean.iter().chain(predictions.y_std.iter().flatten());
        values.map(|value| value.to_bits()).collect::<Vec<_>>()
    };
    assert!(!bits(whole).is_empty());
    assert_eq!(bits(whole), bits(again));
}

#[test]
fn what_does_not_fit_is_refused_before_it_starts() {
    let sandbox = Sandbox::new();
    for (train, advice) in [
        ("method: gp", "use `method: sparse_gp` or `stride`, train on at most 40 rows"),
        ("method: deep_gp", "use `method: stride`, train on at most"),
    ] {
        sandbox.write("deep.yaml", &text(train));
        let room = (48 << 20) + 32 * 41 * 41;
        let ran = sandbox.run(&format!("run deep.yaml --quiet --memory {room}"));
        assert_eq!(ran.code, 78, "{}", ran.stderr);
        assert!(ran.stderr.contains("needs about") && ran.stderr.contains(advice), "{}", ran.stderr);
        assert!(planned(&sandbox, room)["too_large"].as_str().unwrap().contains(advice));
    }
    let ran = sandbox.run("run deep.yaml --memory much");
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("500MiB, 8GiB"), "{}", ran.stderr);
}
