//! Pivots of the cross approximation: for a symmetric positive matrix, those of the pivoted Cholesky factorisation.
//!
//! One set serves all particles: the residual diagonal is averaged over them.

use ndarray::{Array2, ArrayView2, s};
use rayon::prelude::*;

use super::warped::Warped;
use crate::gp::GpError;
use crate::gp::kernel::Covariance;

/// A residual below this share of the variance is rounding.
const NOTHING: f64 = 1e-12;

/// Rows of the covariances, one for each particle, at which the mean residual diagonal is largest, one after the other:
/// `rank` of them, or fewer when the residual trace falls below `tolerance` of the whole.
pub fn choose(members: &[Warped], rank: usize, tolerance: f64) -> Result<Vec<usize>, GpError> {
    let Some(n) = members.first().map(Covariance::len) else { return Ok(Vec::new()) };
    let rank = rank.min(n);
    let mut all: Vec<Partial<'_>> = members.iter().map(|member| Partial::new(member, rank)).collect();
    let mut pivots = Vec::with_capacity(rank);
    let total = mean_residual(&all, n).iter().sum::<f64>();
    while pivots.len() < rank {
        let residual = mean_residual(&all, n);
        let Some(pivot) = largest(&residual) else { break };
        let trace: f64 = residual.iter().sum();
        let done = !pivots.is_empty() && trace <= tolerance * total;
        if done || residual[pivot] <= NOTHING * total / n as f64 {
            break;
        }
        all.par_iter_mut().try_for_each(|partial| partial.eliminate(pivot, pivots.len()))?;
        pivots.push(pivot);
    }
    Ok(pivots)
}

// A factorisation that is under way.
struct Partial<'a> {
    covariance: &'a Warped,
    residual: Vec<f64>,
    // Columns of the factor so far, as rows, [rank, n].
    columns: Array2<f64>,
}

impl<'a> Partial<'a> {
    fn new(covariance: &'a Warped, rank: usize) -> Self {
        let n = covariance.len();
        Self { covariance, residual: vec![covariance.variance(); n], columns: Array2::zeros((rank, n)) }
    }

    fn eliminate(&mut self, pivot: usize, step: usize) -> Result<(), GpError> {
        let n = self.residual.len();
        // For this particle the row may be known already, though not on average.
        let height = self.residual[pivot];
        self.residual[pivot] = 0.0;
        if height <= NOTHING * self.covariance.variance() {
            return Ok(());
        }
        let at = self.covariance.select(&[pivot])?;
        let mut column = Array2::zeros((n, 1));
        self.covariance.tile(0, &at, column.view_mut())?;
        let before: ArrayView2<'_, f64> = self.columns.slice(s![..step, ..]);
        let mut column = column.remove_axis(ndarray::Axis(1));
        for row in before.outer_iter() {
            column.scaled_add(-row[pivot], &row);
        }
        column /= height.sqrt();
        for (residual, value) in self.residual.iter_mut().zip(&column) {
            *residual = (*residual - value * value).max(0.0);
        }
        self.residual[pivot] = 0.0;
        self.columns.row_mut(step).assign(&column);
        Ok(())
    }
}

fn mean_residual(all: &[Partial<'_>], n: usize) -> Vec<f64> {
    let mut mean = vec![0.0; n];
    for partial in all {
        mean.iter_mut().zip(&partial.residual).for_each(|(mean, residual)| *mean += residual / all.len() as f64);
    }
    mean
}

// The first of the largest.
fn largest(values: &[f64]) -> Option<usize> {
    (0..values.len()).reduce(|best, index| if values[index] > values[best] { index } else { best })
}
