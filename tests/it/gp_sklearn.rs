//! The exact Gaussian process against scikit-learn; `reference/make_sklearn.py` writes the figures.

use crate::naive::{Reference, compare_with, numbers, relative_error};
use stride_pipe::gp::exact::{ExactGp, log_marginal_likelihood};

#[test]
fn agrees_with_scikit_learn() {
    let compared = compare_with(include_str!("reference/sklearn_gp.json"), |reference| {
        let Reference { x, y, x_star, kernel, hyper, answer, label } = reference;
        let at = log_marginal_likelihood(x.view(), y.view(), *kernel, hyper).unwrap();
        let expected = answer["log_likelihood"].as_f64().unwrap();
        assert!((at.value / expected - 1.0).abs() < 1e-8, "{label}");
        let error = relative_error(&at.gradient, &numbers(&answer["gradient"]));
        assert!(error < 1e-8, "{label}: gradient {error:e}");
        assert_eq!(at.jitter, 0.0);
        let gp = ExactGp::condition(x.view(), y.view(), *kernel, hyper).unwrap();
        assert_eq!(gp.log_likelihood().to_bits(), at.value.to_bits());
        let found = gp.predict(x_star.view(), true).unwrap();
        let error = relative_error(&found.mean, &numbers(&answer["mean"]));
        assert!(error < 1e-8, "{label}: mean {error:e}");
        let std = found.latent_variance.unwrap().mapv(|v| (v + hyper.noise).sqrt());
        let error = relative_error(&std, &numbers(&answer["y_std"]));
        assert!(error < 1e-8, "{label}: std {error:e}");
    });
    assert_eq!(compared, 45);
}
