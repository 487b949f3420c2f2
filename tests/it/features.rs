//! Columns and targets on other scales, against scikit-learn, pandas and `SciPy`; `reference/make_encodings.py` writes the
//! figures.

use ndarray::Array2;
use serde_json::Value;
use stride_pipe::eval::metrics::{Predictions, ScaledPredictions, evaluate};
use stride_pipe::eval::transform::{Transform, TransformName};
use stride_pipe::features::levels::{LevelMeans, RowTargets};
use stride_pipe::features::{ColumnKind, Encoder, Encoding, FeatureColumn, Missing, RawRows};

fn reference() -> Value {
    serde_json::from_str(include_str!("reference/encodings.json")).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|value| value.as_f64().unwrap_or(f64::NAN)).collect()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|value| value.as_str().unwrap().to_owned()).collect()
}

fn close(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (found - expected).abs() / expected.abs().max(1.0);
        assert!(error < tolerance, "{what}, {place}: {found} instead of {expected}");
    }
}

fn column(name: &str, kind: ColumnKind) -> FeatureColumn {
    FeatureColumn { kind, ..FeatureColumn::number(name) }
}

/// Labels as numbers and levels, in the order in which they come.
fn coded(labels: &[String]) -> (Array2<f64>, Vec<String>) {
    let mut levels: Vec<String> = Vec::new();
    let code = |label: &String| {
        let place = levels.iter().position(|level| level == label).unwrap_or_else(|| {
            levels.push(label.clone());
            levels.len() - 1
        });
        place as f64
    };
    let values: Vec<f64> = labels.iter().map(code).collect();
    (Array2::from_shape_vec((values.len(), 1), values).unwrap(), levels)
}

fn fit(column: FeatureColumn, labels: &[String], target: &[f64], folds: &[usize]) -> (Encoding, Array2<f64>) {
    let (values, levels) = coded(labels);
    let rows = RawRows { values: values.view(), levels: &[levels] };
    Encoding::fit(&[column], rows, target, folds)
}

fn apply(encoding: &Encoding, labels: &[String]) -> (Array2<f64>, u64) {
    let (values, levels) = coded(labels);
    let (x, seen) = encoding.apply(RawRows { values: values.view(), levels: &[levels] });
    (x, seen.unseen[0])
}

#[test]
fn few_levels_are_those_of_scikit_learn_and_pandas() {
    let known = &reference()["one_hot"];
    let labels = texts(&known["labels"]);
    let (encoding, _) = fit(column("region", ColumnKind::Category), &labels, &[0.0; 6], &[0; 6]);
    assert_eq!(encoding.names(), ["region=east", "region=north", "region=south", "region=west"]);
    let (rows, unseen) = apply(&encoding, &texts(&known["asked"]));
    for (row, expected) in rows.outer_iter().zip(known["rows"].as_array().unwrap()) {
        assert_eq!(row.to_vec(), numbers(expected));
    }
    assert_eq!(unseen, 1);
}

#[test]
fn many_levels_are_those_of_scikit_learn() {
    let known = &reference()["target_mean"];
    let (labels, y) = (texts(&known["labels"]), numbers(&known["y"]));
    let folds: Vec<usize> = numbers(&known["folds"]).iter().map(|fold| *fold as usize).collect();
    let (encoding, training) = fit(column("product", ColumnKind::Category), &labels, &y, &folds);
    let Encoder::TargetMean { levels, statistics } = &encoding.columns[0].encoder else { panic!("{encoding:?}") };
    assert_eq!(*levels, texts(&known["levels"]));
    close(&[statistics.smoothing], &[known["smoothing"].as_f64().unwrap()], 1e-9, "smoothing");
    close(&statistics.means, &numbers(&known["means"]), 1e-10, "means");
    close(&training.column(0).to_vec(), &numbers(&known["out_of_fold"]), 1e-10, "out of fold");
    let (rows, unseen) = apply(&encoding, &["never seen".to_owned(), levels[3].clone()]);
    close(&rows.column(0).to_vec(), &[known["unseen"].as_f64().unwrap(), statistics.means[3]], 1e-10, "unseen");
    assert_eq!(unseen, 1);
}

/// Every row by a plain loop over the rows of other folds.
#[test]
fn no_training_row_sees_its_own_target() {
    let codes: Vec<Option<usize>> = (0..60).map(|row| if row % 13 == 0 { None } else { Some((row * 7) % 9) }).collect();
    let mut target: Vec<f64> = (0..60).map(|row| f64::from((row * 5) % 11) / 3.0).collect();
    let folds: Vec<usize> = (0..60).map(|row| (row * 3) % 5).collect();
    let encoded = LevelMeans::out_of_fold(&codes, &target, 9, &folds);
    for row in 0..60 {
        let others: Vec<usize> = (0..60).filter(|other| folds[*other] != folds[row]).collect();
        let of = |level: Option<usize>| -> Vec<f64> {
            others
                .iter()
                .filter(|other| level.is_none_or(|level| codes[**other] == Some(level)))
                .map(|other| target[*other])
                .collect()
        };
        let known: Vec<f64> =
            others.iter().filter(|other| codes[**other].is_some()).map(|other| target[*other]).collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        let fitted = LevelMeans::fit(
            &others.iter().map(|other| codes[*other]).collect::<Vec<_>>(),
            &others.iter().map(|other| target[*other]).collect::<Vec<_>>(),
            9,
        );
        let expected = match codes[row] {
            Some(level) if !of(Some(level)).is_empty() => {
                let own = of(Some(level));
                (own.iter().sum::<f64>() + fitted.smoothing * mean) / (own.len() as f64 + fitted.smoothing)
            }
            _ => mean,
        };
        assert!((encoded[row] - expected).abs() < 1e-12, "{row}");
    }
    // Its own target changes nothing for a row, and something for others.
    target[17] += 100.0;
    let changed = LevelMeans::out_of_fold(&codes, &target, 9, &folds);
    assert_eq!(changed[17].to_bits(), encoded[17].to_bits());
    assert!(changed.iter().zip(&encoded).any(|(new, old)| new != old));
}

/// Weighted means, and the analysis of variance of rows whose variance is that within levels over their weight, by loops.
#[test]
fn weights_count_in_the_means_of_levels() {
    const ROWS: usize = 80;
    let codes: Vec<Option<usize>> =
        (0..ROWS).map(|row| if row % 17 == 0 { None } else { Some((row * row + row) % 7) }).collect();
    let target: Vec<f64> =
        (0..ROWS).map(|row| ((row * 37) % 23) as f64 / 7.0 + ((row * row + row) % 7) as f64).collect();
    let weights: Vec<f64> = (0..ROWS).map(|row| [0.2, 1.0, 2.5, 0.7][row % 4]).collect();
    let folds: Vec<usize> = (0..ROWS).map(|row| (row * 3) % 5).collect();
    let naive = |rows: &[usize]| {
        let rows: Vec<usize> = rows.iter().copied().filter(|row| codes[*row].is_some()).collect();
        let sum =
            |rows: &[usize], of: &dyn Fn(usize) -> f64| rows.iter().map(|row| weights[*row] * of(*row)).sum::<f64>();
        let mean = |rows: &[usize]| sum(rows, &|row| target[row]) / sum(rows, &|_| 1.0);
        let levels: Vec<Vec<usize>> = (0..7)
            .map(|level| rows.iter().copied().filter(|row| codes[*row] == Some(level)).collect::<Vec<_>>())
            .filter(|rows| !rows.is_empty())
            .collect();
        let (all, overall, count) = (sum(&rows, &|_| 1.0), mean(&rows), levels.len() as f64);
        let within = levels.iter().map(|own| sum(own, &|row| (target[row] - mean(own)).powi(2))).sum::<f64>();
        let within = within / (rows.len() as f64 - count);
        let between =
            levels.iter().map(|own| sum(own, &|_| (mean(own) - overall).powi(2))).sum::<f64>() / (count - 1.0);
        let squares: f64 = levels.iter().map(|own| sum(own, &|_| 1.0).powi(2)).sum();
        let smoothing = within * (all - squares / all) / (count - 1.0) / (between - within);
        let of = |level: Option<usize>| {
            let own: Vec<usize> = rows.iter().copied().filter(|row| codes[*row] == level).collect();
            (sum(&own, &|row| target[row]) + smoothing * overall) / (sum(&own, &|_| 1.0) + smoothing)
        };
        (0..7).map(|level| of(Some(level))).chain([overall, smoothing]).collect::<Vec<f64>>()
    };
    let targets = RowTargets { values: &target, weights: Some(&weights) };
    let fitted = LevelMeans::fit(&codes, targets, 7);
    let expected = naive(&(0..ROWS).collect::<Vec<_>>());
    let found = [&fitted.means[..], &[fitted.overall, fitted.smoothing]].concat();
    close(&found, &expected, 1e-12, "weighted");
    let encoded = LevelMeans::out_of_fold(&codes, targets, 7, &folds);
    for row in 0..ROWS {
        let others = naive(&(0..ROWS).filter(|other| folds[*other] != folds[row]).collect::<Vec<_>>());
        close(&[encoded[row]], &[others[codes[row].unwrap_or(7)]], 1e-12, "out of fold");
    }
    // Weights matter, ones do not.
    let plain = LevelMeans::fit(&codes, &target, 7);
    assert!((plain.means[2] - fitted.means[2]).abs() > 1e-3);
    assert_eq!(LevelMeans::fit(&codes, RowTargets { values: &target, weights: Some(&[1.0; ROWS]) }, 7), plain);
}

#[test]
fn gaps_are_filled_as_by_scikit_learn() {
    let known = &reference()["gaps"];
    let values = numbers(&known["values"]);
    let n = values.len();
    let table = Array2::from_shape_vec((n, 1), values).unwrap();
    let rows = RawRows { values: table.view(), levels: &[Vec::new()] };
    for (missing, name) in [(Missing::Mean, "mean"), (Missing::Median, "median")] {
        let (encoding, x) = Encoding::fit(
            &[FeatureColumn { missing, ..FeatureColumn::number("age") }],
            rows,
            &vec![0.0; n],
            &vec![0; n],
        );
        close(&x.column(0).to_vec(), &numbers(&known[name]), 1e-12, name);
        assert_eq!(encoding.apply(rows).0, x);
        assert_eq!(encoding.apply(rows).1.missing, [2]);
    }
    let indicator = FeatureColumn { missing: Missing::Indicator, ..FeatureColumn::number("age") };
    let (encoding, x) = Encoding::fit(&[indicator], rows, &vec![0.0; n], &vec![0; n]);
    assert_eq!(encoding.names(), ["age", "age.missing"]);
    for (row, expected) in x.outer_iter().zip(known["indicator"].as_array().unwrap()) {
        close(&row.to_vec(), &numbers(expected), 1e-12, "indicator");
    }
}

#[test]
fn times_are_those_of_pandas() {
    let known = &reference()["times"];
    let micros = numbers(&known["micros"]);
    let n = micros.len();
    let table = Array2::from_shape_vec((n, 1), micros).unwrap();
    let rows = RawRows { values: table.view(), levels: &[Vec::new()] };
    let (encoding, x) = Encoding::fit(&[column("at", ColumnKind::Timestamp)], rows, &vec![0.0; n], &vec![0; n]);
    let columns = known["columns"].as_object().unwrap();
    let names: Vec<String> = columns.keys().map(|name| format!("at.{name}")).collect();
    assert_eq!(encoding.names(), names);
    for (found, (name, expected)) in x.columns().into_iter().zip(columns) {
        close(&found.to_vec(), &numbers(expected), 1e-12, name);
    }
}

/// Dates without a time of day have no hour, and those of one month no month.
#[test]
fn parts_that_are_the_same_in_all_rows_are_left_out() {
    let day = 86_400e6;
    let table = Array2::from_shape_vec((3, 1), vec![0.0, day, 2.0 * day]).unwrap();
    let rows = RawRows { values: table.view(), levels: &[Vec::new()] };
    let (encoding, _) = Encoding::fit(&[column("at", ColumnKind::Timestamp)], rows, &[0.0; 3], &[0; 3]);
    assert_eq!(encoding.names(), ["at.age", "at.weekday_sin", "at.weekday_cos"]);
}

fn transform_of(case: &Value) -> Transform {
    match case["transform"].as_str().unwrap() {
        "log" => Transform::Log,
        "log1p" => Transform::Log1p,
        _ => Transform::YeoJohnson { lambda: case["lambda"].as_f64().unwrap() },
    }
}

#[test]
fn targets_on_other_scales_agree_with_numerical_integration() {
    let known = &reference()["targets"];
    let cases = known["cases"].as_array().unwrap();
    for case in cases {
        let number = |name: &str| case[name].as_f64().unwrap();
        let (transform, mean, std, y) = (transform_of(case), number("mean"), number("std"), number("y"));
        let what = format!("{transform:?} at {mean} ± {std}, y = {y}");
        let found = transform.moments(mean, std);
        close(&[found.mean, found.std], &[number("y_mean"), number("y_std")], 1e-9, &what);
        close(&[transform.crps(y, mean, std)], &[number("crps")], 1e-5, &what);
        close(&[transform.inverse(transform.forward(y))], &[y], 1e-12, &what);
        let (means, stds) = ([mean], [std]);
        let on_scale = Some(ScaledPredictions { transform, mean: &means, std: &stds, noise_std: std });
        let metrics = evaluate(&Predictions {
            y_true: &[y],
            y_mean: &[found.mean],
            y_std: Some(&[found.std]),
            noise_variance: Some(1.0),
            calibration: None,
            on_scale,
        })
        .unwrap();
        let metric = |name: &str| metrics.iter().find(|(known, _)| *known == name).unwrap().1.unwrap();
        close(&[metric("nlpd"), metric("mnll")], &[number("nlpd"); 2], 1e-7, &what);
        // The ends of an interval hold its share of the probability.
        let ends = [-1.959_963_984_540_054, 1.959_963_984_540_054].map(|z| transform.inverse(std.mul_add(z, mean)));
        close(&[metric("width_95")], &[ends[1] - ends[0]], 1e-12, &what);
        assert_eq!(metric("coverage_95"), f64::from(u8::from(ends[0] <= y && y <= ends[1])), "{what}");
    }
    assert_eq!(cases.len(), 42);
}

#[test]
fn the_power_is_that_of_scipy() {
    let known = &reference()["targets"];
    let y = numbers(&known["y"]);
    let Some(Transform::YeoJohnson { lambda }) = TransformName::YeoJohnson.fit(&y) else { panic!() };
    close(&[lambda], &[known["lambda"].as_f64().unwrap()], 1e-5, "power");
    let transform = Transform::YeoJohnson { lambda: known["lambda"].as_f64().unwrap() };
    let found: Vec<f64> = y.iter().map(|y| transform.forward(*y)).collect();
    close(&found, &numbers(&known["transformed"]), 1e-10, "transformed");
    // What is nearly log-normal ends at the end of the range.
    let steep: Vec<f64> = (1..200).map(|i| (f64::from(i) / 20.0).exp()).collect();
    let Some(Transform::YeoJohnson { lambda }) = TransformName::YeoJohnson.fit(&steep) else { panic!() };
    assert!((0.0..0.05).contains(&lambda), "{lambda}");
}
