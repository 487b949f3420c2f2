//! Fits: they find the truth, avoid "all noise", keep what is fixed, and do not depend on threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::naive::{self, normal_matrix, regression, with_threads};
use ndarray::{Array1, Array2};
use stride_pipe::gp::GpError;
use stride_pipe::gp::exact::{ExactGp, ExactOptions, fit, log_marginal_likelihood};
use stride_pipe::gp::kernel::{Free, Hyper, Hyperparameters, Kernel, StationaryOptions, covariance};
use stride_pipe::gp::linalg::Cholesky;
use stride_pipe::gp::observer::{Observer, Phase, Progress, Silent, TracePoint};
use stride_pipe::gp::random::StreamKey;

fn with_hyperparameters(hyperparameters: Hyperparameters) -> ExactOptions {
    ExactOptions {
        stationary: StationaryOptions { hyperparameters, ..StationaryOptions::default() },
        ..ExactOptions::default()
    }
}

fn quick(x: &Array2<f64>, y: &Array1<f64>, options: &ExactOptions) -> ExactGp {
    fit(x.view(), y.view(), options, &StreamKey::new(1), &mut Silent).unwrap()
}

// A draw of the prior: the fit should find hyper-parameters at least as likely as the true ones.
fn draw(kernel: Kernel, hyper: &Hyper, n: usize, d: usize) -> (Array2<f64>, Array1<f64>) {
    let x = normal_matrix(11, n, d);
    let mut k = covariance(kernel, hyper, x.view()).unwrap();
    k.diag_mut().iter_mut().for_each(|v| *v += hyper.noise);
    let factor = Cholesky::factor(k, "prior").unwrap();
    let y = factor.lower().dot(&normal_matrix(12, n, 1).column(0));
    (x, y)
}

#[test]
fn finds_the_hyper_parameters_of_a_draw() {
    for kernel in Kernel::ALL {
        let truth = Hyper::isotropic(1.0, 1.2, 0.02);
        let (x, y) = draw(kernel, &truth, 400, 2);
        let options =
            ExactOptions { stationary: naive::options(kernel, false), subset: 150, ..ExactOptions::default() };
        let gp = quick(&x, &y, &options);
        let true_value = log_marginal_likelihood(x.view(), y.view(), kernel, &truth).unwrap().value;
        assert!(gp.log_likelihood() >= true_value, "{kernel}");
        assert!(gp.log_likelihood() < true_value + 10.0, "{kernel}");
        let length = gp.hyper().length().unwrap();
        assert!((length / 1.2).ln().abs() < 0.7, "{kernel}: {:?}", gp.hyper());
        assert!((gp.hyper().noise / 0.02).ln().abs() < 0.7, "{kernel}: {:?}", gp.hyper());
        // The top is flat.
        let at = log_marginal_likelihood(x.view(), y.view(), kernel, gp.hyper()).unwrap();
        assert!(at.gradient.iter().all(|g| g.abs() < 0.1), "{kernel}: {:?}", at.gradient);
    }
}

#[test]
fn one_length_per_feature_finds_the_idle_feature() {
    let (x, _) = regression(3, 200, 3, 0.0);
    let y = x.column(0).mapv(|v| (2.0 * v).sin() * 1.3);
    let gp = quick(
        &x,
        &y,
        &ExactOptions { stationary: naive::options(Kernel::Rbf, true), subset: 120, ..ExactOptions::default() },
    );
    let lengths = &gp.hyper().lengths;
    assert_eq!(lengths.len(), 3);
    assert!(lengths[1] > 20.0 * lengths[0] && lengths[2] > 20.0 * lengths[0], "{lengths:?}");
    let common = quick(&x, &y, &ExactOptions { subset: 120, ..ExactOptions::default() });
    assert!(gp.log_likelihood() > common.log_likelihood());
}

#[test]
fn does_not_end_at_all_noise() {
    // Six seeds and little data: single starts end at σ² → 0 on some of these.
    for seed in 0..6 {
        let (x, y) = regression(seed, 60, 6, 0.2);
        let gp = quick(&x, &y, &ExactOptions::default());
        assert!(gp.hyper().noise < 0.6, "seed {seed}: {:?}", gp.hyper());
    }
}

#[test]
fn pure_noise_predicts_nothing() {
    let (x, y) = (normal_matrix(1, 120, 3), normal_matrix(2, 120, 1).column(0).to_owned());
    let gp = quick(&x, &y, &ExactOptions::default());
    let explained = gp.predict(normal_matrix(3, 50, 3).view(), false).unwrap().mean;
    // Noise, or a kernel so short that it is noise: the likelihood cannot tell, and neither predicts anything.
    assert!(explained.iter().all(|v| v.abs() < 0.3), "{:?}", gp.hyper());
}

#[test]
fn only_the_free_parameters_move() {
    let (x, y) = regression(4, 80, 2, 0.2);
    let given = Hyper::isotropic(1.7, 0.9, 0.3);
    let run = |optimise: Free| {
        let written =
            Hyperparameters { variance: Some(1.7), length: Some(0.9), noise: Some(0.3), noise_std: None, optimise };
        quick(&x, &y, &with_hyperparameters(written))
    };
    let fixed = run(Free::NONE);
    assert_eq!(fixed.hyper(), &given);
    let partly = run(Free { noise: false, ..Free::ALL });
    assert_eq!(partly.hyper().noise.to_bits(), 0.3_f64.to_bits());
    assert!(partly.hyper().variance != 1.7 && partly.hyper().lengths != [0.9]);
    let noise_only = run(Free { noise: true, ..Free::NONE });
    assert_eq!((noise_only.hyper().variance, noise_only.hyper().lengths[0]), (1.7, 0.9));
    assert!(noise_only.hyper().noise != 0.3);
    let all = run(Free::ALL);
    let values = [&fixed, &noise_only, &partly, &all].map(ExactGp::log_likelihood);
    assert!(values[0] < values[1] && values[0] < values[2] && values[2] <= values[3] + 1e-6, "{values:?}");
    // Not given and not free: a value from the data, the same for every start.
    let optimise = Free { noise: true, ..Free::NONE };
    let open = with_hyperparameters(Hyperparameters { optimise, ..Hyperparameters::default() });
    assert_eq!(quick(&x, &y, &open).hyper().variance, 1.0);
}

#[derive(Default)]
struct Notebook {
    points: Vec<TracePoint>,
    progress: Vec<Progress>,
    phases: Vec<Phase>,
    asked: AtomicUsize,
    patience: Option<usize>,
}

impl Observer for Notebook {
    fn trace(&mut self, point: &TracePoint) {
        self.points.push(point.clone());
    }
    fn progress(&mut self, progress: Progress) {
        self.progress.push(progress);
    }
    fn phase(&mut self, phase: Phase) {
        self.phases.push(phase);
    }
    fn interrupted(&self) -> bool {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        self.patience.is_some_and(|patience| asked >= patience)
    }
}

#[test]
fn same_bits_and_same_traces_for_any_number_of_threads() {
    let (x, y) = regression(9, 260, 3, 0.1);
    for ard in [false, true] {
        let options =
            ExactOptions { stationary: naive::options(Kernel::Rbf, ard), subset: 130, ..ExactOptions::default() };
        let run = || {
            let mut notes = Notebook::default();
            let gp = fit(x.view(), y.view(), &options, &StreamKey::new(3), &mut notes).unwrap();
            let predicted = gp.predict(normal_matrix(1, 150, 3).view(), true).unwrap();
            (gp.into_parts(), predicted, notes.points, notes.progress, notes.phases)
        };
        let one = with_threads(1, run);
        assert_eq!(one.4, [Phase::Hyper, Phase::Condition]);
        assert_eq!(one.3.last().unwrap().done, options.starts);
        let order: Vec<_> = one.2.iter().map(|p| (p.phase != "hyper.start", p.particle, p.step)).collect();
        assert!(order.windows(2).all(|w| w[0] < w[1]), "traces are in order");
        assert_eq!(one.2[0].length.is_none(), ard);
        for threads in [2, 3] {
            assert_eq!(one, with_threads(threads, run));
        }
    }
}

#[test]
fn interruption_is_heard_in_every_part() {
    let (x, y) = regression(9, 120, 3, 0.1);
    let run = |patience| {
        let mut notes = Notebook { patience, ..Notebook::default() };
        let result = fit(x.view(), y.view(), &ExactOptions::default(), &StreamKey::new(3), &mut notes);
        (result.map(|_| ()), notes.asked.into_inner(), notes.phases)
    };
    let (result, asked, _) = run(None);
    assert_eq!(result, Ok(()));
    for patience in [0, 1, 10, asked / 2, asked - 1] {
        let (result, times, phases) = run(Some(patience));
        assert_eq!(result, Err(GpError::Interrupted));
        // Every tile of every parallel start may ask once more.
        assert!(times <= patience + 60, "{patience}: {times}");
        // The last to be asked is the factor of the final model.
        assert_eq!(phases.contains(&Phase::Condition), patience == asked - 1);
    }
}

#[test]
fn awkward_data_fit_too() {
    let (x, y) = regression(9, 30, 3, 0.1);
    let options = ExactOptions::default();
    // Constant features, a single row, two rows, repeated rows, a constant target.
    quick(&Array2::ones((30, 2)), &y, &options);
    quick(&Array2::ones((1, 2)), &Array1::ones(1), &options);
    quick(&normal_matrix(1, 2, 2), &Array1::from(vec![1.0, -1.0]), &options);
    quick(&x, &Array1::zeros(30), &options);
    quick(&(x.clone() * 1e6), &y, &options);
    quick(&(x.clone() * 1e-6), &y, &options);
    // An exact function without noise: γ² runs to its lower bound.
    quick(
        &x,
        &x.column(0).to_owned(),
        &ExactOptions { stationary: naive::options(Kernel::Rbf, true), ..options.clone() },
    );
    assert!(fit(x.view(), Array1::zeros(2).view(), &options, &StreamKey::new(1), &mut Silent).is_err());
    let noise = |noise: f64| with_hyperparameters(Hyperparameters { noise: Some(noise), ..Hyperparameters::default() });
    assert!(fit(x.view(), y.view(), &noise(-1.0), &StreamKey::new(1), &mut Silent).is_err());
    let error = fit(x.view(), y.view(), &noise(0.0), &StreamKey::new(1), &mut Silent).unwrap_err();
    insta::assert_snapshot!(error, @"invalid value: noise must be positive to start a fit");
}
