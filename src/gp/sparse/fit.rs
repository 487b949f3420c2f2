//! Fits a sparse Gaussian process: start from an exact fit on a subset, choose points, fit, repeat.
//!
//! Hyper-parameters stand still while points are chosen. Moving them from the first point on looks natural
//! but ends at "all noise" on ordinary data: with few points, noise is the best explanation of everything else.

mod warm;

pub use warm::fit_from;
pub(crate) use warm::rows_from;

use std::cell::RefCell;

use ndarray::{Array2, ArrayView1, ArrayView2, Axis};

use super::gradient::objective_with_rows;
use super::linear::linear_share;
use super::{JITTER, Level, Penalty, SparseGp, SparseOptions, State};
use crate::gp::GpError;
use crate::gp::exact::{self, ExactOptions, keep_fixed, median_distance};
use crate::gp::fit_rows::{FitRows, PickedRows};
use crate::gp::hyper::{Evaluation, Objective, Settings, SoftBounds, maximise};
use crate::gp::inducing::{Candidates, Choice, InducingOptions, Member};
use crate::gp::kernel::{Covariance as _, Free, Hyper, Kernel, Stationary, StationaryOptions};
use crate::gp::linalg::{means_over, raised};
use crate::gp::observer::{Observer, Phase, TracePoint};
use crate::gp::random::{StreamKey, sample_without_replacement};
use crate::gp::row_noise::{RowNoise, ScaledRows};

/// Fits between two choices of points need only find the right region.
const BETWEEN_CHOICES: Settings = Settings { iterations: 30, tolerance: 1e-5 };
/// The last fit ends when the bound changes by less than this share.
const LAST_FIT: Settings = Settings { iterations: 100, tolerance: 1e-7 };
/// Rows of the subset on which the starts of the exact fit are tried.
const START_ROWS: usize = 300;
/// Rows that the choice of points looks at in all rounds but the last.
const ROWS_OF_EARLY_ROUNDS: usize = 10_000;
/// The upper bound of σ². Data close to a polynomial become ever a little more likely with σ² and λ → ∞ together; the
/// jitter is a share of σ² and must stay small against the noise.
pub(crate) const LARGEST_VARIANCE: f64 = 1e3;

/// Fits and conditions on x: `[n, d]`, y: `[n]`; y is expected to have mean 0 and variance 1.
pub fn fit(
    x: ArrayView2<'_, f64>,
    y: ArrayView1<'_, f64>,
    options: &SparseOptions,
    key: &StreamKey,
    observer: &mut dyn Observer,
) -> Result<SparseGp, GpError> {
    fit_with(x, y, &RowNoise::default(), options, key, observer)
}

/// The same with noise that differs from row to row.
pub fn fit_with(
    x: ArrayView2<'_, f64>,
    y: ArrayView1<'_, f64>,
    noise: &RowNoise,
    options: &SparseOptions,
    key: &StreamKey,
    observer: &mut dyn Observer,
) -> Result<SparseGp, GpError> {
    fit_held(&(x, y, noise).into(), options, key, observer)
}

/// The same for the rows that are held of all.
pub fn fit_held(
    rows: &FitRows<'_>,
    options: &SparseOptions,
    key: &StreamKey,
    observer: &mut dyn Observer,
) -> Result<SparseGp, GpError> {
    rows.check()?;
    check_options(options, rows.all())?;
    let StationaryOptions { kernel, hyperparameters, .. } = options.stationary;
    let free = hyperparameters.optimise;
    let x = rows.x.as_standard_layout();
    let rows = &FitRows { x: x.view(), ..rows.clone() };
    let subset =
        sample_without_replacement(&mut key.with("sparse.subset").generator(), rows.all(), options.subset.max(1));
    let PickedRows { x: x_sub, y: y_sub, noise: noise_sub } = rows.pick(&subset)?;
    let start = start((&x_sub, y_sub.view(), &noise_sub), options, key, observer)?;
    let distance = median_distance(x_sub.view());
    let mut bounds = exact::soft_bounds(start.lengths.len(), distance, rows.all());
    bounds.upper[0] = LARGEST_VARIANCE.ln();
    let given = start.clone();
    let mut fitter = Fitter { rows: rows.clone(), options, key, free, given, bounds, jitter: JITTER };
    let mut best = fitter.rounds(&start, "first", observer)?;
    let share = match linear_share(rows) {
        Err(error) if !error.is_recoverable() => return Err(error),
        share => share.unwrap_or(0.0),
    };
    if best.collapsed(share) && free != Free::NONE {
        let again =
            fitter.rounds(&keep_fixed(smooth_start(&start, distance, share), &start, free), "again", observer)?;
        if !again.collapsed(share) || again.bound > best.bound {
            best = again;
        }
    }
    observer.phase(Phase::Condition);
    SparseGp::condition_held(rows, kernel, &best.hyper, &best.rows, best.jitter)
}

fn check_options(options: &SparseOptions, n: usize) -> Result<(), GpError> {
    let InducingOptions { count, candidates, rows } = &options.inducing;
    let Some(rows) = rows else {
        if *count == 0 || *candidates == Candidates::Count(0) {
            return Err(GpError::value("a sparse model needs at least one inducing point, and candidates for it"));
        }
        return Ok(());
    };
    let mut sorted = rows.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if rows.is_empty() || sorted.len() != rows.len() || sorted.last().is_some_and(|last| *last >= n as u64) {
        return Err(GpError::value(format!("inducing rows must be different rows of the {n} training rows")));
    }
    Ok(())
}

// Hyper-parameters of an exact fit on a subset of the rows, with several starts.
fn start(
    (x, y, noise): (&Array2<f64>, ArrayView1<'_, f64>, &RowNoise),
    options: &SparseOptions,
    key: &StreamKey,
    observer: &mut dyn Observer,
) -> Result<Hyper, GpError> {
    let exact = ExactOptions { stationary: options.stationary, starts: options.starts, subset: START_ROWS };
    Ok(exact::fit_with(x.view(), y, noise, &exact, &key.with("sparse.start"), observer)?.hyper().clone())
}

// A long length and a variance to match: close to a linear model that explains `share`.
fn smooth_start(start: &Hyper, distance: f64, share: f64) -> Hyper {
    const STRETCH: f64 = 5.0;
    Hyper {
        variance: STRETCH * STRETCH,
        lengths: vec![STRETCH * distance; start.lengths.len()],
        noise: (1.0 - share).max(1e-3),
    }
}

// The number of a round.
#[derive(Clone, Copy)]
struct Number {
    index: usize,
    last: bool,
}

// A choice of points with hyper-parameters fitted to it.
struct Round {
    hyper: Hyper,
    rows: Vec<usize>,
    jitter: f64,
    bound: f64,
    explained: f64,
}

impl Round {
    // Noise where even a linear model sees most of the signal.
    fn collapsed(&self, linear_share: f64) -> bool {
        linear_share > 0.5 && self.explained < 0.5 * linear_share
    }
}

struct Fitter<'a> {
    rows: FitRows<'a>,
    options: &'a SparseOptions,
    key: &'a StreamKey,
    free: Free,
    // Values of the parameters that are not free.
    given: Hyper,
    bounds: SoftBounds,
    // Relative to σ². Stands still within a choice or a fit, and may rise between them.
    jitter: f64,
}

impl Fitter<'_> {
    // Chooses and fits `rounds` times; the best round by its bound.
    fn rounds(&mut self, start: &Hyper, name: &str, observer: &mut dyn Observer) -> Result<Round, GpError> {
        let fixed = self.free == Free::NONE;
        let rounds = if fixed || self.options.inducing.rows.is_some() { 1 } else { self.options.rounds.max(1) };
        let mut hyper = start.clone();
        let mut best: Option<Round> = None;
        for index in 0..rounds {
            let round = Number { index, last: index + 1 == rounds };
            let key = self.key.with("sparse.select").with(name).with_index(index as u64);
            let rows = match &self.options.inducing.rows {
                Some(rows) => rows.iter().map(|row| *row as usize).collect(),
                None => self.raising(|fitter| fitter.select(&hyper, round, &key, observer))?,
            };
            let settings = if round.last { LAST_FIT } else { BETWEEN_CHOICES };
            hyper = self.raising(|fitter| fitter.optimise(&hyper, &rows, index, &settings, observer))?;
            let this = self.evaluate(&hyper, rows)?;
            if best.as_ref().is_none_or(|best| this.bound > best.bound) {
                best = Some(this);
            }
        }
        best.ok_or_else(|| GpError::value("a fit needs at least one round"))
    }

    // Runs one phase; when a factorisation fails in a way that no step of the phase can avoid, again with ten times
    // the jitter.
    fn raising<T>(&mut self, mut phase: impl FnMut(&Self) -> Result<T, GpError>) -> Result<T, GpError> {
        loop {
            match (phase(self), raised(self.jitter)) {
                (Err(GpError::NotPositiveDefinite { .. }), Some(jitter)) => self.jitter = jitter,
                (result, _) => return result,
            }
        }
    }

    fn level(&self, hyper: &Hyper) -> Level {
        Level { noise: self.rows.noise.level(hyper.noise), jitter: self.jitter }
    }

    // Rows brought to one noise, where they have not the same.
    fn scaled(&self, hyper: &Hyper) -> Option<ScaledRows> {
        self.rows.noise.scaled(self.rows.y, hyper.noise)
    }

    fn targets<'r>(&'r self, scaled: Option<&'r ScaledRows>) -> ArrayView1<'r, f64> {
        scaled.map_or(self.rows.y, |scaled| scaled.y.view())
    }

    fn covariance(&self, hyper: &Hyper, scaled: Option<&ScaledRows>) -> Result<Stationary, GpError> {
        let FitRows { x, span, .. } = &self.rows;
        let covariance = Stationary::new(self.options.stationary.kernel, hyper, *x, &means_over(span, *x)?)?;
        Ok(covariance.multiplied(scaled.map(|scaled| scaled.factors.clone())).of(span))
    }

    // Chooses points at fixed hyper-parameters. All rounds but the last only serve the hyper-parameters, and see no
    // more than `ROWS_OF_EARLY_ROUNDS` rows.
    fn select(
        &self,
        hyper: &Hyper,
        round: Number,
        key: &StreamKey,
        observer: &mut dyn Observer,
    ) -> Result<Vec<usize>, GpError> {
        observer.phase(Phase::Select);
        let n = self.rows.all();
        let limit = if round.last { n } else { ROWS_OF_EARLY_ROUNDS };
        let scaled = self.scaled(hyper);
        let (covariance, y) = (self.covariance(hyper, scaled.as_ref())?, self.targets(scaled.as_ref()));
        if limit >= n {
            return self.grow(&covariance, y, hyper, round, key, observer);
        }
        let seen = sample_without_replacement(&mut key.with("rows").generator(), n, limit);
        let targets = self.rows.span.gather(&seen, 1, |own| Ok(y.select(Axis(0), own).insert_axis(Axis(1))))?;
        let (covariance, y) = (covariance.subset(&seen)?, targets.remove_axis(Axis(1)));
        let rows = self.grow(&covariance, y.view(), hyper, round, key, observer)?;
        Ok(rows.into_iter().map(|row| seen[row]).collect())
    }

    fn grow(
        &self,
        covariance: &Stationary,
        y: ArrayView1<'_, f64>,
        hyper: &Hyper,
        round: Number,
        key: &StreamKey,
        observer: &mut dyn Observer,
    ) -> Result<Vec<usize>, GpError> {
        let state = State::with_penalty(covariance, y, &[], self.level(hyper), self.options.penalty)?;
        let choice = Choice {
            y,
            candidates: self.options.inducing.candidates,
            key: key.clone(),
            trace: TracePoint { iteration: round.index as i32, ..TracePoint::at("select", hyper) },
        };
        let mut members = [Member { covariance, state }];
        let most = covariance.span().all();
        choice.grow(&mut members, (self.options.inducing.count as usize).min(most), observer)?;
        Ok(members[0].state.rows().to_vec())
    }

    fn optimise(
        &self,
        start: &Hyper,
        rows: &[usize],
        round: usize,
        settings: &Settings,
        observer: &mut dyn Observer,
    ) -> Result<Hyper, GpError> {
        observer.phase(Phase::Hyper);
        let objective = Bound {
            data: &self.rows,
            kernel: self.options.stationary.kernel,
            rows,
            jitter: self.jitter,
            penalty: self.options.penalty,
            round,
            seen: RefCell::default(),
        };
        let mask = self.free.mask(start.lengths.len());
        let maximum = maximise(&objective, &start.to_log(), &mask, &self.bounds, settings, observer)?;
        Ok(keep_fixed(Hyper::from_log(&maximum.theta)?, &self.given, self.free))
    }

    fn evaluate(&self, hyper: &Hyper, rows: Vec<usize>) -> Result<Round, GpError> {
        let scaled = self.scaled(hyper);
        let (covariance, y) = (self.covariance(hyper, scaled.as_ref())?, self.targets(scaled.as_ref()));
        let state = State::with_penalty(&covariance, y, &rows, self.level(hyper), self.options.penalty)?;
        let (bound, explained) = (state.objective(), state.explained());
        Ok(Round { hyper: hyper.clone(), rows, jitter: self.jitter, bound, explained })
    }
}

// F_V, or another form of the bound, as something to maximise.
struct Bound<'a, 'd> {
    data: &'a FitRows<'d>,
    kernel: Kernel,
    rows: &'a [usize],
    jitter: f64,
    penalty: Penalty,
    round: usize,
    // ℓ at every point so far, for the traces.
    seen: RefCell<Vec<(Vec<f64>, f64)>>,
}

impl Objective for Bound<'_, '_> {
    fn evaluate(&self, theta: &[f64]) -> Result<Evaluation, GpError> {
        let hyper = Hyper::from_log(theta)?;
        // Far out a logarithm may leave the range of f64: not a mistake of the caller, only a bad point.
        if hyper.check(self.data.x.ncols()).is_err() || hyper.noise <= 0.0 {
            return Err(GpError::NonFinite { what: "a hyper-parameter" });
        }
        let found = objective_with_rows(self.data, self.kernel, &hyper, self.rows, self.jitter, self.penalty)?;
        self.seen.borrow_mut().push((theta.to_vec(), found.log_likelihood));
        Ok(found.at)
    }

    fn trace_point(&self, step: i32, theta: &[f64], at: &Evaluation) -> TracePoint {
        let seen = self.seen.borrow();
        let log_likelihood = seen.iter().rev().find(|(at, _)| at == theta).map_or(f64::NAN, |(_, value)| *value);
        TracePoint {
            iteration: self.round as i32,
            step,
            log_likelihood,
            bound: Some(at.value),
            jitter: at.jitter,
            inducing: self.rows.len() as i32,
            ..TracePoint::at_log("hyper.bound", theta)
        }
    }
}
