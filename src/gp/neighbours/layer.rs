//! The local layer: what a global model leaves over, as a stationary process of its own in the space that the model sees,
//! conditioned on the nearest training rows.
//!
//! The residuals are those that the global model has where it has not seen the row itself. With them the layer cannot take
//! for granted what the global model has learned by heart.

use ndarray::{Array2, ArrayView1, ArrayView2, Axis};
use rayon::prelude::*;

use super::conditional::{Conditional, Site, Sites};
use super::copies::Copies;
use super::fit::{LocalSearch, NoiseRule, fit};
use super::likelihood::LocalLikelihood;
use super::lists::NeighbourLists;
use super::options::LocalOptions;
use super::search::{Among, Neighbour, NeighbourIndex, QUERIES, SearchRoom};
use crate::gp::GpError;
use crate::gp::kernel::{Hyper, Kernel};
use crate::gp::leave_one_out::LeaveOneOut;
use crate::gp::linalg::Span;
use crate::gp::linalg::panels::LANES;
use crate::gp::observer::Observer;
use crate::gp::predict::{Tile, not_negative};
use crate::gp::random::{StreamKey, sample_without_replacement};
use crate::gp::row_noise::RowNoise;
use crate::gp::warm::LocalStart;

/// Targets that are looked at for the smallest step between them.
const SEEN_TARGETS: usize = 1 << 20;
/// Training rows by which it is measured what is usual.
const MEASURED: usize = 4096;
/// Rows that are closer than this share of the usual distance are at one place.
const SAME_PLACE: f64 = 1e-9;

/// Where the global model sees rows: the features of a stationary model, or what the hidden layers make of them.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// `[n, D]`.
    pub points: Array2<f64>,
    /// Local correlation lengths, `[n]`, where the covariance has them.
    pub lengths: Option<Vec<f64>>,
}

impl Places {
    pub fn sites(&self) -> Sites<'_> {
        Sites { points: self.points.view(), lengths: self.lengths.as_deref() }
    }
}

/// What a model file keeps of a local layer.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalParts {
    pub kernel: Kernel,
    pub neighbours: usize,
    /// The training rows that are kept, on the training scale, `[n, d]`.
    pub x: Array2<f64>,
    /// What every particle leaves over of their targets, `[S, n]`.
    pub residuals: Array2<f64>,
    /// Variance, length and noise of every particle's layer, `[S, 3]`.
    pub hyper: Array2<f64>,
    /// Mean variance and mean distance to the nearest row, of training rows that are left out, and the variance within
    /// rows at one place (0: as the layer says), for every particle, `[S, 3]`.
    pub training: Array2<f64>,
    /// How the noise of those rows differs.
    pub noise: RowNoise,
}

/// How good a local layer is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LocalFit {
    /// Mean leave-one-out log density of a training row, on the training scale, with the layer.
    pub with: f64,
    /// The same of the global model alone.
    pub without: f64,
}

impl LocalFit {
    /// Whether the layer makes predictions better.
    pub fn is_better(&self) -> bool {
        self.with > self.without
    }
}

impl LocalParts {
    /// Refuses what does not fit together, for so many features and particles.
    pub fn check(&self, features: usize, particles: usize) -> Result<(), GpError> {
        let (n, d) = self.x.dim();
        if n == 0
            || d != features
            || self.residuals.dim() != (particles, n)
            || self.hyper.dim() != (particles, 3)
            || self.training.dim() != (particles, 3)
        {
            return Err(GpError::shape(format!(
                "a local layer of {n} rows and {d} features with residuals {:?} and hyper-parameters {:?}, in a model with \
                 {features} feature(s) and {particles} particle(s)",
                self.residuals.shape(),
                self.hyper.shape()
            )));
        }
        if !self.x.iter().chain(&self.residuals).chain(&self.training).all(|value| value.is_finite()) {
            return Err(GpError::NonFinite { what: "the local layer" });
        }
        self.noise.check(n)?;
        (0..particles).try_for_each(|particle| self.hyper_of(particle).check(1))
    }

    fn hyper_of(&self, particle: usize) -> Hyper {
        let row = self.hyper.row(particle);
        Hyper::isotropic(row[0], row[1], row[2])
    }

    /// Noise variance of the targets, on average over the particles.
    pub fn noise(&self) -> f64 {
        self.hyper.column(2).iter().sum::<f64>() / self.hyper.nrows().max(1) as f64
    }

    /// The layer of one particle, which sees the rows at these places.
    pub(crate) fn layer(&self, particle: usize, places: Places) -> Result<LocalLayer, GpError> {
        Ok(LocalLayer {
            kernel: self.kernel,
            hyper: self.hyper_of(particle),
            neighbours: self.neighbours,
            index: NeighbourIndex::new(places.points)?,
            lengths: places.lengths,
            residuals: self.residuals.row(particle).to_vec(),
            noise: self.noise.clone(),
            training: UsualRow { variance: self.training[[particle, 0]], spacing: self.training[[particle, 1]] },
            of_copies: self.training[[particle, 2]],
        })
    }

    /// Measures what is usual for training rows, with the layers of all particles.
    pub(crate) fn measure<'l>(&mut self, layers: impl Iterator<Item = &'l LocalLayer>) -> Result<(), GpError> {
        let copies = Copies::among(self.x.view());
        for (mut to, layer) in self.training.outer_iter_mut().zip(layers) {
            let UsualRow { variance, spacing } = layer.measure()?;
            let of_copies = if to[2] > 0.0 { copies.variance(&layer.residuals) } else { 0.0 };
            to.assign(&ndarray::arr1(&[variance, spacing, of_copies]));
        }
        Ok(())
    }

    /// Mean variance of the targets of training rows that are left out, on the training scale.
    pub fn training_variance(&self) -> f64 {
        self.training.column(0).iter().sum::<f64>() / self.training.nrows().max(1) as f64
    }
}

/// What is usual for training rows, in the eyes of one particle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UsualRow {
    /// Mean variance of the targets, noise included.
    pub variance: f64,
    /// Mean distance to the nearest other row.
    pub spacing: f64,
}

/// The local layer of one particle, ready to predict.
#[derive(Debug)]
pub(crate) struct LocalLayer {
    kernel: Kernel,
    hyper: Hyper,
    neighbours: usize,
    index: NeighbourIndex,
    lengths: Option<Vec<f64>>,
    residuals: Vec<f64>,
    noise: RowNoise,
    training: UsualRow,
    /// The variance within rows at one place; 0 where it is what the layer says.
    of_copies: f64,
}

impl LocalLayer {
    /// Adds the layer to what the global model says of rows at these places: mean: `[p]`, and latent variances when they are
    /// asked for.
    pub fn predict(&self, rows: &Sites<'_>, mut mean: Vec<f64>, variance: bool) -> Result<Tile, GpError> {
        let (known, global) = (self.known(), mean.clone());
        let width = self.neighbours.min(self.residuals.len());
        let mut panel = Conditional::new(self.kernel, &known, width);
        let mut found: Vec<Vec<Neighbour>> = vec![Vec::new(); QUERIES];
        let mut room = SearchRoom::default();
        let (mut latent, mut nearest) = (Vec::with_capacity(mean.len()), Vec::with_capacity(mean.len()));
        let last = mean.len();
        for (first, mean) in mean.chunks_mut(LANES).enumerate().map(|(block, mean)| (block * LANES, mean)) {
            if first % QUERIES == 0 {
                let queries: Vec<_> =
                    (first..last.min(first + QUERIES)).map(|row| (rows.at(row).point, Among::ALL)).collect();
                self.index.nearest_to_each(&queries, width, &mut room, |place, neighbours| {
                    found[place].clear();
                    // Rows at infinity have no covariances, and would spoil those that are predicted beside them.
                    found[place].extend(neighbours.filter(|(distance, _)| distance.is_finite()));
                });
            }
            for lane in 0..mean.len() {
                let (own, found) = (rows.at(first + lane), &found[first % QUERIES + lane]);
                let at = |row: u32| (known.at(row as usize), self.residuals[row as usize]);
                panel.load(lane, (own, 0.0), found.iter().map(|(_, row)| at(*row)));
                if !self.noise.is_uniform() {
                    let known = found.iter().map(|(_, row)| self.noise.parts(*row as usize));
                    panel.load_noise(lane, (1.0, 0.0), known);
                }
                nearest.push(found.first().map_or(f64::NAN, |(distance, _)| distance.sqrt() / self.training.spacing));
            }
            panel.fill(mean.len());
            panel.solve(&self.hyper)?;
            for (lane, mean) in mean.iter_mut().enumerate() {
                // A row without a place has no neighbours, and no answer.
                let lost = if is_lost(&rows.at(first + lane)) { f64::NAN } else { 0.0 };
                *mean += panel.mean()[lane] + lost;
                if variance {
                    let near = found[first % QUERIES + lane].iter();
                    let copies = near.take_while(|(distance, _)| self.is_none(*distance)).count();
                    let variance = self.with_copies(panel.variance()[lane], copies);
                    latent.push(not_negative(variance - self.hyper.noise + lost));
                }
            }
        }
        Ok(Tile { mean, variance: latent, nearest, global })
    }

    /// An order in which rows that are near each other follow each other.
    pub fn near_order(&self, rows: &Sites<'_>) -> Vec<usize> {
        let leaf = |room: &mut SearchRoom, row: usize| (self.index.leaf(rows.at(row).point, room), row);
        let mut order: Vec<(usize, usize)> =
            (0..rows.points.nrows()).into_par_iter().map_init(SearchRoom::default, leaf).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, row)| row).collect()
    }

    fn known(&self) -> Sites<'_> {
        Sites { points: self.index.points(), lengths: self.lengths.as_deref() }
    }

    fn likelihood<'l>(&'l self, lists: &'l NeighbourLists) -> LocalLikelihood<'l> {
        let (sites, y) = (self.known(), ArrayView1::from(&self.residuals));
        LocalLikelihood { kernel: self.kernel, sites, y, lists, noise: &self.noise }
    }

    /// What is usual for training rows, by some of them, each left out in its turn.
    pub fn measure(&self) -> Result<UsualRow, GpError> {
        let n = self.residuals.len();
        let rows: Vec<u32> = (0..n as u32).step_by(n.div_ceil(MEASURED).max(1)).collect();
        let lists = NeighbourLists::others(&self.index, &rows, self.neighbours);
        let sites = self.known();
        let variance = self.likelihood(&lists).mean_variance(&self.hyper)?;
        let (mut sum, mut count) = (0.0, 0.0);
        for place in 0..lists.len() {
            let (row, mut neighbours) = lists.get(place);
            if let Some(nearest) = neighbours.next() {
                let pairs = sites.at(row).point.iter().zip(sites.at(nearest).point);
                sum += pairs.map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt();
                count += 1.0;
            }
        }
        Ok(UsualRow { variance, spacing: if sum > 0.0 { sum / count } else { 1.0 } })
    }
}

impl LocalLayer {
    /// How many training rows it keeps.
    pub fn len(&self) -> usize {
        self.residuals.len()
    }

    /// What is said of some of the rows that it keeps, each left out in its turn.
    pub fn left_out(&self, rows: &[u32]) -> Result<LeaveOneOut, GpError> {
        let lists = NeighbourLists::others(&self.index, rows, self.neighbours);
        let mut found = self.likelihood(&lists).left_out(&self.hyper)?;
        for (place, variance) in found.variances.iter_mut().enumerate() {
            let (row, neighbours) = lists.get(place);
            let own = self.known().at(row).point;
            let copies = neighbours.take_while(|other| {
                let pairs = own.iter().zip(self.known().at(*other).point);
                self.is_none(pairs.map(|(a, b)| (a - b) * (a - b)).sum())
            });
            *variance = self.with_copies(*variance, copies.count());
        }
        Ok(found)
    }

    // Whether a squared distance is none at all, but for rounding.
    fn is_none(&self, distance: f64) -> bool {
        distance <= (SAME_PLACE * self.training.spacing).powi(2)
    }

    // The variance of a target at a place where there are so many rows: it differs from their mean at least as they do.
    fn with_copies(&self, variance: f64, copies: usize) -> f64 {
        if copies == 0 { variance } else { variance.max(self.of_copies * (1.0 + 1.0 / copies as f64)) }
    }
}

fn is_lost(site: &Site<'_>) -> bool {
    !site.length.is_finite() || site.point.iter().any(|value| !value.is_finite())
}

/// A particle of a global model at the training rows that a local layer keeps.
pub(crate) struct GlobalParticle {
    pub places: Places,
    pub leave_one_out: LeaveOneOut,
}

/// The local layer above a global model's particles, given at the training rows x: `[n, d]` that it keeps; with the least noise,
/// and the rows that it is fitted to, none for some of all.
pub(crate) fn fit_local(
    (x, particles): (ArrayView2<'_, f64>, &[GlobalParticle]),
    options: &LocalOptions,
    earlier: Option<&LocalStart>,
    (noise, fitted_to): (NoiseRule<'_>, &[u32]),
    key: &StreamKey,
    observer: &mut dyn Observer,
) -> Result<(LocalParts, LocalFit), GpError> {
    let n = x.nrows();
    let neighbours = options.neighbours as usize;
    let indices: Vec<NeighbourIndex> = particles
        .iter()
        .map(|particle| NeighbourIndex::new(particle.places.points.clone()))
        .collect::<Result<_, _>>()?;
    let kernels =
        earlier.map_or_else(|| options.kernel.allowed(), |earlier| vec![options.kernel.after(earlier.kernel)]);
    let starts = earlier.map_or(&[][..], |earlier| &earlier.hyper);
    let chained = !starts.is_empty() && particles.len().is_multiple_of(options.states);
    let states = if chained { options.states } else { 1 };
    let search = LocalSearch { neighbours, kernels: &kernels, starts, states };
    let fitted = fit(particles, &indices, search, (noise, fitted_to), key, observer)?;
    let mut residuals = Array2::zeros((particles.len(), n));
    for (mut to, particle) in residuals.outer_iter_mut().zip(particles) {
        to.assign(&ArrayView1::from(&particle.leave_one_out.residuals));
    }
    let mut hyper = Array2::zeros((particles.len(), 3));
    for (mut to, found) in hyper.outer_iter_mut().zip(&fitted.hyper) {
        to.assign(&ndarray::arr1(&[found.variance, found.lengths[0], found.noise]));
    }
    // Measured where the layers are in place. Noise that is known is not to be learned from copies.
    let mut training = Array2::ones((particles.len(), 3));
    if noise.known || !noise.rows.is_uniform() {
        training.column_mut(2).fill(0.0);
    }
    let (x, noise) = (x.to_owned(), noise.rows.clone());
    Ok((LocalParts { kernel: fitted.kernel, neighbours, x, residuals, hyper, training, noise }, fitted.quality))
}

/// The training rows, of n, that a local layer keeps.
pub(crate) fn kept_rows(n: usize, options: &LocalOptions, key: &StreamKey) -> Vec<usize> {
    let count = options.rows.map_or(n, |rows| rows as usize);
    if count >= n { (0..n).collect() } else { sample_without_replacement(&mut key.with("rows").generator(), n, count) }
}

/// What a local layer knows of the noise of targets y: `[n]`, above a model with this noise; the rows that it sees differ in
/// theirs.
pub(crate) fn noise_rule<'a>(
    options: &LocalOptions,
    (y, span): (ArrayView1<'_, f64>, &Span),
    noise: f64,
    rows: &'a RowNoise,
) -> Result<NoiseRule<'a>, GpError> {
    let least = if options.known_noise { noise } else { rounding_variance_over(y, span)? };
    Ok(NoiseRule { least, known: options.known_noise, rows })
}

/// [`rounding_variance`] of all targets. Of many, some tell as much.
fn rounding_variance_over(y: ArrayView1<'_, f64>, span: &Span) -> Result<f64, GpError> {
    let n = span.all();
    if !span.is_shared() && n <= SEEN_TARGETS {
        return Ok(rounding_variance(y));
    }
    let list: Vec<usize> = (0..n).step_by(n.div_ceil(SEEN_TARGETS).max(1)).collect();
    let targets = span.gather(&list, 1, |own| Ok(y.select(Axis(0), own).insert_axis(Axis(1))))?;
    Ok(rounding_variance(targets.column(0)))
}

/// The smallest step between two different targets, squared and divided by twelve: the variance of what rounding to such
/// steps takes away. Noise is at least that much, or rows that are copies of each other would promise certainty.
pub(crate) fn rounding_variance(y: ArrayView1<'_, f64>) -> f64 {
    let mut sorted = y.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let steps = sorted.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > 0.0);
    let step = steps.fold(f64::INFINITY, f64::min);
    if step.is_finite() { step * step / 12.0 } else { 0.0 }
}
