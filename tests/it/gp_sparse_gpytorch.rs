//! The sparse Gaussian process against `GPyTorch`; `reference/make_sgpr.py` writes the figures.

use crate::naive::{Reference, compare_with, numbers, relative_error};
use stride_pipe::gp::kernel::Kernel;
use stride_pipe::gp::sparse::{JITTER, SparseGp, bound_with_gradient};

#[test]
fn agrees_with_gpytorch() {
    let compared = compare_with(include_str!("reference/sgpr.json"), |reference| {
        let Reference { x, y, x_star, kernel, hyper, answer, label } = reference;
        let rows: Vec<usize> = numbers(&answer["rows"]).iter().map(|v| *v as usize).collect();
        let found = bound_with_gradient(x.view(), y.view(), *kernel, hyper, &rows, JITTER).unwrap();
        let expected = answer["bound"].as_f64().unwrap();
        let error = (found.at.value - expected).abs() / expected.abs();
        assert!(error < 1e-7, "{label}: bound {error:e}");
        let error = relative_error(&found.at.gradient, &numbers(&answer["gradient"]));
        assert!(error < 1e-6, "{label}: gradient {error:e}");
        let gp = SparseGp::condition(x.view(), y.view(), *kernel, hyper, &rows, JITTER).unwrap();
        let prediction = gp.predict(x_star.view(), true).unwrap();
        // GPyTorch takes no distance for less than 3e-8, which Matérn 1/2 shows.
        let tolerance = if *kernel == Kernel::Matern12 { 1e-5 } else { 1e-6 };
        let error = relative_error(&prediction.mean, &numbers(&answer["mean"]));
        assert!(error < tolerance, "{label}: mean {error:e}");
        let error = relative_error(&prediction.latent_variance.unwrap(), &numbers(&answer["latent_variance"]));
        assert!(error < tolerance, "{label}: variance {error:e}");
    });
    assert_eq!(compared, 32);
}
