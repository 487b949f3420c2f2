//! Tables with columns of every kind, from the file to the scores, with the real program.

use crate::sandbox::Sandbox;
use arrow::array::{
    ArrayRef, AsArray as _, BooleanArray, Date32Array, DictionaryArray, Float64Array, Int64Array, StringArray,
};
use arrow::datatypes::{Float64Type, Int32Type, Int64Type};
use std::collections::BTreeMap;
use std::sync::Arc;
use stride_pipe::gp::random::{StreamKey, standard_normal, uniform};
use stride_pipe::store::{ModelFile, open_batches, read_predictions, read_table, write_columns};
use stride_pipe::tables::MetricRow;

/// Rows with text, dates, gaps and a skewed target; `shift` are those of another day.
fn table(rows: usize, shift: usize) -> Vec<(&'static str, ArrayRef)> {
    let mut rng = StreamKey::new(7 + shift as u64).generator();
    let (mut size, mut town, mut sort, mut day, mut fast, mut amount, mut weight) =
        (vec![], vec![], vec![], vec![], vec![], vec![], vec![]);
    for row in 0..rows {
        let place = (uniform(&mut rng) * 3.0) as usize;
        let kind = (uniform(&mut rng) * 30.0) as usize;
        let x = uniform(&mut rng);
        let w = [1.0, 4.0][row % 2];
        let log =
            1.0 + 0.5 * place as f64 + 0.1 * (kind % 7) as f64 + x + 0.2 * standard_normal(&mut rng) / f64::sqrt(w);
        size.push(if row % 10 == 3 { None } else { Some(x) });
        town.push(if shift > 0 && row % 20 == 0 { "elsewhere".to_owned() } else { format!("town {place}") });
        sort.push(if shift > 0 && row % 10 == 1 { "new".to_owned() } else { format!("s{kind:02}") });
        day.push(19_000 + (shift + row % 400) as i32);
        fast.push(Some(row % 3 == 0));
        amount.push(log.exp());
        weight.push(w);
    }
    let sorts: DictionaryArray<Int32Type> = sort.iter().map(String::as_str).collect();
    vec![
        ("id", Arc::new(Int64Array::from_iter_values((0..rows as i64).map(|row| row + 1000 * shift as i64)))),
        ("size", Arc::new(Float64Array::from(size))),
        ("town", Arc::new(StringArray::from(town))),
        ("sort", Arc::new(sorts)),
        ("day", Arc::new(Date32Array::from(day))),
        ("fast", Arc::new(BooleanArray::from(fast))),
        ("weight", Arc::new(Float64Array::from(weight))),
        ("amount", Arc::new(Float64Array::from(amount))),
    ]
}

const PIPELINE: &str = "\
version: 1
name: mixed
seed: 7
stages:
  rows:
    ingest:
      path: mixed.parquet
      key: id
      features: [town, sort, day, fast, { name: size, missing: indicator }]
      target: { name: amount, transform: log }
      weight: weight
  folds:
    split: { input: rows, holdout: { test_fraction: 0.25 } }
  model:
    train: { input: folds, method: METHOD, publish: model }
  predictions:
    predict: { model: model, input: folds, intervals: [0.95] }
  metrics:
    evaluate: { input: predictions }
";

fn prepared(rows: usize, method: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    write_columns(&sandbox.path("mixed.parquet"), table(rows, 0)).unwrap();
    sandbox.write("mixed.yaml", &PIPELINE.replace("METHOD", method));
    sandbox
}

/// Scores by key: mean, and both ends of the interval.
fn scores(sandbox: &Sandbox, file: &str) -> BTreeMap<i64, [f64; 3]> {
    let mut all = BTreeMap::new();
    for batch in open_batches(&sandbox.path(file)).unwrap().1 {
        let batch = batch.unwrap();
        let number = |name: &str| batch.column_by_name(name).unwrap().as_primitive::<Float64Type>().clone();
        let keys = batch.column_by_name("id").unwrap().as_primitive::<Int64Type>().clone();
        let columns = ["y_mean", "y_q025", "y_q975"].map(number);
        all.extend((0..batch.num_rows()).map(|row| (keys.value(row), [0, 1, 2].map(|c: usize| columns[c].value(row)))));
    }
    all
}

fn metric(sandbox: &Sandbox, name: &str) -> f64 {
    let rows: Vec<MetricRow> = read_table(sandbox.table_files("metrics").last().unwrap()).unwrap();
    rows.iter().find(|row| row.metric == name && row.stat == "mean").and_then(|row| row.value).unwrap()
}

#[test]
fn columns_of_every_kind_from_the_file_to_the_scores() {
    for method in ["gp", "knn"] {
        let sandbox = prepared(160, method);
        sandbox.run("run mixed.yaml --quiet").succeeded();
        let model = ModelFile::load(&sandbox.path("model")).unwrap();
        let names = &model.meta.feature_names;
        for name in [
            "town=town 0",
            "town=town 2",
            "sort",
            "day.age",
            "day.month_sin",
            "day.weekday_cos",
            "fast",
            "size.missing",
        ] {
            assert!(names.iter().any(|known| known == name), "{name} in {names:?}");
        }
        assert!(!names.iter().any(|name| name.starts_with("day.hour")), "{names:?}");
        assert!(metric(&sandbox, "r2") > if method == "gp" { 0.6 } else { 0.1 });
        // A model that was saved and loaded scores the same bits as the one that predicted test rows.
        let score = "score --model model --key id --intervals 0.95 --quiet";
        sandbox.run(&format!("{score} --input mixed.parquet --output scores.parquet")).succeeded();
        let scored = scores(&sandbox, "scores.parquet");
        let predicted = read_predictions(&sandbox.table_files("predictions")[0]).unwrap();
        assert_eq!(predicted.key.len(), 40);
        for (place, key) in predicted.key.iter().enumerate() {
            let [mean, low, high] = scored[&key.parse::<i64>().unwrap()];
            assert_eq!(mean.to_bits(), predicted.y_mean[place].to_bits());
            assert_eq!(low.to_bits(), predicted.quantiles[0].1[place].to_bits());
            assert!(0.0 < low && low < mean && mean < high);
        }
        let shown = sandbox.run("model show model").succeeded().stdout;
        for text in [
            "5 columns of the input",
            "the mean target of each of 29 levels",
            "of its logarithm",
            "3 columns, one per level",
        ] {
            assert!(shown.contains(text), "{text} in\n{shown}");
        }
    }
}

#[test]
fn another_day_has_levels_and_columns_that_are_new() {
    let sandbox = prepared(160, "ridge");
    sandbox.run("run mixed.yaml --quiet").succeeded();
    let mut day = table(40, 500);
    day.push(("channel", Arc::new(StringArray::from_iter_values((0..40).map(|row| format!("c{row}"))))));
    write_columns(&sandbox.path("next.parquet"), day).unwrap();
    let ran = sandbox
        .run("score --model model --key id --intervals 0.95 --input next.parquet --output next-scores.parquet --results results")
        .succeeded();
    assert!(ran.stdout.contains("levels that training has not seen: town in 5.00 % of the rows"), "{}", ran.stdout);
    assert!(ran.stdout.contains("levels that training has not seen: sort in 10.00 % of the rows"), "{}", ran.stdout);
    assert!(ran.stdout.contains("no value: size in 10.00 % of the rows"), "{}", ran.stdout);
    assert_eq!(scores(&sandbox, "next-scores.parquet").len(), 40);
    let rows: Vec<MetricRow> = read_table(sandbox.table_files("metrics").last().unwrap()).unwrap();
    let share = |metric: &str, feature: &str| {
        rows.iter()
            .find(|row| row.metric == metric && row.feature.as_deref() == Some(feature))
            .and_then(|row| row.value)
    };
    assert_eq!(share("share_unseen_levels", "sort"), Some(0.1));
    assert_eq!(share("share_missing", "size"), Some(0.1));
    // All rows are later than those of training. Time goes on: that is no drift, but rows from before training are.
    assert_eq!(share("share_outside_range", "day.age"), Some(0.0));
    assert!(!ran.stdout.contains("day.age") && !ran.stderr.contains("day.age"), "{}", ran.stderr);
    let mut earlier = table(40, 0);
    earlier[4].1 = Arc::new(Date32Array::from_iter_values((0..40).map(|row| 18_000 + row)));
    write_columns(&sandbox.path("earlier.parquet"), earlier).unwrap();
    let ran = sandbox.run("score --model model --key id --input earlier.parquet --output z.parquet").succeeded();
    assert!(ran.stderr.contains("outside the range of training: `day.age` in 100 % of the rows"), "{}", ran.stderr);
    // A gap where training had none to learn from is a row that cannot be scored.
    let failed = sandbox
        .run("score --model model --key id --input next.parquet --output x.parquet --fail-if share_unseen_levels>0.05");
    assert_eq!(failed.code, 4, "{}", failed.stderr);
    assert!(
        failed.stderr.contains("levels that training has not seen: `sort` in 10.0 % of the rows"),
        "{}",
        failed.stderr
    );
    let mut gaps = table(40, 0);
    gaps[2].1 = Arc::new((0..40).map(|row| (row != 5).then_some("town 1")).collect::<StringArray>());
    write_columns(&sandbox.path("gaps.parquet"), gaps).unwrap();
    let refused = sandbox.run("score --model model --key id --input gaps.parquet --output y.parquet");
    assert_eq!(refused.code, 65);
    assert!(refused.stderr.contains("`town`") && refused.stderr.contains("row 5"), "{}", refused.stderr);
}

/// On each scale, 95 % intervals hold what they say.
#[test]
fn intervals_of_transformed_targets_hold_what_they_say() {
    let mut rng = StreamKey::new(3).generator();
    let rows = 3000;
    let x: Vec<f64> = (0..rows).map(|_| 2.0 * uniform(&mut rng)).collect();
    let z: Vec<f64> = x.iter().map(|x| 0.5 + x + 0.4 * standard_normal(&mut rng)).collect();
    for (transform, back) in [
        ("log", f64::exp as fn(f64) -> f64),
        ("log1p", f64::exp_m1),
        // Yeo and Johnson's power 1/2.
        (
            "yeo_johnson",
            |z| if z >= 0.0 { (0.5 * z + 1.0).powi(2) - 1.0 } else { 1.0 - (1.0 - 1.5 * z).powf(2.0 / 3.0) },
        ),
    ] {
        let sandbox = Sandbox::new();
        let y: Vec<f64> = z.iter().map(|z| back(*z)).collect();
        let columns: Vec<(&str, ArrayRef)> =
            vec![("x", Arc::new(Float64Array::from(x.clone()))), ("y", Arc::new(Float64Array::from(y)))];
        write_columns(&sandbox.path("skewed.parquet"), columns).unwrap();
        for calibrate in ["none", "conformal"] {
            sandbox.write(
                "skewed.yaml",
                &format!(
                    "version: 1\nname: skewed\nseed: 1\nstages:\n  rows: {{ ingest: {{ path: skewed.parquet, features: [x], \
                     target: {{ name: y, transform: {transform} }} }} }}\n  folds: {{ split: {{ input: rows, kfold: {{ folds: 3 }} }} }}\n  \
                     model: {{ train: {{ input: folds, method: ridge, calibrate: {calibrate} }} }}\n  predictions: {{ predict: {{ model: model, \
                     input: folds, intervals: [0.95] }} }}\n  metrics: {{ evaluate: {{ input: predictions }} }}\n"
                ),
            );
            sandbox.run("run skewed.yaml --quiet").succeeded();
            let coverage = metric(&sandbox, "coverage_95");
            assert!((0.93..=0.97).contains(&coverage), "{transform}, {calibrate}: {coverage}");
            // The density of the truth, which is normal on the scale; its entropy there, and the mean slope.
            let predicted = read_predictions(sandbox.table_files("predictions").last().unwrap()).unwrap();
            let (truth, pit) = (predicted.y_true.unwrap(), predicted.y_pit.unwrap());
            let inside = pit.iter().filter(|pit| (2.0 * **pit - 1.0).abs() <= 0.95).count() as f64 / pit.len() as f64;
            assert!((inside - coverage).abs() < 0.01, "{inside} {coverage}");
            let (low, high) = (&predicted.quantiles[0].1, &predicted.quantiles[1].1);
            let held = (0..truth.len()).filter(|row| low[*row] <= truth[*row] && truth[*row] <= high[*row]).count();
            assert!((held as f64 / truth.len() as f64 - coverage).abs() < 2e-3);
            // Means are means: not medians, which are smaller by a tenth and more here.
            let (sum, of_means) = (truth.iter().sum::<f64>(), predicted.y_mean.iter().sum::<f64>());
            assert!((of_means / sum - 1.0).abs() < 0.03, "{transform}: {sum} {of_means}");
        }
    }
}

#[test]
fn methods_without_known_noise_refuse_it_before_anything_runs() {
    let sandbox = prepared(40, "stride");
    sandbox.run("validate mixed.yaml").succeeded();
    sandbox.write("mixed.yaml", &PIPELINE.replace("weight: weight", "noise_std: weight").replace("METHOD", "ridge"));
    let refused = sandbox.run("validate mixed.yaml");
    assert!(refused.code == 78 && refused.stderr.contains("`ridge` does not take `noise_std`"), "{}", refused.stderr);
    assert!(refused.stderr.contains("gp, sparse_gp, deep_gp, stride"), "{}", refused.stderr);
}

/// Weights matter, and only relative to each other; known noise matters; both are in the model.
#[test]
fn weights_and_known_noise_reach_the_model() {
    let sandbox = prepared(120, "gp");
    let mut columns = table(120, 0);
    columns.push(("ten", Arc::new((0..120).map(|row| Some([10.0, 40.0][row % 2])).collect::<Float64Array>())));
    write_columns(&sandbox.path("mixed.parquet"), columns).unwrap();
    let mean = |option: &str| {
        sandbox.write("mixed.yaml", &PIPELINE.replace("      weight: weight\n", option).replace("METHOD", "gp"));
        sandbox.run("run mixed.yaml --quiet").succeeded();
        sandbox
            .run("score --model model --key id --intervals 0.95 --input mixed.parquet --output s.parquet --quiet")
            .succeeded();
        scores(&sandbox, "s.parquet").values().map(|row| row[0]).collect::<Vec<f64>>()
    };
    let (plain, weighted, scaled) = (mean(""), mean("      weight: weight\n"), mean("      weight: ten\n"));
    let known = mean("      noise_std: weight\n");
    let apart = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a / b - 1.0).abs()).fold(0.0, f64::max);
    assert!(apart(&weighted, &scaled) < 1e-6 && apart(&plain, &weighted) > 1e-4 && apart(&plain, &known) > 1e-4);
}
