//! The likelihood of rows given their neighbours, summed over many rows.
//!
//! With neighbours among the earlier rows of a fixed order this is the likelihood of Vecchia: a density of all targets,
//! and the exact one where every earlier row is a neighbour. With neighbours among all other rows it is the
//! leave-one-out density.

use std::sync::Mutex;

use ndarray::{Array2, ArrayView1};
use rayon::prelude::*;

use super::conditional::{Conditional, LocalSum, Sites};
use super::lists::NeighbourLists;
use crate::gp::GpError;
use crate::gp::kernel::{Hyper, Kernel};
use crate::gp::leave_one_out::LeaveOneOut;
use crate::gp::linalg::add_all;
use crate::gp::linalg::panels::LANES;
use crate::gp::row_noise::RowNoise;

/// Numbers that the partial derivatives of all threads may hold together (1 GiB).
const PARTIAL: usize = 1 << 27;
/// The most parts that derivatives are summed in.
const PARTS: usize = 4;
/// Numbers that one thread adds up before it takes more.
const BLOCK: usize = 1 << 15;

/// Memory that derivatives were summed in, kept for the next time: asking the system for it again and again costs as much as
/// the sums.
#[derive(Debug, Default)]
pub(crate) struct AdjointRoom(Mutex<Vec<Vec<f64>>>);

impl AdjointRoom {
    fn take(&self, len: usize) -> Vec<f64> {
        let kept = self.0.lock().ok().and_then(|mut kept| kept.pop());
        let mut room = kept.unwrap_or_default();
        room.clear();
        room.resize(len, 0.0);
        room
    }

    /// Takes memory back.
    pub fn give_back(&self, room: Vec<f64>) {
        if let Ok(mut kept) = self.0.lock() {
            kept.push(room);
        }
    }
}

/// Targets at their sites, and who is whose neighbour.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LocalLikelihood<'a> {
    pub kernel: Kernel,
    pub sites: Sites<'a>,
    /// `[n]`.
    pub y: ArrayView1<'a, f64>,
    pub lists: &'a NeighbourLists,
    /// How the noise differs from row to row.
    pub noise: &'a RowNoise,
}

impl LocalLikelihood<'_> {
    /// The sum of all log densities.
    pub fn value(&self, hyper: &Hyper) -> Result<f64, GpError> {
        let parts = self.over_parts(|chunk| {
            let mut sum = 0.0;
            self.panels(chunk, hyper, |panel, count, _| {
                sum += panel.log_densities().iter().take(count).sum::<f64>();
                Ok(())
            })?;
            Ok(sum)
        })?;
        finite(parts.iter().sum())
    }

    /// The mean variance of a target, noise included: that of a row of weight 1 and the usual known variance.
    pub fn mean_variance(&self, hyper: &Hyper) -> Result<f64, GpError> {
        let usual = self.noise.level(hyper.noise);
        let parts = self.over_parts(|chunk| {
            let mut sum = 0.0;
            self.panels(chunk, hyper, |panel, count, first| {
                sum += panel.variance().iter().take(count).sum::<f64>();
                if !self.noise.is_uniform() {
                    let rows = (first..first + count).map(|place| self.lists.get(place).0);
                    sum += rows.map(|row| usual - self.noise.variance(row, hyper.noise)).sum::<f64>();
                }
                Ok(())
            })?;
            Ok(sum)
        })?;
        finite(parts.iter().sum::<f64>() / self.lists.len().max(1) as f64)
    }

    /// Every row given its neighbours: its target less the mean, and the variance, noise included.
    pub fn left_out(&self, hyper: &Hyper) -> Result<LeaveOneOut, GpError> {
        let parts = self.over_parts(|chunk| {
            let mut found = LeaveOneOut::default();
            self.panels(chunk, hyper, |panel, count, first| {
                for lane in 0..count {
                    let (row, _) = self.lists.get(first + lane);
                    found.residuals.push(self.y[row] - panel.mean()[lane]);
                    found.variances.push(panel.variance()[lane]);
                }
                Ok(())
            })?;
            Ok(found)
        })?;
        let mut all = LeaveOneOut::default();
        for part in parts {
            all.append(part);
        }
        Ok(all)
    }

    /// The sum of all log densities, with derivatives by log s, log l and log g.
    pub fn with_gradient(&self, hyper: &Hyper) -> Result<LocalSum, GpError> {
        let parts = self.over_parts(|chunk| {
            let mut sum = LocalSum::default();
            self.panels(chunk, hyper, |panel, count, _| {
                sum.add(&panel.sum(hyper, count, false));
                Ok(())
            })?;
            Ok(sum)
        })?;
        total(&parts)
    }

    /// The same, and derivatives by the coordinates (or local lengths) of all sites, `[n, D]`.
    pub fn with_adjoint(&self, hyper: &Hyper, room: &AdjointRoom) -> Result<(LocalSum, Array2<f64>), GpError> {
        let (n, width) = (self.sites.points.nrows(), self.sites.coordinates());
        let found: Vec<(LocalSum, Vec<f64>)> = self.over_parts(|chunk| {
            let (mut sum, mut adjoint) = (LocalSum::default(), room.take(n * width));
            let to = adjoint.as_mut_slice();
            self.panels(chunk, hyper, |panel, count, first| {
                sum.add(&panel.sum(hyper, count, true));
                for lane in 0..count {
                    let (row, neighbours) = self.lists.get(first + lane);
                    for (row, derivatives) in neighbours.chain([row]).zip(panel.derivatives(lane)) {
                        let to = &mut to[row * width..(row + 1) * width];
                        to.iter_mut().zip(derivatives).for_each(|(to, value)| *to += value);
                    }
                }
                Ok(())
            })?;
            Ok((sum, adjoint))
        })?;
        let sums: Vec<LocalSum> = found.iter().map(|(sum, _)| *sum).collect();
        let mut adjoint = room.take(n * width);
        adjoint.par_chunks_mut(BLOCK).enumerate().for_each(|(block, to)| {
            for (_, part) in &found {
                add_all(&mut *to, &part[block * BLOCK..]);
            }
        });
        for (_, part) in found {
            room.give_back(part);
        }
        let adjoint = Array2::from_shape_vec((n, width), adjoint);
        Ok((total(&sums)?, adjoint.map_err(|error| GpError::shape(error.to_string()))?))
    }

    // Runs `work` on parts of the rows, always the same ones: all sums have the same bits.
    fn over_parts<A: Send>(
        &self,
        work: impl Fn(std::ops::Range<usize>) -> Result<A, GpError> + Sync,
    ) -> Result<Vec<A>, GpError> {
        let numbers = self.sites.points.nrows() * self.sites.coordinates();
        let parts = (PARTIAL / numbers.max(1)).clamp(2, PARTS);
        let places = self.lists.len();
        let bound = |part: usize| (part * places.div_ceil(LANES) / parts * LANES).min(places);
        (0..parts).into_par_iter().with_max_len(1).map(|part| work(bound(part)..bound(part + 1))).collect()
    }

    // Conditions some rows on their neighbours, eight at a time; `work` gets how many of them count, and the first.
    fn panels(
        &self,
        places: std::ops::Range<usize>,
        hyper: &Hyper,
        mut work: impl FnMut(&mut Conditional, usize, usize) -> Result<(), GpError>,
    ) -> Result<(), GpError> {
        let mut panel = Conditional::new(self.kernel, &self.sites, self.lists.width());
        for first in places.clone().step_by(LANES) {
            let count = LANES.min(places.end - first);
            for lane in 0..count {
                let (row, neighbours) = self.lists.get(first + lane);
                let at = |row: usize| (self.sites.at(row), self.y[row]);
                panel.load(lane, at(row), neighbours.clone().map(at));
                if !self.noise.is_uniform() {
                    panel.load_noise(lane, self.noise.parts(row), neighbours.map(|row| self.noise.parts(row)));
                }
            }
            panel.fill(count);
            panel.solve(hyper)?;
            work(&mut panel, count, first)?;
        }
        Ok(())
    }
}

fn finite(value: f64) -> Result<f64, GpError> {
    if value.is_finite() { Ok(value) } else { Err(GpError::NonFinite { what: "the likelihood of neighbours" }) }
}

fn total(parts: &[LocalSum]) -> Result<LocalSum, GpError> {
    let mut sum = LocalSum::default();
    for part in parts {
        sum.add(part);
    }
    finite(sum.log_likelihood)?;
    Ok(sum)
}

#[cfg(test)]
#[path = "../../../tests/it/naive/extended.rs"]
mod extended;

#[cfg(test)]
mod tests {
    use super::extended::Extended;
    use super::*;
    use crate::gp::neighbours::NeighbourIndex;
    use crate::gp::sparse::JITTER;

    // The sum with thirty digits, from its definition. In turn: s, l, g, then coordinates or local lengths.
    struct Exact<'a> {
        of: LocalLikelihood<'a>,
        parameters: Vec<Extended>,
    }

    impl<'a> Exact<'a> {
        fn new(of: LocalLikelihood<'a>, hyper: &Hyper) -> Self {
            let sites = of.sites.lengths.map_or_else(|| of.sites.points.iter().copied().collect(), <[f64]>::to_vec);
            let numbers = [hyper.variance, hyper.lengths[0], hyper.noise].into_iter().chain(sites);
            Self { of, parameters: numbers.map(Extended::from).collect() }
        }

        fn covariance(&self, a: usize, b: usize) -> Extended {
            let (sites, d) = (&self.of.sites, self.of.sites.points.ncols());
            let (two, zero) = (Extended::from(2.0), Extended::ZERO);
            let at = |row: usize, j: usize| match sites.lengths {
                Some(_) => sites.points[[row, j]].into(),
                None => self.parameters[3 + row * d + j],
            };
            let mut r2 = (0..d).fold(zero, |sum, j| sum + (at(a, j) - at(b, j)) * (at(a, j) - at(b, j)));
            r2 = r2 / (self.parameters[1] * self.parameters[1]);
            let mut scale = self.parameters[0];
            if sites.lengths.is_some() {
                let (a, b) = (self.parameters[3 + a], self.parameters[3 + b]);
                let both = a * a + b * b;
                r2 = two * r2 / both;
                let share = (two * a * b / both).sqrt();
                scale = (0..d).fold(scale, |scale, _| scale * share);
            }
            let root = |factor: f64| (r2 * factor.into()).sqrt();
            scale
                * match self.of.kernel {
                    Kernel::Rbf => (-(r2 / two)).exp(),
                    Kernel::Matern12 => (-root(1.0)).exp(),
                    Kernel::Matern32 => (Extended::ONE + root(3.0)) * (-root(3.0)).exp(),
                    Kernel::Matern52 => (Extended::ONE + root(5.0) + r2 * 5.0.into() / 3.0.into()) * (-root(5.0)).exp(),
                    Kernel::RationalQuadratic(shape) => {
                        let alpha = Extended::from(shape.alpha);
                        (-(alpha * (Extended::ONE + r2 / (two * alpha)).ln())).exp()
                    }
                }
        }

        // By the factor of the covariance of neighbours and row: the last pivot, and the last of the whitened targets.
        fn density(&self, sites: &[usize]) -> Extended {
            let own = |site: usize| {
                let (factor, known) = self.of.noise.parts(site);
                self.parameters[0] * (1.0 + JITTER).into() + self.parameters[2] * factor.into() + known.into()
            };
            let mut lower: Vec<Vec<Extended>> = Vec::new();
            let mut white: Vec<Extended> = Vec::new();
            for (i, site) in sites.iter().enumerate() {
                let mut row: Vec<Extended> = Vec::new();
                for (j, other) in sites[..i].iter().enumerate() {
                    let sum = (0..j).fold(self.covariance(*site, *other), |sum, k| sum - row[k] * lower[j][k]);
                    row.push(sum / lower[j][j]);
                }
                let pivot = row.iter().fold(own(*site), |sum, value| sum - *value * *value).sqrt();
                let rest = row.iter().zip(&white).fold(Extended::from(self.of.y[*site]), |sum, (l, w)| sum - *l * *w);
                white.push(rest / pivot);
                row.push(pivot);
                lower.push(row);
            }
            let (pivot, white) = (lower[sites.len() - 1][sites.len() - 1], white[sites.len() - 1]);
            (Extended::TAU.ln() + white * white) * (-0.5).into() - pivot.ln()
        }

        // Of the rows that a parameter may change.
        fn value(&self, parameter: Option<usize>) -> Extended {
            let site =
                parameter.and_then(|parameter| parameter.checked_sub(3)).map(|at| at / self.of.sites.coordinates());
            (0..self.of.lists.len()).fold(Extended::ZERO, |sum, place| {
                let (row, neighbours) = self.of.lists.get(place);
                let sites: Vec<usize> = neighbours.chain([row]).collect();
                if site.is_some_and(|site| !sites.contains(&site)) { sum } else { sum + self.density(&sites) }
            })
        }

        // Central differences: with thirty digits the step can be so small that its square vanishes.
        fn slope(&mut self, parameter: usize) -> f64 {
            let (at, step) = (self.parameters[parameter], Extended::from(1e-13));
            // Logarithms of hyper-parameters.
            let step = if parameter < 3 { step * at } else { step };
            let mut moved = |by: Extended| {
                self.parameters[parameter] = at + by;
                self.value(Some(parameter))
            };
            let difference = moved(step) - moved(-step);
            self.parameters[parameter] = at;
            (difference / Extended::from(2e-13)).value()
        }
    }

    fn close(found: &[f64], expected: &[f64], label: &str) {
        let scale = expected.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
        for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert!((found - expected).abs() < 1e-6 * scale, "{label}, {i}: {found} for {expected}");
        }
    }

    #[test]
    fn agrees_with_thirty_digits_at_nearly_equal_rows() -> Result<(), GpError> {
        const N: usize = 14;
        // Every other row is nearly the one before it.
        let wave = |i: usize, j: usize| ((i * i + 7 * i * j + 3 * j) as f64 * 0.77).sin();
        let near = |i: usize, j: usize| if i % 2 == 1 { 1e-6 * wave(i + 5, j) } else { 0.0 };
        let points = Array2::from_shape_fn((N, 3), |(i, j)| 1.5 * wave(i / 2, j) + near(i, j));
        let y = ndarray::Array1::from_shape_fn(N, |i| points[[i, 0]] + 0.3 * wave(i, 9));
        let lengths: Vec<f64> = (0..N).map(|i| 1.0 + 0.5 * wave(i / 2, 4) + near(i, 1)).collect();
        let order: Vec<u32> = (0..N as u32).map(|i| i * 5 % N as u32).collect();
        let earlier = NeighbourLists::earlier(points.view(), &order, 6)?;
        let index = NeighbourIndex::new(points.clone())?;
        let others = NeighbourLists::others(&index, &(0..N as u32).step_by(2).collect::<Vec<_>>(), 4);
        let uniform = RowNoise::default();
        let weights = ndarray::Array1::from_shape_fn(N, |i| [0.5, 1.0, 3.0][i % 3]);
        let weighted = RowNoise::new(Some(weights), None);
        let known = ndarray::Array1::from_shape_fn(N, |i| [0.0, 0.01, 0.2, 1e-5][i % 4]);
        let known = RowNoise { known: Some(known), ..weighted.clone() };
        for kernel in Kernel::ALL {
            for (lengths, lists, noise, rows) in [
                (None, &earlier, 0.05, &uniform),
                (None, &earlier, 1e-6, &uniform),
                (None, &others, 1e-4, &uniform),
                (Some(&lengths[..]), &earlier, 0.05, &uniform),
                (Some(&lengths[..]), &others, 1e-5, &uniform),
                (None, &earlier, 0.05, &weighted),
                (None, &others, 1e-3, &known),
                (Some(&lengths[..]), &earlier, 1e-3, &known),
            ] {
                let label = format!("{kernel}, local lengths {}, noise {noise}, {rows:?}", lengths.is_some());
                let hyper = Hyper::isotropic(1.3, 1.1, noise);
                let sites = Sites { points: points.view(), lengths };
                let likelihood = LocalLikelihood { kernel, sites, y: y.view(), lists, noise: rows };
                let mut exact = Exact::new(likelihood, &hyper);
                let (sum, adjoint) = likelihood.with_adjoint(&hyper, &AdjointRoom::default())?;
                close(&[sum.log_likelihood, likelihood.value(&hyper)?], &[exact.value(None).value(); 2], &label);
                close(&likelihood.with_gradient(&hyper)?.gradient, &sum.gradient, &label);
                let slopes: Vec<f64> = (0..exact.parameters.len()).map(|i| exact.slope(i)).collect();
                close(&sum.gradient, &slopes[..3], &label);
                close(&adjoint.into_iter().collect::<Vec<_>>(), &slopes[3..], &label);
            }
        }
        Ok(())
    }
}
