//! The state of a deep fit as tensors, and back, to the bit.

use super::tensors::{count, counts, integers, matrix, one, scalar, vector};
use crate::gp::deep::{Checkpoint, ParticleState};
use crate::gp::kernel::Hyper;
use crate::store::{Tensor, Tensors};
use ndarray::Array1;

/// The numbers that a checkpoint file has to hold.
pub fn to_tensors(state: &Checkpoint) -> Tensors {
    let Checkpoint { iteration, start, hyper, inducing, pivots, jitter, particles, .. } = state;
    let Checkpoint { frozen_tried, frozen_accepted, frozen_batches, seconds, .. } = state;
    let mut tensors = Tensors::from([
        ("iteration".to_owned(), integers([*iteration])),
        ("inducing".to_owned(), integers(inducing.iter().copied())),
        ("pivots".to_owned(), integers(pivots.iter().copied())),
        ("jitter".to_owned(), scalar(*jitter)),
        ("frozen.tried".to_owned(), integers([*frozen_tried])),
        ("frozen.accepted".to_owned(), scalar(*frozen_accepted)),
        ("frozen.batches".to_owned(), integers([*frozen_batches])),
        ("seconds".to_owned(), scalar(*seconds)),
        ("hidden_layers".to_owned(), integers(particles.iter().map(|particle| particle.xi.len()))),
    ]);
    for (name, hyper) in [("start", start), ("hyper", hyper)] {
        let Hyper { variance, lengths, noise } = hyper;
        tensors.insert(format!("{name}.variance"), scalar(*variance));
        tensors.insert(format!("{name}.lengths"), Tensor::from(Array1::from(lengths.clone())));
        tensors.insert(format!("{name}.noise"), scalar(*noise));
    }
    for (number, ParticleState { xi, sampler, frozen, predictions, heights }) in particles.iter().enumerate() {
        let lists = [("frozen", frozen), ("sampler", sampler), ("predictions", predictions), ("heights", heights)];
        for (what, values) in lists {
            tensors.insert(list_name(number, what), Tensor::from(Array1::from(values.clone())));
        }
        for (layer, values) in xi.iter().enumerate() {
            tensors.insert(xi_name(number, layer), Tensor::from(values.clone()));
        }
    }
    tensors
}

/// The state in these tensors, or what is wrong with them.
pub fn from_tensors(tensors: &Tensors) -> Result<Checkpoint, String> {
    let hyper = |name: &str| {
        Ok::<_, String>(Hyper {
            variance: one(tensors, &format!("{name}.variance"))?,
            lengths: vector(tensors, &format!("{name}.lengths"))?.to_vec(),
            noise: one(tensors, &format!("{name}.noise"))?,
        })
    };
    let list = |number: usize, what: &str| Ok::<_, String>(vector(tensors, &list_name(number, what))?.to_vec());
    let particle = |(number, layers): (usize, usize)| {
        Ok(ParticleState {
            xi: (0..layers).map(|layer| matrix(tensors, &xi_name(number, layer))).collect::<Result<_, String>>()?,
            sampler: list(number, "sampler")?,
            frozen: list(number, "frozen")?,
            predictions: list(number, "predictions")?,
            heights: list(number, "heights")?,
        })
    };
    Ok(Checkpoint {
        iteration: count(tensors, "iteration")?,
        start: hyper("start")?,
        hyper: hyper("hyper")?,
        inducing: counts(tensors, "inducing")?,
        pivots: counts(tensors, "pivots")?,
        jitter: one(tensors, "jitter")?,
        frozen_tried: count(tensors, "frozen.tried")?,
        frozen_accepted: one(tensors, "frozen.accepted")?,
        frozen_batches: count(tensors, "frozen.batches")?,
        seconds: one(tensors, "seconds")?,
        particles: counts(tensors, "hidden_layers")?
            .into_iter()
            .enumerate()
            .map(particle)
            .collect::<Result<_, String>>()?,
    })
}

fn xi_name(particle: usize, layer: usize) -> String {
    format!("particle.{particle}.white.{layer}")
}

fn list_name(particle: usize, what: &str) -> String {
    format!("particle.{particle}.{what}")
}
