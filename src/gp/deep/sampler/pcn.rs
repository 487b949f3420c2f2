//! Whitened preconditioned Crank–Nicolson: ξ' = √(1−β²) ξ + β w, accepted with min(1, exp(ℓ(ξ') − ℓ(ξ))).
//!
//! A step proposes one layer after the other, each with its own β.

use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Advice, Moves, Position, Sampler, SamplerMethod, normals_like, unless_undefined};
use crate::gp::GpError;
use crate::gp::deep::target::LogDensity;
use crate::gp::random::uniform;

/// Where β starts.
const FIRST_STEP: f64 = 0.025;
/// β changes after so many steps.
const WINDOW: f64 = 50.0;
/// Acceptance that is aimed at.
const AIM: std::ops::RangeInclusive<f64> = 0.25..=0.3;
const SMALLEST_STEP: f64 = 1e-6;
const LARGEST_STEP: f64 = 1.0;

/// Preconditioned Crank–Nicolson.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Pcn")]
pub struct PcnOptions {
    /// Steps per E step.
    #[schemars(range(min = 0))]
    pub steps: u32,
}

impl Default for PcnOptions {
    fn default() -> Self {
        Self { steps: 400 }
    }
}

impl SamplerMethod for PcnOptions {
    fn unit(&self) -> &'static str {
        "steps"
    }

    fn moves(&self) -> u32 {
        self.steps
    }

    fn round(&self) -> usize {
        25
    }

    // A step costs no more than a value of ℓ.
    fn spacing(&self) -> usize {
        10
    }

    // A step goes far less far than a transition of hmc: as many as in an E step.
    fn frozen_moves(&self) -> u32 {
        self.steps.max(50)
    }

    fn good_acceptance(&self) -> (f64, f64) {
        (0.1, 0.6)
    }

    fn advice(&self) -> Advice {
        Advice { to_mix: "the sampler `hmc`", for_more_draws: "use the sampler `hmc`", largest_step: "1" }
    }

    fn start(&self, layers: usize) -> Box<dyn Sampler> {
        Box::new(Pcn { step: vec![FIRST_STEP; layers], accepted: vec![0.0; layers], tried: 0.0 })
    }

    fn restore(&self, layers: usize, numbers: &[f64]) -> Option<Box<dyn Sampler>> {
        if numbers.len() != 2 * layers + 1 {
            return None;
        }
        let (step, rest) = numbers.split_at(layers);
        let (accepted, tried) = rest.split_at(layers);
        Some(Box::new(Pcn { step: step.to_vec(), accepted: accepted.to_vec(), tried: tried[0] }))
    }
}

/// Step sizes, and acceptance since they last changed.
#[derive(Debug)]
struct Pcn {
    // One of each per layer.
    step: Vec<f64>,
    accepted: Vec<f64>,
    tried: f64,
}

impl Sampler for Pcn {
    fn run(
        &mut self,
        target: &dyn LogDensity,
        position: &mut Position,
        count: usize,
        adapt: bool,
        rng: &mut ChaCha8Rng,
    ) -> Result<Moves, GpError> {
        let mut moves = Moves::default();
        let Position { xi, density, .. } = position;
        let mut known = target.know(xi)?;
        for _ in 0..count {
            for layer in 0..xi.len() {
                let beta = self.step[layer];
                let mut proposal = normals_like(&xi[layer], rng);
                let keep = (1.0 - beta * beta).sqrt();
                proposal.zip_mut_with(&xi[layer], |w, xi| *w = keep * xi + beta * *w);
                std::mem::swap(&mut xi[layer], &mut proposal);
                let proposed = unless_undefined(target.value_of_layer(xi, layer, &known))?;
                let log_u = (1.0 - uniform(rng)).ln();
                moves.tried += 1;
                match proposed {
                    Some((new, new_known)) if log_u < new.sampled - density.sampled => {
                        (*density, known) = (new, new_known);
                        moves.accepted += 1.0;
                        self.accepted[layer] += 1.0;
                    }
                    _ => xi[layer] = proposal,
                }
            }
            self.tried += 1.0;
            if adapt && self.tried >= WINDOW {
                self.adapt();
            }
        }
        Ok(moves)
    }

    fn step_size(&self) -> f64 {
        self.step.iter().sum::<f64>() / self.step.len().max(1) as f64
    }

    fn to_numbers(&self) -> Vec<f64> {
        self.step.iter().chain(&self.accepted).copied().chain([self.tried]).collect()
    }
}

impl Pcn {
    fn adapt(&mut self) {
        for (step, accepted) in self.step.iter_mut().zip(&mut self.accepted) {
            let rate = *accepted / self.tried;
            if rate > *AIM.end() {
                *step = (*step * 1.25).min(LARGEST_STEP);
            } else if rate < *AIM.start() {
                *step = (*step * 0.8).max(SMALLEST_STEP);
            }
            *accepted = 0.0;
        }
        self.tried = 0.0;
    }
}
