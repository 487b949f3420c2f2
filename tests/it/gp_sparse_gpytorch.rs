//! The sparse Gaussian process against `GPyTorch`; `reference/make_sgpr.py` writes the figures.

use crate::naive::{matrix, numbers, relative_error};
use ndarray::Array1;
use serde_json::Value;
use stride_pipe::gp::kernel::{Hyper, Kernel};
use stride_pipe::gp::sparse::{JITTER, SparseGp, bound_with_gradient};

#[test]
fn agrees_with_gpytorch() {
    let sets: Value = serde_json::from_str(include_str!("reference/sgpr.json")).unwrap();
    let mut compared = 0;
    for set in sets.as_array().unwrap() {
        let (x, x_star) = (matrix(&set["x"]), matrix(&set["x_star"]));
        let y = Array1::from(numbers(&set["y"]));
        for case in set["cases"].as_array().unwrap() {
            let kernel = case["kernel"].as_str().unwrap().parse().unwrap();
            let hyper = Hyper {
                variance: case["variance"].as_f64().unwrap(),
                lengths: numbers(&case["lengths"]),
                noise: case["noise"].as_f64().unwrap(),
            };
            let rows: Vec<usize> = numbers(&case["rows"]).iter().map(|v| *v as usize).collect();
            let label = format!("{} {kernel} {hyper:?}", set["name"]);
            let found = bound_with_gradient(x.view(), y.view(), kernel, &hyper, &rows, JITTER).unwrap();
            let expected = case["bound"].as_f64().unwrap();
            let error = (found.at.value - expected).abs() / expected.abs();
            assert!(error < 1e-7, "{label}: bound {error:e}");
            let error = relative_error(&found.at.gradient, &numbers(&case["gradient"]));
            assert!(error < 1e-6, "{label}: gradient {error:e}");
            let gp = SparseGp::condition(x.view(), y.view(), kernel, &hyper, &rows, JITTER).unwrap();
            let prediction = gp.predict(x_star.view(), true).unwrap();
            // GPyTorch takes no distance for less than 3e-8, which Matérn 1/2 shows.
            let tolerance = if kernel == Kernel::Matern12 { 1e-5 } else { 1e-6 };
            let error = relative_error(&prediction.mean, &numbers(&case["mean"]));
            assert!(error < tolerance, "{label}: mean {error:e}");
            let error = relative_error(&prediction.latent_variance.unwrap(), &numbers(&case["latent_variance"]));
            assert!(error < tolerance, "{label}: variance {error:e}");
            compared += 1;
        }
    }
    assert_eq!(compared, 32);
}
