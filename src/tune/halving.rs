//! Successive halving within a budget of time: many settings on few rows, a third of them on more, and so on; then again around
//! the best, as long as there is time.

use super::candidate::{Proposals, Setting};
use super::subject::{METRICS, MODEL, Rung, TuneSubject};
use crate::engine::{Plan, RunError, RunFailure, RunOptions, Summary, forecast, run_until};
use crate::fit::FitFailure;
use crate::stages::job::{Cancel, Listener};
use crate::stages::{Sources, StageError};
use crate::tables::MetricRow;
use crate::text::about;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// A setting on one rung, and what became of it.
#[derive(Debug)]
pub struct SettingTrial {
    pub setting: Setting,
    /// The rung, from 0.
    pub rung: usize,
    pub outcome: SettingOutcome,
}

/// What became of a trial.
#[derive(Debug)]
pub enum SettingOutcome {
    Measured {
        metrics: Vec<MetricRow>,
        case: String,
    },
    /// Stopped: the time was up, or it took far longer than expected.
    OutOfTime,
    Failed(String),
}

impl SettingTrial {
    /// A metric of the rows that judge, over all divisions.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let SettingOutcome::Measured { metrics, case } = &self.outcome else { return None };
        let of_all = |row: &&MetricRow| {
            (row.stage == METRICS && row.case == *case && row.metric == name)
                && row.stat == "mean"
                && row.fold.is_none()
        };
        metrics.iter().find(of_all).and_then(|row| row.value).filter(|value| value.is_finite())
    }
}

/// The setting with the lowest NLPD on the last rung that what the file says has come to: what cannot be compared with that is
/// not chosen.
pub fn best_setting(trials: &[SettingTrial]) -> Option<&SettingTrial> {
    let measured = || trials.iter().filter_map(|trial| Some((trial.metric("nlpd")?, trial)));
    let own = measured().filter(|(_, trial)| trial.setting.is_own()).map(|(_, trial)| trial.rung).max();
    let top = own.or_else(|| measured().map(|(_, trial)| trial.rung).max())?;
    let (_, best) =
        measured().filter(|(_, trial)| trial.rung == top).min_by(|left, right| left.0.total_cmp(&right.0))?;
    Some(best)
}

/// Of so many settings on a rung one goes on.
const GOES_ON: usize = 3;
/// The most that begin together.
const TOGETHER: usize = 27;
/// Share of the time that is left for the first rung of all, and what is kept of it for the end.
const FIRST_RUNG: f64 = 0.4;
const RESERVE: f64 = 0.02;
/// A trial that takes so many times as long as expected is stopped, after some seconds in any case.
const PATIENCE: f64 = 4.0;
const LEAST_PATIENCE: f64 = 10.0;
/// Trials that are expected to be shorter say little of the speed.
const LEAST_TELLING: f64 = 0.3;
/// Reading and dividing rows are work that all trials share.
const SHARED_WORK: u64 = 2;

/// The search.
pub struct Halving<'a> {
    subject: &'a TuneSubject,
    options: &'a RunOptions,
    cancel: &'a Cancel,
    listener: &'a dyn Listener,
    started: Instant,
    budget: Duration,
    /// How much longer work takes here than expected.
    slower: f64,
    rungs: Vec<Rung>,
    trials: Vec<SettingTrial>,
    /// What was drawn, by what it comes to.
    seen: HashSet<String>,
}

impl<'a> Halving<'a> {
    /// The clock runs since `started`.
    pub fn new(
        subject: &'a TuneSubject,
        options: &'a RunOptions,
        (cancel, listener): (&'a Cancel, &'a dyn Listener),
        (started, budget): (Instant, Duration),
    ) -> Self {
        let rungs = subject.rungs();
        Self {
            subject,
            options,
            cancel,
            listener,
            started,
            budget,
            slower: 1.0,
            rungs,
            trials: Vec::new(),
            seen: HashSet::new(),
        }
    }

    /// All trials, in the order in which they were made.
    pub fn trials(mut self) -> Result<Vec<SettingTrial>, FitFailure> {
        let subject = self.subject;
        let mut settings = Proposals::new(&subject.dimensions, subject.seed);
        // What the file says is always compared with, and tells how fast this machine is.
        let own = settings.own();
        self.seen.insert(identity(&self.plan(&own, 0)?));
        self.attempt(&own, 0)?;
        let mut beginners = vec![own];
        loop {
            let added = self.beginners(&mut settings, &mut beginners)?;
            if added == 0 {
                break;
            }
            for setting in beginners.iter().skip(beginners.len() - added) {
                self.attempt(setting, 0)?;
            }
            for rung in 1..self.rungs.len() {
                self.go_on(rung)?;
            }
            if self.left() <= 0.0 {
                break;
            }
            beginners.clear();
        }
        Ok(self.trials)
    }

    /// Adds settings that fit into the first rung's share of the time; returns how many.
    fn beginners(&mut self, settings: &mut Proposals<'_>, beginners: &mut Vec<Setting>) -> Result<usize, FitFailure> {
        let share = if self.rungs.len() == 1 { 1.0 } else { FIRST_RUNG };
        let (mut room, mut added) = (share * self.left(), 0);
        let best = best_setting(&self.trials).map(|trial| trial.setting.clone());
        // After the first round every other one is looked for around the best.
        let around = self.trials.iter().any(|trial| trial.rung + 1 == self.rungs.len());
        while beginners.len() < TOGETHER {
            let next = match &best {
                Some(best) if around && added % 2 == 0 => settings.near(best).or_else(|| settings.fresh()),
                _ => settings.fresh(),
            };
            let Some(next) = next else { break };
            let plan = match self.plan(&next, 0) {
                // It does not go together with what else the file says.
                Err(FitFailure::Refused(_)) => continue,
                plan => plan?,
            };
            // What is written out may be what holds anyway.
            if !self.seen.insert(identity(&plan)) {
                continue;
            }
            let needed = self.slower * self.expected(&plan);
            if needed > room {
                // A cheaper one may still fit; but not for ever.
                room -= 0.02 * share * self.left().max(0.0);
                if room <= 0.0 {
                    break;
                }
                continue;
            }
            room -= needed;
            added += 1;
            beginners.push(next);
        }
        if added > 0 {
            let what = if around { "around the best" } else { "to begin with" };
            self.listener.note(&format!("{added} more settings {what}, {} left", about(self.left())));
        }
        Ok(added)
    }

    /// The best of a rung go on to the next one, where they are not there yet; the file's own goes with them.
    fn go_on(&mut self, rung: usize) -> Result<(), FitFailure> {
        let mut order: Vec<(f64, Setting)> = self
            .trials
            .iter()
            .filter(|trial| trial.rung + 1 == rung)
            .filter_map(|trial| Some((trial.metric("nlpd")?, trial.setting.clone())))
            .collect();
        order.sort_by(|left, right| left.0.total_cmp(&right.0));
        let count = order.len().div_ceil(GOES_ON).max(1);
        let own = order.iter().position(|(_, setting)| setting.is_own()).map(|place| order.remove(place));
        order.truncate(count);
        // Without it nothing on this rung would count.
        order.splice(0..0, own);
        for (_, setting) in order {
            let there = |trial: &SettingTrial| trial.rung == rung && trial.setting == setting;
            if self.trials.iter().any(there) {
                continue;
            }
            if self.needed(&setting, rung)? <= self.left() {
                self.attempt(&setting, rung)?;
            } else if setting.is_own() {
                break;
            }
        }
        Ok(())
    }

    /// Seconds that are left.
    fn left(&self) -> f64 {
        (1.0 - RESERVE).mul_add(self.budget.as_secs_f64(), -self.started.elapsed().as_secs_f64())
    }

    fn plan(&self, setting: &Setting, rung: usize) -> Result<Plan, FitFailure> {
        self.subject.plan(&self.subject.trial(setting, self.rungs[rung]))
    }

    /// Seconds of the clock that a trial is expected to take.
    fn needed(&self, setting: &Setting, rung: usize) -> Result<f64, FitFailure> {
        Ok(self.slower * self.expected(&self.plan(setting, rung)?))
    }

    fn expected(&self, plan: &Plan) -> f64 {
        let all = forecast(plan, &Sources::default(), u64::MAX);
        let work = all.iter().flatten().map(|preview| f64::from(preview.run) * preview.effort.unwrap_or(0.0));
        work.sum::<f64>() / self.options.threads.max(1) as f64
    }

    /// Trains and measures a setting, unless the time is up before.
    fn attempt(&mut self, setting: &Setting, rung: usize) -> Result<(), FitFailure> {
        let left = self.left();
        if left <= 0.0 {
            return Ok(());
        }
        let plan = self.plan(setting, rung)?;
        let expected = self.expected(&plan);
        let patience = (PATIENCE * self.slower * expected).max(LEAST_PATIENCE);
        // Nothing is known of the speed before the first one is done.
        let seconds = if self.trials.is_empty() { left } else { left.min(patience) };
        let deadline = Instant::now() + Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX).min(LONGEST);
        self.listener.note(&format!(
            "rung {} of {}: {}",
            rung + 1,
            self.rungs.len(),
            setting.label(&self.subject.dimensions)
        ));
        let begun = Instant::now();
        let ended = run_until(&plan, self.options, (self.cancel, self.listener), Some(deadline));
        let took = begun.elapsed().as_secs_f64();
        let outcome = match ended {
            Ok(Some(Summary { metrics, cached, .. })) => {
                if cached <= SHARED_WORK && expected > LEAST_TELLING {
                    // Half of what was thought before stays: single trials differ.
                    let now = (took / expected).clamp(0.05, 20.0);
                    self.slower = if self.trials.is_empty() { now } else { (self.slower * now).sqrt() };
                }
                let case = plan.cases.first().map_or_else(String::new, |case| case.label.clone());
                SettingOutcome::Measured { metrics, case }
            }
            Ok(None) => SettingOutcome::OutOfTime,
            Err(RunFailure { error, run_id }) => match *error {
                // Another setting may do better with these rows.
                RunError::Stage { source: source @ StageError::Maths { .. }, .. } => {
                    self.listener.warning(&format!("{}: {source}", setting.label(&self.subject.dimensions)));
                    SettingOutcome::Failed(source.to_string())
                }
                error => return Err(FitFailure::Run(RunFailure { error: Box::new(error), run_id })),
            },
        };
        self.trials.push(SettingTrial { setting: setting.clone(), rung, outcome });
        Ok(())
    }
}

/// What a trial trains.
fn identity(plan: &Plan) -> String {
    let model = plan.cases.first().and_then(|case| case.stage(MODEL));
    model.map_or_else(String::new, |model| model.stage.key_options().to_string())
}

/// Nobody waits longer than a century.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);
