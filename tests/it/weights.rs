//! Weights of rows, and known noise: against rows that are there twice, and against plain implementations.

use crate::naive::{cholesky, covariance, hyper, regression, relative_error, solve_lower};
use ndarray::{Array1, Array2, Axis};
use stride_pipe::gp::baseline::{KnnOptions, NearestRows, Ridge, TargetMean};
use stride_pipe::gp::exact::{ExactGp, log_marginal_with};
use stride_pipe::gp::kernel::Kernel;
use stride_pipe::gp::observer::Silent;
use stride_pipe::gp::random::StreamKey;
use stride_pipe::gp::row_noise::RowNoise;
use stride_pipe::gp::sparse::{JITTER, SparseGp};

const N: usize = 24;

fn data() -> (Array2<f64>, Array1<f64>, Array1<f64>) {
    let (x, y) = regression(3, N, 2, 0.1);
    let weights = Array1::from_shape_fn(N, |row| [1.0, 2.0, 3.0][row % 3]);
    (x, y, weights)
}

fn repeated(weights: &Array1<f64>) -> Vec<usize> {
    (0..N).flat_map(|row| std::iter::repeat_n(row, weights[row] as usize)).collect()
}

/// A row of weight w counts as w rows with the same target.
#[test]
fn a_weight_is_a_number_of_rows() {
    let (x, y, weights) = data();
    let twice = repeated(&weights);
    let (many_x, many_y) = (x.select(Axis(0), &twice), y.select(Axis(0), &twice));
    let noise = RowNoise { weights: Some(weights), known: None };
    let hyper = hyper(2, true, 5);
    let stars = regression(9, 11, 2, 0.1).0;
    let one = ExactGp::condition_with(x.view(), y.view(), &noise, Kernel::Rbf, &hyper).unwrap();
    let many = ExactGp::condition(many_x.view(), many_y.view(), Kernel::Rbf, &hyper).unwrap();
    let (found, expected) = (one.predict(stars.view(), true).unwrap(), many.predict(stars.view(), true).unwrap());
    assert!(relative_error(&found.mean, &expected.mean) < 1e-8);
    assert!(relative_error(&found.latent_variance.unwrap(), &expected.latent_variance.unwrap()) < 1e-6);
    let inducing = [1, 5, 8, 13, 20];
    let places: Vec<usize> = inducing.iter().map(|row| twice.iter().position(|known| known == row).unwrap()).collect();
    let data = (x.view(), y.view(), &noise);
    let one = SparseGp::condition_with(data, Kernel::Rbf, &hyper, &inducing, JITTER).unwrap();
    let many = SparseGp::condition(many_x.view(), many_y.view(), Kernel::Rbf, &hyper, &places, JITTER).unwrap();
    let (found, expected) = (one.predict(stars.view(), true).unwrap(), many.predict(stars.view(), true).unwrap());
    assert!(relative_error(&found.mean, &expected.mean) < 1e-8);
    assert!(relative_error(&found.latent_variance.unwrap(), &expected.latent_variance.unwrap()) < 1e-6);
}

/// log N(y | 0, C) by plain loops.
fn log_density(covariance: &Array2<f64>, y: &Array1<f64>) -> f64 {
    let lower = cholesky(covariance);
    let white = solve_lower(&lower, y.view());
    let log_determinant: f64 = lower.diag().iter().map(|pivot| pivot.ln()).sum();
    -0.5 * white.dot(&white) - log_determinant - 0.5 * y.len() as f64 * std::f64::consts::TAU.ln()
}

#[test]
fn likelihoods_are_those_of_the_definition() {
    let (x, y, weights) = data();
    let known = Array1::from_shape_fn(N, |row| 0.01 * (row % 4) as f64);
    let noise = RowNoise::new(Some(weights), Some(known));
    let hyper = hyper(2, false, 5);
    let mut full = covariance(Kernel::Matern52, &hyper, x.view(), x.view());
    for row in 0..N {
        full[[row, row]] += hyper.noise / noise.weight(row) + noise.known.as_ref().unwrap()[row];
    }
    let at = log_marginal_with(x.view(), y.view(), &noise, Kernel::Matern52, &hyper).unwrap();
    assert!((at.value - log_density(&full, &y)).abs() < 1e-9 * at.value.abs());
    // The gradient, by differences.
    let theta = hyper.to_log();
    for (place, gradient) in at.gradient.iter().enumerate() {
        let value = |step: f64| {
            let mut theta = theta.clone();
            theta[place] += step;
            let hyper = stride_pipe::gp::kernel::Hyper::from_log(&theta).unwrap();
            log_marginal_with(x.view(), y.view(), &noise, Kernel::Matern52, &hyper).unwrap().value
        };
        let slope = (value(1e-5) - value(-1e-5)) / 2e-5;
        assert!((gradient - slope).abs() < 1e-5 * slope.abs().max(1.0), "{place}: {gradient} {slope}");
    }
    // The sparse bound: log N(y | 0, Q + γ²/w) − ½ Σ wᵢ (kᵢᵢ − qᵢᵢ)/γ².
    let noise = RowNoise { known: None, ..noise };
    let rows = [0, 4, 9, 14, 21];
    let data = (x.view(), y.view(), &noise);
    let gp = SparseGp::condition_with(data, Kernel::Matern52, &hyper, &rows, JITTER).unwrap();
    let x_m = x.select(Axis(0), &rows);
    let mut k_mm = covariance(Kernel::Matern52, &hyper, x_m.view(), x_m.view());
    k_mm.diag_mut().iter_mut().for_each(|value| *value += JITTER * hyper.variance);
    let (lower, k_mn) = (cholesky(&k_mm), covariance(Kernel::Matern52, &hyper, x_m.view(), x.view()));
    let white: Vec<Array1<f64>> = (0..N).map(|row| solve_lower(&lower, k_mn.column(row))).collect();
    let mut q = Array2::from_shape_fn((N, N), |(i, j)| white[i].dot(&white[j]));
    let trace: f64 = (0..N).map(|row| noise.weight(row) * (hyper.variance - q[[row, row]])).sum();
    for row in 0..N {
        q[[row, row]] += hyper.noise / noise.weight(row);
    }
    let likelihood = log_density(&q, &y);
    assert!((gp.log_likelihood() - likelihood).abs() < 1e-8 * likelihood.abs());
    let bound = likelihood - 0.5 * trace / hyper.noise;
    assert!((gp.bound() - bound).abs() < 1e-8 * bound.abs(), "{} {bound}", gp.bound());
}

/// Rows that are left out have the noise of their own weight.
#[test]
fn rows_that_are_left_out_have_their_own_noise() {
    let (x, y, weights) = data();
    let noise = RowNoise::new(Some(weights), None);
    let hyper = hyper(2, false, 5);
    let rows = [0, 4, 9, 14, 21];
    let gp = SparseGp::condition_with((x.view(), y.view(), &noise), Kernel::Rbf, &hyper, &rows, JITTER).unwrap();
    let found = gp.left_out_with((x.view(), y.view(), &noise), &StreamKey::new(1)).unwrap();
    // Without the row, with everything else as it is: the weight of nothing is nothing.
    for row in [2, 7, 16] {
        let mut without = noise.clone();
        without.weights.as_mut().unwrap()[row] = 1e-12;
        let gp = SparseGp::condition_with((x.view(), y.view(), &without), Kernel::Rbf, &hyper, &rows, JITTER).unwrap();
        let alone = x.select(Axis(0), &[row]);
        let predicted = gp.predict(alone.view(), true).unwrap();
        assert!((found.residuals[row] - (y[row] - predicted.mean[0])).abs() < 1e-6, "{row}");
        let variance = predicted.latent_variance.unwrap()[0] + noise.variance(row, hyper.noise);
        assert!((found.variances[row] - variance).abs() < 1e-6 * variance, "{row}");
    }
}

#[test]
fn baselines_weigh_rows() {
    let (x, y, weights) = data();
    let noise = RowNoise::new(Some(weights.clone()), None);
    let sum = weights.sum();
    let mean = TargetMean::fit_with(x.view(), y.view(), &noise).unwrap();
    assert!((mean.mean - weights.dot(&y) / sum).abs() < 1e-12);
    let ridge = Ridge::fit_with(x.view(), y.view(), &noise, &mut Silent).unwrap();
    let parts = ridge.parts();
    let centre = x.t().dot(&weights) / sum;
    let (centred, targets) = (&x - &centre, &y - parts.intercept);
    let w = noise.weights.as_ref().unwrap();
    let scaled = &centred * &w.mapv(f64::sqrt).insert_axis(Axis(1));
    let mut normal = scaled.t().dot(&scaled);
    normal.diag_mut().iter_mut().for_each(|value| *value += parts.strength);
    let right = centred.t().dot(&(&targets * w));
    assert!(relative_error(&normal.dot(&parts.weights), &right) < 1e-9);
    // Equal weights are none.
    let equal = RowNoise::new(Some(Array1::from_elem(N, 7.0)), None);
    let plain = Ridge::fit(x.view(), y.view(), &mut Silent).unwrap();
    let same = Ridge::fit_with(x.view(), y.view(), &equal, &mut Silent).unwrap();
    assert!(relative_error(&same.parts().weights, &plain.parts().weights) < 1e-5);
    let options = KnnOptions { neighbours: Some(3) };
    let knn = NearestRows::fit_with(x.view(), y.view(), &noise, options, &mut Silent).unwrap();
    let found = stride_pipe::gp::baseline::Baseline::from(knn).predict(x.view(), false).unwrap();
    for (row, found) in found.mean.iter().enumerate() {
        let distance = |other: &usize| (&x.row(row) - &x.row(*other)).mapv(|d| d * d).sum();
        let mut order: Vec<usize> = (0..N).collect();
        order.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
        let near = &order[..3];
        let (sum, all) = near.iter().fold((0.0, 0.0), |(sum, all), row| (sum + w[*row] * y[*row], all + w[*row]));
        assert!((found - sum / all).abs() < 1e-12, "{row}");
    }
}
