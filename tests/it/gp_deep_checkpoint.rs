//! The state of a deep fit as tensors, and back.

use ndarray::{Array2, array};
use stride_pipe::gp::deep::{Checkpoint, ParticleState};
use stride_pipe::gp::kernel::Hyper;
use stride_pipe::stages::train::checkpoint::{from_tensors, to_tensors};
use stride_pipe::store::Tensor;

fn state() -> Checkpoint {
    let particle = |scale: f64| ParticleState {
        xi: vec![array![[scale, -0.0], [1.0 / 3.0, 5e-324]], Array2::zeros((0, 2))],
        sampler: vec![scale.sqrt(), f64::INFINITY],
        frozen: vec![scale, -1.5],
        predictions: vec![scale],
        heights: vec![-scale, 0.5],
    };
    Checkpoint {
        iteration: 3,
        start: Hyper { variance: 0.1 + 0.2, lengths: vec![1e-300], noise: 0.0 },
        hyper: Hyper { variance: 2.0, lengths: vec![0.5, 0.25], noise: 1e-6 },
        inducing: vec![5, 0, 63_000],
        pivots: Vec::new(),
        jitter: 1e-8,
        particles: vec![
            particle(2.0),
            particle(-0.5),
            ParticleState {
                xi: Vec::new(),
                sampler: Vec::new(),
                frozen: Vec::new(),
                predictions: Vec::new(),
                heights: Vec::new(),
            },
        ],
        frozen_tried: 24,
        frozen_accepted: 0.1 + 0.7,
        frozen_batches: 2,
        seconds: 0.1 + 0.2,
    }
}

#[test]
fn comes_back_to_the_bit() -> Result<(), String> {
    let mut state = state();
    // NaN is equal to nothing: compared by what it becomes again.
    assert!(state.particles[1].sampler[0].is_nan());
    let tensors = to_tensors(&state);
    let mut back = from_tensors(&tensors)?;
    assert_eq!(to_tensors(&back), tensors);
    let bits = (back.particles[1].sampler[0].to_bits(), state.particles[1].sampler[0].to_bits());
    assert_eq!(bits.0, bits.1);
    for particles in [&mut back.particles, &mut state.particles] {
        particles[1].sampler[0] = 0.0;
    }
    assert_eq!(back, state);
    Ok(())
}

#[test]
fn every_tensor_is_needed() {
    let whole = to_tensors(&state());
    for name in whole.keys() {
        let mut without = whole.clone();
        without.remove(name);
        assert!(from_tensors(&without).is_err_and(|error| error.contains(name)), "{name}");
        let mut other = whole.clone();
        other.insert(name.clone(), Tensor::F64(ndarray::ArrayD::zeros(ndarray::IxDyn(&[1, 2, 3]))));
        assert!(from_tensors(&other).is_err(), "{name}");
    }
    let mut negative = whole;
    negative.insert("inducing".to_owned(), Tensor::from(array![-1_i64]));
    assert!(from_tensors(&negative).is_err_and(|error| error.contains("negative")));
}
