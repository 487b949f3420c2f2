//! Chooses kernel, variance, length and noise of a local layer: those with the best leave-one-out density.

use ndarray::ArrayView1;

use super::layer::{GlobalParticle, LocalFit, Places};
use super::likelihood::LocalLikelihood;
use super::lists::NeighbourLists;
use super::options::LocalKernel;
use super::search::NeighbourIndex;
use crate::gp::GpError;
use crate::gp::hyper::{Evaluation, Objective, Settings, SoftBounds, maximise};
use crate::gp::kernel::{Hyper, Kernel};
use crate::gp::leave_one_out::LeaveOneOut;
use crate::gp::observer::{Observer, TracePoint};
use crate::gp::random::{StreamKey, sample_without_replacement};
use crate::gp::row_noise::RowNoise;

/// Rows whose densities are compared.
const ROWS: usize = 3000;
const STEPS: Settings = Settings { iterations: 40, tolerance: 1e-5 };
/// Particles after the first start close to where they end.
const FEW_STEPS: Settings = Settings { iterations: 8, tolerance: 1e-5 };
/// The least variance, as a share of the noise, of a layer where a search may begin.
const LEAST_SHARE: f64 = 0.05;
/// Soft bounds lie this factor away from what the data suggest.
const REACH: f64 = 1e4;

/// What is known of the noise.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoiseRule<'a> {
    /// It is at least this much.
    pub least: f64,
    /// It is just that.
    pub known: bool,
    /// How it differs from row to row.
    pub rows: &'a RowNoise,
}

/// What hyper-parameters are looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct LocalSearch<'a> {
    pub neighbours: usize,
    /// The kernels to choose from.
    pub kernels: &'a [Kernel],
    /// What particles of an earlier layer had.
    pub starts: &'a [Hyper],
    /// So many particles after each other are states of one chain, and have what is found for the last of them: the search
    /// costs many times what anything else of a state does, and they end close to each other.
    pub states: usize,
}

/// The kernel of a local layer, and each particle's hyper-parameters.
pub(super) struct Fitted {
    pub kernel: Kernel,
    pub hyper: Vec<Hyper>,
    pub quality: LocalFit,
}

/// Fits to some of the rows.
pub(super) fn fit(
    particles: &[GlobalParticle],
    indices: &[NeighbourIndex],
    LocalSearch { neighbours, kernels, starts, states }: LocalSearch<'_>,
    (noise, fitted_to): (NoiseRule<'_>, &[u32]),
    key: &StreamKey,
    observer: &mut dyn Observer,
) -> Result<Fitted, GpError> {
    let n = indices.first().map_or(0, |index| index.points().nrows());
    let mut rows = fitted_to.to_vec();
    if rows.is_empty() {
        let some = sample_without_replacement(&mut key.with("fit").generator(), n, ROWS);
        rows.extend(some.into_iter().map(|row| row as u32));
    }
    let mut best: Option<(Kernel, Hyper, f64)> = None;
    let (mut hyper, mut with, mut without, mut fitted) = (Vec::new(), 0.0, 0.0, 0);
    // Where to begin after an earlier layer.
    let mut last = starts.iter().find(|hyper| counts(hyper)).cloned();
    for (number, (particle, index)) in particles.iter().zip(indices).enumerate().skip(states - 1).step_by(states) {
        let lists = NeighbourLists::others(index, &rows, neighbours).without_copies(index.points());
        let density = |kernel: Kernel| LocalDensity {
            likelihood: LocalLikelihood {
                kernel,
                sites: particle.places.sites(),
                y: ArrayView1::from(&particle.leave_one_out.residuals),
                lists: &lists,
                noise: noise.rows,
            },
            noise,
            particle: number as i32,
        };
        // All particles share the kernel that the first one chooses, and start where it ended.
        let found = if !starts.is_empty() {
            let density = density(kernels[0]);
            let (start, steps) = last.take().map_or_else(|| (density.start(), STEPS), |hyper| (hyper, FEW_STEPS));
            let (hyper, value) = density.maximise(&start, &steps, observer)?;
            last = [&hyper, &start].into_iter().find(|hyper| counts(hyper)).cloned();
            (kernels[0], hyper, value)
        } else if let Some((kernel, start, _)) = &best {
            let (hyper, value) = density(*kernel).maximise(start, &FEW_STEPS, observer)?;
            (*kernel, hyper, value)
        } else {
            let start = density(kernels[0]).start();
            let mut found: Option<(Kernel, Hyper, f64)> = None;
            for kernel in kernels {
                let (hyper, value) = density(*kernel).maximise(&start, &STEPS, observer)?;
                if found.as_ref().is_none_or(|(.., least)| value > *least) {
                    found = Some((*kernel, hyper, value));
                }
            }
            found.ok_or_else(|| GpError::value("no kernel to choose from"))?
        };
        with += found.2;
        without += rows.iter().map(|row| particle.leave_one_out.density(*row as usize)).sum::<f64>();
        hyper.extend(std::iter::repeat_n(found.1.clone(), states));
        fitted += 1;
        best.get_or_insert(found);
    }
    let kernel = best.map_or(kernels[0], |(kernel, ..)| kernel);
    let count = (rows.len() * fitted).max(1) as f64;
    Ok(Fitted { kernel, hyper, quality: LocalFit { with: with / count, without: without / count } })
}

// Whether there is a layer at all. Where it has next to no variance, its density hardly depends on the logarithm of that: a
// search that begins there stays there, night after night.
fn counts(hyper: &Hyper) -> bool {
    hyper.variance > LEAST_SHARE * hyper.noise
}

/// The kernel and hyper-parameters with the best leave-one-out density of targets y: `[n]` at some places.
pub(crate) fn best_kernel(
    places: Places,
    y: ArrayView1<'_, f64>,
    neighbours: usize,
    (kernels, noise): (LocalKernel, NoiseRule<'_>),
    key: &StreamKey,
    observer: &mut dyn Observer,
) -> Result<(Kernel, Hyper), GpError> {
    let index = NeighbourIndex::new(places.points.clone())?;
    let particle = GlobalParticle { places, leave_one_out: LeaveOneOut::of_nothing(y) };
    let search = LocalSearch { neighbours, kernels: &kernels.allowed(), starts: &[], states: 1 };
    let mut found = fit(&[particle], &[index], search, (noise, &[]), key, observer)?;
    let hyper = found.hyper.pop().ok_or_else(|| GpError::value("no hyper-parameters"))?;
    Ok((found.kernel, hyper))
}

// The leave-one-out density of some rows as a function of log s, log l and log (g − floor).
struct LocalDensity<'a> {
    likelihood: LocalLikelihood<'a>,
    noise: NoiseRule<'a>,
    particle: i32,
}

impl LocalDensity<'_> {
    // Half of what is left over is local, the other half noise; neighbours are correlated.
    fn start(&self) -> Hyper {
        let lists = self.likelihood.lists;
        let (mut squares, mut distances) = (0.0, Vec::with_capacity(lists.len()));
        for place in 0..lists.len() {
            let (row, mut neighbours) = lists.get(place);
            squares += self.likelihood.y[row].powi(2);
            if let Some(nearest) = neighbours.next() {
                let (own, other) = (self.likelihood.sites.at(row), self.likelihood.sites.at(nearest));
                let d2: f64 = own.point.iter().zip(other.point).map(|(a, b)| (a - b) * (a - b)).sum();
                // Local lengths are the unit of what they are the length of.
                distances.push(d2.sqrt() / own.length);
            }
        }
        distances.sort_unstable_by(f64::total_cmp);
        let spread = (squares / lists.len().max(1) as f64).max(1e-12);
        let median = distances.get(distances.len() / 2).copied().unwrap_or(1.0);
        let longest = distances.last().copied().unwrap_or(1.0);
        let length = [4.0 * median, longest, 1.0].into_iter().find(|length| *length > 0.0).unwrap_or(1.0);
        Hyper::isotropic(0.5 * spread, length, 0.5 * spread + self.noise.least)
    }

    fn hyper(&self, theta: &[f64]) -> Hyper {
        let noise = if self.noise.known { self.noise.least } else { theta[2].exp() + self.noise.least };
        Hyper::isotropic(theta[0].exp(), theta[1].exp(), noise)
    }

    // The hyper-parameters with the best density, and that.
    fn maximise(&self, start: &Hyper, steps: &Settings, observer: &mut dyn Observer) -> Result<(Hyper, f64), GpError> {
        let first = [start.variance.ln(), start.lengths[0].ln(), (start.noise - self.noise.least).max(1e-12).ln()];
        let weight = self.likelihood.lists.len() as f64;
        let around = |factor: f64| first.iter().map(|value| value + factor.ln()).collect::<Vec<_>>();
        let bounds = SoftBounds { lower: around(1.0 / REACH), upper: around(REACH), weight };
        let found = maximise(self, &first, &[true, true, !self.noise.known], &bounds, steps, observer)?;
        Ok((self.hyper(&found.theta), found.at.value))
    }
}

impl Objective for LocalDensity<'_> {
    fn evaluate(&self, theta: &[f64]) -> Result<Evaluation, GpError> {
        let hyper = self.hyper(theta);
        let sum = self.likelihood.with_gradient(&hyper)?;
        let mut gradient = sum.gradient.to_vec();
        gradient[2] *= theta[2].exp() / hyper.noise;
        Ok(Evaluation { value: sum.log_likelihood, gradient, jitter: 0.0 })
    }

    fn trace_point(&self, step: i32, theta: &[f64], at: &Evaluation) -> TracePoint {
        TracePoint {
            particle: self.particle,
            step,
            log_likelihood: at.value,
            ..TracePoint::at("local", &self.hyper(theta))
        }
    }
}
