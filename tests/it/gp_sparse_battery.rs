//! Ill-conditioned problems against extended precision: bound, gradient, gains, removals, predictions.

use crate::naive::sparse::Problem;
use crate::naive::{normal_matrix, regression, relative_error};
use ndarray::{Array1, Array2, Axis};
use ndarray_linalg::{EigValsh, UPLO};
use stride_pipe::gp::inducing::Gains;
use stride_pipe::gp::kernel::{Hyper, Kernel, Stationary, covariance};
use stride_pipe::gp::scaling::{FeatureScaling, Scaling};
use stride_pipe::gp::sparse::{JITTER, Level, Penalty, SparseGp, State, objective_with_gradient};
use stride_pipe::store::{InvalidPolicy, Selection, discover, open};

const TOLERANCE: f64 = 1e-6;

fn check(p: &Problem, stars: &Array2<f64>, candidates: &[usize], removals: &[usize], label: &str) {
    let expected = p.solution(stars.view());
    let scale = expected.bound.abs().max(1.0);
    let mut last = f64::NEG_INFINITY;
    for penalty in [Penalty::Linear, Penalty::Trace, Penalty::Tight] {
        let data = (p.x.view(), p.y.view());
        let found = objective_with_gradient(data, p.kernel, &p.hyper, &p.rows, p.jitter, penalty).unwrap();
        let value = p.objective(penalty);
        let error = (found.at.value - value).abs() / scale;
        assert!(error < TOLERANCE, "{label}: {penalty:?} {error:e}");
        let error = relative_error(&found.at.gradient, &p.gradient(penalty));
        assert!(error < TOLERANCE, "{label}: {penalty:?}, gradient {error:e}");
        assert!(value >= last, "{label}: {penalty:?} is below the form before it");
        last = value;
    }
    let gp = SparseGp::condition(p.x.view(), p.y.view(), p.kernel, &p.hyper, &p.rows, p.jitter).unwrap();
    let prediction = gp.predict(stars.view(), true).unwrap();
    let error = relative_error(&prediction.mean, &expected.mean);
    assert!(error < TOLERANCE, "{label}: mean {error:e}");
    // Relative to what matters beside it: the noise.
    for (found, expected) in prediction.latent_variance.unwrap().iter().zip(&expected.variance) {
        assert!((found - expected).abs() < TOLERANCE * (expected + p.hyper.noise), "{label}: {found} {expected}");
    }
    let centre = vec![0.0; p.x.ncols()];
    let cov = Stationary::new(p.kernel, &p.hyper, p.x.view(), &centre).unwrap();
    let level = Level { noise: p.hyper.noise, jitter: p.jitter };
    for penalty in [Penalty::Linear, Penalty::Trace] {
        let state = State::with_penalty(&cov, p.y.view(), &p.rows, level, penalty).unwrap();
        let before = p.objective(penalty);
        let gains = Gains::new(&cov, p.y.view(), &state, candidates).unwrap();
        for (row, gain) in candidates.iter().zip(gains.values()).filter(|(_, gain)| gain.is_finite()) {
            let error = (p.bound_with(*row, penalty) - before - gain).abs() / scale;
            assert!(error < TOLERANCE, "{label}: {penalty:?}, gain of {row}: {error:e}");
        }
        let losses = state.removals().unwrap();
        for j in removals {
            let change = p.bound_without(*j, penalty) - before;
            // A loss may be far larger than the bound it is taken from.
            let error = (change - losses[*j]).abs() / scale.max(change.abs());
            assert!(error < TOLERANCE, "{label}: {penalty:?}, removal of {j}: {error:e}");
        }
    }
}

fn condition_number(k: &Array2<f64>) -> f64 {
    // In increasing order.
    let values = k.eigvalsh(UPLO::Lower).unwrap();
    values[values.len() - 1] / values[0].abs()
}

// The length for which K of these points has that condition number.
fn length_of_condition(z: &Array2<f64>, wanted: f64) -> f64 {
    let (mut low, mut high) = (0.01_f64, 100.0_f64);
    for _ in 0..40 {
        let middle = (low * high).sqrt();
        let k = covariance(Kernel::Rbf, &Hyper::isotropic(1.0, middle, 0.1), z.view()).unwrap();
        if condition_number(&k) < wanted { low = middle } else { high = middle }
    }
    low
}

#[test]
fn conditions_from_1e4_to_1e12() {
    let (x, y) = regression(8, 160, 2, 0.05);
    let rows: Vec<usize> = (0..24).map(|i| 6 * i + 1).collect();
    let z = x.select(Axis(0), &rows);
    let stars = normal_matrix(3, 5, 2);
    for exponent in [4, 6, 8, 10, 12] {
        let length = length_of_condition(&z, 10_f64.powi(exponent));
        for (variance, noise) in [(1.0, 0.1), (300.0, 0.003)] {
            // The usual jitter, and so little that the condition stays what it is.
            for jitter in [JITTER, 1e-13] {
                let hyper = Hyper::isotropic(variance, length, noise);
                let (x, y, rows) = (x.clone(), y.clone(), rows.clone());
                let p = Problem { kernel: Kernel::Rbf, x, y, rows, hyper, jitter };
                let label = format!("condition 1e{exponent}, variance {variance}, jitter {jitter}");
                check(&p, &stars, &[0, 50, 77], &[0, 11, 23], &label);
            }
        }
    }
}

// Enough rows that sums may be whitened once instead of every row, which well-conditioned problems do.
#[test]
fn many_rows_with_conditions_from_1e1_to_1e10() {
    let (x, y) = regression(9, 400, 2, 0.05);
    let rows: Vec<usize> = (0..24).map(|i| 16 * i + 1).collect();
    let z = x.select(Axis(0), &rows);
    let stars = normal_matrix(3, 5, 2);
    for exponent in [1, 2, 3, 4, 5, 6, 8, 10] {
        let hyper = Hyper::isotropic(1.0, length_of_condition(&z, 10_f64.powi(exponent)), 0.1);
        let (x, y, rows) = (x.clone(), y.clone(), rows.clone());
        let p = Problem { kernel: Kernel::Rbf, x, y, rows, hyper, jitter: JITTER };
        let label = format!("400 rows, condition 1e{exponent}");
        check(&p, &stars, &[0, 50, 77], &[0, 11, 23], &label);
        let cov = Stationary::new(p.kernel, &p.hyper, p.x.view(), &[0.0; 2]).unwrap();
        let level = Level { noise: p.hyper.noise, jitter: p.jitter };
        let state = State::new(&cov, p.y.view(), &p.rows, level).unwrap();
        let error = (state.bound() - p.solution(stars.view()).bound).abs();
        // 1e-10 per row is what whitening once may cost by its own estimate.
        assert!(error < 10.0 * 1e-10 * 400.0, "{label}: {error:e}");
    }
}

/// The energy data set, scaled: x `[768, 8]`, y `[768]`.
pub fn energy() -> (Array2<f64>, Array1<f64>) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data/uci/energy.parquet");
    let selection = Selection {
        key: None,
        features: vec!["*".into()],
        target: Some("heating_load".into()),
        extra: vec!["row_id".into(), "cooling_load".into()],
        ..Selection::default()
    };
    let table = open(&discover(&path).unwrap(), &selection, InvalidPolicy::Error).unwrap();
    let (x, y) = (table.features, table.target.unwrap());
    let scaling = Scaling::fit(x.view(), y.view(), FeatureScaling::Column);
    (scaling.features(x.view()), scaling.target(y.view()))
}

#[test]
fn energy_as_the_fit_finds_it() {
    let (x, y) = energy();
    let rows: Vec<usize> = (0..50).map(|i| (i * 37) % 768).collect();
    let stars = x.slice(ndarray::s![760.., ..]).to_owned() * 1.01;
    let d = x.ncols();
    for lengths in [vec![10.0], (0..d).map(|j| 8.0 + j as f64).collect()] {
        let hyper = Hyper { variance: 300.0, lengths, noise: 0.03 };
        let (x, y, rows) = (x.clone(), y.clone(), rows.clone());
        let p = Problem { kernel: Kernel::Rbf, x, y, rows, hyper, jitter: JITTER };
        check(&p, &stars, &[3, 200, 500], &[0, 20, 49], "energy");
    }
}
