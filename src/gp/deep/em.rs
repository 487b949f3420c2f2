//! The EM loop: sample hidden layers, move inducing points and hyper-parameters, and again.

use ndarray::Array2;
use rand_chacha::ChaCha8Rng;

use super::checkpoint::{Checkpoint, ParticleState};
use super::frozen::{FrozenDraws, shown_rows};
use super::options::DeepOptions;
use super::problem::{DeepProblem, SupportPoints};
use super::sampler::{Chain, Moves, SamplerMethod};
use super::start::{pivot_rows, soft_bounds};
use super::target::{DensityAt, LogDensity};
use super::warm::{self, DeepStart};
use crate::gp::GpError;
use crate::gp::fit_rows::FitRows;
use crate::gp::hyper::SoftBounds;
use crate::gp::inducing::Choice;
use crate::gp::observer::{ChainProgress, Observer, Phase, Progress, TracePoint};
use crate::gp::random::StreamKey;
use crate::gp::team::for_each_of;
use crate::gp::warm::WarmStart;

/// A fit that is under way.
pub(super) struct DeepFit<'a> {
    pub problem: DeepProblem,
    pub(super) options: &'a DeepOptions,
    pub(super) key: &'a StreamKey,
    pub chains: Vec<Chain>,
    // ξ of every chain at earlier moves of the frozen chain at its end, as far as the mixture keeps them.
    pub(super) earlier: Vec<Vec<Vec<Array2<f64>>>>,
    pub(super) soft_bounds: SoftBounds,
    // EM iterations that are done.
    pub(super) iteration: usize,
    pub frozen: FrozenDraws,
    // Training rows at which predictions of the frozen chains are followed.
    pub shown: Vec<usize>,
    // The mean of what every chain sampled, in every E step.
    pub(super) heights: Vec<Vec<f64>>,
    // By how much that has risen in the last E step, from its first move to its last, on average over the chains.
    risen: f64,
    // Time that was used, also before an interruption, and the clock when it was looked at.
    pub(super) seconds: f64,
    pub(super) clock: f64,
    moves_done: usize,
}

/// A stretch of moves of all chains.
pub(super) struct Stretch {
    pub phase: &'static str,
    /// Moves of this phase that came before.
    pub first: usize,
    /// Batches of frozen moves that did.
    pub batch: usize,
    pub moves: usize,
    pub round: usize,
    pub adapt: bool,
    /// States of each chain that are kept, the last one among them.
    pub draws: usize,
}

impl Stretch {
    // How many of its states before the last have been passed after so many moves.
    fn passed(&self, done: usize) -> usize {
        (done * self.draws / self.moves).min(self.draws - 1)
    }
}

impl<'a> DeepFit<'a> {
    /// Everything before the first EM iteration, or as it was at a checkpoint.
    pub fn new(
        data: &FitRows<'_>,
        options: &'a DeepOptions,
        key: &'a StreamKey,
        resume: Option<Checkpoint>,
        warm: Option<(&WarmStart, &DeepStart)>,
        observer: &mut dyn Observer,
    ) -> Result<Self, GpError> {
        let clock = observer.seconds();
        data.check()?;
        let (FitRows { x, y, noise, .. }, n) = (data.clone(), data.all());
        options.check(x.ncols())?;
        let mut problem = if let Some(state) = &resume {
            DeepProblem::within(data.clone(), options, &state.start, state.points(), observer.memory())?
        } else if let Some(warm) = warm {
            warm::problem((x, y, noise), options, warm, key, observer)?
        } else {
            let penalty = options.objective().penalty();
            let (start, inducing, jitter) = options.start.fit(data, penalty, key, observer)?;
            let pivots = Err(pivot_rows(key, n));
            let points = SupportPoints { inducing, pivots, jitter };
            DeepProblem::within(data.clone(), options, &start, points, observer.memory())?
        };
        problem.set_noise(noise.clone());
        if let Some(state) = &resume {
            state.hyper.check(1)?;
            problem.set_hyper(state.hyper.clone());
        }
        let count = options.em.particles as usize;
        let mut fit = Self {
            problem,
            options,
            key,
            chains: Vec::new(),
            earlier: vec![Vec::new(); count],
            soft_bounds: soft_bounds(data, key)?,
            iteration: resume.as_ref().map_or(0, |state| state.iteration),
            frozen: resume.as_ref().map_or_else(|| FrozenDraws::new(count), FrozenDraws::restored),
            shown: shown_rows(key, n),
            heights: resume.as_ref().map_or_else(
                || vec![Vec::new(); count],
                |state| state.particles.iter().map(|particle| particle.heights.clone()).collect(),
            ),
            risen: 0.0,
            seconds: resume.as_ref().map_or(0.0, |state| state.seconds),
            clock,
            moves_done: 0,
        };
        let begins = resume.is_none();
        fit.begin_neighbours((x, y), begins, warm.map(|(warm, _)| warm), observer)?;
        fit.chains = match (resume, warm) {
            (Some(state), _) => fit.restore(state.particles)?,
            (None, Some((_, deep))) => fit.warm_chains(deep, observer)?,
            (None, None) => fit.first_chains(observer)?,
        };
        fit.moves_done = fit.iteration * fit.sampler().moves() as usize;
        if begins {
            // The start is part of the time that training takes.
            fit.note_time(observer);
        }
        Ok(fit)
    }

    fn restore(&self, particles: Vec<ParticleState>) -> Result<Vec<Chain>, GpError> {
        if particles.len() != self.options.em.particles as usize {
            return Err(GpError::shape(format!("{} chains in the checkpoint", particles.len())));
        }
        particles
            .into_iter()
            .map(|ParticleState { xi, sampler: numbers, .. }| {
                let sampler = self.sampler().restore(self.problem.design.layers, &numbers);
                let count = numbers.len();
                let sampler = sampler.ok_or_else(|| GpError::shape(format!("{count} numbers of a sampler")))?;
                Ok(Chain::new(xi, sampler))
            })
            .collect()
    }

    // All chains start from the stationary model, or from a place uphill of it.
    fn first_chains(&mut self, observer: &mut dyn Observer) -> Result<Vec<Chain>, GpError> {
        let xi = self.climb(self.problem.start_xi()?, observer)?;
        let chain = |_| Chain::new(xi.clone(), self.sampler().start(xi.len()));
        Ok((0..self.options.em.particles).map(chain).collect())
    }

    /// All EM iterations that are left, and the frozen chain at the end.
    pub fn run(&mut self, observer: &mut dyn Observer) -> Result<(), GpError> {
        let iterations = self.options.em.iterations() as usize;
        while self.iteration < iterations && !self.has_settled() && !self.em_is_out_of_time() {
            let last = self.iteration + 1 == iterations;
            self.refresh_neighbours(observer)?;
            self.e_step(last, observer)?;
            observer.phase(Phase::MStep);
            self.m_step(observer)?;
            let cross = self.problem.hidden.representation.cross();
            if !last && cross.is_some_and(|cross| cross.repivot) {
                let seen = pivot_rows(self.key, self.problem.rows.all());
                let done = self.problem.repivot(&seen, xi_of(&mut self.chains), self.risen);
                self.or_skipped(done, false, "repivot.skipped", observer)?;
            }
            self.iteration += 1;
            self.note_time(observer);
            observer.checkpoint(&self.checkpoint());
        }
        self.refresh_neighbours(observer)?;
        self.final_phase(observer)
    }

    // Step sizes change as long as a frozen stretch still follows. Without frozen moves at the end that stretch is the
    // last E step, or the second half of a lone one.
    fn e_step(&mut self, last: bool, observer: &mut dyn Observer) -> Result<(), GpError> {
        let (moves, round) = (self.sampler().moves() as usize, self.sampler().round());
        let adapting = match (last, self.options.em.iterations(), self.options.em.frozen_moves()) {
            (false, ..) | (.., 1..) => moves,
            (_, 1, 0) => moves / 2,
            _ => 0,
        };
        self.heights.iter_mut().for_each(|all| all.push(0.0));
        let stretch = |first, moves, adapt| Stretch { phase: "e_step", first, batch: 0, moves, round, adapt, draws: 1 };
        if adapting > 0 {
            self.sample(&stretch(0, adapting, true), observer)?;
        }
        if adapting < moves {
            self.sample(&stretch(adapting, moves - adapting, false), observer)?;
        }
        Ok(())
    }

    pub(super) fn sampler(&self) -> &'a dyn SamplerMethod {
        self.options.em.sampler.method()
    }

    // ℓ of every chain where it stands. The jitter may rise here and when points move, not later: a target must not change while
    // it is sampled.
    pub(super) fn refresh_densities(&mut self) -> Result<(), GpError> {
        loop {
            let density = |(particle, chain): (usize, &Chain)| self.problem.target_of(particle).value(chain.xi());
            let found: Result<Vec<DensityAt>, GpError> = for_each_of(self.chains.iter().enumerate().collect(), density);
            match found {
                Ok(densities) => {
                    self.chains.iter_mut().zip(densities).for_each(|(chain, at)| chain.refresh_density(at));
                    return Ok(());
                }
                Err(error @ GpError::NotPositiveDefinite { .. }) => {
                    if !self.problem.raise_jitter()? {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    // Moves all chains.
    pub(super) fn sample(&mut self, stretch: &Stretch, observer: &mut dyn Observer) -> Result<(), GpError> {
        observer.phase(Phase::EStep);
        self.refresh_densities()?;
        let before = self.mean_sampled();
        if !stretch.adapt {
            self.chains.iter_mut().for_each(|chain| chain.sampler.freeze());
            if stretch.batch == 0 {
                self.frozen = FrozenDraws::new(self.chains.len());
            }
        }
        let mut stream = self.key.with("deep").with(stretch.phase).with_index(self.iteration as u64);
        if stretch.first > 0 {
            stream = stream.with("frozen");
        }
        if stretch.batch > 0 {
            stream = stream.with_index(stretch.batch as u64);
        }
        let mut generators: Vec<ChaCha8Rng> =
            (0..self.chains.len()).map(|particle| stream.with_index(particle as u64).generator()).collect();
        let mut totals = vec![Moves::default(); self.chains.len()];
        let mut chains = std::mem::take(&mut self.chains);
        let mut done = 0;
        while done < stretch.moves {
            if observer.interrupted() {
                return Err(GpError::Interrupted);
            }
            let count = stretch.round.min(stretch.moves - done);
            let problem = &self.problem;
            let all = chains.iter_mut().zip(&mut generators).zip(&mut totals).enumerate().collect();
            for_each_of(all, |(particle, ((chain, rng), total)): (usize, ((&mut Chain, _), &mut Moves))| {
                total.add(chain.run(&problem.target_of(particle), count, stretch.adapt, rng)?);
                Ok(())
            })?;
            if stretch.passed(done + count) > stretch.passed(done) {
                self.earlier.iter_mut().zip(&chains).for_each(|(kept, chain)| kept.push(chain.xi().to_vec()));
            }
            done += count;
            self.moves_done += count;
            self.report(&chains, &totals, stretch, stretch.first + done, observer);
            if stretch.phase == "e_step" {
                let share = count as f64 / f64::from(self.sampler().moves());
                let last = self.heights.iter_mut().filter_map(|all| all.last_mut());
                last.zip(&chains).for_each(|(height, chain)| *height += share * chain.sampled());
            }
            if !stretch.adapt {
                let all = self.frozen.log_likelihood.iter_mut();
                all.zip(&chains).for_each(|(all, chain)| all.push(chain.log_likelihood()));
                let spacing = self.sampler().spacing();
                if done / spacing > (done - count) / spacing {
                    self.note_predictions(&chains)?;
                }
            }
        }
        if !stretch.adapt {
            for moves in totals {
                self.frozen.moves.add(moves);
            }
        }
        self.chains = chains;
        self.risen = self.mean_sampled() - before;
        Ok(())
    }

    fn mean_sampled(&self) -> f64 {
        self.chains.iter().map(Chain::sampled).sum::<f64>() / self.chains.len().max(1) as f64
    }

    fn report(&self, chains: &[Chain], totals: &[Moves], stretch: &Stretch, done: usize, observer: &mut dyn Observer) {
        for (particle, (chain, moves)) in chains.iter().zip(totals).enumerate() {
            observer.trace(&TracePoint {
                particle: particle as i32,
                step: done as i32,
                log_likelihood: chain.log_likelihood(),
                bound: chain.bound(),
                acceptance: moves.rate(),
                step_size: Some(chain.sampler.step_size()),
                ..self.trace_point(stretch.phase)
            });
        }
        let mut all = Moves::default();
        for moves in totals {
            all.add(*moves);
        }
        let count = chains.len().max(1) as f64;
        let (iterations, moves) = (self.options.em.iterations() as usize, self.sampler().moves() as usize);
        observer.progress(Progress {
            what: self.sampler().unit(),
            done: self.moves_done,
            total: Some(iterations * moves + self.final_moves()),
            chains: Some(ChainProgress {
                iteration: (self.iteration + 1).min(iterations),
                iterations,
                log_likelihood: chains.iter().map(Chain::log_likelihood).sum::<f64>() / count,
                acceptance: all.rate().unwrap_or(f64::NAN),
            }),
        });
    }

    pub(super) fn trace_point(&self, phase: &'static str) -> TracePoint {
        TracePoint {
            particle: 0,
            iteration: (self.iteration + 1) as i32,
            phase,
            step: 0,
            log_likelihood: f64::NAN,
            bound: None,
            acceptance: None,
            step_size: None,
            variance: self.problem.hyper.variance,
            length: self.problem.hyper.length(),
            noise: self.problem.hyper.noise,
            jitter: self.problem.jitter * self.problem.hyper.variance,
            inducing: self.problem.top.rows(self.problem.rows.all(), &self.problem.inducing).len() as i32,
        }
    }

    // Moves inducing points and hyper-parameters; hidden values at all rows stand still.
    fn m_step(&mut self, observer: &mut dyn Observer) -> Result<(), GpError> {
        let exchanges = self.options.em.exchanges as usize;
        let candidates = self.options.start.candidates().filter(|_| exchanges > 0);
        let free = self.options.start.free();
        let moves = self.options.em.hyperparameters && free != crate::gp::kernel::Free::NONE;
        if candidates.is_none() && !moves {
            return Ok(());
        }
        let held = self.problem.held(&self.chains.iter().map(Chain::xi).collect::<Vec<_>>())?;
        let mut inducing = self.problem.inducing.clone();
        if let Some(candidates) = candidates {
            let choice = Choice {
                y: self.problem.y.view(),
                candidates,
                key: self.key.with("deep").with("exchange").with_index(self.iteration as u64),
                trace: self.trace_point("exchange"),
            };
            let found = held.exchange(&choice, &self.problem.hyper, &inducing, exchanges, observer);
            inducing = self.or_skipped(found, inducing, "exchange.skipped", observer)?;
        }
        let mut hyper = self.problem.hyper.clone();
        if moves {
            let trace = self.trace_point("hyper");
            let found = held.hyperparameters(&hyper, &inducing, free, &self.soft_bounds, trace, observer);
            hyper = self.or_skipped(found, hyper, "hyper.skipped", observer)?;
        }
        if inducing != self.problem.inducing {
            let moved = self.problem.move_inducing(inducing, xi_of(&mut self.chains)).map(|()| true);
            if !self.or_skipped(moved, false, "exchange.skipped", observer)? {
                // These hyper-parameters were fitted to points that cannot be used.
                return Ok(());
            }
        }
        self.problem.set_hyper(hyper);
        Ok(())
    }

    // A part of an M step that meets a factorisation that fails has not moved anything: no harm done, but it is traced.
    pub(super) fn or_skipped<T>(
        &self,
        result: Result<T, GpError>,
        before: T,
        phase: &'static str,
        observer: &mut dyn Observer,
    ) -> Result<T, GpError> {
        match result {
            Err(error) if error.is_recoverable() => {
                observer.trace(&self.trace_point(phase));
                Ok(before)
            }
            other => other,
        }
    }
}

fn xi_of(chains: &mut [Chain]) -> Vec<&mut Vec<Array2<f64>>> {
    chains.iter_mut().map(|chain| &mut chain.position.xi).collect()
}
