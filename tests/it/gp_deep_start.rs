//! Where a deep fit starts, and what its mixture predicts: against the stationary model, and against plain loops.

use crate::naive::deep::{Deep, FULL, SPARSE, aca, hmc, mixture, posterior};
use crate::naive::{normal_matrix, regression, relative_error};
use ndarray::{Array1, Array2};
use stride_pipe::gp::deep::{
    Architecture, Checkpoint, CrossOptions, DeepGp, DeepOptions, EmObjective, EmOptions, LayerOptions, PriorMean,
    Start, fit,
};
use stride_pipe::gp::exact::{self, ExactOptions};
use stride_pipe::gp::inducing::{Candidates, InducingOptions};
use stride_pipe::gp::kernel::Kernel;
use stride_pipe::gp::observer::{Observer, Phase, Progress, Silent, TracePoint};
use stride_pipe::gp::predict::Prediction;
use stride_pipe::gp::random::StreamKey;
use stride_pipe::gp::sparse::{self, SparseOptions};

/// Keeps what a fit says.
#[derive(Default)]
pub struct Listener {
    pub traces: Vec<TracePoint>,
    pub checkpoints: Vec<Checkpoint>,
    /// How many traces there were at each of them.
    pub marks: Vec<usize>,
}

impl Observer for Listener {
    fn trace(&mut self, point: &TracePoint) {
        self.traces.push(point.clone());
    }
    fn progress(&mut self, _progress: Progress) {}
    fn phase(&mut self, _phase: Phase) {}
    fn checkpoint(&mut self, state: &Checkpoint) {
        self.checkpoints.push(state.clone());
        self.marks.push(self.traces.len());
    }
    fn interrupted(&self) -> bool {
        false
    }
}

/// A sparse start that is quick.
pub fn quick_sparse(kernel: Kernel, count: u32) -> SparseOptions {
    let inducing = InducingOptions { count, candidates: Candidates::Count(20), rows: None };
    let stationary = crate::naive::options(kernel, false);
    SparseOptions { stationary, inducing, starts: 2, subset: 60, rounds: 1, ..SparseOptions::default() }
}

pub fn quick_exact(kernel: Kernel) -> ExactOptions {
    ExactOptions { stationary: crate::naive::options(kernel, false), starts: 2, subset: 60 }
}

fn data(architecture: Architecture, n: usize) -> (Array2<f64>, Array1<f64>, Array2<f64>) {
    let d = if architecture == Architecture::Injective { 1 } else { 2 };
    let (x, y) = regression(17, n, d, 0.3);
    // Some of the new rows lie outside of the training rows.
    (x, y, normal_matrix(18, 13, d) * 2.0)
}

fn assert_same(found: &Prediction, expected: &Prediction, noise: f64, label: &str) {
    let error = relative_error(&found.mean, &expected.mean);
    assert!(error < 1e-8, "{label}: mean {error:e}");
    let (found, expected) = (found.latent_variance.as_ref().unwrap(), expected.latent_variance.as_ref().unwrap());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-8 * (expected + noise), "{label}: {found} for {expected}");
    }
}

#[test]
fn the_identity_mean_without_samples_is_the_stationary_model() {
    let key = StreamKey::new(3);
    for kernel in [Kernel::Rbf, Kernel::Matern32] {
        for architecture in Architecture::ALL {
            let (x, y, stars) = data(architecture, 50);
            let sparse_options = quick_sparse(kernel, 8);
            let sparse = sparse::fit(x.view(), y.view(), &sparse_options, &key, &mut Silent).unwrap();
            let sparse = (sparse.predict(stars.view(), true).unwrap(), sparse.log_likelihood(), Some(sparse.bound()));
            let exact = exact::fit(x.view(), y.view(), &quick_exact(kernel), &key, &mut Silent).unwrap();
            let noise = exact.hyper().noise;
            let exact = (exact.predict(stars.view(), true).unwrap(), exact.log_likelihood(), None);
            for hidden in [FULL, aca(6, 1e-6), SPARSE] {
                for (start, (expected, log_likelihood, bound)) in
                    [(Start::Sparse(sparse_options.clone()), &sparse), (Start::Exact(quick_exact(kernel)), &exact)]
                {
                    if hidden == SPARSE && matches!(start, Start::Exact(_)) {
                        continue;
                    }
                    for layers in [2, 4] {
                        let options = DeepOptions {
                            start: start.clone(),
                            layers: LayerOptions {
                                architecture,
                                layers,
                                prior_mean: PriorMean::Identity,
                                hidden,
                                ..LayerOptions::default()
                            },
                            em: EmOptions {
                                iterations: Some(0),
                                particles: 2,
                                final_transitions: Some(0),
                                // With others the sparse fit at the start maximises them too.
                                objective: Some(EmObjective::Paper),
                                ..EmOptions::default()
                            },
                        };
                        let label = format!("{kernel} {architecture:?} {hidden:?} {layers} layers");
                        let deep = fit(x.view(), y.view(), &options, &key, None, &mut Silent).unwrap();
                        assert_same(&deep.predict(stars.view(), true).unwrap(), expected, noise, &label);
                        assert!((deep.parts().log_likelihood / log_likelihood - 1.0).abs() < 1e-8, "{label}");
                        assert_eq!(deep.parts().bound.is_some(), bound.is_some());
                        if let (Some(found), Some(expected)) = (deep.parts().bound, bound) {
                            assert!((found / expected - 1.0).abs() < 1e-8, "{label}");
                        }
                    }
                }
            }
        }
    }
}

/// What the loops predict from the state at the end of a fit: hyper-parameters and hidden variables of all particles.
fn naive_prediction(
    options: &DeepOptions,
    (x, y): (&Array2<f64>, &Array1<f64>),
    stars: &Array2<f64>,
    state: &Checkpoint,
) -> (Vec<f64>, Vec<f64>) {
    let naive = Deep::of(options, x, state);
    let hyper = &state.hyper;
    let jitter = state.jitter * hyper.variance;
    let inducing = matches!(options.start, Start::Sparse(_)).then_some((&state.inducing[..], jitter));
    let all: Vec<_> = state
        .particles
        .iter()
        .map(|particle| {
            let layers = naive.layers(&particle.xi);
            let (k, cross) = (naive.top(&layers, hyper), naive.top_cross(&layers, stars, hyper));
            posterior((&k, &cross), y, inducing, (hyper.variance, hyper.noise))
        })
        .collect();
    assert!(all.len() > 1 && all[0].0 != all[1].0, "particles differ");
    mixture(&all)
}

fn fitted(options: &DeepOptions, (x, y): (&Array2<f64>, &Array1<f64>), key: &StreamKey) -> (DeepGp, Listener) {
    let mut listener = Listener::default();
    let gp = fit(x.view(), y.view(), options, key, None, &mut listener).unwrap();
    (gp, listener)
}

fn predicts_the_mixture(exact: bool) {
    for (number, architecture) in Architecture::ALL.into_iter().enumerate() {
        let (x, y, stars) = data(architecture, 30);
        for (hidden, prior_mean, layers) in [
            (FULL, PriorMean::Zero, 2),
            (FULL, PriorMean::Identity, 3),
            (aca(6, 1e-8), PriorMean::Identity, 2),
            (CrossOptions { rank: 6, tolerance: 1e-8, repivot: false }.into(), PriorMean::Zero, 4),
            (SPARSE, PriorMean::Zero, 2),
            (SPARSE, PriorMean::Identity, 3),
            // Composition: narrower and wider than the features.
            (aca(6, 1e-8), PriorMean::Identity, 4),
            (FULL, PriorMean::Identity, 4),
            (SPARSE, PriorMean::Identity, 4),
        ] {
            if exact && hidden == SPARSE {
                continue;
            }
            let kernel = [Kernel::Matern32, Kernel::Matern52, Kernel::Rbf][number];
            let start = if exact { Start::Exact(quick_exact(kernel)) } else { Start::Sparse(quick_sparse(kernel, 7)) };
            let width = if hidden == FULL { 3 } else { 1 };
            let options = DeepOptions {
                start,
                layers: LayerOptions {
                    architecture,
                    layers,
                    width: (architecture == Architecture::Composition && layers == 4).then_some(width),
                    prior_mean,
                    hidden,
                    ..LayerOptions::default()
                },
                em: EmOptions {
                    iterations: Some(2),
                    particles: 3,
                    exchanges: 2,
                    sampler: hmc(3, 3), // The chains end where the last checkpoint found them.
                    final_transitions: Some(0),
                    ..EmOptions::default()
                },
            };
            let (gp, listener) = fitted(&options, (&x, &y), &StreamKey::new(4));
            let state = &listener.checkpoints[1];
            let (mean, variance) = naive_prediction(&options, (&x, &y), &stars, state);
            let found = gp.predict(stars.view(), true).unwrap();
            let label = format!("{architecture:?} {hidden:?} {prior_mean:?} {layers} layers");
            let error = relative_error(&found.mean, &mean);
            assert!(error < 1e-6, "{label}: {error:e}");
            for (found, expected) in found.latent_variance.unwrap().iter().zip(&variance) {
                let scale = expected + state.hyper.noise;
                assert!((found - expected).abs() < 1e-6 * scale, "{label}: {found} for {expected}");
            }
            let plain = gp.predict(stars.view(), false).unwrap();
            assert_eq!((plain.mean, plain.latent_variance), (found.mean, None));
        }
    }
}

#[test]
fn a_mixture_of_sparse_models() {
    predicts_the_mixture(false);
}

#[test]
fn a_mixture_of_exact_models() {
    predicts_the_mixture(true);
}
