//! Training that knows when to stop: by the figures of its chains, by a budget of time, and the same after an interruption.

use crate::gp_deep_gradient::neighbour_start;
use crate::gp_deep_start::quick_sparse;
use crate::naive::deep::{aca, hmc, pcn};
use crate::naive::regression;
use std::sync::atomic::{AtomicU64, Ordering};
use stride_pipe::gp::GpError;
use stride_pipe::gp::deep::{
    Checkpoint, DeepGp, DeepOptions, EmObjective, EmOptions, LayerOptions, Start, TimeBudget, Until, fit,
};
use stride_pipe::gp::kernel::Kernel;
use stride_pipe::gp::observer::{Observer, Phase, Progress, TracePoint};
use stride_pipe::gp::random::StreamKey;

/// Keeps what a fit says. Its clock goes a second ahead whenever somebody looks.
#[derive(Default)]
struct Clocked {
    traces: Vec<TracePoint>,
    checkpoints: Vec<Checkpoint>,
    /// Traces that there were at each checkpoint.
    marks: Vec<usize>,
    looks: AtomicU64,
}

impl Observer for Clocked {
    fn trace(&mut self, point: &TracePoint) {
        self.traces.push(point.clone());
    }
    fn progress(&mut self, _progress: Progress) {}
    fn phase(&mut self, _phase: Phase) {}
    fn checkpoint(&mut self, state: &Checkpoint) {
        self.checkpoints.push(state.clone());
        self.marks.push(self.traces.len());
    }
    fn seconds(&self) -> f64 {
        self.looks.fetch_add(1, Ordering::Relaxed) as f64
    }
    fn interrupted(&self) -> bool {
        false
    }
}

impl Clocked {
    fn last(&self, phase: &str, of: fn(&TracePoint) -> i32) -> i32 {
        self.traces.iter().filter(|point| point.phase == phase).map(of).max().unwrap_or(0)
    }
}

fn options(em: &EmOptions) -> DeepOptions {
    DeepOptions {
        start: Start::Sparse(quick_sparse(Kernel::Matern52, 6)),
        layers: LayerOptions { hidden: aca(8, 1e-9), ..LayerOptions::default() },
        em: EmOptions {
            particles: 2,
            sampler: hmc(3, 4),
            final_transitions: Some(10),
            objective: Some(EmObjective::Trace),
            ..em.clone()
        },
    }
}

fn run(options: &DeepOptions, resume: Option<Checkpoint>) -> (DeepGp, Clocked) {
    let (x, y) = regression(81, 45, 2, 0.3);
    let mut clocked = Clocked::default();
    let gp = fit(x.view(), y.view(), options, &StreamKey::new(2), resume, &mut clocked).unwrap();
    (gp, clocked)
}

// Never met.
const NEVER: Until = Until { rhat: 1.000_000_1, ess: 1e9 };

#[test]
fn interrupted_it_ends_the_same() {
    let budget = TimeBudget::parse("8s");
    let ems = [
        EmOptions { iterations: Some(20), until: Some(NEVER), time_budget: budget, ..EmOptions::default() },
        EmOptions { iterations: Some(20), time_budget: budget, draws: Some(3), ..EmOptions::default() },
        EmOptions {
            iterations: Some(7),
            until: Some(Until { rhat: 1.2, ess: 12.0 }),
            draws: Some(2),
            ..EmOptions::default()
        },
    ];
    let short = EmOptions { iterations: Some(4), ..EmOptions::default() };
    let mut by_neighbours = DeepOptions { start: neighbour_start(Kernel::Matern52, 6), ..options(&short) };
    by_neighbours.em.objective = None;
    for options in ems.iter().map(options).chain([by_neighbours]) {
        let (whole, said) = run(&options, None);
        assert!(said.checkpoints.len() >= 3, "{options:?}");
        for (number, state) in said.checkpoints.iter().enumerate() {
            let (resumed, later) = run(&options, Some(state.clone()));
            assert_eq!(resumed.parts(), whole.parts(), "from {number}, {options:?}");
            assert_eq!(later.checkpoints, said.checkpoints[number + 1..], "from {number}");
            // As text: what is not known is NaN.
            let rest = &said.traces[said.marks[number]..];
            assert_eq!(format!("{:?}", later.traces), format!("{rest:?}"), "from {number}, {options:?}");
        }
    }
}

#[test]
fn a_budget_ends_em_at_its_half_and_batches_at_its_end() {
    let time_budget = TimeBudget::parse("8s");
    let em = EmOptions { iterations: Some(20), time_budget, ..EmOptions::default() };
    let (_, said) = run(&options(&em), None);
    // The start is the first of the seconds.
    assert_eq!(said.last("e_step", |point| point.iteration), 3);
    assert_eq!(said.last("final", |point| point.step), 10, "one batch, which nothing asks to go on");
    // EM may end before its time because nothing rises any more.
    let (_, said) = run(&options(&EmOptions { until: Some(NEVER), ..em }), None);
    let iterations = said.last("e_step", |point| point.iteration);
    assert!(iterations <= 3, "{iterations}");
    assert_eq!(said.last("final", |point| point.step), 10 * (7 - iterations));
    // No time at all: the stationary model, and one batch.
    let none = EmOptions { time_budget: TimeBudget::parse("0s"), ..EmOptions::default() };
    let (_, said) = run(&options(&none), None);
    assert_eq!((said.last("e_step", |point| point.iteration), said.last("final", |point| point.step)), (0, 10));
}

#[test]
fn batches_go_on_until_the_figures_are_good() {
    let easy = EmOptions { iterations: Some(2), until: Some(Until { rhat: 50.0, ess: 1.0 }), ..EmOptions::default() };
    let (gp, said) = run(&options(&easy), None);
    assert_eq!(said.last("final", |point| point.step), 10);
    let until = Until { rhat: 1.15, ess: 25.0 };
    let (gp_later, said) =
        run(&options(&EmOptions { iterations: Some(2), until: Some(until), ..EmOptions::default() }), None);
    let figures = &gp_later.parts().diagnostics;
    let moves = said.last("final", |point| point.step);
    assert!(moves > 10 && moves % 10 == 0 && moves <= 400, "{moves}");
    if moves < 400 {
        for rhat in [figures.rhat, figures.rhat_predictions] {
            assert!(rhat.unwrap() <= until.rhat, "{figures:?}");
        }
        for ess in [figures.ess, figures.ess_predictions] {
            assert!(ess.unwrap() >= until.ess, "{figures:?}");
        }
    }
    assert!(gp.parts().diagnostics.ess_predictions.unwrap() < figures.ess_predictions.unwrap());
}

// The last of the means that were followed are those of the model.
#[test]
fn what_is_followed_is_what_the_model_predicts() {
    for sampler in [hmc(3, 4), pcn(50)] {
        let mut options =
            options(&EmOptions { iterations: Some(2), hyperparameters: false, exchanges: 0, ..EmOptions::default() });
        (options.em.particles, options.em.final_transitions, options.em.sampler) = (1, Some(0), sampler);
        let (gp, said) = run(&options, None);
        let (x, _) = regression(81, 45, 2, 0.3);
        let followed = &said.checkpoints[1].particles[0].predictions;
        // With fewer than fifty rows all are followed.
        assert!(!followed.is_empty() && followed.len() % 45 == 0);
        let mut last = followed[followed.len() - 45..].to_vec();
        let mut predicted = gp.predict(x.view(), false).unwrap().mean.to_vec();
        last.sort_by(f64::total_cmp);
        predicted.sort_by(f64::total_cmp);
        for (followed, predicted) in last.iter().zip(&predicted) {
            assert!((followed - predicted).abs() < 1e-9, "{followed} {predicted}");
        }
    }
}

#[test]
fn figures_need_a_frozen_chain() {
    let mut options = options(&EmOptions { until: Some(NEVER), ..EmOptions::default() });
    options.em.final_transitions = Some(0);
    let (x, y) = regression(81, 45, 2, 0.3);
    let refused = fit(x.view(), y.view(), &options, &StreamKey::new(2), None, &mut Clocked::default());
    assert!(matches!(refused, Err(GpError::BadValue { .. })));
}
