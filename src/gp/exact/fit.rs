//! Fits the hyper-parameters of the exact Gaussian process from several starts.

use ndarray::{Array1, ArrayView1, ArrayView2, Axis};
use rayon::prelude::*;
use serde::Serialize;

use super::{ExactGp, LogMarginal, check_training};
use crate::gp::GpError;
use crate::gp::hyper::{Maximum, Settings, SoftBounds, maximise};
use crate::gp::kernel::{Free, Hyper, StationaryOptions};
use crate::gp::observer::{Observer, Phase, Progress, Recorder};
use crate::gp::random::{StreamKey, sample_without_replacement, uniform};
use crate::gp::row_noise::RowNoise;
use crate::gp::warm::WarmStart;

/// How to fit an exact Gaussian process.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExactOptions {
    #[serde(flatten)]
    pub stationary: StationaryOptions,
    /// Number of starts tried on a subset.
    #[serde(skip)]
    pub starts: usize,
    /// Number of rows of that subset.
    #[serde(skip)]
    pub subset: usize,
}

impl Default for ExactOptions {
    fn default() -> Self {
        Self { stationary: StationaryOptions::default(), starts: 5, subset: 300 }
    }
}

/// Searches on the subset need only come near the right maximum.
const ON_SUBSET: Settings = Settings { iterations: 60, tolerance: 1e-4 };
/// Searches on all rows end when the likelihood changes by less than this share.
const ON_ALL_ROWS: Settings = Settings { iterations: 200, tolerance: 1e-8 };
/// Searches that start at the maximum of nearly the same rows.
const FROM_EARLIER: Settings = Settings { iterations: 30, tolerance: 1e-5 };
/// How many of the maxima found on the subset are continued on all rows.
const CONTINUED: usize = 2;

/// Fits from the hyper-parameters of an earlier model: one search on all rows.
pub fn fit_from(
    (x, y, noise): (ArrayView2<'_, f64>, ArrayView1<'_, f64>, &RowNoise),
    options: &ExactOptions,
    warm: &WarmStart,
    key: &StreamKey,
    observer: &mut dyn Observer,
) -> Result<ExactGp, GpError> {
    check_training(x, y)?;
    noise.check(x.nrows())?;
    let StationaryOptions { kernel, ard, hyperparameters } = options.stationary;
    let lengths = if ard { x.ncols() } else { 1 };
    let start = warm.hyper(&hyperparameters, lengths);
    start.check(x.ncols())?;
    let subset = sample_without_replacement(&mut key.with("subset").generator(), x.nrows(), options.subset.max(1));
    let bounds = soft_bounds(lengths, median_distance(x.select(Axis(0), &subset).view()), x.nrows());
    observer.phase(Phase::Hyper);
    let free = hyperparameters.optimise;
    let objective = LogMarginal { x, y, noise, kernel, start: 0, phase: "hyper.polish" };
    let found = maximise(&objective, &start.to_log(), &free.mask(lengths), &bounds, &FROM_EARLIER, observer)?;
    let hyper = keep_fixed(Hyper::from_log(&found.theta)?, &start, free);
    observer.phase(Phase::Condition);
    let watched: &dyn Observer = observer;
    ExactGp::condition_unless(&|| watched.interrupted(), (x, y, noise), kernel, &hyper)
}

/// Fits and conditions on x: `[n, d]`, y: `[n]`; y is expected to have mean 0 and variance 1.
///
/// Several starts run on a random subset of the rows, the best two that differ are continued on all rows,
/// and the better one is kept: a single start ends at "all noise" on ordinary data.
pub fn fit(
    x: ArrayView2<'_, f64>,
    y: ArrayView1<'_, f64>,
    options: &ExactOptions,
    key: &StreamKey,
    observer: &mut dyn Observer,
) -> Result<ExactGp, GpError> {
    fit_with(x, y, &RowNoise::default(), options, key, observer)
}

/// The same with noise that differs from row to row.
pub fn fit_with(
    x: ArrayView2<'_, f64>,
    y: ArrayView1<'_, f64>,
    noise: &RowNoise,
    options: &ExactOptions,
    key: &StreamKey,
    observer: &mut dyn Observer,
) -> Result<ExactGp, GpError> {
    check_training(x, y)?;
    noise.check(x.nrows())?;
    let StationaryOptions { kernel, ard, hyperparameters } = options.stationary;
    let free = hyperparameters.optimise;
    let lengths = if ard { x.ncols() } else { 1 };
    let mask = free.mask(lengths);
    let subset = sample_without_replacement(&mut key.with("subset").generator(), x.nrows(), options.subset.max(1));
    let x_sub = x.select(Axis(0), &subset);
    let y_sub = y.select(Axis(0), &subset);
    let distance = median_distance(x_sub.view());
    let starts = starts(options, lengths, distance, key);
    starts[0].check(x.ncols())?;
    observer.phase(Phase::Hyper);
    let hyper = if mask.contains(&true) {
        if free.noise && starts[0].noise <= 0.0 {
            return Err(GpError::value("noise must be positive to start a fit"));
        }
        let bounds = soft_bounds(lengths, distance, x.nrows());
        let of_subset = noise.select(&subset);
        let found = search_subset((&x_sub, &y_sub, &of_subset), options, &starts, &mask, &bounds, observer)?;
        search_all_rows((x, y, noise), options, found, &mask, &bounds, observer)?
    } else {
        starts[0].clone()
    };
    observer.phase(Phase::Condition);
    let hyper = keep_fixed(hyper, &starts[0], free);
    let watched: &dyn Observer = observer;
    ExactGp::condition_unless(&|| watched.interrupted(), (x, y, noise), kernel, &hyper)
}

/// exp(ln v) is not always v: parameters that were not to move get their exact value back.
pub(crate) fn keep_fixed(fitted: Hyper, given: &Hyper, free: Free) -> Hyper {
    Hyper {
        variance: if free.variance { fitted.variance } else { given.variance },
        lengths: if free.length { fitted.lengths } else { given.lengths.clone() },
        noise: if free.noise { fitted.noise } else { given.noise },
    }
}

// Runs every start on the subset, in parallel; the best first. Traces are reported in the order of the starts.
fn search_subset(
    (x, y, noise): (&ndarray::Array2<f64>, &Array1<f64>, &RowNoise),
    options: &ExactOptions,
    starts: &[Hyper],
    mask: &[bool],
    bounds: &SoftBounds,
    observer: &mut dyn Observer,
) -> Result<Vec<Maximum>, GpError> {
    let shared: &dyn Observer = observer;
    let results: Vec<_> = starts
        .par_iter()
        .enumerate()
        .map(|(number, start)| {
            let objective = LogMarginal {
                x: x.view(),
                y: y.view(),
                noise,
                kernel: options.stationary.kernel,
                start: number as i32,
                phase: "hyper.start",
            };
            let mut recorder = Recorder::new(shared);
            let result = maximise(&objective, &start.to_log(), mask, bounds, &ON_SUBSET, &mut recorder);
            (result, recorder.points)
        })
        .collect();
    let mut found = Vec::new();
    let mut failure = None;
    for (number, (result, points)) in results.into_iter().enumerate() {
        for point in &points {
            observer.trace(point);
        }
        observer.progress(Progress { what: "starts", done: number + 1, total: Some(starts.len()), chains: None });
        match result {
            Ok(maximum) => found.push(maximum),
            Err(error) if error.is_recoverable() => failure = Some(error),
            Err(error) => return Err(error),
        }
    }
    // Stable: of equal values the earlier start stays in front.
    found.sort_by(|a, b| b.at.value.total_cmp(&a.at.value));
    match failure {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok(found),
    }
}

fn search_all_rows(
    (x, y, noise): (ArrayView2<'_, f64>, ArrayView1<'_, f64>, &RowNoise),
    options: &ExactOptions,
    found: Vec<Maximum>,
    mask: &[bool],
    bounds: &SoftBounds,
    observer: &mut dyn Observer,
) -> Result<Hyper, GpError> {
    let mut best: Option<Maximum> = None;
    let mut failure = GpError::value("a fit needs at least one start");
    for (number, start) in choose(found).into_iter().enumerate() {
        let objective =
            LogMarginal { x, y, noise, kernel: options.stationary.kernel, start: number as i32, phase: "hyper.polish" };
        match maximise(&objective, &start.theta, mask, bounds, &ON_ALL_ROWS, observer) {
            Ok(maximum) if best.as_ref().is_none_or(|b| maximum.at.value > b.at.value) => {
                best = Some(maximum);
            }
            Ok(_) => {}
            Err(error) if error.is_recoverable() => failure = error,
            Err(error) => return Err(error),
        }
    }
    best.map_or(Err(failure), |maximum| Hyper::from_log(&maximum.theta))
}

// The best maximum, and the best that differs from it; when the first explains nothing, one that does.
fn choose(found: Vec<Maximum>) -> Vec<Maximum> {
    let mut chosen: Vec<Maximum> = Vec::new();
    let mut waiting = Vec::new();
    for maximum in found {
        let new = chosen.iter().all(|other| differs(&maximum, other));
        let useful = chosen.first().is_none_or(|first| !all_noise(first)) || !all_noise(&maximum);
        if chosen.len() < CONTINUED && new && useful {
            chosen.push(maximum);
        } else if new {
            waiting.push(maximum);
        }
    }
    let room = CONTINUED.saturating_sub(chosen.len());
    chosen.extend(waiting.into_iter().take(room));
    chosen
}

fn differs(a: &Maximum, b: &Maximum) -> bool {
    let apart = a.theta.iter().zip(&b.theta).any(|(a, b)| (a - b).abs() > 0.3);
    apart && (a.at.value - b.at.value).abs() > 1e-3 * a.at.value.abs().max(1.0)
}

// The kernel explains less than a twentieth of the noise.
fn all_noise(maximum: &Maximum) -> bool {
    match (maximum.theta.first(), maximum.theta.last()) {
        (Some(variance), Some(noise)) => noise - variance > 20_f64.ln(),
        _ => false,
    }
}

/// Bounds beyond what data can tell: of σ² and γ² for a target of variance 1, of λ relative to the usual distance.
///
/// The upper bound of σ² is the one that is reached: data close to a polynomial (energy) become ever a little more likely
/// with σ² → ∞ and λ → ∞ together, while predictions stay the same and the covariance becomes singular. The lower bound
/// of γ² is reached by rough kernels on smooth data, and by exact functions.
pub(crate) fn soft_bounds(lengths: usize, distance: f64, n: usize) -> SoftBounds {
    let range = |centre: f64, low: f64, high: f64| ((centre * low).ln(), (centre * high).ln());
    let mut sides = vec![range(1.0, 1e-6, 1e4)];
    sides.resize(lengths + 1, range(distance, 1e-4, 1e4));
    sides.push(range(1.0, 1e-6, 1e2));
    let (lower, upper) = sides.into_iter().unzip();
    SoftBounds { lower, upper, weight: n as f64 }
}

// A spread of sensible starts, then random ones. What the user gives is the same in all of them, and when that
// leaves nothing to vary one start is enough.
fn starts(options: &ExactOptions, lengths: usize, distance: f64, key: &StreamKey) -> Vec<Hyper> {
    const SPREAD: [(f64, f64, f64); 4] = [(1.0, 1.0, 0.1), (1.0, 1.0, 0.01), (1.0, 0.3, 0.1), (5.0, 3.0, 0.01)];
    let given = options.stationary.hyperparameters;
    let free = given.optimise;
    let open = free.variance && given.variance.is_none()
        || free.length && given.length.is_none()
        || free.noise && given.noise.is_none();
    let count = if open { options.starts.max(1) } else { 1 };
    let mut rng = key.with("starts").generator();
    let mut between = |low: f64, high: f64| (low.ln() + (high / low).ln() * uniform(&mut rng)).exp();
    (0..count)
        .map(|i| {
            let drawn = (between(0.3, 30.0), between(0.2, 5.0), between(1e-3, 0.3));
            let spread = SPREAD.get(i).copied().unwrap_or(drawn);
            // A parameter that stays keeps the same value in all starts.
            let variance = if free.variance { spread.0 } else { SPREAD[0].0 };
            let length = if free.length { spread.1 } else { SPREAD[0].1 };
            let noise = if free.noise { spread.2 } else { SPREAD[0].2 };
            Hyper {
                variance: given.variance.unwrap_or(variance),
                lengths: vec![given.length.unwrap_or(length * distance); lengths],
                noise: given.noise.unwrap_or(noise),
            }
        })
        .collect()
}

/// The median distance between different rows of x: `[n, d]`; 1 when all rows are the same.
pub(crate) fn median_distance(x: ArrayView2<'_, f64>) -> f64 {
    let n = x.nrows();
    let mut distances: Vec<f64> = (0..n)
        .flat_map(|i| (0..i).map(move |j| (i, j)))
        .map(|(i, j)| {
            let squares = x.row(i).iter().zip(x.row(j)).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
            squares.sqrt()
        })
        .filter(|distance| *distance > 0.0)
        .collect();
    if distances.is_empty() {
        return 1.0;
    }
    let middle = distances.len() / 2;
    *distances.select_nth_unstable_by(middle, f64::total_cmp).1
}
