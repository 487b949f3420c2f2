//! Sparse fits: they do not end at "all noise", keep what is given, tell what they do, and do not depend on threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::gp_sparse_battery::energy;
use crate::naive::{self, normal_matrix, regression, with_threads};
use ndarray::{Array1, Array2, Axis, concatenate};
use stride_pipe::gp::GpError;
use stride_pipe::gp::inducing::{Candidates, InducingOptions};
use stride_pipe::gp::kernel::{Free, Hyper, Hyperparameters, Kernel, StationaryOptions};
use stride_pipe::gp::observer::{Observer, Phase, Progress, Silent, TracePoint};
use stride_pipe::gp::random::StreamKey;
use stride_pipe::gp::sparse::{JITTER, SparseGp, SparseOptions, bound_with_gradient, fit};

fn options(count: u32) -> SparseOptions {
    let inducing = InducingOptions { count, candidates: Candidates::Count(60), rows: None };
    SparseOptions { inducing, subset: 150, starts: 3, ..SparseOptions::default() }
}

fn with_hyperparameters(count: u32, hyperparameters: Hyperparameters) -> SparseOptions {
    let stationary = StationaryOptions { hyperparameters, ..StationaryOptions::default() };
    SparseOptions { stationary, ..options(count) }
}

fn quick(x: &Array2<f64>, y: &Array1<f64>, options: &SparseOptions) -> SparseGp {
    fit(x.view(), y.view(), options, &StreamKey::new(1), &mut Silent).unwrap()
}

#[test]
fn finds_the_signal() {
    for kernel in Kernel::ALL {
        for ard in [false, true] {
            let (x, y) = regression(3, 600, 2, 0.2);
            let (train, test) = x.view().split_at(Axis(0), 500);
            let gp = quick(
                &train.to_owned(),
                &y.slice(ndarray::s![..500]).to_owned(),
                &SparseOptions { stationary: naive::options(kernel, ard), ..options(20) },
            );
            let errors = &gp.predict(test, false).unwrap().mean - &y.slice(ndarray::s![500..]);
            let smse = errors.mapv(|v| v * v).mean().unwrap();
            assert!(smse < 0.1, "{kernel} {ard}: {smse} {:?}", gp.hyper());
            assert_eq!(gp.rows().len(), 20);
            assert_eq!(gp.hyper().lengths.len(), if ard { 2 } else { 1 });
            assert_eq!(gp.jitter(), JITTER * gp.hyper().variance);
            let y = y.slice(ndarray::s![..500]);
            let at = bound_with_gradient(train, y, kernel, gp.hyper(), gp.rows(), JITTER).unwrap();
            assert!(at.at.gradient.iter().all(|g| g.abs() < 2.0), "{kernel} {ard}: {:?}", at.at.gradient);
        }
    }
}

#[test]
fn does_not_end_at_all_noise() {
    // Few points, many features: where fits that move hyper-parameters from the first point on collapse.
    for seed in 0..5 {
        let (x, y) = regression(seed, 250, 6, 0.2);
        let gp = quick(&x, &y, &options(6));
        assert!(gp.hyper().noise < 0.7, "seed {seed}: {:?}", gp.hyper());
    }
}

#[test]
fn energy_is_not_noise() {
    let (x, y) = energy();
    let train: Vec<usize> = (0..768).filter(|row| row % 10 != 3).collect();
    let test: Vec<usize> = (0..768).filter(|row| row % 10 == 3).collect();
    let (x_train, y_train) = (x.select(Axis(0), &train), y.select(Axis(0), &train));
    for seed in 0..2 {
        let key = StreamKey::new(seed);
        let gp = fit(x_train.view(), y_train.view(), &options(30), &key, &mut Silent).unwrap();
        let errors = &gp.predict(x.select(Axis(0), &test).view(), false).unwrap().mean - &y.select(Axis(0), &test);
        let smse = errors.mapv(|v| v * v).mean().unwrap();
        assert!(smse < 0.1, "{smse} {:?}", gp.hyper());
    }
}

#[test]
fn a_start_at_all_noise_is_left() {
    // A given start that is nothing but noise, on data that are linear.
    let (x, _) = regression(2, 300, 3, 0.1);
    let y = x.column(0).mapv(|v| v - 0.01);
    let [variance, length, noise] = [1e-5, 1e-3, 1.0].map(Some);
    let start = Hyperparameters { variance, length, noise, noise_std: None, optimise: Free::ALL };
    let gp = quick(&x, &y, &with_hyperparameters(15, start));
    assert!(gp.hyper().noise < 0.3, "{:?}", gp.hyper());
}

#[test]
fn pure_noise_predicts_nothing() {
    let (x, y) = (normal_matrix(1, 300, 3), normal_matrix(2, 300, 1).column(0).to_owned());
    let gp = quick(&x, &y, &options(10));
    assert!(gp.predict(normal_matrix(3, 50, 3).view(), false).unwrap().mean.iter().all(|v| v.abs() < 0.4));
}

#[test]
fn given_values_and_rows_are_kept() {
    let (x, y) = regression(4, 200, 2, 0.2);
    let rows = vec![7, 3, 150, 42, 99];
    let given = |optimise: Free, rows: Option<&[usize]>| {
        let written =
            Hyperparameters { variance: Some(1.7), length: Some(0.9), noise: Some(0.3), noise_std: None, optimise };
        let mut options = with_hyperparameters(5, written);
        options.inducing.rows = rows.map(|rows| rows.iter().map(|row| *row as u64).collect());
        quick(&x, &y, &options)
    };
    let fixed = given(Free::NONE, Some(&rows));
    assert_eq!((fixed.hyper(), fixed.rows()), (&Hyper::isotropic(1.7, 0.9, 0.3), &rows[..]));
    let partly = given(Free { noise: false, ..Free::ALL }, Some(&rows));
    assert_eq!((partly.hyper().noise, partly.rows()), (0.3, &rows[..]));
    let all = given(Free::ALL, Some(&rows));
    assert!(fixed.bound() < partly.bound() && partly.bound() <= all.bound() + 1e-6);
    // Without given rows they are chosen, also at fixed values.
    let chosen = given(Free::NONE, None);
    assert!(chosen.bound() > fixed.bound());
    assert_eq!(chosen.hyper(), fixed.hyper());
}

#[test]
fn fewer_points_than_asked_for() {
    let (half, y) = regression(4, 30, 2, 0.1);
    let x = concatenate(Axis(0), &[half.view(), half.view()]).unwrap();
    let y = concatenate(Axis(0), &[y.view(), y.view()]).unwrap();
    let gp = quick(&x, &y, &options(500));
    assert!(gp.rows().len() <= 30, "{}", gp.rows().len());
    // A single row, a constant target.
    let one = quick(&Array2::zeros((1, 2)), &Array1::zeros(1), &options(5));
    assert_eq!(one.rows(), [0]);
    let flat = quick(&half, &Array1::zeros(30), &options(5));
    assert!(flat.predict(half.view(), true).unwrap().mean.iter().all(|v| v.abs() < 1e-6));
}

#[test]
fn same_bits_for_any_number_of_threads() {
    let (x, y) = regression(1, 1200, 3, 0.1);
    let run = || quick(&x, &y, &options(12)).into_parts();
    let one = with_threads(1, run);
    for threads in [2, 3] {
        assert_eq!(one, with_threads(threads, run));
    }
}

#[derive(Default)]
struct Listener {
    traces: Vec<TracePoint>,
    phases: Vec<&'static str>,
    progress: Vec<Progress>,
    stop_after: Option<usize>,
    asked: AtomicUsize,
}

impl Observer for Listener {
    fn trace(&mut self, point: &TracePoint) {
        self.traces.push(point.clone());
    }
    fn progress(&mut self, progress: Progress) {
        self.progress.push(progress);
    }
    fn phase(&mut self, phase: Phase) {
        self.phases.push(phase.name());
    }
    fn interrupted(&self) -> bool {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        self.stop_after.is_some_and(|stop| asked >= stop)
    }
}

#[test]
fn tells_what_it_does_and_stops_when_asked() {
    let (x, y) = regression(4, 300, 2, 0.2);
    let mut listener = Listener::default();
    let gp = fit(x.view(), y.view(), &options(8), &StreamKey::new(1), &mut listener).unwrap();
    let mut phases = listener.phases.clone();
    phases.dedup();
    let (hyper, condition, select) = ("offline.hyper", "offline.condition", "offline.select");
    assert_eq!(phases, [hyper, condition, select, hyper, select, hyper, condition]);
    let chosen: Vec<_> = listener.progress.iter().filter(|p| p.what == "inducing points").collect();
    assert_eq!((chosen.len(), chosen[7].done, chosen[7].total), (16, 8, Some(8)));
    for phase in ["hyper.start", "hyper.polish", "select", "hyper.bound"] {
        assert!(listener.traces.iter().any(|point| point.phase == phase), "{phase}");
    }
    for point in listener.traces.iter().filter(|point| ["select", "hyper.bound"].contains(&point.phase)) {
        assert!(point.bound.unwrap() <= point.log_likelihood, "{point:?}");
        assert!(point.bound.unwrap() <= gp.bound() + 1e-6 && (1..=8).contains(&point.inducing), "{point:?}");
        assert!((point.jitter / point.variance / JITTER - 1.0).abs() < 1e-12);
    }
    let asked = listener.asked.load(Ordering::Relaxed);
    for stop_after in [0, asked / 3, asked / 2, asked - 1] {
        let mut listener = Listener { stop_after: Some(stop_after), ..Listener::default() };
        let result = fit(x.view(), y.view(), &options(8), &StreamKey::new(1), &mut listener);
        assert_eq!(result.map(SparseGp::into_parts), Err(GpError::Interrupted), "{stop_after}");
    }
}

#[test]
fn bad_options_are_refused() {
    let (x, y) = regression(4, 30, 2, 0.2);
    let refuse = |options: SparseOptions| {
        fit(x.view(), y.view(), &options, &StreamKey::new(1), &mut Silent).map(SparseGp::into_parts).unwrap_err()
    };
    let error = refuse(options(0));
    insta::assert_snapshot!(error, @"invalid value: a sparse model needs at least one inducing point, and candidates for it");
    let inducing = |candidates, rows| {
        let inducing = InducingOptions { count: 2, candidates, rows };
        refuse(SparseOptions { inducing, ..options(2) })
    };
    assert!(matches!(inducing(Candidates::Count(0), None), GpError::BadValue { .. }));
    let error = inducing(Candidates::Count(60), Some(vec![1, 1]));
    insta::assert_snapshot!(error, @"invalid value: inducing rows must be different rows of the 30 training rows");
    assert!(matches!(inducing(Candidates::Count(60), Some(vec![30])), GpError::BadValue { .. }));
    let negative = Hyperparameters { noise: Some(-1.0), ..Hyperparameters::default() };
    assert!(matches!(refuse(with_hyperparameters(2, negative)), GpError::BadValue { .. }));
}
