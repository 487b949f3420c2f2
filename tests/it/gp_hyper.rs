//! The optimiser: awkward objectives, bounds, failures, interruption.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use stride_pipe::gp::GpError;
use stride_pipe::gp::hyper::{Evaluation, Maximum, Objective, Settings, SoftBounds, Stop, maximise};
use stride_pipe::gp::observer::{Observer, Phase, Progress, Silent, TracePoint};

struct Function<F> {
    f: F,
    calls: Cell<usize>,
}

impl<F: Fn(&[f64]) -> Result<(f64, Vec<f64>), GpError>> Objective for Function<F> {
    fn evaluate(&self, theta: &[f64]) -> Result<Evaluation, GpError> {
        self.calls.set(self.calls.get() + 1);
        (self.f)(theta).map(|(value, gradient)| Evaluation { value, gradient, jitter: 0.0 })
    }

    fn trace_point(&self, step: i32, theta: &[f64], at: &Evaluation) -> TracePoint {
        TracePoint {
            particle: 0,
            iteration: 0,
            phase: "test",
            step,
            log_likelihood: at.value,
            bound: None,
            acceptance: None,
            step_size: None,
            variance: theta[0],
            length: None,
            noise: 0.0,
            jitter: 0.0,
            inducing: 0,
        }
    }
}

const SETTINGS: Settings = Settings { iterations: 300, tolerance: 1e-12 };

fn run<F: Fn(&[f64]) -> Result<(f64, Vec<f64>), GpError>>(
    f: F,
    start: &[f64],
    free: &[bool],
    observer: &mut dyn Observer,
) -> (Result<Maximum, GpError>, usize) {
    let objective = Function { f, calls: Cell::new(0) };
    let bounds = SoftBounds { lower: vec![-20.0; start.len()], upper: vec![20.0; start.len()], weight: 10.0 };
    let result = maximise(&objective, start, free, &bounds, &SETTINGS, observer);
    (result, objective.calls.get())
}

#[expect(clippy::unnecessary_wraps, reason = "an objective may fail")]
fn banana(t: &[f64]) -> Result<(f64, Vec<f64>), GpError> {
    let (a, b) = (1.0 - t[0], t[1] - t[0] * t[0]);
    Ok((-(a * a + 100.0 * b * b), vec![2.0 * a + 400.0 * t[0] * b, -200.0 * b]))
}

#[test]
fn finds_the_end_of_a_curved_valley() {
    let (found, calls) = run(banana, &[-1.2, 1.0], &[true, true], &mut Silent);
    let found = found.unwrap();
    assert!(found.theta.iter().all(|t| (t - 1.0).abs() < 1e-4), "{found:?}");
    // Value and gradient of a point are asked for separately, but computed once.
    assert!(calls <= 3 * found.iterations + 5, "{calls} calls, {} iterations", found.iterations);
}

#[test]
fn a_failing_region_shortens_the_step() {
    // log(1 − t) − 1/(…): the maximum is at 0.5, everything above 1 cannot be evaluated.
    let hard = |t: &[f64]| {
        if t[0] >= 1.0 {
            return Err(GpError::NotPositiveDefinite { what: "test", jitter: 0.0 });
        }
        Ok((1000.0 * (t[0] + 0.5 * (1.0 - t[0]).ln()), vec![1000.0 * (1.0 - 0.5 / (1.0 - t[0]))]))
    };
    for start in [-15.0, -1.0, 0.9, 0.999_999] {
        let found = run(hard, &[start], &[true], &mut Silent).0.unwrap();
        assert!((found.theta[0] - 0.5).abs() < 1e-5, "from {start}: {found:?}");
    }
    let nan = |t: &[f64]| {
        let v = if t[0] > 0.3 { f64::NAN } else { -(t[0] - 0.2).powi(2) };
        Ok((v, vec![-2.0 * (t[0] - 0.2)]))
    };
    let found = run(nan, &[-8.0], &[true], &mut Silent).0.unwrap();
    assert!((found.theta[0] - 0.2).abs() < 1e-5, "{found:?}");
}

#[test]
fn walls_stop_a_run_to_infinity() {
    let found = run(|t| Ok((3.0 * t[0], vec![3.0])), &[0.0], &[true], &mut Silent).0.unwrap();
    // 3 = 2·10·excess
    assert!((found.theta[0] - 20.15).abs() < 1e-4, "{found:?}");
    assert!((found.at.value - 3.0 * found.theta[0]).abs() < 1e-9, "the value is without the penalty");
}

#[test]
fn fixed_parameters_do_not_move() {
    let found = run(banana, &[0.5, 2.0], &[false, true], &mut Silent).0.unwrap();
    assert_eq!(found.theta[0].to_bits(), 0.5_f64.to_bits());
    assert!((found.theta[1] - 0.25).abs() < 1e-6);
    let (found, calls) = run(banana, &[0.5, 2.0], &[false, false], &mut Silent);
    assert_eq!((found.unwrap().theta, calls), (vec![0.5, 2.0], 1));
}

#[test]
fn a_wrong_gradient_still_gives_the_best_point_seen() {
    // Noise in the value, as an ill-conditioned covariance has: the line search gets lost near the top.
    let noisy = |t: &[f64]| {
        let noise = 1e-6 * (1e7 * t[0]).sin();
        Ok((-t[0] * t[0] + noise, vec![-2.0 * t[0]]))
    };
    let found = run(noisy, &[3.0], &[true], &mut Silent).0.unwrap();
    assert!(found.at.value > -1e-4, "{found:?}");
    // A gradient that points down: nothing can be gained, and that is not an error.
    let found = run(|t| Ok((-t[0] * t[0], vec![2.0 * t[0]])), &[3.0], &[true], &mut Silent).0.unwrap();
    assert_eq!((found.stop, found.theta[0]), (Stop::Stalled, 3.0));
}

#[test]
fn a_start_that_fails_and_a_lasting_error_are_errors() {
    let failing = |_: &[f64]| Err(GpError::NotPositiveDefinite { what: "test", jitter: 0.0 });
    assert!(run(failing, &[0.0], &[true], &mut Silent).0.unwrap_err().is_recoverable());
    let lasting = |t: &[f64]| {
        if t[0] == 0.0 { Ok((0.0, vec![1.0])) } else { Err(GpError::BadShape { what: "test".into() }) }
    };
    assert!(matches!(run(lasting, &[0.0], &[true], &mut Silent).0, Err(GpError::BadShape { .. })));
}

#[derive(Default)]
struct Impatient {
    asked: AtomicUsize,
    patience: usize,
    values: Vec<f64>,
}

impl Observer for Impatient {
    fn trace(&mut self, point: &TracePoint) {
        self.values.push(point.log_likelihood);
    }
    fn progress(&mut self, _progress: Progress) {}
    fn phase(&mut self, _phase: Phase) {}
    fn interrupted(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) >= self.patience
    }
}

#[test]
fn every_step_is_traced_and_may_be_the_last() {
    let mut patient = Impatient { patience: usize::MAX, ..Impatient::default() };
    let found = run(banana, &[-1.2, 1.0], &[true, true], &mut patient).0.unwrap();
    assert_eq!(patient.values.len(), found.iterations);
    assert!(patient.values.windows(2).all(|w| w[0] <= w[1]));
    let mut impatient = Impatient { patience: 10, ..Impatient::default() };
    let (found, calls) = run(banana, &[-1.2, 1.0], &[true, true], &mut impatient);
    assert_eq!(found.unwrap_err(), GpError::Interrupted);
    assert!(calls <= 11);
}
