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
use crate::gp::linalg::panels::LANES;
use crate::gp::linalg::{add_all, over_chunks};

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
}

impl LocalLikelihood<'_> {
    /// The sum of all log densities.
    pub fn value(&self, hyper: &Hyper) -> Result<f64, GpError> {
        let parts = over_chunks(self.lists.len(), 1, |chunk| {
            let mut sum = 0.0;
            self.panels(chunk, hyper, |panel, count, _| {
                sum += panel.log_densities().iter().take(count).sum::<f64>();
                Ok(())
            })?;
            Ok(sum)
        })?;
        finite(parts.iter().sum())
    }

    /// The mean variance of a target, noise included.
    pub fn mean_variance(&self, hyper: &Hyper) -> Result<f64, GpError> {
        let parts = over_chunks(self.lists.len(), 1, |chunk| {
            let mut sum = 0.0;
            self.panels(chunk, hyper, |panel, count, _| {
                sum += panel.variance().iter().take(count).sum::<f64>();
                Ok(())
            })?;
            Ok(sum)
        })?;
        finite(parts.iter().sum::<f64>() / self.lists.len().max(1) as f64)
    }

    /// The same, with derivatives by log s, log l and log g.
    pub fn with_gradient(&self, hyper: &Hyper) -> Result<LocalSum, GpError> {
        let parts = over_chunks(self.lists.len(), 4, |chunk| {
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
        let parts = (PARTIAL / (n * width).max(1)).clamp(2, PARTS);
        let places = self.lists.len();
        let bound = |part: usize| (part * places.div_ceil(LANES) / parts * LANES).min(places);
        let found: Vec<(LocalSum, Vec<f64>)> = (0..parts)
            .into_par_iter()
            .with_max_len(1)
            .map(|part| {
                let (mut sum, mut adjoint) = (LocalSum::default(), room.take(n * width));
                let to = adjoint.as_mut_slice();
                self.panels(bound(part)..bound(part + 1), hyper, |panel, count, first| {
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
            })
            .collect::<Result<_, GpError>>()?;
        let sums: Vec<LocalSum> = found.iter().map(|(sum, _)| *sum).collect();
        let mut adjoint = room.take(n * width);
        adjoint.par_chunks_mut(BLOCK).enumerate().for_each(|(block, to)| {
            found.iter().for_each(|(_, part)| add_all(&mut *to, &part[block * BLOCK..]));
        });
        found.into_iter().for_each(|(_, part)| room.give_back(part));
        let adjoint = Array2::from_shape_vec((n, width), adjoint);
        Ok((total(&sums)?, adjoint.map_err(|error| GpError::shape(error.to_string()))?))
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
                panel.load(lane, at(row), neighbours.map(at));
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
    parts.iter().for_each(|part| sum.add(part));
    finite(sum.log_likelihood)?;
    Ok(sum)
}
