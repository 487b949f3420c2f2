//! The exact Gaussian process against scikit-learn; `reference/make_sklearn.py` writes the figures.

use crate::naive::{matrix, numbers, relative_error};
use ndarray::Array1;
use serde_json::Value;
use stride_pipe::gp::exact::{ExactGp, log_marginal_likelihood};
use stride_pipe::gp::kernel::Hyper;

#[test]
fn agrees_with_scikit_learn() {
    let sets: Value = serde_json::from_str(include_str!("reference/sklearn_gp.json")).unwrap();
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
            let label = format!("{} {kernel} {hyper:?}", set["name"]);
            let at = log_marginal_likelihood(x.view(), y.view(), kernel, &hyper).unwrap();
            let expected = case["log_likelihood"].as_f64().unwrap();
            assert!((at.value / expected - 1.0).abs() < 1e-8, "{label}");
            let error = relative_error(&at.gradient, &numbers(&case["gradient"]));
            assert!(error < 1e-8, "{label}: gradient {error:e}");
            assert_eq!(at.jitter, 0.0);
            let gp = ExactGp::condition(x.view(), y.view(), kernel, &hyper).unwrap();
            assert_eq!(gp.log_likelihood().to_bits(), at.value.to_bits());
            let found = gp.predict(x_star.view(), true).unwrap();
            let error = relative_error(&found.mean, &numbers(&case["mean"]));
            assert!(error < 1e-8, "{label}: mean {error:e}");
            let std = found.latent_variance.unwrap().mapv(|v| (v + hyper.noise).sqrt());
            let error = relative_error(&std, &numbers(&case["y_std"]));
            assert!(error < 1e-8, "{label}: std {error:e}");
            compared += 1;
        }
    }
    assert_eq!(compared, 45);
}
