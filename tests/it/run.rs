//! Whole runs by the real binary: what ends up where, and that it can be trusted.

use crate::sandbox::{Ran, SMALL, Sandbox};
use polars::prelude::{LazyFrame, PlRefPath, ScanArgsParquet, col};
use stride_pipe::eval::metrics::of_predictions;
use stride_pipe::store::{Manifest, ModelFile, ResultsDir, read_predictions, read_table};
use stride_pipe::tables::{CaseRow, MetricRow, RunRow, TimingRow, TraceRow};

#[test]
fn a_run_leaves_every_table_and_the_manifest() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run("run small.yaml").succeeded();
    assert!(ran.stdout.contains("RMSE (y)"), "{}", ran.stdout);

    let predictions = read_predictions(&sandbox.table_files("predictions")[0]).unwrap();
    assert_eq!(predictions.rows(), 60);
    let mut rows = predictions.row.clone();
    rows.sort_unstable();
    assert_eq!(rows, (0..60).collect::<Vec<i64>>(), "every row is tested once");
    assert_eq!(predictions.key[0], (100 + predictions.row[0]).to_string());
    let quantiles: Vec<&str> = predictions.quantiles.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(quantiles, ["y_q25", "y_q75", "y_q025", "y_q975"]);
    let (y_std, f_std, noise_std) =
        (predictions.y_std.unwrap(), predictions.f_std.unwrap(), predictions.noise_std.unwrap());
    for row in 0..60 {
        let sum = f_std[row].hypot(noise_std[row]);
        assert!((y_std[row] - sum).abs() < 1e-12 * sum);
        let [q25, q75, q025, q975] = [0, 1, 2, 3].map(|level| predictions.quantiles[level].1[row]);
        assert!(q025 <= q25 && q25 < q75 && q75 <= q975, "{q025} {q25} {q75} {q975}");
    }

    let metrics: Vec<MetricRow> = read_table(&sandbox.table_files("metrics")[0]).unwrap();
    let smse: Vec<f64> =
        metrics.iter().filter(|row| row.metric == "smse" && row.fold.is_some()).map(|row| row.value.unwrap()).collect();
    let mean = metrics.iter().find(|row| row.metric == "smse" && row.stat == "mean").unwrap();
    assert_eq!((smse.len(), mean.fold, mean.rows), (5, None, 60));
    assert!((mean.value.unwrap() - smse.iter().sum::<f64>() / 5.0).abs() < 1e-15);
    assert!(mean.value.unwrap() < 0.1);

    let timings: Vec<TimingRow> = read_table(&sandbox.table_files("timings")[0]).unwrap();
    for phase in ["ingest", "split", "offline", "offline.hyper", "online", "evaluate", "write"] {
        assert!(timings.iter().any(|row| row.phase == phase && row.wall_s >= 0.0 && !row.cached), "{phase}");
    }
    let traces: Vec<TraceRow> = read_table(&sandbox.table_files("traces")[0]).unwrap();
    assert!(traces.iter().any(|row| row.fold == 4 && row.log_likelihood.is_finite()));
    let runs: Vec<RunRow> = read_table(&sandbox.table_files("runs")[0]).unwrap();
    assert_eq!((runs[0].status.as_str(), runs[0].seed), ("succeeded", 7));
    assert!(read_table::<CaseRow>(&sandbox.table_files("cases")[0]).unwrap().is_empty());

    let results = ResultsDir::new(sandbox.path("results"));
    let manifest = Manifest::load(&results, &runs[0].run_id.parse().unwrap()).unwrap();
    for file in &manifest.files {
        let hash = stride_pipe::store::input::sha256_file(&sandbox.path("results").join(&file.path)).unwrap();
        assert_eq!(hash, file.sha256, "{}", file.path);
    }
    assert_eq!(manifest.inputs.len(), 1);
    let model = ModelFile::load(&results.model_path("small", &manifest.run_id, "default", None, 3)).unwrap();
    assert_eq!(model.meta.feature_names, ["a", "b"]);
    let events = std::fs::read_to_string(results.events_path(&manifest.run_id)).unwrap();
    assert!(events.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    assert!(events.lines().last().unwrap().contains("succeeded"));
}

#[test]
fn the_same_bits_for_any_number_of_threads() {
    let bits = |threads: u32| {
        let sandbox = Sandbox::new();
        sandbox.run(&format!("run small.yaml --threads {threads}")).succeeded();
        let block = read_predictions(&sandbox.table_files("predictions")[0]).unwrap();
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<u64>>();
        (block.row, bits(&block.y_mean), bits(&block.y_std.unwrap()), bits(&block.quantiles[3].1))
    };
    let one = bits(1);
    assert_eq!(one, bits(2));
    assert_eq!(one, bits(3));
}

#[test]
fn a_second_run_takes_all_from_the_cache_and_has_the_same_tables() {
    let sandbox = Sandbox::new();
    sandbox.run("run small.yaml").succeeded();
    let second = sandbox.run("run small.yaml").succeeded();
    assert!(second.stdout.contains("0 task(s) done, 13 taken from the cache"), "{}", second.stdout);
    let metrics = sandbox.table_files("metrics");
    let strip = |path| {
        read_table(path).unwrap().into_iter().map(|row| MetricRow { run_id: String::new(), ..row }).collect::<Vec<_>>()
    };
    assert_eq!(strip(&metrics[0]), strip(&metrics[1]));
    let timings: Vec<TimingRow> = read_table(&sandbox.table_files("timings")[1]).unwrap();
    assert!(timings.iter().all(|row| row.cached || row.phase == "write"));
    let third = sandbox.run("run small.yaml --set stages.model.train.kernel=matern52").succeeded();
    assert!(third.stderr.contains("kernel changed from \"rbf\" to \"matern52\""), "{}", third.stderr);
}

#[test]
fn matrix_params_defaults_and_sets() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "sweep.yaml",
        "\
version: 1
name: sweep
params: { k: 4, where: '${env.STRIDE_TEST_DIR:-.}' }
matrix:
  kernel: [rbf, matern12, matern52]
  ard: [false, true]
  exclude: [{ kernel: matern12 }, { kernel: matern52, ard: true }]
  include: [{ kernel: matern32, ard: true }]
defaults:
  split: { kfold: { folds: '${params.k}' } }
  train: { method: gp, kernel: matern32, hyperparameters: { noise: 0.01 } }
stages:
  rows:
    ingest: { path: '${params.where}/rows.parquet', key: id, features: ['?'], target: y }
  folds:
    split: { input: rows }
  model:
    train: { input: folds, kernel: '${matrix.kernel}', ard: '${matrix.ard}' }
  predictions:
    predict: { model: model, input: folds }
  metrics:
    evaluate: { input: predictions }
",
    );
    let ran = sandbox.run("run sweep.yaml --set k=2 --set matrix.kernel=[rbf,matern52] --quiet").succeeded();
    assert_eq!(ran.stderr, "");
    let metrics: Vec<MetricRow> = read_table(&sandbox.table_files("metrics")[0]).unwrap();
    let mut cases: Vec<&str> = metrics.iter().map(|row| row.case.as_str()).collect();
    cases.dedup();
    assert_eq!(
        cases,
        ["kernel=rbf,ard=false", "kernel=rbf,ard=true", "kernel=matern52,ard=false", "kernel=matern32,ard=true"]
    );
    assert_eq!(metrics.iter().filter_map(|row| row.fold).max(), Some(1));
    let values: Vec<CaseRow> = read_table(&sandbox.table_files("cases")[0]).unwrap();
    assert_eq!((values.len(), values[1].name.as_str(), values[1].value.as_str()), (8, "ard", "false"));
    let resolved = sandbox.files("results/run").into_iter().find(|file| file.ends_with("resolved.yaml")).unwrap();
    let resolved = std::fs::read_to_string(sandbox.path("results/run").join(resolved)).unwrap();
    assert!(resolved.contains("kernel: matern52") && resolved.contains("folds: 2"), "{resolved}");
}

#[test]
fn folds_are_the_same_for_every_case_and_depend_on_the_seed() {
    let sandbox = Sandbox::new();
    let text = SMALL
        .replace("method: gp", "method: gp, kernel: '${matrix.k}'")
        .replace("stages:\n", "matrix: { k: [rbf, matern12] }\nstages:\n");
    sandbox.write("two.yaml", &text);
    sandbox.run("run two.yaml").succeeded();
    sandbox.run("run two.yaml --set seed=8").succeeded();
    let rows = |path| read_predictions(path).unwrap().row;
    let files = sandbox.table_files("predictions");
    let (first, second) = (rows(&files[0]), rows(&files[1]));
    assert_eq!(first[..60], first[60..]);
    assert_ne!(first, second);
}

#[test]
fn ways_to_split() {
    let sandbox = Sandbox::new();
    let run = |way: &str| {
        sandbox.write("way.yaml", &SMALL.replace("kfold: { folds: 5 }", way));
        sandbox.run("run way.yaml --quiet").succeeded();
        read_predictions(sandbox.table_files("predictions").last().unwrap()).unwrap()
    };
    let holdout = run("holdout: { test_fraction: 0.1, repeats: 3 }");
    assert_eq!(holdout.rows(), 18);
    let repeated = run("kfold: { folds: 3, repeats: 2 }");
    assert_eq!(repeated.rows(), 120);
    let column = run("column: { name: half, test: test }");
    assert_eq!(column.row, (0..60).filter(|row| row % 4 == 0).collect::<Vec<i64>>());
}

#[test]
fn publish_and_score_with_the_published_model() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "publish.yaml",
        "\
version: 1
name: publish
stages:
  rows:
    ingest: { path: rows.parquet, key: id, features: [a, b], target: y }
  everything:
    split: { input: rows, all: {} }
  model:
    train: { input: everything, method: gp, publish: models/small }
  in-sample:
    predict: { model: model, input: rows }
",
    );
    sandbox.write(
        "score.yaml",
        "\
version: 1
name: score
stages:
  batch:
    ingest: { path: rows.parquet, features: [b, a] }
  scores:
    predict: { model: ./models/small, input: batch, variance: false }
",
    );
    sandbox.run("run publish.yaml").succeeded();
    sandbox.run("run score.yaml").succeeded();
    let files = sandbox.table_files("predictions");
    let (own, scored) = (read_predictions(&files[0]).unwrap(), read_predictions(&files[1]).unwrap());
    assert_eq!(own.y_mean, scored.y_mean, "the order of columns does not matter");
    assert_eq!((own.split.as_str(), scored.y_std, scored.y_true), ("score", None, None));
    assert_eq!(scored.key[5], "5", "without a key, rows are named by their number");
}

#[test]
fn tables_are_read_by_directory() {
    let sandbox = Sandbox::new();
    sandbox.run("run small.yaml").succeeded();
    sandbox.run("run small.yaml --set seed=8").succeeded();
    let directory = sandbox.path("results/metrics");
    let frame = LazyFrame::scan_parquet(PlRefPath::new(directory.to_str().unwrap()), ScanArgsParquet::default())
        .unwrap()
        .filter(col("stat").eq(polars::prelude::lit("mean")))
        .collect()
        .unwrap();
    assert_eq!(frame.height(), 2 * of_predictions().count());
    let pipeline = frame.column("pipeline").unwrap();
    assert_eq!(pipeline.get(0).unwrap().get_str(), Some("small"));
}

#[test]
fn secrets_are_masked_in_everything_written() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("hush-hush")).unwrap();
    std::fs::copy(sandbox.path("rows.parquet"), sandbox.path("hush-hush/rows.parquet")).unwrap();
    sandbox
        .write("secret.yaml", &SMALL.replace("path: rows.parquet", "path: '${env.STRIDE_TEST_SECRET}/rows.parquet'"));
    let output =
        sandbox.command().args(["run", "secret.yaml"]).env("STRIDE_TEST_SECRET", "hush-hush").output().unwrap();
    let ran = Ran::from(&output).succeeded();
    assert!(!ran.stderr.contains("hush-hush") && !ran.stdout.contains("hush-hush"));
    for file in sandbox.files("results") {
        let bytes = std::fs::read(sandbox.path("results").join(&file)).unwrap();
        assert!(!bytes.windows(9).any(|window| window == b"hush-hush"), "{file}");
    }
    let output =
        sandbox.command().args(["run", "secret.yaml"]).env("STRIDE_TEST_SECRET", "not-there").output().unwrap();
    let ran = Ran::from(&output);
    assert_eq!(ran.code, 66);
    assert!(ran.stderr.contains("***") && !ran.stderr.contains("not-there"), "{}", ran.stderr);
}

#[test]
fn sparse_regression_chooses_rows_or_keeps_those_given() {
    let sandbox = Sandbox::new();
    let run = |inducing: &str, threads: u32| {
        let way = SMALL.replace("kfold: { folds: 5 }", "column: { name: half, test: test }");
        sandbox.write("sparse.yaml", &way.replace("method: gp", &format!("method: sparse_gp, inducing: {inducing}")));
        sandbox.run(&format!("run sparse.yaml --force --threads {threads}")).succeeded();
        let predictions = read_predictions(sandbox.table_files("predictions").last().unwrap()).unwrap();
        let runs: Vec<RunRow> = read_table(sandbox.table_files("runs").last().unwrap()).unwrap();
        let results = ResultsDir::new(sandbox.path("results"));
        let path = results.model_path("small", &runs[0].run_id.parse().unwrap(), "default", None, 0);
        (predictions.y_mean, ModelFile::load(&path).unwrap())
    };
    let (chosen, model) = run("{ count: 12, candidates: all }", 1);
    assert_eq!(model.meta.method, "sparse_gp");
    let rows = model.integers("inducing.rows").unwrap();
    assert_eq!(rows.len(), 12);
    assert!(
        rows.iter().all(|row| row % 4 != 0),
        "inducing points are training rows, numbered as in the source: {rows}"
    );
    assert_eq!(chosen, run("{ count: 12, candidates: all }", 2).0, "the same bits for any number of threads");

    let (_, given) = run("{ rows: [1, 2, 17, 33, 50] }", 2);
    let rows: Vec<i64> = given.integers("inducing.rows").unwrap().iter().copied().collect();
    assert_eq!(rows, [1, 2, 17, 33, 50]);
    let timings: Vec<TimingRow> = read_table(sandbox.table_files("timings").first().unwrap()).unwrap();
    assert!(timings.iter().any(|row| row.phase == "offline.select"), "choosing rows is timed");
    let traces: Vec<TraceRow> = read_table(sandbox.table_files("traces").first().unwrap()).unwrap();
    assert!(traces.iter().any(|row| row.bound.is_some() && row.inducing == 12));

    sandbox.write("test-row.yaml", &SMALL.replace("method: gp", "method: sparse_gp, inducing: { rows: [0, 1] }"));
    let refused = sandbox.run("run test-row.yaml");
    assert_eq!(refused.code, 65, "{}", refused.stderr);
    assert!(refused.stderr.contains("not a training row of this fold"), "{}", refused.stderr);
}
