//! Conformal calibration: quantiles and rows left out against plain definitions, coverage of exchangeable rows, and what a
//! pipeline makes of it.

use crate::gp_deep_start::quick_exact;
use crate::naive::deep::{FULL, hmc};
use crate::naive::local::{Local, Places, nearest, refits};
use crate::naive::{covariance, generator, posterior, regression, relative_error};
use crate::sandbox::{SMALL, Sandbox};
use ndarray::{Array1, Array2, Axis, s};
use stride_pipe::eval::conformal::Calibration;
use stride_pipe::eval::metrics::{Predictions, evaluate};
use stride_pipe::eval::normal::normal_quantile;
use stride_pipe::eval::paired::{paired_difference, student_tails};
use stride_pipe::gp::baseline::{Baseline, KnnOptions, NearestRows, Ridge, TargetMean};
use stride_pipe::gp::deep::{DeepOptions, EmOptions, LayerOptions, Start, fit};
use stride_pipe::gp::exact::ExactGp;
use stride_pipe::gp::kernel::{Hyper, Kernel};
use stride_pipe::gp::leave_one_out::LeaveOneOut;
use stride_pipe::gp::linalg::NEVER;
use stride_pipe::gp::neighbours::{LocalKernel, LocalOptions};
use stride_pipe::gp::observer::Silent;
use stride_pipe::gp::random::{StreamKey, standard_normal, uniform};
use stride_pipe::gp::row_noise::RowNoise;
use stride_pipe::gp::sparse::{JITTER, SparseGp};
use stride_pipe::store::{read_predictions, read_table};
use stride_pipe::tables::MetricRow;

fn scores(seed: u64, n: usize) -> Vec<f64> {
    let mut rng = generator(seed);
    (0..n).map(|_| standard_normal(&mut rng).powi(3)).collect()
}

/// The rank of a quantile of so many per mille, in whole numbers: away from the middle.
fn rank(n: usize, mille: usize) -> usize {
    let places = (n + 1) * mille;
    if mille < 500 { places / 1000 } else { places.div_ceil(1000) }
}

/// Draws are made from the distribution that `share_below` describes.
#[test]
fn a_share_and_its_score_belong_together() {
    for n in [10, 199, 5000] {
        let calibration = Calibration::from_scores(scores(31, n)).unwrap();
        let mut last = f64::NEG_INFINITY;
        for step in 1..2000 {
            let share = f64::from(step) / 2000.0;
            let score = calibration.score_at(share);
            assert!(score >= last, "{n}: {share}");
            last = score;
            // Beyond the rows that are known both follow the normal distribution as far as those rows allow.
            let known = (n + 1) as f64 * share;
            if known >= 1.0 && known <= n as f64 {
                assert!((calibration.share_below(score) - share).abs() < 1e-9, "{n}: {share}");
            }
        }
        assert!(calibration.score_at(1e-9) <= normal_quantile(1e-9).min(calibration.scores()[0]));
        assert!(calibration.score_at(1.0 - 1e-9) >= calibration.scores()[calibration.scores().len() - 1]);
    }
}

#[test]
fn quantiles_are_those_of_the_definition() {
    for n in [10, 19, 20, 39, 40, 199, 1000, 2048] {
        let all = scores(n as u64, n);
        let calibration = Calibration::from_scores(all.clone()).unwrap();
        let mut sorted = all;
        sorted.sort_by(f64::total_cmp);
        assert_eq!((calibration.rows(), calibration.scores()), (n as u64, sorted.as_slice()));
        for mille in (1..1000).filter(|mille| *mille != 500) {
            let p = mille as f64 / 1000.0;
            let expected = match rank(n, mille) {
                0 => sorted[0].min(normal_quantile(p)),
                rank if rank > n => sorted[n - 1].max(normal_quantile(p)),
                rank => sorted[rank - 1],
            };
            assert_eq!(calibration.quantile(p), expected, "{n} rows, {p}");
        }
        let middle = f64::midpoint(sorted[n.div_ceil(2) - 1], sorted[n / 2]);
        assert!((calibration.quantile(0.5) - middle).abs() < 1e-15, "{n} rows: median");
        let back = Calibration::from_parts(calibration.ranks().to_vec(), calibration.scores().to_vec());
        assert_eq!(back.unwrap(), calibration);
    }
}

#[test]
fn of_many_rows_some_ranks_are_kept_on_the_safe_side() {
    const N: usize = 30_000;
    let all = scores(1, N);
    let calibration = Calibration::from_scores(all.clone()).unwrap();
    let mut sorted = all;
    sorted.sort_by(f64::total_cmp);
    assert!(calibration.scores().len() <= 2048 && calibration.rows() == N as u64);
    let apart = (N - 1).div_ceil(2047);
    for mille in (1..1000).filter(|mille| *mille != 500) {
        let (found, rank) = (calibration.quantile(mille as f64 / 1000.0), rank(N, mille));
        let (low, high) = if mille < 500 {
            (sorted[rank.saturating_sub(1 + apart)], sorted[rank - 1])
        } else {
            (sorted[rank - 1], sorted[(rank - 1 + apart).min(N - 1)])
        };
        assert!(low <= found && found <= high, "{mille} ‰: {found} between {low} and {high}");
    }
}

#[test]
fn too_few_rows_and_damaged_parts_are_none() {
    assert_eq!(Calibration::from_scores(scores(1, 9)), None);
    let mut with_nan = scores(1, 10);
    with_nan[3] = f64::NAN;
    assert_eq!(Calibration::from_scores(with_nan), None);
    let parts = |ranks: &[u64], scores: &[f64]| Calibration::from_parts(ranks.to_vec(), scores.to_vec());
    assert!(parts(&[1, 3], &[-1.0, 1.0]).is_some());
    for (ranks, scores) in [
        (vec![], vec![]),
        (vec![1, 2], vec![1.0]),
        (vec![2, 3], vec![0.0, 1.0]),
        (vec![1, 1], vec![0.0, 1.0]),
        (vec![1, 2], vec![1.0, 0.0]),
        (vec![1, 2], vec![1.0, f64::INFINITY]),
    ] {
        assert_eq!(parts(&ranks, &scores), None, "{ranks:?} {scores:?}");
    }
}

/// A score lies inside the interval of a level just where the share below it says so.
#[test]
fn shares_below_agree_with_intervals() {
    for n in [50, 3000] {
        let calibration = Calibration::from_scores(scores(3, n)).unwrap();
        let mut rng = generator(4);
        for _ in 0..2000 {
            let score = 2.0 * standard_normal(&mut rng).powi(3);
            let share = calibration.share_below(score);
            assert!((0.0..=1.0).contains(&share));
            let level = (2.0 * share - 1.0).abs();
            let (wide, narrow) = ((level + 8.0 / n as f64).min(0.999), level - 8.0 / n as f64);
            let inside = |level: f64| {
                let (low, high) =
                    (calibration.quantile((1.0 - level) / 2.0), calibration.quantile(f64::midpoint(1.0, level)));
                low <= score && score <= high
            };
            assert!(wide >= 0.999 || inside(wide), "{n}: {score} with {share}");
            assert!(narrow <= 0.0 || !inside(narrow), "{n}: {score} with {share}");
        }
    }
}

#[test]
fn metrics_are_of_the_calibrated_intervals() {
    let all = scores(7, 60);
    let calibration = Calibration::from_scores(all).unwrap();
    let (y_true, y_mean, y_std) = (scores(8, 40), vec![0.2; 40], vec![1.5; 40]);
    let of = |calibration| {
        let (y_true, y_mean, y_std) = (&y_true, &y_mean, Some(&*y_std));
        evaluate(&Predictions { y_true, y_mean, y_std, noise_variance: Some(1.0), calibration, on_scale: None })
            .unwrap()
    };
    let (found, normal) = (of(Some(&calibration)), of(None));
    let value = |name: &str| found.iter().find(|(known, _)| *known == name).unwrap().1.unwrap();
    for (level, name) in [(0.5, "50"), (0.9, "90"), (0.95, "95")] {
        let low = 1.5 * calibration.quantile((1.0 - level) / 2.0) + 0.2;
        let high = 1.5 * calibration.quantile(f64::midpoint(1.0, level)) + 0.2;
        let inside = y_true.iter().filter(|y| low <= **y && **y <= high).count() as f64 / 40.0;
        assert!((value(&format!("coverage_{name}")) - inside).abs() < 1e-12);
        assert!((value(&format!("width_{name}")) - (high - low)).abs() < 1e-12);
        if level == 0.95 {
            let outside = |y: &f64| {
                if *y < low {
                    low - y
                } else if *y > high {
                    y - high
                } else {
                    0.0
                }
            };
            let score = high - low + 40.0 * y_true.iter().map(outside).sum::<f64>() / 40.0;
            assert!((value("interval_score_95") - score).abs() < 1e-9, "{score}");
        }
    }
    let mut loss = 0.0;
    for step in 1..20 {
        let p = f64::from(step) / 20.0;
        let quantile = 1.5 * calibration.quantile(p) + 0.2;
        for y in &y_true {
            loss += (p * (y - quantile)).max((p - 1.0) * (y - quantile)) / (19.0 * 40.0);
        }
    }
    assert!((value("pinball") - loss).abs() < 1e-12);
    // What is of the normal distribution stays.
    for ((name, found), (_, normal)) in found.iter().zip(&normal) {
        let of_intervals = ["coverage", "width", "interval", "pinball"].iter().any(|start| name.starts_with(start));
        assert!(of_intervals || found == normal, "{name}");
    }
}

// ---- rows that are left out ----

fn close(found: &LeaveOneOut, expected: &[(f64, f64)], tolerance: f64, label: &str) {
    let (residuals, variances): (Vec<f64>, Vec<f64>) = expected.iter().copied().unzip();
    let error = relative_error(&found.residuals, &residuals);
    assert!(error < tolerance, "{label}: residuals {error:e}");
    let error = relative_error(&found.variances, &variances);
    assert!(error < tolerance, "{label}: variances {error:e}");
}

fn without(x: &Array2<f64>, y: &Array1<f64>, row: usize) -> (Array2<f64>, Array1<f64>) {
    let others: Vec<usize> = (0..y.len()).filter(|other| *other != row).collect();
    (x.select(Axis(0), &others), y.select(Axis(0), &others))
}

#[test]
fn an_exact_process_leaves_rows_out_as_if_it_were_conditioned_again() {
    let (x, y) = regression(1, 30, 2, 0.3);
    for kernel in [Kernel::Rbf, Kernel::Matern12] {
        let hyper = Hyper { variance: 1.3, lengths: vec![0.8, 1.7], noise: 0.05 };
        let gp = ExactGp::condition(x.view(), y.view(), kernel, &hyper).unwrap();
        let refit = |row: usize| {
            let (x_others, y_others) = without(&x, &y, row);
            let (mean, variance) = posterior(kernel, &hyper, x_others.view(), y_others.view(), x.row(row));
            (y[row] - mean, variance + hyper.noise)
        };
        close(&gp.left_out(NEVER).unwrap(), &(0..30).map(refit).collect::<Vec<_>>(), 1e-8, &kernel.to_string());
    }
}

#[test]
fn a_sparse_process_and_its_local_layer_leave_rows_out_by_their_definitions() {
    const ROWS: [usize; 5] = [3, 11, 0, 27, 18];
    let (x, y) = regression(2, 40, 2, 0.1);
    let y = &y + &x.column(0).mapv(|value| (4.0 * value).sin());
    let (kernel, hyper, key) = (Kernel::Rbf, Hyper::isotropic(1.4, 1.2, 0.2), StreamKey::new(1));
    let gp = SparseGp::condition(x.view(), y.view(), kernel, &hyper, &ROWS, JITTER).unwrap();
    let z = x.select(Axis(0), &ROWS);
    let mut k_mm = covariance(kernel, &hyper, z.view(), z.view());
    k_mm.diag_mut().iter_mut().for_each(|v| *v += JITTER * hyper.variance);
    let k_mn = covariance(kernel, &hyper, z.view(), x.view());
    let refitted = refits((&k_mm, &k_mn), y.as_slice().unwrap(), (hyper.variance, &|_| hyper.noise));
    close(&gp.left_out(x.view(), y.view(), &key).unwrap(), &refitted, 1e-7, "sparse");

    let options = LocalOptions { neighbours: 7, kernel: LocalKernel::Auto, rows: None, known_noise: false, states: 1 };
    let (gp, fit) = gp.with_local(x.view(), y.view(), &options, &key, &mut Silent).unwrap();
    assert!(fit.is_better());
    let parts = gp.parts().local.as_ref().unwrap();
    let residuals: Vec<f64> = refitted.iter().map(|(residual, _)| *residual).collect();
    let places = Places::stationary(&x / 1.2);
    let own = parts.hyper.row(0);
    let layer = Local {
        kernel: parts.kernel,
        hyper: Hyper::isotropic(own[0], own[1], own[2]),
        places: &places,
        y: &residuals,
        noise: RowNoise::default(),
    };
    let left_out = |row: usize| {
        let (mean, variance) = layer.given(places.at(row), &layer.neighbours(places.points.row(row), 7, Some(row)));
        (residuals[row] - mean, variance)
    };
    close(&gp.left_out(x.view(), y.view(), &key).unwrap(), &(0..40).map(left_out).collect::<Vec<_>>(), 1e-6, "local");
}

#[test]
fn a_deep_process_leaves_rows_out_of_its_top_layer() {
    let (x, y) = regression(3, 25, 2, 0.3);
    let options = DeepOptions {
        start: Start::Exact(quick_exact(Kernel::Matern32)),
        layers: LayerOptions { hidden: FULL, ..LayerOptions::default() },
        em: EmOptions {
            iterations: Some(2),
            particles: 1,
            sampler: hmc(3, 3),
            final_transitions: Some(0),
            ..EmOptions::default()
        },
    };
    let key = StreamKey::new(5);
    let gp = fit(x.view(), y.view(), &options, &key, None, &mut Silent).unwrap();
    let warped = gp.hidden_layers(x.view()).unwrap().pop().unwrap().mean;
    let hyper = &gp.parts().hyper;
    let refit = |row: usize| {
        let (others, y_others) = without(&warped, &y, row);
        let (mean, variance) = posterior(gp.parts().kernel, hyper, others.view(), y_others.view(), warped.row(row));
        (y[row] - mean, variance + hyper.noise)
    };
    close(&gp.left_out(x.view(), y.view(), &key).unwrap(), &(0..25).map(refit).collect::<Vec<_>>(), 1e-4, "deep");
}

#[test]
fn baselines_leave_rows_out_as_if_they_were_fitted_again() {
    const N: usize = 30;
    let ((x, y), key) = (regression(4, N, 2, 0.4), StreamKey::new(1));
    let left_out = |baseline: Baseline| baseline.left_out(x.view(), y.view(), &RowNoise::default(), &key).unwrap();
    let of_others = |row: usize| {
        let others = without(&x, &y, row).1;
        (y[row] - others.mean().unwrap(), others.var(0.0))
    };
    let mean = left_out(TargetMean::fit(x.view(), y.view()).unwrap().into());
    close(&mean, &(0..N).map(of_others).collect::<Vec<_>>(), 1e-9, "mean");

    let ridge = Ridge::fit(x.view(), y.view(), &mut Silent).unwrap();
    let (strength, noise) = (ridge.parts().strength, ridge.parts().noise);
    // The line with this strength through the others, by a system of equations with its intercept.
    let line = |row: usize| {
        let (x_others, y_others) = without(&x, &y, row);
        let design =
            |x: &Array2<f64>| Array2::from_shape_fn((x.nrows(), 3), |(i, j)| if j == 2 { 1.0 } else { x[[i, j]] });
        let (a, own) = (design(&x_others), design(&x.slice(s![row..=row, ..]).to_owned()));
        let mut moments = a.t().dot(&a);
        (0..2).for_each(|j| moments[[j, j]] += strength);
        let lower = crate::naive::cholesky(&moments);
        let half = crate::naive::solve_lower(&lower, a.t().dot(&y_others).view());
        let from = crate::naive::solve_lower(&lower, own.row(0));
        (y[row] - from.dot(&half), noise * (1.0 + from.dot(&from)))
    };
    close(&left_out(ridge.into()), &(0..N).map(line).collect::<Vec<_>>(), 1e-8, "ridge");

    let knn = NearestRows::fit(x.view(), y.view(), KnnOptions { neighbours: Some(3) }, &mut Silent).unwrap();
    let (errors, all) = (knn.parts().errors, knn.error());
    let by_neighbours = |row: usize| {
        let found = nearest(&x, x.row(row), (0..N).filter(|other| *other != row));
        let mean = found.iter().take(3).map(|(_, other)| y[*other]).sum::<f64>() / 3.0;
        let nearby: f64 = found.iter().take(20).map(|(_, other)| errors[*other]).sum();
        (y[row] - mean, (nearby + 2.5 * all) / 22.5)
    };
    let expected: Vec<(f64, f64)> = (0..N).map(by_neighbours).collect();
    close(&left_out(knn.into()), &expected, 1e-9, "knn");
}

// ---- coverage ----

/// Rows of a wave with noise whose size differs from place to place, and has heavy tails.
fn exchangeable(seed: u64, n: usize) -> (Array2<f64>, Array1<f64>) {
    let mut rng = generator(seed);
    let x = Array2::from_shape_fn((n, 1), |_| 4.0 * uniform(&mut rng) - 2.0);
    let y = x.column(0).mapv(|x| (2.0 * x).sin() + 0.1 * (1.0 + x.abs()) * standard_normal(&mut rng).powi(3));
    (x, y)
}

/// Mean coverage of 200 repetitions is within four standard errors of what it should be, with calibration, and far from it
/// without.
#[test]
fn intervals_hold_what_they_say_of_exchangeable_rows() {
    const REPETITIONS: usize = 200;
    const TRAIN: usize = 79;
    const TEST: usize = 20;
    // Wrong in every way that calibration can repair.
    let hyper = Hyper::isotropic(1.0, 0.7, 0.3);
    let inducing: Vec<usize> = (0..12).collect();
    let key = StreamKey::new(1);
    let levels = [0.5, 0.8, 0.9, 0.95];
    let mut shares = vec![[[0.0; 4]; 3]; REPETITIONS];
    for (repetition, shares) in shares.iter_mut().enumerate() {
        let (x, y) = exchangeable(repetition as u64, TRAIN + TEST);
        let (x, stars) = (x.slice(s![..TRAIN, ..]).to_owned(), x.slice(s![TRAIN.., ..]).to_owned());
        let (y, truth) = (y.slice(s![..TRAIN]).to_owned(), y.slice(s![TRAIN..]).to_owned());
        let exact = ExactGp::condition(x.view(), y.view(), Kernel::Rbf, &hyper).unwrap();
        let sparse = SparseGp::condition(x.view(), y.view(), Kernel::Rbf, &hyper, &inducing, JITTER).unwrap();
        let of_exact = Calibration::from_scores(exact.left_out(NEVER).unwrap().scores());
        let of_sparse = Calibration::from_scores(sparse.left_out(x.view(), y.view(), &key).unwrap().scores());
        let exact = exact.predict(stars.view(), true).unwrap();
        let sparse = sparse.predict(stars.view(), true).unwrap();
        for (way, (predicted, calibration)) in
            [(&exact, of_exact), (&sparse, of_sparse), (&exact, None)].into_iter().enumerate()
        {
            for (row, truth) in truth.iter().enumerate() {
                let std = (predicted.latent_variance.as_ref().unwrap()[row] + hyper.noise).sqrt();
                let score = (truth - predicted.mean[row]) / std;
                for (share, level) in shares[way].iter_mut().zip(levels) {
                    let (low, high) = ((1.0 - level) / 2.0, f64::midpoint(1.0, level));
                    let quantile = |p: f64| calibration.as_ref().map_or_else(|| normal_quantile(p), |c| c.quantile(p));
                    *share += f64::from(u8::from(quantile(low) <= score && score <= quantile(high))) / TEST as f64;
                }
            }
        }
    }
    for (place, level) in levels.into_iter().enumerate() {
        let of = |way: usize| {
            let values: Vec<f64> = shares.iter().map(|share| share[way][place]).collect();
            let mean = values.iter().sum::<f64>() / REPETITIONS as f64;
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            (mean, (squares / (REPETITIONS * (REPETITIONS - 1)) as f64).sqrt())
        };
        for (way, name) in [(0, "exact"), (1, "sparse")] {
            let (mean, error) = of(way);
            // With 79 rows an interval may hold up to two places of 80 more.
            let most = level + 2.0 / 80.0;
            assert!(mean > level - 4.0 * error && mean < most + 4.0 * error, "{name} {level}: {mean} ± {error}");
            assert!(error < 0.02, "{name} {level}: {error} tells nothing");
        }
        let (mean, error) = of(2);
        assert!(level > 0.85 || (mean - level).abs() > 6.0 * error, "normal {level}: {mean} ± {error}");
    }
}

// ---- in pipelines ----

fn metrics(sandbox: &Sandbox) -> Vec<MetricRow> {
    read_table(sandbox.table_files("metrics").last().unwrap()).unwrap()
}

#[test]
fn a_pipeline_calibrates_what_it_predicts_and_measures() {
    let sandbox = Sandbox::new();
    sandbox.run("run small.yaml --quiet").succeeded();
    let calibrated = read_predictions(&sandbox.table_files("predictions")[0]).unwrap();
    let measured = metrics(&sandbox);
    let quantile = |name: &str| &calibrated.quantiles.iter().find(|(known, _)| known == name).unwrap().1;
    let (low, high, truth) = (quantile("y_q25"), quantile("y_q75"), calibrated.y_true.as_ref().unwrap());
    let inside = (0..truth.len()).filter(|row| low[*row] <= truth[*row] && truth[*row] <= high[*row]).count();
    // Folds of equal size: the mean over folds is that over rows.
    let mean = |name: &str| {
        let row = measured.iter().find(|row| row.metric == name && row.stat == "mean").unwrap();
        row.value.unwrap()
    };
    assert!((mean("coverage_50") - inside as f64 / truth.len() as f64).abs() < 1e-12);
    assert!(mean("interval_score_95") >= mean("width_95") && mean("pinball") > 0.0);
    let pit = calibrated.y_pit.as_ref().unwrap();
    let by_share = pit.iter().filter(|share| (2.0 * *share - 1.0).abs() <= 0.5).count();
    assert!(pit.iter().all(|share| (0.0..=1.0).contains(share)) && by_share.abs_diff(inside) <= truth.len() / 20);

    // Without calibration the same means and deviations, and the quantiles of the normal distribution.
    sandbox.write("plain.yaml", &SMALL.replace("method: gp", "method: gp, calibrate: none"));
    sandbox.run("run plain.yaml --quiet --results plain").succeeded();
    let files = sandbox.files("plain/predictions");
    let plain = read_predictions(&sandbox.path("plain/predictions").join(&files[0])).unwrap();
    assert_eq!((&plain.y_mean, &plain.y_std), (&calibrated.y_mean, &calibrated.y_std));
    let std = plain.y_std.as_ref().unwrap();
    for (name, values) in &plain.quantiles {
        let digits = name.trim_start_matches("y_q");
        let z = normal_quantile(format!("0.{digits}").parse().unwrap());
        for (row, value) in values.iter().enumerate() {
            assert!((value - z.mul_add(std[row], plain.y_mean[row])).abs() < 1e-12, "{name}");
        }
    }
    assert_ne!(&plain.quantiles[0].1, low);
}

#[test]
fn published_models_score_with_their_calibration() {
    let sandbox = Sandbox::new();
    let publish = |extra: &str| {
        let all = SMALL.split("  predictions:").next().unwrap().replace("kfold: { folds: 5 }", "all: {}");
        all.replace("method: gp", &format!("method: sparse_gp, publish: model/it{extra}"))
    };
    let score = |path: &str| {
        let command = format!("score --model model/it --input rows.parquet --intervals 0.9 --output {path}");
        sandbox.run(&command).succeeded();
        crate::scoring::content(&sandbox.path(path))
    };
    sandbox.write("publish.yaml", &publish(""));
    sandbox.run("run publish.yaml --quiet").succeeded();
    let shown = sandbox.run("model show model/it").succeeded();
    assert!(shown.stdout.contains("calibrated by"), "{}", shown.stdout);
    let calibrated = score("a.parquet");
    assert_eq!(score("b.parquet"), calibrated);
    sandbox.write("publish.yaml", &publish(", calibrate: none"));
    sandbox.run("run publish.yaml --quiet").succeeded();
    assert!(!sandbox.run("model show model/it").succeeded().stdout.contains("calibrated by"));
    assert_ne!(score("c.parquet"), calibrated);
}

#[test]
fn rows_out_of_folds_calibrate_too() {
    let sandbox = Sandbox::new();
    let small = SMALL.replace("kfold: { folds: 5 }", "holdout: { test_fraction: 0.2 }");
    let quantiles = |calibrate: &str| {
        let method = format!("method: sparse_gp, inducing: {{ count: 8 }}, calibrate: {calibrate}");
        sandbox.write(
            "x.yaml",
            &small.replace("method: gp", &method).replace("name: small", &format!("name: {calibrate}")),
        );
        sandbox.run("run x.yaml --quiet").succeeded();
        let file =
            sandbox.table_files("predictions").into_iter().find(|file| file.to_str().unwrap().contains(calibrate));
        let block = read_predictions(&file.unwrap()).unwrap();
        (block.y_mean, block.quantiles)
    };
    let (left_out, out_of_fold) = (quantiles("conformal"), quantiles("out_of_fold"));
    assert_eq!(left_out.0, out_of_fold.0, "the model is the same");
    assert_ne!(left_out.1, out_of_fold.1);
    assert_eq!(quantiles("out_of_fold"), out_of_fold, "the same again");
}

// ---- comparison of methods ----

/// Critical values of Student's distribution, from any table.
#[test]
fn tails_of_students_distribution() {
    for (degrees, t, p) in [
        (1, 1.0, 0.5),
        (2, 4.302_652_729_911_275, 0.05),
        (3, 5.840_909_309_733_345, 0.01),
        (9, 2.262_157_162_740_992, 0.05),
        (10, 3.169_272_667_175_838, 0.01),
        (19, 2.093_024_054_408_263, 0.05),
        (30, 0.682_755_693_339_266, 0.5),
    ] {
        assert!((student_tails(t, degrees) - p).abs() < 1e-9, "{degrees}: {}", student_tails(t, degrees));
        assert_eq!(student_tails(-t, degrees), student_tails(t, degrees));
    }
}

#[test]
fn differences_know_that_folds_share_training_rows() {
    let differences = [0.3, 0.1, 0.4, 0.2, 0.5];
    let found = paired_difference(&differences, 0.25).unwrap();
    // Variance 0.025, times 1/5 + 1/4.
    assert!((found.mean - 0.3).abs() < 1e-12 && (found.standard_error - (0.025 * 0.45_f64).sqrt()).abs() < 1e-12);
    assert!((found.p - student_tails(0.3 / found.standard_error, 4)).abs() < 1e-12 && found.count == 5);
    assert!(found.p > paired_difference(&differences, 0.0).unwrap().p);
    assert_eq!(paired_difference(&[0.1], 0.1), None);
    assert_eq!(paired_difference(&[0.0, 0.0], 0.1).unwrap().p, 1.0);
    assert_eq!(paired_difference(&[0.5, 0.5], 0.1).unwrap().p, 0.0);
}
