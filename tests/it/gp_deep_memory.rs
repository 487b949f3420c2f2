//! What is held in memory and what is computed again: the same bits, and the choice between them.

use crate::gp_deep_start::quick_sparse;
use crate::naive::deep::{SPARSE, aca, hmc, pcn};
use crate::naive::regression;
use stride_pipe::gp::deep::{
    Architecture, Checkpoint, DeepOptions, DeepParts, EmOptions, HiddenOptions, Kept, LayerOptions, PriorMean,
    Repeatable, SamplerOptions, Start, fit,
};
use stride_pipe::gp::kernel::Kernel;
use stride_pipe::gp::observer::{Observer, Phase, Progress, TracePoint};
use stride_pipe::gp::random::StreamKey;

/// Keeps traces and checkpoints, and gives a fit so much memory.
struct Frugal {
    memory: u64,
    traces: Vec<TracePoint>,
    checkpoints: Vec<Checkpoint>,
}

impl Observer for Frugal {
    fn trace(&mut self, point: &TracePoint) {
        self.traces.push(point.clone());
    }
    fn progress(&mut self, _: Progress) {}
    fn phase(&mut self, _: Phase) {}
    fn checkpoint(&mut self, state: &Checkpoint) {
        self.checkpoints.push(state.clone());
    }
    fn memory(&self) -> u64 {
        self.memory
    }
    fn interrupted(&self) -> bool {
        false
    }
}

fn options(
    architecture: Architecture,
    layers: u32,
    (hidden, prior_mean): (HiddenOptions, PriorMean),
    sampler: SamplerOptions,
) -> DeepOptions {
    let kernel = if layers == 2 { Kernel::Rbf } else { Kernel::Matern32 };
    DeepOptions {
        start: Start::Sparse(quick_sparse(kernel, 7)),
        layers: LayerOptions { architecture, layers, prior_mean, hidden, ..LayerOptions::default() },
        em: EmOptions {
            iterations: Some(3),
            particles: 2,
            exchanges: 2,
            sampler,
            final_transitions: Some(2),
            ..EmOptions::default()
        },
    }
}

// Everything of a fit as text that tells every bit.
fn fitted(options: &DeepOptions, n: usize, memory: u64) -> (DeepParts, String) {
    let features = if options.layers.architecture == Architecture::Injective { 1 } else { 3 };
    let (x, y) = regression(51, n, features, 0.3);
    let mut observer = Frugal { memory, traces: Vec::new(), checkpoints: Vec::new() };
    let gp = fit(x.view(), y.view(), options, &StreamKey::new(8), None, &mut observer).unwrap();
    (gp.parts().clone(), format!("{:?} {:?}", observer.traces, observer.checkpoints))
}

#[test]
fn a_fit_is_the_same_to_the_bit_whatever_is_held() {
    use Architecture::{Composition, Convolution, Injective};
    use PriorMean::{Identity, Zero};
    // Several tiles, the last of them not full.
    let n = 1100;
    for options in [
        options(Composition, 2, (aca(9, 1e-9), Identity), hmc(2, 3)),
        options(Composition, 2, (SPARSE, Zero), pcn(6)),
        options(Composition, 3, (aca(9, 1e-9), Identity), hmc(2, 2)),
        options(Composition, 3, (SPARSE, Identity), pcn(6)),
        options(Convolution, 2, (aca(9, 1e-9), Identity), hmc(2, 2)),
        options(Convolution, 3, (SPARSE, Zero), pcn(6)),
        options(Injective, 2, (aca(9, 1e-9), Identity), hmc(2, 2)),
    ] {
        let (architecture, layers) = (options.layers.architecture, options.layers.layers);
        let held = fitted(&options, n, u64::MAX);
        // Nothing, and one of both.
        for memory in [0, 9 * 8 * n as u64 * 2] {
            let again = fitted(&options, n, memory);
            assert_eq!(again.1, held.1, "{architecture:?} with {layers} layers in {memory} bytes");
            assert_eq!(format!("{:?}", again.0), format!("{:?}", held.0), "{architecture:?} with {layers} layers");
        }
    }
}

#[test]
fn the_basis_is_held_before_the_inputs_of_the_top_layer() {
    let options = options(Architecture::Composition, 2, (aca(100, 1e-9), PriorMean::Identity), hmc(2, 2));
    let (rows, features) = (1000, 30);
    let needs = Repeatable::new((&options.layers, &options.em), true, (rows, features), 7);
    let (basis, inputs) = (8 * rows * 100, 8 * rows * 2 * (2 * 30 + 1));
    let both = Kept { basis: true, inputs: true };
    assert_eq!(needs.bytes(both), (2 * basis).max(basis + inputs));
    assert_eq!(needs.keep(u64::MAX), both);
    assert_eq!(needs.keep(basis + inputs), both);
    assert_eq!(needs.keep(basis + inputs - 1), Kept { basis: true, inputs: false });
    // New pivots come before old ones go.
    assert_eq!(needs.keep(2 * basis - 1), Kept { basis: false, inputs: true });
    assert_eq!(needs.keep(inputs - 1), Kept { basis: false, inputs: false });
    let nothing = Repeatable::new((&options.layers, &options.em), true, (0, features), 7);
    assert_eq!(nothing.keep(0), both);
}
