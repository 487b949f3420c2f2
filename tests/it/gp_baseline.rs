//! The baselines against their definitions, closed forms and scikit-learn (`reference/make_baselines.py`).

use crate::naive::local::nearest;
use crate::naive::{
    assert_rows_are_on_their_own, cholesky, matrix, normal_matrix, numbers, regression, relative_error, solve_lower,
    with_threads,
};
use ndarray::{Array1, Array2, ArrayView2, Axis, array, s};
use stride_pipe::gp::GpError;
use stride_pipe::gp::baseline::{Baseline, KnnOptions, NearestRows, Ridge, TargetMean};
use stride_pipe::gp::observer::{Observer, Phase, Progress, Silent, TracePoint};

fn ridge(x: &Array2<f64>, y: &Array1<f64>) -> Ridge {
    Ridge::fit(x.view(), y.view(), &mut Silent).unwrap()
}

fn knn(x: &Array2<f64>, y: &Array1<f64>, neighbours: Option<u32>) -> NearestRows {
    NearestRows::fit(x.view(), y.view(), KnnOptions { neighbours }, &mut Silent).unwrap()
}

/// Means and standard deviations of targets.
#[expect(clippy::needless_pass_by_value, reason = "views are cheap to pass")]
fn predict(baseline: impl Into<Baseline>, x: ArrayView2<f64>) -> (Array1<f64>, Array1<f64>) {
    let baseline = baseline.into();
    let found = baseline.predict(x, true).unwrap();
    assert_eq!(found.mean, baseline.predict(x, false).unwrap().mean);
    (found.mean, found.latent_variance.unwrap().mapv(|latent| (latent + baseline.noise()).sqrt()))
}

#[test]
fn the_mean_is_the_mean() {
    let (x, y) = regression(1, 50, 3, 0.1);
    let y = y.mapv(|v| 3.0 * v - 7.0);
    let (mean, std) = predict(TargetMean::fit(x.view(), y.view()).unwrap(), x.view());
    assert!(mean.iter().all(|v| (v + 7.0).abs() < 1e-12) && std.iter().all(|v| (v - 3.0).abs() < 1e-12));
}

#[test]
fn agrees_with_scikit_learn() {
    let sets: Vec<serde_json::Value> = serde_json::from_str(include_str!("reference/baselines.json")).unwrap();
    for set in &sets {
        let (x, x_star, y) = (matrix(&set["x"]), matrix(&set["x_star"]), Array1::from(numbers(&set["y"])));
        let (name, answer) = (&set["name"], &set["ridge"]);
        let fitted = ridge(&x, &y);
        let parts = fitted.parts();
        for (what, found) in
            [("strength", parts.strength), ("noise", parts.noise), ("log_likelihood", parts.log_likelihood)]
        {
            let expected = answer[what].as_f64().unwrap();
            assert!((found / expected - 1.0).abs() < 1e-5, "{name}: {what} {found} instead of {expected}");
        }
        let (mean, std) = predict(fitted, x_star.view());
        let error = relative_error(&mean, &numbers(&answer["mean"]));
        assert!(error < 1e-6, "{name}: mean {error:e}");
        let error = relative_error(&std, &numbers(&answer["std"]));
        assert!(error < 1e-6, "{name}: std {error:e}");
        let Some(answer) = set.get("knn") else { continue };
        let chosen = knn(&x, &y, None);
        assert_eq!(chosen.neighbours() as u64, answer["neighbours"].as_u64().unwrap(), "{name}");
        let errors = numbers(&answer["errors"]);
        for neighbours in [1, 2, 7, 50] {
            let (found, expected) = (knn(&x, &y, Some(neighbours)).error(), errors[neighbours as usize - 1]);
            assert!((found / expected - 1.0).abs() < 1e-12, "{name}: {neighbours} neighbours, {found} not {expected}");
        }
        for (neighbours, means) in answer["mean"].as_object().unwrap() {
            let (mean, _) = predict(knn(&x, &y, neighbours.parse().ok()), x_star.view());
            assert!(relative_error(&mean, &numbers(means)) < 1e-13, "{name}: {neighbours} neighbours");
        }
    }
    assert_eq!(sets.len(), 5);
}

/// The line as a Gaussian process: its covariance is that of the weights and of a very uncertain intercept.
#[test]
fn ridge_is_a_gaussian_process_with_a_linear_kernel() {
    let (x, y) = regression(2, 40, 4, 0.3);
    let x = x + 3.0;
    let fitted = ridge(&x, &y);
    let parts = fitted.parts().clone();
    let stars = normal_matrix(3, 6, 4) * 2.0 + 3.0;
    let centred = |rows: &Array2<f64>| rows - &x.mean_axis(Axis(0)).unwrap();
    let flat = 1e6;
    let kernel =
        |a: &Array2<f64>, b: &Array2<f64>| centred(a).dot(&centred(b).t()) * (parts.noise / parts.strength) + flat;
    let mut covariance = kernel(&x, &x);
    covariance.diag_mut().iter_mut().for_each(|v| *v += parts.noise);
    let lower = cholesky(&covariance);
    let (k_star, prior) = (kernel(&x, &stars), kernel(&stars, &stars));
    let (mean, std) = predict(fitted, stars.view());
    for star in 0..stars.nrows() {
        let v = solve_lower(&lower, k_star.column(star));
        let expected = v.dot(&solve_lower(&lower, y.view()));
        let variance = prior[[star, star]] - v.dot(&v) + parts.noise;
        assert!((mean[star] - expected).abs() < 1e-5, "{} {expected}", mean[star]);
        assert!((std[star] / variance.sqrt() - 1.0).abs() < 1e-5, "{} {}", std[star], variance.sqrt());
    }
}

/// No other strength has a larger evidence, by its definition: the density of contrasts between rows.
#[test]
fn the_strength_has_the_largest_evidence() {
    let (x, y) = regression(4, 12, 3, 0.5);
    let n = x.nrows();
    // Each row against the mean of those before it.
    let contrasts = Array2::from_shape_fn((n - 1, n), |(i, j)| {
        let k = (i + 1) as f64;
        (if j <= i {
            1.0 / k
        } else if j == i + 1 {
            -1.0
        } else {
            0.0
        }) * (k / (k + 1.0)).sqrt()
    });
    let (rows, targets) = (contrasts.dot(&x), contrasts.dot(&y));
    let density = |strength: f64, noise: f64| {
        let covariance = (rows.dot(&rows.t()) / strength + Array2::<f64>::eye(n - 1)) * noise;
        let lower = cholesky(&covariance);
        let white = solve_lower(&lower, targets.view());
        let log_determinant: f64 = lower.diag().iter().map(|v| v.ln()).sum();
        -0.5 * white.dot(&white) - log_determinant - 0.5 * (n - 1) as f64 * std::f64::consts::TAU.ln()
    };
    let fitted = ridge(&x, &y);
    let parts = fitted.parts();
    let best = density(parts.strength, parts.noise);
    assert!((best - parts.log_likelihood).abs() < 1e-9);
    for factor in [0.01, 0.5, 0.9, 1.1, 2.0, 100.0] {
        assert!(density(parts.strength * factor, parts.noise) < best, "strength × {factor}");
        assert!(density(parts.strength, parts.noise * factor) < best, "noise × {factor}");
    }
}

#[test]
fn ridge_finds_a_line_and_shrinks_noise() {
    let x = normal_matrix(5, 200, 3);
    let line = x.dot(&array![1.0, -2.0, 0.0]) + 4.0;
    let (mean, std) = predict(ridge(&x, &line), x.view());
    assert!(relative_error(&mean, &line) < 1e-6 && std.iter().all(|std| *std < 2e-4));
    let noise = normal_matrix(6, 200, 1).column(0).to_owned();
    let (mean, std) = predict(ridge(&x, &noise), x.view());
    let centre = noise.mean().unwrap();
    assert!(mean.iter().all(|mean| (mean - centre).abs() < 0.3), "{mean}");
    assert!(std.iter().all(|v| (v - noise.std(0.0)).abs() < 0.1), "{std}");
}

/// Neighbours by sorting, errors by leaving every row out.
#[test]
fn neighbours_are_those_of_the_definition() {
    let (x, y) = regression(7, 150, 2, 0.2);
    let others = |row: usize| (0..x.nrows()).filter(move |other| *other != row);
    let square = |row: usize, count: usize| {
        let mean = nearest(&x, x.row(row), others(row)).iter().take(count).map(|(_, i)| y[*i]).sum::<f64>();
        (y[row] - mean / count as f64).powi(2)
    };
    let error = |count: usize| (0..150).map(|row| square(row, count)).sum::<f64>() / 150.0;
    let best = (1..=50).min_by(|a, b| error(*a).total_cmp(&error(*b))).unwrap();
    let fitted = knn(&x, &y, None);
    assert_eq!(fitted.neighbours(), best);
    assert!((fitted.error() / error(best) - 1.0).abs() < 1e-12);
    let stars = normal_matrix(8, 9, 2);
    let (mean, std) = predict(fitted, stars.view());
    for (star, query) in stars.outer_iter().enumerate() {
        let near = nearest(&x, query, 0..150);
        let expected = near.iter().take(best).map(|(_, i)| y[*i]).sum::<f64>() / best as f64;
        let nearby: f64 = near.iter().take(20).map(|(_, i)| square(*i, best)).sum();
        let variance = (2.5 * error(best) + nearby) / 22.5;
        assert!((mean[star] - expected).abs() < 1e-12 && (std[star] - variance.sqrt()).abs() < 1e-12);
    }
}

#[test]
fn few_rows_constant_features_and_constant_targets_do_no_harm() {
    for (n, d) in [(1, 1), (1, 4), (2, 1), (3, 5), (8, 2)] {
        for constant in [true, false] {
            let x = if constant { Array2::from_elem((n, d), 2.0) } else { normal_matrix(9, n, d) };
            for y in [Array1::zeros(n), normal_matrix(10, n, 1).column(0).to_owned()] {
                let stars = normal_matrix(11, 5, d);
                let mean = TargetMean::fit(x.view(), y.view()).unwrap();
                let all: [Baseline; 4] =
                    [mean.into(), ridge(&x, &y).into(), knn(&x, &y, None).into(), knn(&x, &y, Some(30)).into()];
                for baseline in all {
                    let (mean, std) = predict(baseline, stars.view());
                    assert!(mean.iter().all(|v| v.is_finite()) && std.iter().all(|v| *v > 0.0), "{n} {d} {constant}");
                }
            }
        }
    }
}

#[test]
fn same_bits_alone_among_others_and_for_any_number_of_threads() {
    let (x, y) = regression(12, 3000, 5, 0.2);
    let fit = |threads: usize| {
        with_threads(threads, || -> [Baseline; 2] { [ridge(&x, &y).into(), knn(&x, &y, None).into()] })
    };
    let stars = normal_matrix(13, 300, 5);
    for (one, three) in fit(1).into_iter().zip(fit(3)) {
        let [one_found, three_found] =
            [(1, &one), (3, &three)].map(|(n, b)| with_threads(n, || b.predict(stars.view(), true).unwrap()));
        assert_eq!(one_found, three_found);
        assert_rows_are_on_their_own(5, |rows| one.predict(rows, true).unwrap());
    }
}

#[test]
fn parts_give_the_same_model_and_wrong_ones_are_refused() {
    let (x, y) = regression(14, 60, 3, 0.2);
    let stars = normal_matrix(15, 7, 3);
    let (line, near) = (ridge(&x, &y), knn(&x, &y, None));
    let again = Ridge::from_parts(line.parts().clone()).unwrap();
    assert_eq!(predict(again, stars.view()), predict(line.clone(), stars.view()));
    let again = NearestRows::from_parts(near.parts()).unwrap();
    assert_eq!(predict(again, stars.view()), predict(near.clone(), stars.view()));
    let mut parts = line.parts().clone();
    parts.weights = parts.weights.slice(s![..2]).to_owned();
    assert!(matches!(Ridge::from_parts(parts), Err(GpError::BadShape { .. })));
    let mut parts = line.parts().clone();
    parts.factor[[0, 0]] = f64::NAN;
    assert!(matches!(Ridge::from_parts(parts), Err(GpError::NonFinite { .. })));
    for neighbours in [0, 61] {
        let mut parts = near.parts();
        parts.neighbours = neighbours;
        assert!(matches!(NearestRows::from_parts(parts), Err(GpError::BadShape { .. })));
    }
    let mut parts = near.parts();
    parts.errors[3] = -1.0;
    assert!(matches!(NearestRows::from_parts(parts), Err(GpError::NonFinite { .. })));
    let wrong = normal_matrix(16, 2, 4);
    for baseline in [Baseline::from(line), near.into()] {
        assert!(matches!(baseline.predict(wrong.view(), true), Err(GpError::BadShape { .. })));
    }
}

#[test]
fn a_row_that_is_no_number_has_no_prediction() {
    let (x, y) = regression(17, 40, 2, 0.1);
    let stars = array![[0.1, f64::NAN], [f64::INFINITY, 0.0], [0.1, 0.2]];
    for baseline in [Baseline::from(ridge(&x, &y)), knn(&x, &y, None).into()] {
        let (mean, std) = predict(baseline, stars.slice(s![2.., ..]));
        assert!(mean[0].is_finite() && std[0].is_finite());
    }
    let found = Baseline::from(knn(&x, &y, None)).predict(stars.view(), true).unwrap();
    let variance = found.latent_variance.unwrap();
    for row in 0..2 {
        assert!(found.mean[row].is_nan() && variance[row].is_nan());
    }
}

/// Asks to stop at once.
struct Impatient;

impl Observer for Impatient {
    fn trace(&mut self, _: &TracePoint) {}
    fn progress(&mut self, _: Progress) {}
    fn phase(&mut self, _: Phase) {}
    fn interrupted(&self) -> bool {
        true
    }
}

#[test]
fn fits_can_be_stopped() {
    let (x, y) = regression(18, 40, 2, 0.1);
    let line = Ridge::fit(x.view(), y.view(), &mut Impatient);
    assert!(matches!(line, Err(GpError::Interrupted)));
    let near = NearestRows::fit(x.view(), y.view(), KnnOptions::default(), &mut Impatient);
    assert!(matches!(near, Err(GpError::Interrupted)));
}
