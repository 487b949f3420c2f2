//! Factorisation, solves and inverse against plain loops, and the jitter rule.

use crate::naive::{self, normal_matrix, relative_error, with_threads};
use ndarray::{Array2, s};
use std::sync::atomic::{AtomicUsize, Ordering};
use stride_pipe::gp::GpError;
use stride_pipe::gp::linalg::{
    Cholesky, Side, add_gram, dot, exp_in_place, gemm_nn, gemm_nt, gemm_tn, solve_triangular,
};

fn positive(seed: u64, n: usize) -> Array2<f64> {
    let a = normal_matrix(seed, n, n);
    a.dot(&a.t()) / n as f64 + Array2::<f64>::eye(n)
}

#[test]
fn factor_agrees_with_loops() {
    // Around the block sizes, where the edges are.
    for n in [1, 2, 63, 64, 65, 128, 200, 321] {
        let a = positive(n as u64, n);
        let factor = Cholesky::factor(a.clone(), "a").unwrap();
        assert!(relative_error(factor.lower(), &naive::cholesky(&a)) < 1e-13, "n = {n}");
        assert!(relative_error(&factor.lower().dot(&factor.lower().t()), &a) < 1e-13);
    }
}

#[test]
fn large_factor_reconstructs() {
    let a = positive(4, 1100);
    let factor = Cholesky::factor(a.clone(), "a").unwrap();
    assert!(relative_error(&factor.lower().dot(&factor.lower().t()), &a) < 1e-13);
    let identity = factor.inverse().unwrap().dot(&a);
    assert!(relative_error(&identity, &Array2::eye(1100)) < 1e-11);
}

#[test]
fn the_upper_triangle_is_not_read() {
    let a = positive(3, 150);
    let mut torn = a.clone();
    for i in 0..150 {
        torn.slice_mut(s![i, i + 1..]).fill(f64::NAN);
    }
    assert_eq!(Cholesky::factor(a, "a").unwrap(), Cholesky::factor(torn, "a").unwrap());
}

#[test]
fn solves_and_inverse_undo_the_matrix() {
    for n in [1, 64, 130, 250] {
        let a = positive(n as u64, n);
        let factor = Cholesky::factor(a.clone(), "a").unwrap();
        let l = factor.lower().to_owned();
        let b = normal_matrix(9, n, 210);
        let mut x = b.clone();
        factor.solve_lower(x.view_mut()).unwrap();
        assert!(relative_error(&l.dot(&x), &b) < 1e-12);
        assert!(relative_error(&x.column(7).to_owned(), &naive::solve_lower(&l, b.column(7))) < 1e-12);
        let mut x = b.clone();
        factor.solve_lower_transposed(x.view_mut()).unwrap();
        assert!(relative_error(&l.t().dot(&x), &b) < 1e-12);
        let inverse = factor.inverse().unwrap();
        assert!(relative_error(&inverse.dot(&a), &Array2::eye(n)) < 1e-11);
        assert_eq!(inverse, inverse.t());
        let y = b.column(0);
        assert!(relative_error(&a.dot(&factor.solve_vector(y).unwrap()), &y.to_owned()) < 1e-11);
        let log_det: f64 = naive::cholesky(&a).diag().iter().map(|v| 2.0 * v.ln()).sum();
        assert!((factor.log_determinant() - log_det).abs() < 1e-10 * (1.0 + log_det.abs()));
    }
}

#[test]
fn products_and_solves_take_views() {
    let (a, b) = (normal_matrix(1, 30, 20), normal_matrix(2, 40, 20));
    let mut c = Array2::<f64>::ones((50, 60));
    gemm_nt(2.0, a.slice(s![3..13, 2..9]), b.slice(s![5..25, 1..8]), 0.5, c.slice_mut(s![7..17, 11..31])).unwrap();
    let product = a.slice(s![3..13, 2..9]).dot(&b.slice(s![5..25, 1..8]).t()) * 2.0 + 0.5;
    assert!(relative_error(c.slice(s![7..17, 11..31]), &product) < 1e-14);
    assert!(c.slice(s![..7, ..]).iter().all(|v| *v == 1.0));
    assert!(c.slice(s![17.., ..]).iter().all(|v| *v == 1.0));
    assert!(c.slice(s![.., ..11]).iter().all(|v| *v == 1.0));
    assert!(c.slice(s![.., 31..]).iter().all(|v| *v == 1.0));
}

#[test]
fn wrong_shapes_are_errors() {
    let (a, b) = (normal_matrix(1, 3, 4), normal_matrix(2, 5, 4));
    let mut c = Array2::<f64>::zeros((3, 4));
    let wrong = |r: Result<(), GpError>| matches!(r, Err(GpError::BadShape { .. }));
    assert!(wrong(gemm_nt(1.0, a.view(), b.view(), 0.0, c.view_mut())));
    assert!(wrong(gemm_nt(1.0, a.view(), a.t(), 0.0, c.view_mut())));
    let mut c = Array2::<f64>::zeros((3, 5));
    // Not stored by rows.
    assert!(wrong(gemm_nt(1.0, normal_matrix(1, 4, 3).t(), b.view(), 0.0, c.view_mut())));
    assert!(wrong(gemm_tn(1.0, a.view(), b.view(), 0.0, c.view_mut())));
    assert!(wrong(add_gram(a.view(), c.view_mut())));
    for side in [Side::Left, Side::LeftTransposed, Side::Right, Side::RightTransposed] {
        assert!(wrong(solve_triangular(side, positive(1, 4).view(), c.view_mut())));
        assert!(wrong(solve_triangular(side, a.view(), c.view_mut())));
    }
    assert!(Cholesky::factor(a, "a").is_err());
}

#[test]
fn invalid_numbers_are_found() {
    let mut a = positive(1, 100);
    a[[70, 3]] = f64::NAN;
    assert_eq!(Cholesky::factor(a, "a"), Err(GpError::NonFinite { what: "a" }));
    // Finite input whose factor overflows.
    let mut a = Array2::<f64>::eye(2);
    a[[1, 0]] = 1e200;
    assert!(Cholesky::factor(a, "a").is_err());
    assert!(Cholesky::from_lower(Array2::zeros((2, 2))).is_err());
}

#[test]
fn jitter_only_where_needed_and_no_more_than_needed() {
    let what = "k";
    let good = positive(2, 80);
    let (factor, jitter) = Cholesky::factor_with_jitter(&good, 2.0, what).unwrap();
    assert_eq!(jitter, 0.0);
    assert_eq!(factor, Cholesky::factor(good, what).unwrap());
    // The smallest eigenvalue is −3e-7: 1e-10, 1e-9, 1e-8, 1e-7 of 2 are too little, 1e-6 is enough.
    let mut bad = Array2::<f64>::eye(80);
    bad[[79, 79]] = -3e-7;
    let (_, jitter) = Cholesky::factor_with_jitter(&bad, 2.0, what).unwrap();
    assert!((jitter / 2e-6 - 1.0).abs() < 1e-12, "{jitter}");
    bad[[79, 79]] = -1.5e-4;
    let (_, jitter) = Cholesky::factor_with_jitter(&bad, 2.0, what).unwrap();
    assert!((jitter / 2e-4 - 1.0).abs() < 1e-12, "{jitter}");
    bad[[79, 79]] = -3e-4;
    let error = Cholesky::factor_with_jitter(&bad, 2.0, what).unwrap_err();
    assert!(error.is_recoverable());
    assert!(matches!(error, GpError::NotPositiveDefinite { jitter, .. } if (jitter / 2e-4 - 1.0).abs() < 1e-12));
}

#[test]
fn same_bits_for_any_number_of_threads() {
    let a = positive(6, 400);
    let b = normal_matrix(7, 400, 300);
    let run = || {
        let factor = Cholesky::factor(a.clone(), "a").unwrap();
        let mut x = b.clone();
        factor.solve_lower(x.view_mut()).unwrap();
        let inverse = factor.inverse().unwrap();
        (factor, x, inverse)
    };
    let one = with_threads(1, run);
    for threads in [2, 3] {
        assert_eq!(one, with_threads(threads, run));
    }
}

#[test]
fn inner_products() {
    for n in [0, 1, 7, 8, 9, 100] {
        let (a, b) = (normal_matrix(1, 1, n), normal_matrix(2, 1, n));
        let expected: f64 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
        let found = dot(a.as_slice().unwrap(), b.as_slice().unwrap());
        assert!((found - expected).abs() < 1e-13);
    }
}

#[test]
fn transposed_products_and_solves() {
    let (a, b) = (normal_matrix(1, 20, 7), normal_matrix(2, 20, 9));
    let mut c = Array2::<f64>::ones((7, 9));
    gemm_tn(2.0, a.view(), b.view(), 0.5, c.view_mut()).unwrap();
    assert!(relative_error(&c, &(a.t().dot(&b) * 2.0 + 0.5)) < 1e-14);
    let mut gram = Array2::<f64>::ones((7, 7));
    add_gram(a.view(), gram.view_mut()).unwrap();
    let expected = a.t().dot(&a) + 1.0;
    for i in 0..7 {
        assert!(relative_error(gram.slice(s![i, ..=i]), expected.slice(s![i, ..=i])) < 1e-13);
        assert!(gram.slice(s![i, i + 1..]).iter().all(|v| *v == 1.0));
    }
    let lower = Cholesky::factor(positive(3, 9), "a").unwrap().into_lower();
    let mut x = b.clone();
    solve_triangular(Side::Right, lower.view(), x.view_mut()).unwrap();
    assert!(relative_error(&x.dot(&lower), &b) < 1e-13);
}

fn ulps(a: f64, b: f64) -> u64 {
    if a.is_nan() && b.is_nan() { 0 } else { a.to_bits().abs_diff(b.to_bits()) }
}

#[test]
fn exponentials_over_the_whole_range() {
    let count = 400_000;
    let range = (0..=count).map(|i| -760.0 + 1480.0 * f64::from(i) / f64::from(count));
    let small = (0..2000).flat_map(|i| [1.0, -1.0].map(|s| s * 10_f64.powf(-f64::from(i) / 6.0)));
    let special = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e300, -1e300, -745.2, -745.1, 709.8];
    let x: Vec<f64> = range.chain(small).chain(special).collect();
    let mut found = x.clone();
    exp_in_place(&mut found);
    for (x, found) in x.iter().zip(&found) {
        assert!(ulps(*found, x.exp()) <= 1, "exp({x}) = {found:e}, not {:e}", x.exp());
    }
}

#[test]
fn an_exponential_does_not_depend_on_its_position() {
    for length in 1..40 {
        let mut values = vec![-0.731; length];
        exp_in_place(&mut values);
        assert!(values.iter().all(|v| v.to_bits() == values[0].to_bits()), "{length}");
    }
    let mut one = [0.0];
    exp_in_place(&mut one);
    assert_eq!(one, [1.0]);
}

/// Around the sizes of panels and blocks, and where another way is chosen.
#[test]
fn rows_times_a_small_matrix_agree_with_loops() {
    for (rows, inner, columns) in [(23, 8, 8), (24, 8, 8), (25, 9, 13), (60, 30, 50), (101, 125, 30), (24, 7, 64)] {
        let (a, b) = (normal_matrix(1, rows, inner), normal_matrix(2, inner, columns));
        let start = normal_matrix(3, rows, columns);
        let expected = Array2::from_shape_fn((rows, columns), |(i, j)| {
            -0.5 * (0..inner).map(|k| a[[i, k]] * b[[k, j]]).sum::<f64>() + 2.0 * start[[i, j]]
        });
        let mut plain = start.clone();
        gemm_nn(-0.5, a.view(), b.view(), 2.0, plain.view_mut()).unwrap();
        assert!(relative_error(&plain, &expected) < 1e-13, "{rows} {inner} {columns}");
        let turned = b.t().as_standard_layout().into_owned();
        let mut transposed = start.clone();
        gemm_nt(-0.5, a.view(), turned.view(), 2.0, transposed.view_mut()).unwrap();
        assert_eq!(plain, transposed);
        // What stands there does not matter with the factor 0, not even NaN.
        let mut fresh = Array2::from_elem((rows, columns), f64::NAN);
        gemm_nn(1.0, a.view(), b.view(), 0.0, fresh.view_mut()).unwrap();
        assert!(fresh.iter().all(|value| value.is_finite()));
    }
}

#[test]
fn rows_are_solved_with_a_triangle_as_by_loops() {
    for (rows, n) in [(7, 12), (8, 1), (8, 6), (9, 5), (16, 7), (31, 50), (40, 125)] {
        let lower = Cholesky::factor(positive(n as u64, n), "a").unwrap().lower().to_owned();
        let b = normal_matrix(5, rows, n);
        let mut x = b.clone();
        solve_triangular(Side::RightTransposed, lower.view(), x.view_mut()).unwrap();
        for (x, b) in x.outer_iter().zip(b.outer_iter()) {
            assert!(relative_error(&x.to_owned(), &naive::solve_lower(&lower, b)) < 1e-12, "{rows} {n}");
        }
        // A row is its own, wherever it stands.
        if rows >= 9 {
            let mut part = b.slice(s![1.., ..]).to_owned();
            solve_triangular(Side::RightTransposed, lower.view(), part.view_mut()).unwrap();
            assert_eq!(part, x.slice(s![1.., ..]));
        }
    }
}

/// Whoever asks to stop waits for a tile, not for the whole matrix, and asking changes no bit.
#[test]
fn a_factor_and_an_inverse_can_be_given_up_between_tiles() {
    let asked = AtomicUsize::new(0);
    let count = |limit: usize| move |asked: &AtomicUsize| asked.fetch_add(1, Ordering::Relaxed) >= limit;
    let a = positive(5, 600);
    let whole = Cholesky::factor(a.clone(), "a").unwrap();
    let never = count(usize::MAX);
    assert_eq!(Cholesky::factor_unless(&|| never(&asked), a.clone(), "a").unwrap(), whole);
    let tiles = asked.swap(0, Ordering::Relaxed);
    assert!(tiles > 20, "{tiles}");
    for limit in [0, 1, tiles / 2, tiles - 1] {
        let stop = count(limit);
        assert_eq!(Cholesky::factor_unless(&|| stop(&asked), a.clone(), "a"), Err(GpError::Interrupted), "{limit}");
        assert!(asked.swap(0, Ordering::Relaxed) < limit + 20);
    }
    let stop = count(3);
    assert_eq!(whole.inverse_lower(&|| stop(&asked)), Err(GpError::Interrupted));
}
