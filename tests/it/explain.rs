//! The explain stage: importances as scikit-learn finds them, partial dependence and sensitivities as whoever scores changed
//! tables finds them, indices as the closed form has them.

use crate::python::{sklearn_programs, succeed};
use crate::sandbox::{Sandbox, stride_pipe};
use crate::scoring::{GP, STRIDE, published};
use arrow::array::{ArrayRef, AsArray as _, Float64Array, Int64Array};
use arrow::datatypes::Float64Type;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use stride_pipe::store::{open_batches, read_known, write_columns};
use stride_pipe::tables::ExplanationRow;

fn explanations(sandbox: &Sandbox) -> Vec<ExplanationRow> {
    read_known(sandbox.table_files("explanations").last().unwrap()).unwrap()
}

/// A pipeline that explains the model in `models/m` with the rows of the sandbox.
fn explaining(target: &str, options: &str) -> String {
    format!(
        "version: 1\nname: why\nseed: 5\nstages:\n  rows:\n    ingest: {{ path: rows.parquet, key: id, features: [a, b]{target} \
         }}\n  why:\n    explain: {{ model: ./models/m, input: rows, {options} }}\n"
    )
}

fn explain(sandbox: &Sandbox, options: &str) -> Vec<ExplanationRow> {
    sandbox.write("why.yaml", &explaining(", target: y", options));
    sandbox.run("run why.yaml --quiet").succeeded();
    explanations(sandbox)
}

/// Features and keys of the sandbox, in order.
fn inputs(sandbox: &Sandbox) -> (Vec<i64>, [Vec<f64>; 2]) {
    let (_, batches) = open_batches(&sandbox.path("rows.parquet")).unwrap();
    let (mut keys, mut a, mut b) = (Vec::new(), Vec::new(), Vec::new());
    for batch in batches {
        let batch = batch.unwrap();
        let number = |name: &str| {
            let cast = arrow::compute::cast(batch.column_by_name(name).unwrap(), &arrow::datatypes::DataType::Float64);
            cast.unwrap().as_primitive::<Float64Type>().values().to_vec()
        };
        keys.extend(number("id").into_iter().map(|key| key as i64));
        a.extend(number("a"));
        b.extend(number("b"));
    }
    (keys, [a, b])
}

/// Mean and `f_std` of these rows, by the command that scores.
fn scored(sandbox: &Sandbox, [a, b]: &[Vec<f64>; 2]) -> (Vec<f64>, Vec<f64>) {
    let column = |values: &Vec<f64>| Arc::new(Float64Array::from(values.clone())) as ArrayRef;
    let keys = Arc::new(Int64Array::from_iter_values(0..a.len() as i64)) as ArrayRef;
    write_columns(&sandbox.path("changed.parquet"), vec![("id", keys), ("a", column(a)), ("b", column(b))]).unwrap();
    let output = sandbox.path("changed-scores.parquet");
    let _ = std::fs::remove_file(&output);
    sandbox.run("score --model models/m --input changed.parquet --key id --output changed-scores.parquet").succeeded();
    let (mut mean, mut std) = (Vec::new(), Vec::new());
    for batch in open_batches(&output).unwrap().1 {
        let batch = batch.unwrap();
        let number = |name: &str| batch.column_by_name(name).unwrap().as_primitive::<Float64Type>().values().to_vec();
        mean.extend(number("y_mean"));
        std.extend(number("f_std"));
    }
    (mean, std)
}

fn close(left: f64, right: f64, tolerance: f64) -> bool {
    (left - right).abs() <= tolerance * right.abs().max(1.0)
}

/// Along a feature, and at every row, the figures are those of tables in which somebody else has changed the feature.
#[test]
fn partial_dependence_and_sensitivities_are_those_of_changed_tables() {
    for method in [GP, STRIDE, "method: ridge"] {
        let sandbox = published(method);
        let found = explain(&sandbox, "rows: 60, grid: 4, curves: 3, sensitivities: 10, repeats: 0, samples: 0");
        let (keys, x) = inputs(&sandbox);
        for (column, feature) in ["a", "b"].into_iter().enumerate() {
            let of = |kind: &str, stat: &str| {
                let own = move |row: &&ExplanationRow| row.feature == feature;
                let (kind, stat) = (kind.to_owned(), stat.to_owned());
                found.iter().filter(own).filter(move |row| row.kind == kind && row.stat == stat).collect::<Vec<_>>()
            };
            let means = of("partial", "mean");
            assert_eq!(means.len(), 4, "{method} {feature}");
            for row in means {
                let mut changed = x.clone();
                changed[column] = vec![row.at.unwrap(); keys.len()];
                let (mean, std) = scored(&sandbox, &changed);
                let average = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
                assert!(close(row.value, average(&mean), 1e-9), "{method} {row:?}");
                assert!(close(row.std.unwrap(), average(&std), 1e-9), "{method} {row:?}");
                let singles: Vec<_> =
                    of("partial", "individual").into_iter().filter(|single| single.at == row.at).collect();
                assert_eq!(singles.len(), 3);
                for single in singles {
                    let place = single.row.unwrap() as usize;
                    assert_eq!(single.key.as_deref(), Some(keys[place].to_string().as_str()));
                    assert!(close(single.value, mean[place], 1e-9) && close(single.std.unwrap(), std[place], 1e-9));
                }
            }
            let slopes = of("sensitivity", "row");
            assert_eq!(slopes.len(), 10);
            let step = if feature == "a" { 1e-4 } else { 1e-3 };
            let moved = |by: f64| {
                let mut changed = x.clone();
                changed[column].iter_mut().for_each(|value| *value += by);
                scored(&sandbox, &changed).0
            };
            let (up, down) = (moved(step), moved(-step));
            let largest = slopes.iter().map(|row| row.value.abs()).fold(1e-9, f64::max);
            for row in &slopes {
                let place = row.row.unwrap() as usize;
                let expected = (up[place] - down[place]) / (2.0 * step);
                assert!((row.value - expected).abs() < 1e-4 * largest, "{method} {row:?} {expected}");
                assert_eq!(row.at, Some(x[column][place]));
            }
            let [mean] = of("sensitivity", "mean_absolute")[..] else { panic!("one mean") };
            let expected = slopes.iter().map(|row| row.value.abs()).sum::<f64>() / 10.0;
            assert!(close(mean.value, expected, 1e-12));
        }
    }
}

/// Rows of an additive function: y = 3a + 2 sin b, and a feature that does nothing.
fn additive(sandbox: &Sandbox) -> [f64; 3] {
    let n = 300_i64;
    let a = |i: i64| ((i * 37) % 101) as f64 / 100.0;
    let b = |i: i64| ((i * 59) % 97) as f64 / 16.0;
    let c = |i: i64| ((i * 71) % 89) as f64;
    let y = |i: i64| 3.0f64.mul_add(a(i), 2.0 * b(i).sin());
    let column = |of: &dyn Fn(i64) -> f64| Arc::new((0..n).map(of).collect::<Float64Array>()) as ArrayRef;
    let columns = vec![("a", column(&a)), ("b", column(&b)), ("c", column(&c)), ("y", column(&y))];
    write_columns(&sandbox.path("additive.parquet"), columns).unwrap();
    let variance = |of: &dyn Fn(i64) -> f64| {
        let mean = (0..n).map(of).sum::<f64>() / n as f64;
        (0..n).map(|i| (of(i) - mean).powi(2)).sum::<f64>() / n as f64
    };
    let parts = [variance(&|i| 3.0 * a(i)), variance(&|i| 2.0 * b(i).sin()), 0.0];
    let whole: f64 = parts.iter().sum();
    parts.map(|part| part / whole)
}

#[test]
fn indices_of_an_additive_function_are_its_shares() {
    let sandbox = Sandbox::new();
    let shares = additive(&sandbox);
    sandbox.write(
        "x.yaml",
        "version: 1\nname: sums\nseed: 2\nstages:\n  rows:\n    ingest: { path: additive.parquet, features: [a, b, c], target: y \
         }\n  folds:\n    split: { input: rows, kfold: { folds: 3 } }\n  model:\n    train: { input: folds, method: gp, ard: true \
         }\n  why:\n    explain: { model: model, input: folds, samples: 4000, grid: 5 }\n  predictions:\n    predict: { model: \
         model, input: folds }\n  scores:\n    evaluate: { input: predictions }\n",
    );
    sandbox.run("run x.yaml --quiet --threads 1").succeeded();
    let found = explanations(&sandbox);
    for fold in 0..3 {
        for (feature, share) in ["a", "b", "c"].into_iter().zip(shares) {
            for stat in ["first", "total"] {
                let own = |row: &&ExplanationRow| {
                    row.kind == "sobol" && row.stat == stat && row.feature == feature && row.fold == Some(fold)
                };
                let row = found.iter().find(own).unwrap();
                // A third of the rows stands for all of them, and an estimate has an error.
                assert!((row.value - share).abs() < 4.0 * row.std.unwrap() + 0.06, "{row:?} for {share}");
            }
        }
    }
    // The same bits with more threads, and nothing to do the second time.
    let again = sandbox.run("run x.yaml --threads 1").succeeded();
    assert!(again.stdout.contains("12 taken from the cache"), "{}", again.stdout);
    sandbox.run("run x.yaml --quiet --threads 2 --force").succeeded();
    let without_run = |mut rows: Vec<ExplanationRow>| {
        for row in &mut rows {
            row.run_id.clear();
        }
        rows
    };
    assert_eq!(without_run(found), without_run(explanations(&sandbox)));
    // The page has the figures.
    let page = sandbox.run("report last -o page.html");
    assert_eq!(page.code, 0, "{}", page.stderr);
    let page = std::fs::read_to_string(sandbox.path("page.html")).unwrap();
    for words in
        ["What the model makes of its features", "Permutation importance", "Sobol indices", "Partial dependence"]
    {
        assert!(page.contains(words), "{words}");
    }
}

/// Every method can be explained.
#[test]
fn all_methods_are_explained() {
    let small =
        "em: { iterations: 1, particles: 2, sampler: { hmc: { transitions: 1, leapfrog: 2 } }, final_transitions: 0 }";
    for method in [
        "sparse_gp, inducing: { count: 8 }".to_owned(),
        format!("deep_gp, {small}"),
        format!("stride, top: {{ neighbours: 4 }}, {small}"),
        "mean".to_owned(),
        "knn".to_owned(),
    ] {
        let sandbox = published(&format!("method: {method}"));
        let found = explain(&sandbox, "rows: 30, grid: 3, samples: 50, sensitivities: 4, repeats: 2");
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for row in &found {
            *kinds.entry(row.kind.as_str()).or_default() += 1;
        }
        assert!(found.iter().all(|row| row.value.is_finite()), "{method}");
        assert_eq!(kinds.get("permutation"), Some(&2), "{method}");
        assert_eq!(kinds.get("partial"), Some(&(2 * 3 * 21)), "{method}");
        assert_eq!(kinds.get("sensitivity"), Some(&(2 * 5)), "{method}");
        // What predicts the same everywhere has no variance to share.
        assert_eq!(kinds.get("sobol").copied(), (method != "mean").then_some(4), "{method}");
    }
}

#[test]
fn without_a_target_there_is_no_importance_and_a_note() {
    let sandbox = published(GP);
    sandbox.write("why.yaml", &explaining("", "rows: 20, grid: 3, samples: 20, sensitivities: 2"));
    let ran = sandbox.run("run why.yaml").succeeded();
    assert!(ran.stderr.contains("permutation importance needs a target"), "{}", ran.stderr);
    let found = explanations(&sandbox);
    assert!(!found.is_empty() && found.iter().all(|row| row.kind != "permutation"));
    // Some features, and one that is not there.
    let some = explain(&sandbox, "features: [b], rows: 20, grid: 3, samples: 20, sensitivities: 2");
    assert!(some.iter().all(|row| row.feature == "b") && some.iter().any(|row| row.kind == "permutation"));
    sandbox.write("why.yaml", &explaining("", "features: [c]"));
    let refused = sandbox.run("run why.yaml --quiet");
    assert!(refused.code == 65 && refused.stderr.contains("the model has no feature `c`"), "{}", refused.stderr);
    sandbox.write("why.yaml", &explaining("", "repeats: 0, grid: 0, samples: 0, sensitivities: 0"));
    let refused = sandbox.run("validate why.yaml");
    assert!(refused.code == 78 && refused.stderr.contains("there is nothing to explain"), "{}", refused.stderr);
}

/// On energy, importances come in the order in which scikit-learn finds them from our scores.
#[test]
fn importances_agree_with_those_of_scikit_learn() {
    let features = [
        "relative_compactness",
        "surface_area",
        "wall_area",
        "roof_area",
        "overall_height",
        "orientation",
        "glazing_area",
        "glazing_area_distribution",
    ];
    let sandbox = Sandbox::new();
    let energy = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/uci/energy.parquet");
    let energy = energy.display();
    let head = format!(
        "version: 1\nname: NAME\nseed: 1\nstages:\n  rows:\n    ingest: {{ path: {energy}, key: row_id, features: [{}], target: \
         heating_load }}\n",
        features.join(", ")
    );
    let train = "  all:\n    split: { input: rows, all: {} }\n  model:\n    train: { input: all, method: sparse_gp, local: false, \
                 publish: models/energy }\n";
    sandbox.write("train.yaml", &format!("{}{train}", head.replace("NAME", "train")));
    sandbox.run("run train.yaml --quiet").succeeded();
    let why = "  why:\n    explain: { model: ./models/energy, input: rows, rows: 1000, grid: 0, samples: 0, sensitivities: 0 }\n";
    sandbox.write("why.yaml", &format!("{}{why}", head.replace("NAME", "why")));
    sandbox.run("run why.yaml --quiet").succeeded();
    let ours: BTreeMap<String, (f64, f64)> =
        explanations(&sandbox).into_iter().map(|row| (row.feature, (row.value, row.std.unwrap()))).collect();
    assert_eq!(ours.len(), features.len());
    let mut python = Command::new(sklearn_programs().join("python"));
    python.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/reference/permutation.py"));
    python.arg(stride_pipe().get_program()).arg(sandbox.path("models/energy")).arg(energy.to_string());
    let printed = succeed(python.arg("heating_load").args(features));
    let theirs: Vec<(&str, f64, f64)> = printed
        .lines()
        .map(|line| {
            let parts: Vec<&str> = line.split(' ').collect();
            (parts[0], parts[1].parse().unwrap(), parts[2].parse().unwrap())
        })
        .collect();
    assert_eq!(theirs.len(), features.len());
    let mut compared = 0;
    for (name, mean, std) in &theirs {
        let (own, own_std) = ours[*name];
        assert!((own - mean).abs() < 4.0 * (std + own_std) + 1e-4, "{name}: {own} ± {own_std} and {mean} ± {std}");
        for (other, other_mean, other_std) in &theirs {
            // Where they tell two features apart, we do too, and in the same order.
            if mean - other_mean > 3.0 * (std + other_std) {
                assert!(own > ours[*other].0, "{name} and {other}: {ours:?} {theirs:?}");
                compared += 1;
            }
        }
    }
    assert!(compared >= 15, "{compared} pairs are told apart: {theirs:?}");
}
