//! Folds and metrics, by hand.

use crate::naive::generator;
use proptest::prelude::*;
use stride_pipe::eval::EvalError;
use stride_pipe::eval::folds::{Fold, holdout, kfold};
use stride_pipe::eval::metrics::{METRICS, Predictions, evaluate, headline, of_predictions};
use stride_pipe::eval::normal::{normal_cdf, normal_density, normal_quantile};
use stride_pipe::gp::random::below;

fn is_partition(fold: &Fold, n: usize) -> bool {
    let mut all = [&fold.train[..], &fold.test[..]].concat();
    all.sort_unstable();
    let sorted = |rows: &[usize]| rows.windows(2).all(|w| w[0] < w[1]);
    all == (0..n).collect::<Vec<_>>() && sorted(&fold.train) && sorted(&fold.test)
}

proptest! {
    #[test]
    fn folds_partition_the_rows(n in 2_usize..300, k in 2_usize..12, fraction in 0.05..0.95_f64, seed: u64) {
        let draw = |seed| { let mut rng = generator(seed); move |m| below(&mut rng, m) };
        if let Ok(fold) = holdout(n, fraction, &mut draw(seed)) {
            prop_assert!(is_partition(&fold, n));
            prop_assert!(!fold.train.is_empty());
            prop_assert_eq!(fold.test.len(), (n as f64 * fraction).round() as usize);
            prop_assert_eq!(Ok(fold), holdout(n, fraction, &mut draw(seed)));
        }
        match kfold(n, k, &mut draw(seed)) {
            Ok(folds) => {
                prop_assert!(n >= k);
                prop_assert_eq!(folds.len(), k);
                prop_assert!(folds.iter().all(|fold| is_partition(fold, n)));
                let mut tested: Vec<usize> = folds.iter().flat_map(|f| f.test.clone()).collect();
                tested.sort_unstable();
                prop_assert_eq!(tested, (0..n).collect::<Vec<_>>());
                let sizes: Vec<usize> = folds.iter().map(|f| f.test.len()).collect();
                prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
                prop_assert_eq!(Ok(folds), kfold(n, k, &mut draw(seed)));
            }
            Err(_) => prop_assert!(n < k),
        }
    }
}

#[test]
fn folds_never_change() {
    // A change here changes the folds of every user: do not update the figures.
    let mut rng = generator(1);
    let folds = kfold(10, 3, &mut |m| below(&mut rng, m)).unwrap();
    let tests: Vec<_> = folds.into_iter().map(|fold| fold.test).collect();
    insta::assert_snapshot!(format!("{tests:?}"), @"[[2, 4, 7, 9], [1, 3, 6], [0, 5, 8]]");
}

#[test]
fn impossible_splits_say_why() {
    let mut zero = |_| 0;
    let message = |error: EvalError| error.to_string();
    let messages = [
        message(kfold(3, 4, &mut zero).unwrap_err()),
        message(kfold(3, 1, &mut zero).unwrap_err()),
        message(holdout(3, 0.1, &mut zero).unwrap_err()),
        message(holdout(3, 0.9, &mut zero).unwrap_err()),
        message(holdout(0, 0.5, &mut zero).unwrap_err()),
        message(holdout(9, 1.0, &mut zero).unwrap_err()),
        message(holdout(9, f64::NAN, &mut zero).unwrap_err()),
    ];
    insta::assert_snapshot!(messages.join("\n"), @"
    cannot split 3 rows: there are fewer rows than the 4 folds; use fewer folds
    cannot split 3 rows: at least 2 folds are needed
    cannot split 3 rows: no row would be left for testing; use a larger test fraction
    cannot split 3 rows: no row would be left for training; use a smaller test fraction
    cannot split 0 rows: no row would be left for testing; use a larger test fraction
    cannot split 9 rows: the test fraction must be between 0 and 1, both excluded
    cannot split 9 rows: the test fraction must be between 0 and 1, both excluded
    ");
}

fn value(found: &[(&str, Option<f64>)], name: &str) -> Option<f64> {
    found.iter().find(|metric| metric.0 == name).unwrap().1
}

fn close(found: Option<f64>, expected: f64) -> bool {
    found.is_some_and(|v| (v - expected).abs() <= 1e-12 * expected.abs().max(1.0))
}

#[test]
fn metrics_by_hand() {
    let found = evaluate(&Predictions {
        y_true: &[1.0, 2.0, 3.0, 6.0],
        y_mean: &[1.0, 3.0, 1.0, 6.0],
        y_std: Some(&[1.0, 1.0, 1.0, 2.0]),
        noise_variance: Some(0.5),
        calibration: None,
        on_scale: None,
    })
    .unwrap();
    assert!(found.iter().map(|metric| metric.0).eq(of_predictions().map(|metric| metric.name)));
    // Errors 0, −1, 2, 0: MSE 5/4; the targets have mean 3 and population variance 14/4.
    assert!(close(value(&found, "smse"), 5.0 / 14.0));
    assert!(close(value(&found, "rmse"), 1.25_f64.sqrt()));
    assert!(close(value(&found, "mae"), 0.75));
    let pi = std::f64::consts::PI;
    assert!(close(value(&found, "mnll"), 0.5 * pi.ln() + 1.25));
    let nlpd = 0.5 * (2.0 * pi).ln() + (0.0 + 0.5 + 2.0 + 2_f64.ln()) / 4.0;
    assert!(close(value(&found, "nlpd"), nlpd));
    // |z| = 0, 1, 2, 0 against the quantiles 0.674, 1.645, 1.960.
    assert_eq!(value(&found, "coverage_50"), Some(0.5));
    assert_eq!(value(&found, "coverage_90"), Some(0.75));
    assert_eq!(value(&found, "coverage_95"), Some(0.75));
    assert!(close(value(&found, "width_50"), 2.0 * 0.674_489_750_196_081_7 * 1.25));
    assert!(close(value(&found, "width_90"), 2.0 * 1.644_853_626_951_472_7 * 1.25));
    assert!(close(value(&found, "width_95"), 2.0 * 1.959_963_984_540_054 * 1.25));
    // CRPS at z = 0, 1, 2 from Φ(1) = 0.841344746068543, Φ(2) = 0.977249868051821.
    let root = 1.0 / pi.sqrt();
    let density = |z: f64| (-z * z / 2.0).exp() / (2.0 * pi).sqrt();
    let at_0 = 2.0 * density(0.0) - root;
    let at_1 = 2.0 * 0.841_344_746_068_542_9 - 1.0 + 2.0 * density(1.0) - root;
    let at_2 = 2.0 * (2.0 * 0.977_249_868_051_820_8 - 1.0) + 2.0 * density(2.0) - root;
    assert!(close(value(&found, "crps"), (at_0 + at_1 + at_2 + 2.0 * at_0) / 4.0));
}

/// Stored tables, conditions and queries know these names: do not change them.
#[test]
fn names_of_metrics_never_change() {
    let names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
    insta::assert_snapshot!(names.join(" "), @"smse rmse mae mnll nlpd crps coverage_50 coverage_90 coverage_95 width_50 width_90 width_95 interval_score_95 pinball r2 rhat_log_likelihood ess_log_likelihood rhat_predictions ess_predictions acceptance variance_ratio rows_invalid share_outside_range share_missing share_unseen_levels nearest_distance_ratio");
    assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len(), "each once");
    assert_eq!(headline(), "smse");
    let ranked = |rank: fn(&stride_pipe::eval::metrics::Metric) -> Option<u8>| {
        let mut found: Vec<_> = METRICS.iter().filter_map(|metric| Some((rank(metric)?, metric.name))).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, name)| name).collect::<Vec<_>>()
    };
    assert_eq!(ranked(|metric| metric.headline), ["smse", "rmse", "mae", "crps", "nlpd"]);
    assert_eq!(ranked(|metric| metric.printed.map(|(rank, _)| rank)), ["r2", "rmse", "nlpd", "coverage_95"]);
}

#[test]
fn undefined_metrics_are_missing() {
    let constant = evaluate(&Predictions {
        y_true: &[0.1, 0.1, 0.1],
        y_mean: &[0.1, 0.2, 0.3],
        y_std: None,
        noise_variance: None,
        calibration: None,
        on_scale: None,
    })
    .unwrap();
    let known: Vec<_> = constant.iter().filter(|metric| metric.1.is_some()).map(|metric| metric.0).collect();
    assert_eq!(known, ["rmse", "mae"]);
    let empty = Predictions {
        y_true: &[],
        y_mean: &[],
        y_std: Some(&[]),
        noise_variance: Some(1.0),
        calibration: None,
        on_scale: None,
    };
    assert!(evaluate(&empty).unwrap().iter().all(|metric| metric.1.is_none()));
    let certain = evaluate(&Predictions {
        y_true: &[1.0, 2.0],
        y_mean: &[1.0, 2.5],
        y_std: Some(&[0.0, 0.0]),
        noise_variance: Some(0.0),
        calibration: None,
        on_scale: None,
    })
    .unwrap();
    assert_eq!(value(&certain, "nlpd"), None);
    assert_eq!(value(&certain, "mnll"), None);
    assert_eq!(value(&certain, "crps"), Some(0.25));
    assert_eq!(value(&certain, "coverage_50"), Some(0.5));
    let uneven = Predictions {
        y_true: &[1.0],
        y_mean: &[],
        y_std: None,
        noise_variance: None,
        calibration: None,
        on_scale: None,
    };
    assert!(matches!(evaluate(&uneven), Err(EvalError::LengthMismatch { .. })));
}

#[test]
fn normal_distribution_against_known_values() {
    // Computed with 30 digits.
    let cdf = [
        (0.0, 0.5),
        (0.5, 0.691_462_461_274_013_1),
        (1.0, 0.841_344_746_068_542_9),
        (-1.0, 0.158_655_253_931_457_05),
        (-1.4, 0.080_756_659_233_771_05),
        (-1.5, 0.066_807_201_268_858_07),
        (-2.0, 0.022_750_131_948_179_21),
        (-3.0, 1.349_898_031_630_094_6e-3),
        (-5.0, 2.866_515_718_791_939e-7),
        (-8.0, 6.220_960_574_271_78e-16),
        (3.0, 0.998_650_101_968_369_9),
    ];
    for (z, expected) in cdf {
        let found = normal_cdf(z);
        assert!((found / expected - 1.0).abs() < 1e-14, "Φ({z}) = {found:e}");
    }
    let quantiles = [
        (0.75, 0.674_489_750_196_081_7),
        (0.9, 1.281_551_565_544_600_4),
        (0.95, 1.644_853_626_951_472_7),
        (0.975, 1.959_963_984_540_054),
        (0.995, 2.575_829_303_548_901),
        (1e-3, -3.090_232_306_167_813),
        (1e-10, -6.361_340_902_404_056),
        (1e-100, -21.273_453_560_965_32),
    ];
    for (p, expected) in quantiles {
        let found = normal_quantile(p);
        assert!((found / expected - 1.0).abs() < 1e-14, "Φ⁻¹({p}) = {found}");
    }
    assert_eq!(normal_quantile(0.5), 0.0);
    assert_eq!(normal_quantile(0.0), f64::NEG_INFINITY);
    assert_eq!(normal_quantile(1.0), f64::INFINITY);
    assert!(normal_quantile(1.5).is_nan() && normal_quantile(f64::NAN).is_nan());
    assert!(normal_cdf(f64::NAN).is_nan());
    assert_eq!(normal_cdf(f64::NEG_INFINITY), 0.0);
    assert_eq!(normal_cdf(f64::INFINITY), 1.0);
    assert!((normal_density(0.0) - 0.398_942_280_401_432_7).abs() < 1e-16);
}

proptest! {
    #[test]
    fn quantile_inverts_cdf(p in 1e-300..0.5_f64) {
        prop_assert!((normal_cdf(normal_quantile(p)) / p - 1.0).abs() < 1e-12);
        prop_assert!((normal_quantile(1.0 - p) + normal_quantile(1.0 - (1.0 - p))).abs() < 1e-9);
    }
}

#[test]
fn r2_is_the_share_of_variance_explained() {
    let of = |y_true: &[f64], y_mean: &[f64]| {
        let all = evaluate(&Predictions {
            y_true,
            y_mean,
            y_std: None,
            noise_variance: None,
            calibration: None,
            on_scale: None,
        })
        .unwrap();
        all.into_iter().find(|(name, _)| *name == "r2").unwrap().1
    };
    // Errors 1, 0, -1, 0 about a target of variance 1.25: 1 - 0.5 / 1.25.
    assert!((of(&[1.0, 2.0, 3.0, 4.0], &[2.0, 2.0, 2.0, 4.0]).unwrap() - 0.6).abs() < 1e-15);
    assert_eq!(of(&[1.0, 2.0], &[1.0, 2.0]), Some(1.0));
    assert_eq!(of(&[1.0, 3.0], &[2.0, 2.0]), Some(0.0), "as good as the mean");
    assert_eq!(of(&[2.0, 2.0], &[2.0, 1.0]), None, "a constant target has no variance to explain");
}
