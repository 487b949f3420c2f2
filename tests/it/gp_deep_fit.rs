//! The EM loop as a whole: what an M step may move, and that it never falls.

use crate::gp_deep_start::{Listener, quick_exact, quick_sparse};
use crate::naive::deep::{FULL, SPARSE, aca, hmc, pcn};
use crate::naive::regression;
use stride_pipe::gp::GpError;
use stride_pipe::gp::deep::{Architecture, Checkpoint, CrossOptions, DeepOptions, EmOptions, LayerOptions, Start, fit};
use stride_pipe::gp::kernel::{Free, Hyperparameters, Kernel, StationaryOptions};
use stride_pipe::gp::observer::{Observer, Phase, Progress, Silent, TracePoint};
use stride_pipe::gp::random::StreamKey;

fn options(architecture: Architecture, free: Free, exact: bool) -> DeepOptions {
    let start = if exact {
        let mut start = quick_exact(Kernel::Matern52);
        start.stationary.hyperparameters.optimise = free;
        Start::Exact(start)
    } else {
        let mut start = quick_sparse(Kernel::Matern52, 6);
        start.stationary.hyperparameters.optimise = free;
        Start::Sparse(start)
    };
    DeepOptions {
        start,
        layers: LayerOptions { architecture, hidden: aca(8, 1e-9), ..LayerOptions::default() },
        em: EmOptions {
            iterations: Some(3),
            particles: 2,
            sampler: hmc(4, 4),
            final_transitions: Some(3),
            ..EmOptions::default()
        },
    }
}

fn run(options: &DeepOptions) -> Listener {
    let d = if options.layers.architecture == Architecture::Injective { 1 } else { 2 };
    let (x, y) = regression(81, 45, d, 0.3);
    let mut listener = Listener::default();
    fit(x.view(), y.view(), options, &StreamKey::new(2), None, &mut listener).unwrap();
    listener
}

// What is maximised: the mean bound, or the mean log-likelihood.
fn objective(point: &TracePoint) -> f64 {
    point.bound.unwrap_or(point.log_likelihood)
}

#[test]
fn an_m_step_never_lowers_the_mean_bound() {
    for architecture in Architecture::ALL {
        for exact in [false, true] {
            let said = run(&options(architecture, Free::ALL, exact));
            for iteration in 1..=3 {
                let of = |phase: &str| -> Vec<&TracePoint> {
                    said.traces.iter().filter(|p| p.iteration == iteration && p.phase == phase).collect()
                };
                let sampled = of("e_step");
                assert_eq!(sampled.len(), 8);
                let mut last = sampled[6..].iter().map(|p| objective(p)).sum::<f64>() / 2.0;
                let steps: Vec<&TracePoint> = of("exchange").into_iter().chain(of("hyper")).collect();
                assert_eq!(of("exchange").len(), if exact { 0 } else { 3 });
                assert!(!of("hyper").is_empty());
                for point in steps {
                    let now = objective(point);
                    let label = format!("{architecture:?} {} step {}", point.phase, point.step);
                    assert!(now >= last - 1e-7 * last.abs().max(1.0), "{label}: {now} after {last}");
                    last = now;
                }
                assert!(last > objective(sampled[7]).min(objective(sampled[6])));
            }
        }
    }
}

#[test]
fn only_free_hyper_parameters_move() {
    for architecture in Architecture::ALL {
        for exact in [false, true] {
            for (variance, length, noise) in
                [(true, false, false), (false, true, false), (false, false, true), (true, true, true)]
            {
                let options = options(architecture, Free { variance, length, noise }, exact);
                let said = run(&options);
                let (start, end) = (&said.checkpoints[0].start, &said.checkpoints[2].hyper);
                assert_eq!(start.variance != end.variance, variance, "{architecture:?}");
                assert_eq!(start.noise != end.noise, noise, "{architecture:?}");
                // The local lengths of a convolution are the only ones it has.
                let moves = length && architecture != Architecture::Convolution;
                assert_eq!(start.lengths != end.lengths, moves, "{architecture:?}");
                assert!(said.checkpoints.iter().all(|state| state.start == *start));
            }
            let mut fixed = options(architecture, Free::ALL, exact);
            fixed.em.hyperparameters = false;
            let said = run(&fixed);
            assert!(said.checkpoints.iter().all(|state| state.hyper == state.start));
            assert!(said.traces.iter().all(|point| point.phase != "hyper"));
        }
    }
}

#[test]
fn given_inducing_points_stay() {
    let mut options = options(Architecture::Composition, Free::ALL, false);
    let Start::Sparse(sparse) = &mut options.start else { unreachable!() };
    let rows = vec![3, 30, 17, 41];
    sparse.inducing.rows = Some(rows.iter().map(|row| *row as u64).collect());
    let said = run(&options);
    assert!(said.checkpoints.iter().all(|state| state.inducing == rows));
    assert!(said.traces.iter().all(|point| point.phase != "exchange"));
}

#[test]
fn pivots_stay_unless_they_are_to_move() {
    let mut moving = options(Architecture::Composition, Free::ALL, false);
    let said = run(&moving);
    let pivots: Vec<_> = said.checkpoints.iter().map(|state| &state.pivots).collect();
    // Not after the last M step; before, where it does not cost too much, which `gp_deep_pivots` looks at.
    assert_eq!(pivots[1], pivots[2]);
    moving.layers.hidden = CrossOptions { rank: 8, tolerance: 1e-9, repivot: false }.into();
    let said = run(&moving);
    assert!(said.checkpoints.iter().all(|state| state.pivots == said.checkpoints[0].pivots));
}

#[test]
fn steps_adapt_until_the_frozen_moves_begin() {
    for sampler in [hmc(6, 3), pcn(200)] {
        for final_transitions in [12, 0] {
            let mut options = options(Architecture::Composition, Free::ALL, false);
            (options.em.sampler, options.em.final_transitions) = (sampler, Some(final_transitions));
            let said = run(&options);
            let steps = |phase: &str, iteration: i32, particle: i32| -> Vec<f64> {
                let of = |p: &&TracePoint| p.phase == phase && p.iteration == iteration && p.particle == particle;
                said.traces.iter().filter(of).map(|p| p.step_size.unwrap()).collect()
            };
            let changes = |steps: &[f64]| steps.iter().any(|step| *step != steps[0]);
            for particle in 0..2 {
                assert!(changes(&steps("e_step", 2, particle)), "{sampler:?}");
                // Without moves at the end the last E step is the frozen chain.
                assert_eq!(changes(&steps("e_step", 3, particle)), final_transitions > 0, "{sampler:?}");
                let last = steps("final", 4, particle);
                assert_eq!(last.len(), final_transitions as usize);
                assert!(last.is_empty() || !changes(&last), "{sampler:?}");
            }
        }
    }
}

#[test]
fn jitter_grows_between_e_steps_when_it_has_to() {
    for (number, hidden) in [aca(3, 0.0), FULL, SPARSE].into_iter().enumerate() {
        let mut options = options(Architecture::Composition, Free::NONE, false);
        (options.layers.hidden, options.em.exchanges) = (hidden, 0);
        // So long that all rows look the same.
        let Start::Sparse(sparse) = &mut options.start else { unreachable!() };
        let [variance, length, noise] = [1.0, 50.0, 0.2].map(Some);
        let hyperparameters = Hyperparameters { variance, length, noise, noise_std: None, optimise: Free::NONE };
        sparse.stationary = StationaryOptions { kernel: Kernel::Rbf, ard: false, hyperparameters };
        let (x, y) = regression(81, 45, 2, 0.3);
        let run = |state: Option<Checkpoint>| {
            let mut listener = Listener::default();
            let gp = fit(x.view(), y.view(), &options, &StreamKey::new(2), state, &mut listener).unwrap();
            (gp.parts().clone(), listener)
        };
        let (parts, said) = run(None);
        assert_eq!(parts.diagnostics.jitter, 1e-8);
        // As if there had been none, and points that only jitter can tell apart.
        let mut state = said.checkpoints[0].clone();
        state.jitter = 1e-20;
        if number < 2 {
            state.inducing = (0..20).collect();
        } else {
            state.particles.iter_mut().for_each(|particle| particle.xi[0].fill(0.1));
            state.inducing = (0..state.inducing.len()).collect();
        }
        let (parts, said) = run(Some(state));
        let jitter = parts.diagnostics.jitter;
        assert!(jitter > 1e-18 && jitter < 1e-9, "{hidden:?}: {jitter}");
        assert!(parts.log_likelihood.is_finite());
        // It stays what it is while a target is sampled.
        for iteration in 2..=4 {
            let levels: Vec<f64> = said.traces.iter().filter(|p| p.iteration == iteration).map(|p| p.jitter).collect();
            assert!(levels.iter().all(|level| *level == levels[0]));
        }
    }
}

/// Asks to stop after so many traces.
struct Impatient(usize);

impl Observer for Impatient {
    fn trace(&mut self, point: &TracePoint) {
        if point.phase == "e_step" {
            self.0 = self.0.saturating_sub(1);
        }
    }
    fn progress(&mut self, _progress: Progress) {}
    fn phase(&mut self, _phase: Phase) {}
    fn interrupted(&self) -> bool {
        self.0 == 0
    }
}

#[test]
fn a_fit_can_be_stopped() {
    let options = options(Architecture::Composition, Free::ALL, false);
    let (x, y) = regression(81, 45, 2, 0.3);
    let stopped = fit(x.view(), y.view(), &options, &StreamKey::new(2), None, &mut Impatient(5));
    assert_eq!(stopped.unwrap_err(), GpError::Interrupted);
}

#[test]
fn impossible_options_are_refused() {
    let (x, y) = regression(81, 20, 2, 0.3);
    let good = options(Architecture::Composition, Free::ALL, false);
    let with = |change: &dyn Fn(&mut DeepOptions)| {
        let mut options = good.clone();
        change(&mut options);
        options
    };
    for (number, bad) in [
        with(&|o| o.layers.layers = 1),
        with(&|o| o.em.particles = 0),
        with(&|o| o.layers.architecture = Architecture::Injective),
        with(&|o| o.layers.width = Some(0)),
        with(&|o| (o.layers.width, o.layers.architecture) = (Some(2), Architecture::Convolution)),
        with(&|o| (o.layers.hidden, o.start) = (SPARSE, Start::Exact(quick_exact(Kernel::Rbf)))),
        with(&|o| o.layers.length = Some(-1.0)),
        with(&|o| o.layers.u_min = Some(f64::NAN)),
        with(&|o| {
            (o.layers.u_min, o.layers.u_max, o.layers.architecture) = (Some(2.0), Some(1.0), Architecture::Convolution);
        }),
        with(&|o| o.layers.hidden = aca(0, 0.0)),
        with(&|o| o.em.sampler = hmc(2, 0)),
    ]
    .into_iter()
    .enumerate()
    {
        let refused = fit(x.view(), y.view(), &bad, &StreamKey::new(1), None, &mut Silent);
        assert!(matches!(refused, Err(GpError::BadValue { .. })), "{number}");
    }
}
