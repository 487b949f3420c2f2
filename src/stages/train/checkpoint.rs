//! The state of a deep fit as tensors, and back, to the bit.

use super::tensors::{count, counts, integers, matrix, one, scalar, vector};
use crate::gp::deep::{Checkpoint, ParticleState};
use crate::gp::kernel::Hyper;
use crate::store::{Tensor, Tensors};
use ndarray::Array1;

/// The numbers that a checkpoint file has to hold.
pub fn to_tensors(state: &Checkpoint) -> Tensors {
    let Checkpoint { iteration, start, hyper, inducing, pivots, jitter, particles, frozen_tried, frozen_accepted } =
        state;
    let mut tensors = Tensors::from([
        ("iteration".to_owned(), integers([*iteration])),
        ("inducing".to_owned(), integers(inducing.iter().copied())),
        ("pivots".to_owned(), integers(pivots.iter().copied())),
        ("jitter".to_owned(), scalar(*jitter)),
        ("frozen.tried".to_owned(), integers([*frozen_tried])),
        ("frozen.accepted".to_owned(), scalar(*frozen_accepted)),
        ("hidden_layers".to_owned(), integers(particles.iter().map(|particle| particle.xi.len()))),
    ]);
    for (name, hyper) in [("start", start), ("hyper", hyper)] {
        let Hyper { variance, lengths, noise } = hyper;
        tensors.insert(format!("{name}.variance"), scalar(*variance));
        tensors.insert(format!("{name}.lengths"), Tensor::from(Array1::from(lengths.clone())));
        tensors.insert(format!("{name}.noise"), scalar(*noise));
    }
    for (number, ParticleState { xi, sampler, frozen }) in particles.iter().enumerate() {
        tensors.insert(frozen_name(number), Tensor::from(Array1::from(frozen.clone())));
        tensors.insert(sampler_name(number), Tensor::from(Array1::from(sampler.clone())));
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
    let particle = |(number, layers): (usize, usize)| {
        Ok(ParticleState {
            xi: (0..layers).map(|layer| matrix(tensors, &xi_name(number, layer))).collect::<Result<_, String>>()?,
            sampler: vector(tensors, &sampler_name(number))?.to_vec(),
            frozen: vector(tensors, &frozen_name(number))?.to_vec(),
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

fn frozen_name(particle: usize) -> String {
    format!("particle.{particle}.frozen")
}

fn sampler_name(particle: usize) -> String {
    format!("particle.{particle}.sampler")
}
