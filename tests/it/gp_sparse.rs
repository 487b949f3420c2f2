//! Bound, gradient and predictions of the sparse Gaussian process.

use crate::naive::sparse::Problem;
use crate::naive::{
    self, assert_rows_are_on_their_own, hyper, normal_matrix, regression, relative_error, with_threads,
};
use ndarray::Array2;
use proptest::prelude::*;
use stride_pipe::gp::GpError;
use stride_pipe::gp::exact::ExactGp;
use stride_pipe::gp::kernel::{Hyper, Kernel};
use stride_pipe::gp::linalg::Cholesky;
use stride_pipe::gp::sparse::{JITTER, Penalty, SparseGp, bound_with_gradient};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]
    #[test]
    fn agrees_with_the_definition(seed in 0_u64..500, n in 2_usize..90, d in 1_usize..5, ard: bool) {
        let (x, y) = regression(seed, n, d, 0.2);
        let stars = normal_matrix(seed + 7, 4, d) * 2.0;
        for kernel in Kernel::ALL {
            let rows: Vec<usize> = (0..n).filter(|i| i % 3 != 1).take(12).collect();
            let (x, y) = (x.clone(), y.clone());
            let p = Problem { kernel, x, y, rows, hyper: hyper(d, ard, seed), jitter: JITTER };
            let found = bound_with_gradient(p.x.view(), p.y.view(), kernel, &p.hyper, &p.rows, p.jitter).unwrap();
            let expected = p.solution(stars.view());
            // Twelve points on a line are close to singular for a smooth kernel: the tolerance of the battery.
            prop_assert!((found.at.value - expected.bound).abs() < 1e-6 * expected.bound.abs().max(1.0));
            let gradient = p.gradient(Penalty::Linear);
            let scale = gradient.iter().fold(1.0_f64, |m, v| m.max(v.abs()));
            for (found, expected) in found.at.gradient.iter().zip(&gradient) {
                prop_assert!((found - expected).abs() < 1e-6 * scale, "{kernel}: {found} {expected}");
            }
            let gp = SparseGp::condition(p.x.view(), p.y.view(), kernel, &p.hyper, &p.rows, p.jitter).unwrap();
            // One pass of tiles each, but the gradient's tiles are filled by another loop.
            prop_assert!((gp.bound() - found.at.value).abs() < 1e-6 * found.at.value.abs().max(1.0));
            let prediction = gp.predict(stars.view(), true).unwrap();
            for i in 0..4 {
                prop_assert!((prediction.mean[i] - expected.mean[i]).abs() < 1e-6);
                prop_assert!((prediction.latent_variance.as_ref().unwrap()[i] - expected.variance[i]).abs() < 1e-6);
            }
        }
    }
}

// A little-noise kernel is close to singular for smooth kernels: the exact process has K(K + jI)⁻¹K then.
#[test]
fn with_every_row_it_is_exact() {
    let (x, y) = regression(3, 70, 2, 0.2);
    let rows: Vec<usize> = (0..70).rev().collect();
    let stars = normal_matrix(9, 6, 2);
    for kernel in Kernel::ALL {
        for hyper in [Hyper::isotropic(1.3, 0.6, 0.2), Hyper::isotropic(50.0, 6.0, 0.001)] {
            let k_nn = naive::covariance(kernel, &hyper, x.view(), x.view());
            let jitter = JITTER * hyper.variance;
            let mut with_jitter = k_nn.clone();
            with_jitter.diag_mut().iter_mut().for_each(|v| *v += jitter);
            let mut half = k_nn.clone();
            Cholesky::factor(with_jitter, "k").unwrap().solve_lower(half.view_mut()).unwrap();
            let mut q = half.t().dot(&half);
            let missing: f64 = hyper.variance * 70.0 - q.diag().sum();
            q.diag_mut().iter_mut().for_each(|v| *v += hyper.noise);
            let factor = Cholesky::factor(q, "q").unwrap();
            let fit = y.dot(&factor.solve_vector(y.view()).unwrap());
            let exact = -0.5 * (fit + factor.log_determinant() + 70.0 * std::f64::consts::TAU.ln());
            let gp = SparseGp::condition(x.view(), y.view(), kernel, &hyper, &rows, JITTER).unwrap();
            assert!((gp.log_likelihood() - exact).abs() < 1e-6 * exact.abs().max(1.0), "{kernel} {hyper:?}");
            let bound = exact - missing / (2.0 * hyper.noise);
            assert!((gp.bound() - bound).abs() < 1e-6 * bound.abs().max(1.0), "{kernel} {hyper:?}");
            // Where n·jitter/γ² is small enough, jitter plays no part at all.
            if 70.0 * 1e-10 * hyper.variance / hyper.noise < 1e-7 {
                let gp = SparseGp::condition(x.view(), y.view(), kernel, &hyper, &rows, 1e-10).unwrap();
                let exact = ExactGp::condition(x.view(), y.view(), kernel, &hyper).unwrap();
                assert!((gp.bound() - exact.log_likelihood()).abs() < 1e-6, "{kernel}");
                let (a, b) = (gp.predict(stars.view(), true).unwrap(), exact.predict(stars.view(), true).unwrap());
                let error = relative_error(&a.mean, &b.mean);
                assert!(error < 1e-6, "{kernel} {error:e}");
                assert!(relative_error(&a.latent_variance.unwrap(), &b.latent_variance.unwrap()) < 1e-6);
            }
        }
    }
}

#[test]
fn same_bits_for_any_number_of_threads() {
    // Several chunks, the last tile not full.
    let (x, y) = regression(1, 2700, 4, 0.1);
    let stars = normal_matrix(2, 300, 4);
    let rows: Vec<usize> = (0..90).map(|i| i * 30).collect();
    for ard in [false, true] {
        let run = || {
            let hyper = hyper(4, ard, 1);
            let at = bound_with_gradient(x.view(), y.view(), Kernel::Matern32, &hyper, &rows, JITTER).unwrap();
            let gp = SparseGp::condition(x.view(), y.view(), Kernel::Matern32, &hyper, &rows, JITTER).unwrap();
            let prediction = gp.predict(stars.view(), true).unwrap();
            (at, gp.into_parts(), prediction)
        };
        let one = with_threads(1, run);
        for threads in [2, 3] {
            assert_eq!(one, with_threads(threads, run));
        }
    }
}

#[test]
fn a_row_does_not_depend_on_its_company() {
    for (m, d) in [(1, 1), (2, 3), (37, 2), (130, 8), (125, 30)] {
        let (x, y) = (normal_matrix(m as u64, 2 * m, d), normal_matrix(3, 2 * m, 1).column(0).to_owned());
        let rows: Vec<usize> = (0..m).map(|i| 2 * i).collect();
        for kernel in [Kernel::Rbf, Kernel::Matern52] {
            let gp = SparseGp::condition(x.view(), y.view(), kernel, &hyper(d, false, 2), &rows, JITTER).unwrap();
            assert_rows_are_on_their_own(d, |stars| gp.predict(stars, true).unwrap());
        }
    }
}

#[test]
fn parts_restore_the_same_model() {
    let (x, y) = regression(5, 90, 3, 0.1);
    let rows = [3, 80, 11, 42];
    let gp = SparseGp::condition(x.view(), y.view(), Kernel::Matern52, &hyper(3, true, 4), &rows, JITTER).unwrap();
    let restored = SparseGp::from_parts(gp.parts().clone()).unwrap();
    let stars = normal_matrix(2, 10, 3);
    assert_eq!(gp.predict(stars.view(), true).unwrap(), restored.predict(stars.view(), true).unwrap());
    assert_eq!(gp.parts(), restored.parts());
    assert_eq!(gp.rows(), rows);
    let mut torn = gp.into_parts();
    torn.lower_b = Array2::eye(3);
    assert!(matches!(SparseGp::from_parts(torn), Err(GpError::BadShape { .. })));
}

#[test]
fn bad_input_is_refused_and_bad_rows_are_marked() {
    let (x, y) = regression(5, 20, 2, 0.1);
    let good = Hyper::isotropic(1.0, 0.5, 0.1);
    let condition = |hyper: &Hyper, rows: &[usize]| {
        SparseGp::condition(x.view(), y.view(), Kernel::Rbf, hyper, rows, JITTER).map(SparseGp::into_parts)
    };
    assert!(matches!(condition(&good, &[1, 20]), Err(GpError::BadShape { .. })));
    assert!(matches!(condition(&good, &[]), Err(GpError::BadShape { .. })));
    let error = condition(&Hyper::isotropic(1.0, 0.5, 0.0), &[1]).unwrap_err();
    insta::assert_snapshot!(error, @"invalid value: a sparse model needs a positive noise");
    let gp = SparseGp::from_parts(condition(&good, &[1, 5]).unwrap()).unwrap();
    let mut nan = x.clone();
    nan[[3, 1]] = f64::NAN;
    let found = gp.predict(nan.view(), true).unwrap();
    assert!(found.mean[3].is_nan() && found.latent_variance.as_ref().unwrap()[3].is_nan());
    assert!(found.mean[2].is_finite() && found.mean[4].is_finite());
    assert!(matches!(gp.predict(Array2::zeros((2, 3)).view(), true), Err(GpError::BadShape { .. })));
    assert!(SparseGp::condition(nan.view(), y.view(), Kernel::Rbf, &good, &[1], JITTER).is_err());
}
