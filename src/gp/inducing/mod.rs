//! Chooses inducing points among the training rows: greedy growth, and exchange of single points.
//!
//! A [`Member`] is one model that takes part in the choice. Sparse regression has one; a deep model has one per
//! particle, all with the same points: gains are averaged over the members before a point is chosen.

mod gains;
mod options;
mod shortlist;

use ndarray::ArrayView1;
use rayon::prelude::*;

use super::GpError;
use super::kernel::Covariance;
use super::observer::{Observer, Progress, TracePoint};
use super::random::{StreamKey, sample_without_replacement};
use super::sparse::State;
use super::team::for_each_of;
use shortlist::largest;

pub use gains::Gains;
pub use options::{Candidates, InducingOptions};
pub use shortlist::Shortlist;

/// How many points may come from one pass over all candidates. Two halve the time and cost nothing: with 1,000 candidates
/// and 125 points of Fashion-MNIST features the bound was −44,040 with one, −44,016 with two, −44,213 with four.
const BATCH: usize = 2;
/// From so many of them that were best in that pass; at most as many as residuals are formed of together.
const SHORTLIST: usize = 32;

/// One model that takes part in the choice.
#[derive(Debug, Clone)]
pub struct Member<'a, C> {
    /// Covariances of the training rows.
    pub covariance: &'a C,
    /// The model with the points chosen so far.
    pub state: State<C>,
}

/// How points are chosen.
#[derive(Debug, Clone)]
pub struct Choice<'a> {
    /// Targets of the rows that are held, the same for all members.
    pub y: ArrayView1<'a, f64>,
    /// Which rows are tried.
    pub candidates: Candidates,
    /// The stream of the candidates.
    pub key: StreamKey,
    /// What all traces have in common: phase, particle, iteration, hyper-parameters.
    pub trace: TracePoint,
}

impl Choice<'_> {
    /// Adds points until there are `count`, or no candidate has anything to add. Never lowers the mean bound.
    pub fn grow<C: Covariance>(
        &self,
        members: &mut [Member<'_, C>],
        count: usize,
        observer: &mut dyn Observer,
    ) -> Result<(), GpError> {
        let mut step = chosen(members).len();
        while step < count {
            if observer.interrupted() {
                return Err(GpError::Interrupted);
            }
            let tried = self.draw(rows_of(members), chosen(members), step, &[]);
            let all = self.gains(members, &tried)?;
            let (indices, left_out) = largest(&mean(all.iter().map(Gains::values)), SHORTLIST.min(count - step));
            if indices.is_empty() {
                break;
            }
            let pairs = members.iter().zip(&all).collect();
            let mut lists = for_each_of(pairs, |(member, gains): (&Member<'_, C>, &Gains)| {
                Shortlist::new(member.covariance, &member.state, gains, &indices)
            })?;
            let (end, first) = ((step + BATCH).min(count), step);
            while step < end {
                if observer.interrupted() {
                    return Err(GpError::Interrupted);
                }
                let gains = mean(lists.iter().map(Shortlist::values));
                // One that was left out may be better by now.
                let Some(best) = best(&gains).filter(|best| step == first || gains[*best] >= left_out) else {
                    break;
                };
                let pairs = members.iter_mut().zip(&mut lists).collect();
                for_each_of(pairs, |(member, list): (&mut Member<'_, C>, &mut Shortlist)| {
                    list.append(member.covariance, &mut member.state, best)
                })?;
                step += 1;
                observer.trace(&self.trace_point(members, step));
                observer.progress(Progress { what: "inducing points", done: step, total: Some(count), chains: None });
            }
        }
        Ok(())
    }

    /// So many times: takes away the point that is missed least, and adds the best of the candidates, to which it
    /// belongs itself. Returns how many points were exchanged for better ones. Never lowers the mean bound.
    ///
    /// Where rows have weights of their own, points are compared by the trace alone, and the exchange is made if the bound
    /// itself, which takes a pass over the rows, is higher then.
    pub fn exchange<C: Covariance + Clone>(
        &self,
        members: &mut [Member<'_, C>],
        steps: usize,
        observer: &mut dyn Observer,
    ) -> Result<usize, GpError> {
        let mut exchanged = 0;
        for step in 0..steps {
            if observer.interrupted() {
                return Err(GpError::Interrupted);
            }
            let losses: Vec<Vec<f64>> =
                members.par_iter().map(|member| member.state.removals()).collect::<Result<_, _>>()?;
            let losses = mean(losses.iter().map(Vec::as_slice));
            let Some(j) = best(&losses) else {
                break;
            };
            let before: Vec<State<C>> = members.iter().map(|member| member.state.clone()).collect();
            let removed = chosen(members)[j];
            let remove = |member: &mut Member<'_, C>| member.state.remove(member.covariance, j);
            for_each_of(members.iter_mut().collect(), remove)?;
            let tried = self.draw(rows_of(members), chosen(members), step, &[removed]);
            let all = self.gains(members, &tried)?;
            let gains = mean(all.iter().map(Gains::values));
            // The removed point stands last. Unless another is better than it, nothing has happened.
            match best(&gains) {
                Some(index) if gains[index] > gains[tried.len() - 1] && gains[index] + losses[j] > 0.0 => {
                    let pairs = members.iter_mut().zip(&all).collect();
                    for_each_of(pairs, |(member, gains): (&mut Member<'_, C>, &Gains)| {
                        gains.append(member.covariance, &mut member.state, index)
                    })?;
                    if self.is_better(members, &before)? {
                        exchanged += 1;
                    } else {
                        members.iter_mut().zip(before).for_each(|(member, before)| member.state = before);
                    }
                }
                _ => members.iter_mut().zip(before).for_each(|(member, before)| member.state = before),
            }
            observer.trace(&self.trace_point(members, step + 1));
            observer.progress(Progress { what: "exchanges", done: step + 1, total: Some(steps), chains: None });
        }
        Ok(exchanged)
    }

    // Whether the bound has risen, where gains are not those of the bound itself.
    fn is_better<C: Covariance>(&self, members: &mut [Member<'_, C>], before: &[State<C>]) -> Result<bool, GpError> {
        if !members.first().is_some_and(|member| member.state.penalty().by_rows()) {
            return Ok(true);
        }
        for_each_of(members.iter_mut().collect(), |Member { covariance, state }: &mut Member<'_, C>| {
            *state = State::with_penalty(*covariance, self.y, state.rows(), state.level(), state.penalty())?;
            Ok(())
        })?;
        let after: f64 = members.iter().map(|member| member.state.objective()).sum();
        Ok(after > before.iter().map(State::objective).sum())
    }

    fn gains<C: Covariance>(&self, members: &[Member<'_, C>], tried: &[usize]) -> Result<Vec<Gains>, GpError> {
        let gains = |member: &Member<'_, C>| Gains::new(member.covariance, self.y, &member.state, tried);
        for_each_of(members.iter().collect(), gains)
    }

    // Rows to try in a step, none of them chosen yet; `always` comes last.
    fn draw(&self, n: usize, chosen: &[usize], step: usize, always: &[usize]) -> Vec<usize> {
        let mut taken: Vec<usize> = chosen.iter().chain(always).copied().collect();
        taken.sort_unstable();
        taken.dedup();
        let mut tried: Vec<usize> = match self.candidates {
            Candidates::All => (0..n).filter(|row| taken.binary_search(row).is_err()).collect(),
            Candidates::Count(count) => {
                let mut generator = self.key.with_index(step as u64).generator();
                let picks = sample_without_replacement(&mut generator, n - taken.len(), count as usize);
                // Numbers among the rows that are not taken; they increase, and so does what is passed over.
                let mut passed = 0;
                let open = |pick: usize| {
                    while taken.get(passed).is_some_and(|row| *row <= pick + passed) {
                        passed += 1;
                    }
                    pick + passed
                };
                picks.into_iter().map(open).collect()
            }
        };
        tried.extend(always);
        tried
    }

    fn trace_point<C: Covariance>(&self, members: &[Member<'_, C>], step: usize) -> TracePoint {
        let count = members.len().max(1) as f64;
        let total = |f: fn(&State<C>) -> f64| members.iter().map(|member| f(&member.state)).sum::<f64>() / count;
        TracePoint {
            step: step as i32,
            log_likelihood: total(State::log_likelihood),
            bound: Some(total(State::objective)),
            jitter: total(State::jitter),
            inducing: chosen(members).len() as i32,
            ..self.trace.clone()
        }
    }
}

// Number of all rows.
fn rows_of<C: Covariance>(members: &[Member<'_, C>]) -> usize {
    members.first().map_or(0, |member| member.covariance.span().all())
}

// All members have the same points.
fn chosen<'s, C: Covariance>(members: &'s [Member<'_, C>]) -> &'s [usize] {
    members.first().map_or(&[], |member| member.state.rows())
}

// Averages over the members; −∞ of one of them wins over all.
fn mean<'v>(mut values: impl ExactSizeIterator<Item = &'v [f64]>) -> Vec<f64> {
    let count = values.len().max(1) as f64;
    let mut total = values.next().map_or_else(Vec::new, <[f64]>::to_vec);
    for values in values {
        total.iter_mut().zip(values).for_each(|(total, value)| *total += value);
    }
    total.into_iter().map(|total| total / count).collect()
}

// The first of the largest finite values.
fn best(values: &[f64]) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (index, value) in values.iter().enumerate() {
        if value.is_finite() && best.is_none_or(|best| *value > values[best]) {
            best = Some(index);
        }
    }
    best
}
