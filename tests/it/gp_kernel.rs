//! Covariance matrices against their definition.

use crate::naive::{self, normal_matrix, relative_error, with_threads};
use ndarray::{Array2, s};
use proptest::prelude::*;
use stride_pipe::gp::kernel::{Hyper, Kernel, RationalQuadratic, covariance, cross_covariance};
use stride_pipe::gp::linalg::Cholesky;

fn hyper(d: usize, ard: bool) -> Hyper {
    let lengths = if ard { d } else { 1 };
    Hyper { variance: 2.5, lengths: (0..lengths).map(|j| 0.7 + 0.4 * j as f64).collect(), noise: 0.1 }
}

#[test]
fn names_round_trip() {
    for kernel in Kernel::ALL {
        assert_eq!(kernel.to_string().parse::<Kernel>().unwrap(), kernel);
    }
    let error = "gauss".parse::<Kernel>().unwrap_err().to_string();
    insta::assert_snapshot!(error, @"invalid value: kernel `gauss`; known: rbf, matern12, matern32, matern52, rational_quadratic");
}

/// From small shapes, a mixture of many lengths, to large ones, which are the squared exponential.
#[test]
fn the_shape_of_the_rational_quadratic_kernel() {
    let at = |alpha: f64, r2: f64| Kernel::RationalQuadratic(RationalQuadratic { alpha }).correlation(r2);
    for r2 in [0.0, 0.3, 2.0, 40.0] {
        assert!((at(1e8, r2) - Kernel::Rbf.correlation(r2)).abs() < 1e-7, "{r2}");
        assert!((at(2.0, r2) - (1.0 + r2 / 4.0).powi(-2)).abs() < 1e-15, "{r2}");
        assert!(at(0.5, r2) >= at(5.0, r2), "{r2}");
    }
    let text = Kernel::RationalQuadratic(RationalQuadratic { alpha: 0.25 }).to_string();
    assert_eq!(text.parse::<Kernel>().unwrap().to_string(), text);
    let written: Kernel = serde_json::from_str(r#"{"rational_quadratic":{"alpha":0.25}}"#).unwrap();
    assert_eq!(written.to_string(), text);
}

#[test]
fn logarithms_round_trip() {
    let hyper = hyper(4, true);
    let back = Hyper::from_log(&hyper.to_log()).unwrap();
    assert!(relative_error(&back.to_log(), &hyper.to_log()) < 1e-15);
    assert!(Hyper::from_log(&[0.0, 0.0]).is_err());
}

#[test]
fn wrong_hyper_parameters_are_refused() {
    let x = normal_matrix(1, 4, 3);
    for bad in [
        Hyper::isotropic(0.0, 1.0, 0.1),
        Hyper::isotropic(1.0, -1.0, 0.1),
        Hyper::isotropic(1.0, f64::NAN, 0.1),
        Hyper::isotropic(1.0, 1.0, -0.1),
        Hyper { variance: 1.0, lengths: vec![1.0, 2.0], noise: 0.1 },
    ] {
        assert!(covariance(Kernel::Rbf, &bad, x.view()).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn matrices_agree_with_loops(
        seed in 0_u64..1000, n in 1_usize..220, m in 1_usize..130, d in 1_usize..9, ard: bool, offset in -50.0..50.0_f64,
    ) {
        let x = normal_matrix(seed, n, d) + offset;
        let z = normal_matrix(seed + 1, m, d) + offset;
        let hyper = hyper(d, ard);
        for kernel in Kernel::ALL {
            let k_nn = covariance(kernel, &hyper, x.view()).unwrap();
            let expected = naive::covariance(kernel, &hyper, x.view(), x.view());
            prop_assert!(relative_error(&k_nn, &expected) < 1e-13);
            prop_assert!(k_nn.diag().iter().all(|v| v.to_bits() == hyper.variance.to_bits()));
            prop_assert_eq!(&k_nn, &k_nn.t());
            let k_mn = cross_covariance(kernel, &hyper, z.view(), x.view()).unwrap();
            let expected = naive::covariance(kernel, &hyper, z.view(), x.view());
            prop_assert!(relative_error(&k_mn, &expected) < 1e-13);
        }
    }

    #[test]
    fn covariances_are_positive(seed in 0_u64..1000, n in 2_usize..150, d in 1_usize..6) {
        let x = normal_matrix(seed, n, d);
        for kernel in Kernel::ALL {
            let mut k_nn = covariance(kernel, &hyper(d, false), x.view()).unwrap();
            k_nn.diag_mut().iter_mut().for_each(|v| *v += 1e-9);
            prop_assert!(Cholesky::factor(k_nn, "k").is_ok());
        }
    }
}

#[test]
fn equal_and_nearly_equal_rows_keep_their_precision() {
    // Far from the origin, where the product form of the distance loses everything.
    let mut x = normal_matrix(3, 40, 4) + 1000.0;
    for i in 0..10 {
        let row = x.row(i).to_owned();
        x.slice_mut(s![i + 10, ..]).assign(&row);
        x.slice_mut(s![i + 20, ..]).assign(&(row + 1e-7));
    }
    let hyper = Hyper::isotropic(1.0, 1.0, 0.1);
    for kernel in Kernel::ALL {
        let k_nn = covariance(kernel, &hyper, x.view()).unwrap();
        let expected = naive::covariance(kernel, &hyper, x.view(), x.view());
        for i in 0..10 {
            assert_eq!(k_nn[[i + 10, i]].to_bits(), 1.0_f64.to_bits());
        }
        assert!(relative_error(&k_nn, &expected) < 1e-12, "{kernel}");
    }
}

#[test]
fn invalid_rows_stay_invalid() {
    let mut x = normal_matrix(3, 5, 2);
    x[[2, 1]] = f64::NAN;
    let z = normal_matrix(4, 5, 2);
    let k = cross_covariance(Kernel::Matern32, &hyper(2, false), z.view(), x.view()).unwrap();
    assert!(k.column(2).iter().all(|v| v.is_nan()));
    assert!(k.column(1).iter().all(|v| v.is_finite()));
}

#[test]
fn same_bits_for_any_number_of_threads() {
    let x = normal_matrix(5, 500, 5);
    let run = || covariance(Kernel::Matern52, &hyper(5, true), x.view()).unwrap();
    let one: Array2<f64> = with_threads(1, run);
    for threads in [2, 3] {
        assert_eq!(one, with_threads(threads, run));
    }
}
