//! The frozen chains at the end of a fit: what they say about themselves, and when they have run long enough.

use ndarray::Array2;

use super::checkpoint::{Checkpoint, ParticleState};
use super::em::{DeepFit, Stretch};
use super::sampler::{Chain, Moves};
use super::until::Until;
use crate::eval::chains::{bulk_ess, split_rhat};
use crate::gp::GpError;
use crate::gp::observer::Observer;
use crate::gp::random::{StreamKey, sample_without_replacement};
use crate::gp::team::for_each_of;

/// Rows at which predictions are followed.
const SHOWN_ROWS: usize = 50;
/// So many batches of frozen moves are made at most, if nothing else ends them.
const BATCHES: usize = 40;
/// EM iterations before it can be said that nothing rises any more, and how many apart are compared.
const LEAST_ITERATIONS: usize = 4;
const APART: usize = 2;
/// The share of a time budget after which EM ends: chains need the rest.
const SHARE_OF_EM: f64 = 0.5;

/// What frozen chains have said so far.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FrozenDraws {
    /// ℓ of every chain after every round of moves.
    pub log_likelihood: Vec<Vec<f64>>,
    /// Means of every chain at some training rows, row after row, draw after draw.
    pub predictions: Vec<Vec<f64>>,
    pub moves: Moves,
    /// Batches of moves that are done.
    pub batches: usize,
}

impl FrozenDraws {
    pub fn new(chains: usize) -> Self {
        let nothing = || vec![Vec::new(); chains];
        Self { log_likelihood: nothing(), predictions: nothing(), moves: Moves::default(), batches: 0 }
    }

    /// As it was at a checkpoint.
    pub fn restored(state: &Checkpoint) -> Self {
        let of =
            |f: fn(&ParticleState) -> &Vec<f64>| state.particles.iter().map(|particle| f(particle).clone()).collect();
        Self {
            log_likelihood: of(|particle| &particle.frozen),
            predictions: of(|particle| &particle.predictions),
            moves: Moves { tried: state.frozen_tried, accepted: state.frozen_accepted },
            batches: state.frozen_batches,
        }
    }

    /// R̂ and ESS of ℓ. Of several batches the first half is the way to where the chains stay, and is left out.
    pub fn of_likelihood(&self) -> (Option<f64>, Option<f64>) {
        let draws: Vec<Vec<f64>> = self.log_likelihood.iter().map(|all| self.later(all).to_vec()).collect();
        (split_rhat(&draws), bulk_ess(&draws))
    }

    /// The same of the means at fixed rows: the largest R̂ and the smallest ESS.
    pub fn of_predictions(&self, rows: usize) -> (Option<f64>, Option<f64>) {
        let mut worst: (Option<f64>, Option<f64>) = (None, None);
        for row in 0..rows {
            let of =
                |all: &Vec<f64>| self.later(&all.iter().skip(row).step_by(rows).copied().collect::<Vec<_>>()).to_vec();
            let draws: Vec<Vec<f64>> = self.predictions.iter().map(of).collect();
            if let Some(rhat) = split_rhat(&draws) {
                worst.0 = Some(worst.0.map_or(rhat, |worst: f64| worst.max(rhat)));
            }
            if let Some(ess) = bulk_ess(&draws) {
                worst.1 = Some(worst.1.map_or(ess, |worst: f64| worst.min(ess)));
            }
        }
        worst
    }

    fn later<'a>(&self, all: &'a [f64]) -> &'a [f64] {
        if self.batches > 1 { &all[all.len() / 2..] } else { all }
    }

    fn meets(&self, until: Until, rows: usize) -> bool {
        let good = |(rhat, ess): (Option<f64>, Option<f64>)| {
            rhat.is_some_and(|rhat| rhat <= until.rhat) && ess.is_some_and(|ess| ess >= until.ess)
        };
        let shown = self.predictions.iter().any(|all| !all.is_empty());
        good(self.of_likelihood()) && (!shown || good(self.of_predictions(rows)))
    }
}

/// The rows at which predictions are followed, of n.
pub(super) fn shown_rows(key: &StreamKey, n: usize) -> Vec<usize> {
    sample_without_replacement(&mut key.with("deep").with("shown rows").generator(), n, SHOWN_ROWS)
}

impl DeepFit<'_> {
    /// The frozen chains, as long as it takes.
    pub(super) fn final_phase(&mut self, observer: &mut dyn Observer) -> Result<(), GpError> {
        let (moves, draws) = (self.options.em.frozen_moves() as usize, self.options.em.draws() as usize);
        if moves == 0 {
            return self.refresh_densities();
        }
        if self.frozen.batches == 0 {
            self.settle(observer)?;
        }
        loop {
            self.earlier.iter_mut().for_each(Vec::clear);
            let stretch = Stretch {
                phase: "final",
                first: self.frozen.batches * moves,
                batch: self.frozen.batches,
                moves,
                round: moves.div_ceil(1000).min(moves / draws),
                adapt: false,
                draws,
            };
            self.sample(&stretch, observer)?;
            self.frozen.batches += 1;
            let Some(until) = self.options.em.until else { return Ok(()) };
            self.note_time(observer);
            let rows = self.shown.len();
            if self.frozen.batches >= BATCHES || self.is_out_of_time(1.0) || self.frozen.meets(until, rows) {
                return Ok(());
            }
            // Neighbours are those of where the frozen chains began, which a checkpoint from here on would not know.
            if self.options.start.neighbours().is_none() {
                observer.checkpoint(&self.checkpoint());
            }
        }
    }

    /// Moves after the last EM iteration, as far as they are known.
    pub(super) fn final_moves(&self) -> usize {
        2 * self.settling_moves() + self.options.em.frozen_moves() as usize * (self.frozen.batches + 1)
    }

    // Moves in which samplers learn how to move; none before a chain that is shorter than the lesson.
    fn settling_moves(&self) -> usize {
        let em = &self.options.em;
        let (moves, lesson) = (em.frozen_moves() as usize, em.sampler.method().settling_moves() as usize);
        if em.until.is_some() || moves >= 2 * lesson { lesson } else { 0 }
    }

    // Lets samplers adapt to where the last M step has left the target.
    fn settle(&mut self, observer: &mut dyn Observer) -> Result<(), GpError> {
        let moves = self.settling_moves();
        if moves == 0 {
            return Ok(());
        }
        self.chains.iter_mut().for_each(|chain| chain.sampler.lengthen());
        let stretch = |first| Stretch { phase: "settle", first, batch: 0, moves, round: 1, adapt: true, draws: 1 };
        self.sample(&stretch(0), observer)?;
        self.chains.iter_mut().for_each(|chain| chain.sampler.rescale());
        self.sample(&stretch(moves), observer)
    }

    /// What chains predict at some training rows, once more.
    pub(super) fn note_predictions(&mut self, chains: &[Chain]) -> Result<(), GpError> {
        let (problem, rows) = (&self.problem, &self.shown);
        let means =
            for_each_of(chains.iter().enumerate().collect(), |(particle, chain): (usize, &Chain)| {
                match problem.means_at(particle, chain.xi(), rows) {
                    Err(error) if error.is_recoverable() => Ok(vec![f64::NAN; rows.len()]),
                    found => found,
                }
            })?;
        self.frozen.predictions.iter_mut().zip(means).for_each(|(all, means)| all.extend(means));
        Ok(())
    }

    /// Whether what chains sample no longer rises beyond the noise of the chains, and that is asked for.
    pub(super) fn has_settled(&self) -> bool {
        let done = self.heights.first().map_or(0, Vec::len);
        if self.options.em.until.is_none() || done < LEAST_ITERATIONS {
            return false;
        }
        let count = self.heights.len() as f64;
        let rises: Vec<f64> = self.heights.iter().map(|all| all[done - 1] - all[done - 1 - APART]).collect();
        let mean = rises.iter().sum::<f64>() / count;
        let variance = rises.iter().map(|rise| (rise - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
        mean <= 2.0 * (variance / count).sqrt()
    }

    /// Whether EM has used its share of the time.
    pub(super) fn em_is_out_of_time(&self) -> bool {
        self.is_out_of_time(SHARE_OF_EM)
    }

    fn is_out_of_time(&self, share: f64) -> bool {
        self.options.em.time_budget.is_some_and(|budget| self.seconds >= share * budget.seconds())
    }

    /// Looks at the clock. Decisions go by the last look, which is in the checkpoint, so that a fit that is interrupted
    /// decides the same.
    pub(super) fn note_time(&mut self, observer: &dyn Observer) {
        let now = observer.seconds();
        self.seconds += now - self.clock;
        self.clock = now;
    }

    pub(super) fn checkpoint(&self) -> Checkpoint {
        let state = |(particle, chain): (usize, &Chain)| ParticleState {
            xi: chain.xi().to_vec(),
            sampler: chain.sampler.to_numbers(),
            frozen: self.frozen.log_likelihood[particle].clone(),
            predictions: self.frozen.predictions[particle].clone(),
            heights: self.heights[particle].clone(),
        };
        Checkpoint {
            iteration: self.iteration,
            start: self.problem.start.clone(),
            hyper: self.problem.hyper.clone(),
            inducing: self.problem.inducing.clone(),
            pivots: self.problem.pivots.clone(),
            jitter: self.problem.jitter,
            particles: self.chains.iter().enumerate().map(state).collect(),
            frozen_tried: self.frozen.moves.tried,
            frozen_accepted: self.frozen.moves.accepted,
            frozen_batches: self.frozen.batches,
            seconds: self.seconds,
        }
    }

    /// What the mixture is made of: chain after chain, the states that are kept of it.
    pub fn states(&self) -> impl Iterator<Item = &[Array2<f64>]> {
        self.earlier
            .iter()
            .zip(&self.chains)
            .flat_map(|(earlier, chain)| earlier.iter().chain([&chain.position.xi]))
            .map(Vec::as_slice)
    }
}
