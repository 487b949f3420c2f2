//! `tune`: settings are searched inside the training rows, within a budget, and the pipeline that is written has the best.

use crate::sandbox::{Ran, Sandbox};
use arrow::array::{ArrayRef, Float64Array, Int64Array};
use std::sync::Arc;
use stride_pipe::store::write_columns;

/// A kinked function of one of three features: with a rough kernel and a length per feature it is far easier.
fn kinks(sandbox: &Sandbox, rows: i64, test_target: impl Fn(f64) -> f64) {
    let uniform = |i: i64, k: u64| {
        let bits = (i as u64 * 3 + k + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((bits ^ bits >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11) as f64 / (1_u64 << 53) as f64
    };
    let each = |value: &dyn Fn(i64) -> f64| Arc::new((0..rows).map(value).collect::<Float64Array>()) as ArrayRef;
    let kink = |x: f64| 3.0 * (4.0 * x - 2.0).abs().min(1.0) + x;
    let is_test = |i: i64| i % 4 == 0;
    let target = |i: i64| {
        let y = kink(uniform(i, 0)) + 0.05 * (uniform(i, 7) - 0.5);
        if is_test(i) { test_target(y) } else { y }
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..rows))),
        ("a", each(&|i| uniform(i, 0))),
        ("b", each(&|i| uniform(i, 1))),
        ("c", each(&|i| uniform(i, 2))),
        ("side", Arc::new(Int64Array::from_iter_values((0..rows).map(|i| i64::from(is_test(i)))))),
        ("y", each(&target)),
    ];
    write_columns(&sandbox.path("kinks.parquet"), columns).unwrap();
}

const PIPELINE: &str = "\
# A comment of mine.
version: 1
name: kinks
seed: 7
params: { kernel: rbf }
matrix: { method: [gp, ridge] }
defaults: { train: { scale: { features: column } } }
stages:
  rows:
    ingest: { path: kinks.parquet, key: id, features: [a, b, c], target: y }
  folds:
    split: { input: rows, column: { name: side, test: 1 } }
  model:
    train: { input: folds, method: \"${matrix.method}\", kernel: \"${params.kernel}\", publish: models/kinks }
  predictions:
    predict: { model: model, input: folds }
  metrics:
    evaluate: { input: predictions }
";

/// Chains that take seconds.
const SHORT: &str = "deep: { hidden: { rank: 10 } }, inducing: { count: 20 }, em: { particles: 2, iterations: 1, final_transitions: 2 }";

fn number(text: &str, before: &str) -> f64 {
    let rest = text.split(before).nth(1).unwrap_or_else(|| panic!("{before}: {text}"));
    rest.trim_start().split([' ', ')', ',', '\n']).next().unwrap().trim_end_matches('.').parse().unwrap()
}

fn tuned(sandbox: &Sandbox) -> Ran {
    sandbox.run("tune kinks.yaml --set matrix.method=[gp] --budget 60s --quiet").succeeded()
}

#[test]
fn the_best_setting_is_found_inside_the_training_rows_and_written_down() {
    let sandbox = Sandbox::new();
    kinks(&sandbox, 160, |y| y);
    sandbox.write("kinks.yaml", PIPELINE);
    let ran = tuned(&sandbox);
    assert!(
        ran.stdout.contains("kinks.yaml: settings of model, judged by rows inside the training rows\n"),
        "{}",
        ran.stdout
    );
    // Six combinations, and none of them but once; `rbf` without lengths of its own is what the file says.
    let best = ran.stdout.lines().find(|line| line.starts_with("Best of ")).unwrap();
    let (found, own) = (number(best, "NLPD"), number(best, "what the file says has"));
    assert!(found < own - 0.3, "{best}");
    assert!(best.contains("ard=true") && best.contains("kernel=matern"), "{best}");
    // All of the file is there, with what was set and found; nothing of the trials is.
    let text = std::fs::read_to_string(sandbox.path("kinks-tuned.yaml")).unwrap();
    for kept in ["seed: 7", "kernel: rbf", "method:", "publish: models/kinks", "ard: true", "column:"] {
        assert!(text.contains(kept), "{kept}: {text}");
    }
    assert!(!text.contains("tune-") && !text.contains("ridge"), "{text}");
    // The choice holds on test rows, which were not looked at.
    let nlpd = |file: &str| {
        let ran = sandbox.run(&format!("run {file} --set matrix.method=[gp] --quiet")).succeeded();
        let line = ran.stdout.lines().nth(1).unwrap().to_owned();
        line.split("  ").filter(|cell| !cell.trim().is_empty()).nth(3).unwrap().trim().parse::<f64>().unwrap()
    };
    assert!(nlpd("kinks-tuned.yaml") < nlpd("kinks.yaml") - 0.3);
    // Again: everything comes from the cache, and the same is found.
    let again = tuned(&sandbox);
    assert_eq!(
        again.stdout.lines().filter(|line| !line.starts_with("took")).collect::<Vec<_>>(),
        ran.stdout.lines().filter(|line| !line.starts_with("took")).collect::<Vec<_>>()
    );
    assert_eq!(std::fs::read_to_string(sandbox.path("kinks-tuned.yaml")).unwrap(), text);
    // A published model is only made by the file.
    assert!(!ran.stderr.contains("published"), "{}", ran.stderr);
}

#[test]
fn test_rows_are_not_looked_at() {
    let found = |test_target: fn(f64) -> f64| {
        let sandbox = Sandbox::new();
        kinks(&sandbox, 160, test_target);
        sandbox.write("kinks.yaml", PIPELINE);
        let stdout = tuned(&sandbox).stdout;
        stdout.lines().filter(|line| !line.starts_with("took")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(found(|y| y), found(|y| 1000.0 - 50.0 * y));
}

#[test]
fn groups_and_times_stay_apart_in_trials() {
    let sandbox = Sandbox::new();
    kinks(&sandbox, 160, |y| y);
    let of = |split: &str| {
        PIPELINE
            .replace("column: { name: side, test: 1 }", split)
            .replace("features: [a, b, c]", "features: [a]")
            .replace("publish: models/kinks", "ard: true")
    };
    for (split, way) in [("group: { key: b, folds: 3 }", "group:"), ("time: { key: id, test_fraction: 0.2 }", "time:")]
    {
        sandbox.write("kinks.yaml", &of(split));
        let command = "tune kinks.yaml --set matrix.method=[gp] --budget 20s --quiet --force --keep ard";
        sandbox.run(command).succeeded();
        let runs = sandbox.files("results/run").into_iter().filter(|file| file.ends_with("resolved.yaml"));
        let mut texts = runs.map(|file| std::fs::read_to_string(sandbox.path("results/run").join(file)).unwrap());
        let trial = texts.rfind(|text| text.starts_with("version: 1\nname: kinks-tune\n")).unwrap();
        let inner = trial.split("tune-rows:").nth(1).unwrap().split("tune-model:").next().unwrap();
        assert!(inner.contains(way) && inner.contains("key: "), "{split}: {trial}");
    }
}

#[test]
fn what_was_done_is_taken_up_by_a_longer_search() {
    let sandbox = Sandbox::new();
    kinks(&sandbox, 1200, |y| y);
    sandbox.write("kinks.yaml", &PIPELINE.replace("[gp, ridge]", "[stride]").replace("publish: models/kinks", SHORT));
    let command = |budget: &str| format!("tune kinks.yaml --budget {budget} --force");
    let first = sandbox.run(&command("8s")).succeeded();
    assert!(first.stdout.contains("Best of "), "{}", first.stdout);
    let second = sandbox.run(&command("12s")).succeeded();
    let cached = |line: &str| line.contains("tune-model") && line.contains("skipped");
    assert!(second.stderr.lines().any(cached), "{}", second.stderr);
}

#[test]
fn what_cannot_be_tuned_says_why() {
    let sandbox = Sandbox::new();
    kinks(&sandbox, 60, |y| y);
    let pipeline = PIPELINE.replace(", publish: models/kinks", "");
    sandbox.write("kinks.yaml", &pipeline);
    let two = pipeline.replace(
        "  predictions:",
        "  other:\n    train: { input: folds, method: gp, kernel: matern32 }\n  predictions:",
    );
    sandbox.write("two.yaml", &two);
    std::fs::create_dir(sandbox.path("elsewhere")).unwrap();
    for (command, code, said) in [
        ("tune kinks.yaml", 78, "the pipeline has 2 cases, and settings are searched for one"),
        ("tune kinks.yaml --set matrix.method=[ridge]", 78, "`model`: there is nothing to search for `method: ridge`"),
        ("tune kinks.yaml --set matrix.method=[gp] --keep kernel,ard", 78, "all that is searched is kept"),
        (
            "tune kinks.yaml --set matrix.method=[gp] --keep kernels",
            78,
            "`--keep kernels`: no such option is searched; those that are: kernel, ard",
        ),
        (
            "tune two.yaml --set matrix.method=[gp]",
            78,
            "the train stages `model`, `other` differ: say with `--stage` which to tune",
        ),
        (
            "tune two.yaml --set matrix.method=[gp] --stage models",
            78,
            "`models` is no train stage of the pipeline; there are `model`, `other`",
        ),
        (
            "tune kinks.yaml --set matrix.method=[gp] --output elsewhere/x.yaml",
            2,
            "relative to its directory: write it there",
        ),
        ("tune kinks.yaml --set matrix.method=[gp] --output two.yaml", 73, "two.yaml is there already"),
        ("tune none.yaml", 66, "there is no pipeline file none.yaml"),
        ("tune kinks.yaml --budget soon", 2, "--budget"),
    ] {
        let ran = sandbox.run(command);
        assert_eq!(ran.code, code, "{command}: {}", ran.stderr);
        assert!(ran.stderr.contains(said), "{command}: {}", ran.stderr);
    }
    assert!(!sandbox.path("results").exists(), "nothing was tried");
}
