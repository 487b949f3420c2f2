//! Likelihood, gradient and predictions of the exact Gaussian process.

use crate::naive::{
    self, assert_rows_are_on_their_own, hyper, normal_matrix, regression, relative_error, with_threads,
};
use ndarray::{Array1, Array2, Axis, concatenate};
use proptest::prelude::*;
use stride_pipe::gp::GpError;
use stride_pipe::gp::exact::{ExactGp, log_marginal_likelihood};
use stride_pipe::gp::kernel::{Hyper, Kernel};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn gradient_agrees_with_differences(seed in 0_u64..500, n in 3_usize..130, d in 1_usize..5, ard: bool) {
        let (x, y) = regression(seed, n, d, 0.2);
        let hyper = hyper(d, ard, seed);
        let theta = hyper.to_log();
        for kernel in Kernel::ALL {
            let at = log_marginal_likelihood(x.view(), y.view(), kernel, &hyper).unwrap();
            let expected = naive::log_likelihood(kernel, &hyper, x.view(), y.view());
            prop_assert!((at.value - expected).abs() < 1e-10 * expected.abs().max(1.0));
            let step = 1e-4;
            let value = |i: usize, by: f64| {
                let mut moved = theta.clone();
                moved[i] += by;
                naive::log_likelihood(kernel, &Hyper::from_log(&moved).unwrap(), x.view(), y.view())
            };
            // Five points: the error is of order step⁴.
            let differences: Vec<f64> = (0..theta.len()).map(|i| {
                (8.0 * (value(i, step) - value(i, -step)) - (value(i, 2.0 * step) - value(i, -2.0 * step)))
                    / (12.0 * step)
            }).collect();
            let scale = differences.iter().fold(1.0_f64, |m, v| m.max(v.abs()));
            for (found, expected) in at.gradient.iter().zip(&differences) {
                prop_assert!((found - expected).abs() < 1e-7 * scale, "{kernel}: {found} {expected}");
            }
        }
    }

    #[test]
    fn predictions_agree_with_loops(seed in 0_u64..500, n in 1_usize..150, d in 1_usize..5, ard: bool) {
        let (x, y) = regression(seed, n.max(2), d, 0.2);
        let stars = normal_matrix(seed + 7, 5, d) * 2.0;
        let hyper = hyper(d, ard, seed);
        for kernel in Kernel::ALL {
            let gp = ExactGp::condition(x.view(), y.view(), kernel, &hyper).unwrap();
            let found = gp.predict(stars.view(), true).unwrap();
            for i in 0..5 {
                let (mean, variance) = naive::posterior(kernel, &hyper, x.view(), y.view(), stars.row(i));
                prop_assert!((found.mean[i] - mean).abs() < 1e-9);
                prop_assert!((found.latent_variance.as_ref().unwrap()[i] - variance).abs() < 1e-9);
            }
        }
    }
}

#[test]
fn a_row_does_not_depend_on_its_company() {
    // Few and many training rows, few and many features: BLAS takes different paths for all of them.
    for (n, d) in [(1, 1), (2, 3), (5, 1), (37, 2), (130, 8), (307, 30), (700, 5)] {
        let (x, y) = (normal_matrix(n as u64, n, d), normal_matrix(3, n, 1).remove_axis(Axis(1)));
        for kernel in [Kernel::Rbf, Kernel::Matern12] {
            let gp = ExactGp::condition(x.view(), y.view(), kernel, &hyper(d, false, 2)).unwrap();
            assert_rows_are_on_their_own(d, |stars| gp.predict(stars, true).unwrap());
        }
    }
}

#[test]
fn any_memory_layout_gives_the_same_bits() {
    let (x, y) = regression(1, 80, 4, 0.1);
    let by_columns = x.t().as_standard_layout().into_owned();
    let stars = normal_matrix(2, 9, 4);
    let stars_by_columns = stars.t().as_standard_layout().into_owned();
    let gp = ExactGp::condition(x.view(), y.view(), Kernel::Rbf, &hyper(4, true, 1)).unwrap();
    let other = ExactGp::condition(by_columns.t(), y.view(), Kernel::Rbf, &hyper(4, true, 1)).unwrap();
    assert_eq!(gp.parts(), other.parts());
    assert_eq!(gp.predict(stars.view(), true).unwrap(), other.predict(stars_by_columns.t(), true).unwrap());
}

#[test]
fn same_bits_for_any_number_of_threads() {
    let (x, y) = regression(1, 500, 4, 0.1);
    let stars = normal_matrix(2, 300, 4);
    let run = || {
        let at = log_marginal_likelihood(x.view(), y.view(), Kernel::Matern32, &hyper(4, true, 1)).unwrap();
        let gp = ExactGp::condition(x.view(), y.view(), Kernel::Matern32, &hyper(4, true, 1)).unwrap();
        (at, gp.predict(stars.view(), true).unwrap())
    };
    let one = with_threads(1, run);
    for threads in [2, 3] {
        assert_eq!(one, with_threads(threads, run));
    }
}

#[test]
fn parts_restore_the_same_model() {
    let (x, y) = regression(5, 90, 3, 0.1);
    let gp = ExactGp::condition(x.view(), y.view(), Kernel::Matern52, &hyper(3, true, 4)).unwrap();
    let restored = ExactGp::from_parts(gp.parts().clone()).unwrap();
    let stars = normal_matrix(2, 10, 3);
    assert_eq!(gp.predict(stars.view(), true).unwrap(), restored.predict(stars.view(), true).unwrap());
    assert_eq!(gp.parts(), restored.parts());
    let mut torn = gp.into_parts();
    torn.alpha = Array1::zeros(3);
    assert!(matches!(ExactGp::from_parts(torn), Err(GpError::BadShape { .. })));
}

#[test]
fn repeated_rows_are_ordinary() {
    // Each row twice with noise γ² is each row once with noise γ²/2 (for equal targets).
    let (x, y) = regression(5, 60, 2, 0.1);
    let twice_x = concatenate(Axis(0), &[x.view(), x.view()]).unwrap();
    let twice_y = concatenate(Axis(0), &[y.view(), y.view()]).unwrap();
    let stars = normal_matrix(2, 10, 2);
    for kernel in Kernel::ALL {
        let single = Hyper::isotropic(1.3, 0.9, 0.05);
        let double = Hyper::isotropic(1.3, 0.9, 0.1);
        let a = ExactGp::condition(x.view(), y.view(), kernel, &single).unwrap();
        let b = ExactGp::condition(twice_x.view(), twice_y.view(), kernel, &double).unwrap();
        let (a, b) = (a.predict(stars.view(), true).unwrap(), b.predict(stars.view(), true).unwrap());
        assert!(relative_error(&a.mean, &b.mean) < 1e-10);
        assert!(relative_error(&a.latent_variance.unwrap(), &b.latent_variance.unwrap()) < 1e-10);
    }
}

#[test]
fn interpolation_without_noise_needs_jitter_for_repeats_only() {
    let (x, y) = regression(5, 20, 2, 0.0);
    let hyper = Hyper::isotropic(1.0, 0.5, 0.0);
    let gp = ExactGp::condition(x.view(), y.view(), Kernel::Matern32, &hyper).unwrap();
    assert_eq!(gp.jitter(), 0.0);
    let found = gp.predict(x.view(), true).unwrap();
    assert!(relative_error(&found.mean, &y) < 1e-9);
    assert!(found.latent_variance.unwrap().iter().all(|v| (0.0..1e-9).contains(v)));
    let twice_x = concatenate(Axis(0), &[x.view(), x.view()]).unwrap();
    let twice_y = concatenate(Axis(0), &[y.view(), y.view()]).unwrap();
    let gp = ExactGp::condition(twice_x.view(), twice_y.view(), Kernel::Matern32, &hyper).unwrap();
    assert!(gp.jitter() <= 1e-8 && gp.jitter() >= 0.0);
    assert!(relative_error(&gp.predict(x.view(), false).unwrap().mean, &y) < 1e-3);
}

#[test]
fn bad_input_is_refused_and_bad_rows_are_marked() {
    let (x, y) = regression(5, 20, 2, 0.1);
    let hyper = Hyper::isotropic(1.0, 0.5, 0.1);
    let condition = |x: &Array2<f64>, y: &Array1<f64>| ExactGp::condition(x.view(), y.view(), Kernel::Rbf, &hyper);
    let mut nan = x.clone();
    nan[[3, 1]] = f64::NAN;
    assert!(matches!(condition(&nan, &y), Err(GpError::NonFinite { .. })));
    assert!(condition(&x, &y.mapv(|_| f64::INFINITY)).is_err());
    assert!(condition(&x, &Array1::zeros(3)).is_err());
    assert!(condition(&Array2::zeros((0, 2)), &Array1::zeros(0)).is_err());
    let gp = condition(&x, &y).unwrap();
    assert!(matches!(gp.predict(Array2::zeros((2, 3)).view(), true), Err(GpError::BadShape { .. })));
    let found = gp.predict(nan.view(), true).unwrap();
    assert!(found.mean[3].is_nan() && found.latent_variance.as_ref().unwrap()[3].is_nan());
    assert!(found.mean[2].is_finite() && found.mean[4].is_finite());
    let none = gp.predict(Array2::zeros((0, 2)).view(), true).unwrap();
    assert_eq!((none.mean.len(), none.latent_variance.unwrap().len()), (0, 0));
    assert!(gp.predict(x.view(), false).unwrap().latent_variance.is_none());
}
