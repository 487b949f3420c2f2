//! `start_from`: training that starts from a published model, night after night.

use crate::gp_deep_start::{Listener, quick_sparse};
use crate::naive::deep::{aca, hmc};
use crate::naive::regression;
use crate::sandbox::Sandbox;
use arrow::array::{ArrayRef, AsArray as _, Float64Array, Int64Array, StringArray};
use arrow::datatypes::Float64Type;
use std::fs;
use std::sync::Arc;
use stride_pipe::gp::deep::{DeepOptions, DeepStart, EmOptions, LayerOptions, Start, fit, fit_from};
use stride_pipe::gp::kernel::Kernel;
use stride_pipe::gp::observer::Silent;
use stride_pipe::gp::random::StreamKey;
use stride_pipe::gp::row_noise::RowNoise;
use stride_pipe::gp::scaling::{FeatureScaling, Rescaling, Scaling};
use stride_pipe::gp::warm::WarmStart;
use stride_pipe::store::{ModelFile, open_batches, read_known, write_columns};
use stride_pipe::tables::{MetricRow, TraceRow};

const SAMPLER: &str = "sampler: { hmc: { transitions: 4, leapfrog: 4 } }";

/// So many rows of a smooth function; every fifth is for tests.
fn write_rows(sandbox: &Sandbox, rows: usize) {
    let a = |row: usize| ((row * 29) % 97) as f64 / 24.0 - 2.0;
    let b = |row: usize| 300.0 + 40.0 * (((row * 53) % 89) as f64 / 22.0 - 2.0);
    let y = |row: usize| 5.0 * (1.7 * a(row)).sin() + 0.05 * (b(row) - 300.0) + 0.1 * ((row * 31) % 11) as f64 + 20.0;
    let column = |of: &dyn Fn(usize) -> f64| Arc::new((0..rows).map(of).collect::<Float64Array>()) as ArrayRef;
    let part = (0..rows).map(|row| if row % 5 == 0 { "test" } else { "train" });
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..rows as i64))),
        ("a", column(&a)),
        ("b", column(&b)),
        ("y", column(&y)),
        ("part", Arc::new(StringArray::from_iter_values(part))),
    ];
    write_columns(&sandbox.path("night.parquet"), columns).unwrap();
}

/// A pipeline that trains, publishes and measures.
fn pipeline(features: &str, options: &str) -> String {
    format!(
        "version: 1\nname: night\nseed: 3\nstages:\n  rows:\n    ingest: {{ path: night.parquet, key: id, features: {features}, \
         target: y }}\n  parts:\n    split: {{ input: rows, column: {{ name: part, test: test }} }}\n  model:\n    train: {{ \
         input: parts, {options} }}\n  predictions:\n    predict: {{ model: model, input: parts }}\n  metrics:\n    evaluate: \
         {{ input: predictions }}\n"
    )
}

fn smse(sandbox: &Sandbox) -> f64 {
    let rows: Vec<MetricRow> = read_known(sandbox.table_files("metrics").last().unwrap()).unwrap();
    rows.iter().find(|row| row.metric == "smse" && row.stat == "value").unwrap().value.unwrap()
}

/// Mean predictions of the latest run.
fn means(sandbox: &Sandbox) -> Vec<f64> {
    let (_, batches) = open_batches(sandbox.table_files("predictions").last().unwrap()).unwrap();
    let of = |batch: arrow::array::RecordBatch| {
        batch.column_by_name("y_mean").unwrap().as_primitive::<Float64Type>().values().to_vec()
    };
    batches.flat_map(|batch| of(batch.unwrap())).collect()
}

fn published(sandbox: &Sandbox) -> Vec<u8> {
    fs::read(sandbox.path("models/m/model.safetensors")).unwrap()
}

/// The first night there is no model; a run that is repeated does nothing; the next night starts from the model.
#[test]
fn a_nightly_job_starts_where_the_last_one_ended() {
    let methods = [
        ("[a, b]", "method: gp".to_owned()),
        ("[a, b]", "method: gp, ard: true, kernel: matern52".to_owned()),
        ("[a, b]", "method: sparse_gp, ard: true, inducing: { count: 15 }".to_owned()),
        ("[a, b]", format!("method: deep_gp, em: {{ particles: 2, {SAMPLER} }}")),
        (
            "[a, b]",
            format!(
                "method: stride, inducing: {{ count: 15 }}, deep: {{ hidden: {{ rank: 12 }} }}, em: {{ particles: 3, {SAMPLER} }}"
            ),
        ),
        (
            "[a, b]",
            format!(
                "method: stride, inducing: {{ count: 12 }}, deep: {{ layers: 3, hidden: {{ method: sparse }} }}, em: {{ particles: 2, {SAMPLER} }}"
            ),
        ),
        (
            "[a, b]",
            format!(
                "method: stride, inducing: {{ count: 12 }}, deep: {{ architecture: convolution, hidden: {{ method: full }} }}, em: {{ particles: 2, {SAMPLER} }}"
            ),
        ),
        (
            "[a]",
            format!(
                "method: stride, inducing: {{ count: 12 }}, deep: {{ architecture: injective, hidden: {{ rank: 12 }} }}, em: {{ particles: 2, {SAMPLER} }}"
            ),
        ),
        (
            "[a, b]",
            format!(
                "method: stride, top: {{ neighbours: 6 }}, deep: {{ hidden: {{ rank: 12 }}, width: 1 }}, em: {{ particles: 2, {SAMPLER} }}"
            ),
        ),
    ];
    for (features, options) in methods {
        let sandbox = Sandbox::new();
        write_rows(&sandbox, 90);
        sandbox.write("x.yaml", &pipeline(features, &format!("{options}, start_from: models/m, publish: models/m")));
        let first = sandbox.run_with_common_loops("run x.yaml").succeeded();
        assert!(first.stderr.contains("no model in models/m to start from yet"), "{options}: {}", first.stderr);
        let (of_first, scratch) = (published(&sandbox), smse(&sandbox));
        let again = sandbox.run_with_common_loops("run x.yaml").succeeded();
        assert!(again.stdout.contains("5 taken from the cache"), "{options}: {}", again.stdout);
        assert_eq!(published(&sandbox), of_first, "{options}");
        // The next night.
        write_rows(&sandbox, 100);
        assert!(sandbox.run("validate x.yaml --data").code == 0);
        let next = sandbox.run_with_common_loops("run x.yaml").succeeded();
        assert!(next.stderr.contains("training starts from models/m/model.safetensors"), "{options}: {}", next.stderr);
        let (of_second, started) = (published(&sandbox), smse(&sandbox));
        assert_ne!(of_second, of_first, "{options}");
        assert!(started < 1.5 * scratch + 0.02, "{options}: {started} after {scratch}");
        let again = sandbox.run_with_common_loops("run x.yaml").succeeded();
        assert!(again.stdout.contains("5 taken from the cache"), "{options}: {}", again.stdout);
        assert_eq!(published(&sandbox), of_second, "{options}");
        if options.contains("em:") {
            let traces = |file: &std::path::PathBuf| read_known::<TraceRow>(file).unwrap();
            let rounds =
                |rows: &[TraceRow]| rows.iter().filter(|row| row.phase == "e_step").map(|row| row.iteration).max();
            let files = sandbox.table_files("traces");
            assert_eq!(rounds(&traces(&files[0])), Some(10), "{options}");
            assert_eq!(rounds(&traces(&files[2])), Some(2), "{options}");
            assert!(traces(&files[2]).iter().any(|row| row.phase == "final"), "{options}: there are diagnostics");
        }
        // One step back, and forward again by what is in the cache.
        sandbox.run("model rollback models/m").succeeded();
        assert_eq!(published(&sandbox), of_first, "{options}");
    }
}

/// Hyper-parameters and hidden layers mean the same in other units: with nothing trained, predictions are those of before.
#[test]
fn what_is_carried_over_is_converted() {
    let fixed = "local: false, calibrate: none";
    let still = "em: { particles: 3, iterations: 0, final_transitions: 0, exchanges: 0 }, inducing: { count: 15 }";
    let methods = [
        ("method: gp, ard: true", "scale: { features: column }", "scale: { features: none }", 1e-6),
        (
            "method: stride, deep: { hidden: { method: full } }",
            "scale: { features: global }",
            "scale: { features: none }",
            0.02,
        ),
        (
            "method: stride, deep: { hidden: { rank: 40 } }",
            "scale: { features: global }",
            "scale: { features: none }",
            0.02,
        ),
        (
            "method: stride, deep: { architecture: convolution, hidden: { rank: 40 } }",
            "scale: { features: global }",
            "scale: { features: none }",
            0.02,
        ),
    ];
    for (method, before, after, tolerance) in methods {
        let sandbox = Sandbox::new();
        write_rows(&sandbox, 100);
        let trained = "em: { particles: 3, iterations: 2, final_transitions: 0 }, inducing: { count: 15 }";
        let features = if method.contains("gp,") { "[a, b]" } else { "[a]" };
        sandbox.write(
            "x.yaml",
            &pipeline(features, &format!("{method}, {fixed}, {trained}, {before}, publish: models/m")),
        );
        sandbox.run("run x.yaml --quiet").succeeded();
        let old = means(&sandbox);
        let kept = format!(
            "{method}, {fixed}, {still}, {after}, hyperparameters: {{ optimise: false }}, start_from: models/m, publish: models/n"
        );
        sandbox.write("y.yaml", &pipeline(features, &kept));
        sandbox.run("run y.yaml --quiet").succeeded();
        let new = means(&sandbox);
        // Of a hidden layer by cross approximation only what rows tell of it is the same; between rows the prior decides.
        let largest = old.iter().zip(&new).map(|(old, new)| (old - new).abs()).fold(0.0, f64::max);
        assert!(method.contains("rank") || largest < tolerance * 3.7, "{method}: {largest}");
        let (before, after) = (log_likelihood(&sandbox, "models/m"), log_likelihood(&sandbox, "models/n"));
        assert!((before - after).abs() < 2.0, "{method}: {before} {after}");
    }
}

fn log_likelihood(sandbox: &Sandbox, model: &str) -> f64 {
    let shown = sandbox.run(&format!("model show {model} --format json")).succeeded().stdout;
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    shown["metrics"]["log_likelihood"].as_f64().unwrap_or_else(|| panic!("{shown}"))
}

/// A model of another kind is no start; what is asked for and what is there are named, before anything is trained.
#[test]
fn another_kind_of_model_is_refused() {
    let sandbox = Sandbox::new();
    write_rows(&sandbox, 60);
    let stride = format!(
        "method: stride, inducing: {{ count: 6 }}, em: {{ iterations: 1, particles: 2, {SAMPLER}, final_transitions: 0 }}"
    );
    sandbox.write("x.yaml", &pipeline("[a, b]", &format!("{stride}, publish: models/m")));
    sandbox.run("run x.yaml --quiet").succeeded();
    let refused = |features: &str, options: &str, expected: &str| {
        sandbox.write("y.yaml", &pipeline(features, &format!("{options}, start_from: models/m")));
        for command in ["run y.yaml --quiet", "validate y.yaml --data"] {
            let ran = sandbox.run(command);
            let said = format!("{}{}", ran.stdout, ran.stderr);
            assert!(ran.code == 65 && said.contains(expected), "{command}: {options}: {} {said}", ran.code);
            assert!(said.contains("leave `start_from` out"), "{said}");
        }
    };
    refused("[a, b]", "method: gp", "was trained with `method: stride`, and this stage has gp");
    refused("[a, b]", &format!("{stride}, kernel: matern32"), "has `kernel: rbf`, and this stage has matern32");
    refused("[a]", &stride, "needs the feature(s) b");
    refused(
        "[a, id]",
        &stride.replace("count: 6", "count: 5"),
        "needs the feature(s) b and does not know the feature(s) id",
    );
    refused("[a, b]", &format!("{stride}, deep: {{ layers: 3 }}"), "has `deep.layers: 2`, and this stage has 3");
    refused("[a, b]", &format!("{stride}, deep: {{ width: 1 }}"), "has `deep.width: 2`, and this stage has 1");
    refused(
        "[a, b]",
        &format!("{stride}, deep: {{ architecture: convolution }}"),
        "has `deep.architecture: composition`, and this stage has convolution",
    );
    let neighbours = stride.replace("inducing: { count: 6 }", "top: { neighbours: 4 }");
    refused("[a, b]", &neighbours, "has inducing points, and this stage a top layer by neighbours");
    // Columns in another order are the same features.
    sandbox.write("y.yaml", &pipeline("[b, a]", &format!("{stride}, start_from: models/m")));
    sandbox.run("run y.yaml --quiet").succeeded();
    // A damaged model is not "no model yet".
    fs::write(sandbox.path("models/m/model.safetensors"), b"nothing").unwrap();
    assert_eq!(sandbox.run("run y.yaml --quiet").code, 65);
}

/// The rows of `write_rows` with a category of so many levels.
fn write_levels(sandbox: &Sandbox, rows: usize, levels: usize) {
    write_rows(sandbox, rows);
    let (_, batches) = open_batches(&sandbox.path("night.parquet")).unwrap();
    let batches: Vec<_> = batches.map(Result::unwrap).collect();
    let all = arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap();
    let mut columns: Vec<(&str, ArrayRef)> = ["id", "a", "b", "y", "part"]
        .into_iter()
        .map(|name| (name, all.column_by_name(name).unwrap().clone()))
        .collect();
    let town = |row: usize| format!("t{}", row % levels);
    columns.push(("town", Arc::new(StringArray::from_iter_values((0..rows).map(town)))));
    write_columns(&sandbox.path("night.parquet"), columns).unwrap();
}

/// A night on which a category has a further level, which becomes a further feature, is the first night again.
#[test]
fn levels_that_become_other_features_are_a_new_beginning() {
    let warning = "columns have become other features than those of the published model";
    for method in ["gp, ard: true", "sparse_gp, inducing: { count: 12 }"] {
        let sandbox = Sandbox::new();
        let options = format!("method: {method}, publish: models/m");
        sandbox.write("night.yaml", &pipeline("[a, b, town]", &format!("{options}, start_from: models/m")));
        let scratch = options.replace("models/m", "models/scratch");
        sandbox.write("scratch.yaml", &pipeline("[a, b, town]", &scratch));
        let night = |levels: usize, rows: usize| {
            write_levels(&sandbox, rows, levels);
            assert_eq!(sandbox.run("validate night.yaml --data").code, 0);
            sandbox.run("run night.yaml").succeeded().stderr
        };
        let first = night(2, 60);
        assert!(first.contains("no model in models/m to start from yet") && !first.contains(warning), "{first}");
        let other = night(3, 63);
        assert_eq!(other.matches(warning).count(), 1, "{other}");
        assert!(other.contains("trained from scratch"), "{other}");
        // To the bit what a training from scratch makes of the rows.
        let made = means(&sandbox);
        sandbox.run("run scratch.yaml --quiet").succeeded();
        assert_eq!(made, means(&sandbox));
        // The next night has the same levels, and starts from what there is.
        let same = night(3, 66);
        assert!(same.contains("training starts from models/m") && !same.contains(warning), "{same}");
        let started = means(&sandbox);
        sandbox.run("run scratch.yaml --quiet").succeeded();
        assert_ne!(started, means(&sandbox), "it began elsewhere");
    }
}

/// Several states of each chain are kept after a start with inducing points; what is written wins, and a chain that does not
/// move has one state.
#[test]
fn a_start_keeps_several_states_of_each_chain() {
    let sandbox = Sandbox::new();
    write_rows(&sandbox, 90);
    let stride = "method: stride, inducing: { count: 12 }, deep: { hidden: { rank: 8 } }";
    let short = format!("iterations: 1, particles: 2, {SAMPLER}");
    let scratch = format!("{stride}, em: {{ {short}, final_transitions: 0 }}, publish: models/m");
    sandbox.write("x.yaml", &pipeline("[a, b]", &scratch));
    sandbox.run("run x.yaml --quiet").succeeded();
    let of = |written: &str, threads: usize| {
        let options = format!("{stride}, em: {{ {short}{written} }}, start_from: models/m, publish: models/n");
        sandbox.write("y.yaml", &pipeline("[a, b]", &options));
        sandbox.run(&format!("run y.yaml --quiet --force --threads {threads}")).succeeded();
        let tensors = ModelFile::load(&sandbox.path("models/n")).unwrap().tensors;
        let states = tensors.keys().filter(|name| name.contains(".alpha")).count();
        (states, tensors)
    };
    let (states, tensors) = of("", 1);
    assert_eq!((states, &tensors), (8, &of("", 2).1), "the same bits by one thread and by two");
    for (written, expected) in
        [(", draws: 1", 2), (", draws: 3", 6), (", final_transitions: 2", 4), (", final_transitions: 0", 2)]
    {
        assert_eq!(of(written, 2).0, expected, "{written}");
    }
}

/// A start that was interrupted ends the same.
#[test]
fn an_interrupted_start_ends_the_same() {
    let (x, y) = regression(5, 80, 2, 0.05);
    let layers = LayerOptions { hidden: aca(8, 1e-9), ..LayerOptions::default() };
    let em = EmOptions { iterations: Some(2), particles: 3, sampler: hmc(4, 3), ..EmOptions::default() };
    let options = DeepOptions { start: Start::Sparse(quick_sparse(Kernel::Rbf, 8)), layers, em };
    let key = StreamKey::new(4);
    let gp = fit(x.view(), y.view(), &options, &key, None, &mut Silent).unwrap();
    let units = Scaling::fit(x.view(), y.view(), FeatureScaling::None);
    let deep = DeepStart::new(gp, Rescaling::between(&units, &units));
    let warm = WarmStart { hyper: deep.hyper(), inducing: deep.inducing(), local: None, deep: Some(deep) };
    let started = DeepOptions { em: options.em.started(true), ..options };
    let none = RowNoise::default();
    assert!(started.em.draws() > 1);
    let rows = || (x.view(), y.view(), &none);
    let mut listener = Listener::default();
    let whole = fit_from(rows(), &started, Some(&warm), &key, None, &mut listener).unwrap();
    assert!(!listener.checkpoints.is_empty());
    for checkpoint in listener.checkpoints {
        let again = fit_from(rows(), &started, Some(&warm), &key, Some(checkpoint), &mut Silent).unwrap();
        assert_eq!(again.parts(), whole.parts());
    }
}
