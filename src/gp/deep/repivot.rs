//! New pivots for what the top covariance has become, with hidden layers that stay what they are.

use std::sync::Arc;

use ndarray::Array2;

use super::hidden::{HiddenLayers, SomeRows};
use super::options::Architecture;
use super::problem::{DeepProblem, raising};
use super::target::{LogDensity, Target};
use super::warped::Warped;
use crate::gp::GpError;
use crate::gp::sparse::Level;
use crate::gp::team::for_each_of;

/// By how much hidden layers may change at a row at the price of one unit of ξ, as shares of the correlation length above
/// them. Which is best depends on how much the data say of the layers, so all are tried.
const TOLERANCES: [f64; 7] = [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1];

impl DeepProblem {
    /// Chooses new pivots for what the top covariance has become, looking at the rows `seen`, and ξ such that hidden layers
    /// stay what they are as far as new pivots allow it: of several fits to the old layers, for each particle the one that
    /// costs least. Nothing changes, and the answer is `false`, if that is more than `most` on average.
    ///
    /// A loss of log density counts, and so does a longer ξ, by the prior. A shorter one makes up for nothing: length that
    /// the data do not ask for comes back by itself.
    pub fn repivot(&mut self, seen: &[usize], all_xi: Vec<&mut Vec<Array2<f64>>>, most: f64) -> Result<bool, GpError> {
        let representation = Arc::clone(&self.hidden.representation);
        let Some(cross) = representation.cross() else { return Ok(false) };
        let members: Vec<Warped> =
            for_each_of(all_xi.iter().collect(), |xi: &&mut Vec<Array2<f64>>| self.top_covariance(xi, seen))?;
        let pivots = cross.choose_pivots(&members, seen)?;
        drop(members);
        let (new, jitter) = raising(self.jitter, |jitter| self.anchored((&[], &pivots), jitter))?;
        let at_seen = self.hidden.list(&self.design, &self.rows, seen)?;
        let moved: Vec<(Vec<Array2<f64>>, f64)> =
            for_each_of(all_xi.iter().enumerate().collect(), |(particle, xi): (usize, &&mut Vec<Array2<f64>>)| {
                self.moved_to((&new, jitter), &at_seen, particle, xi)
            })?;
        let cost = moved.iter().map(|(_, cost)| cost).sum::<f64>() / moved.len().max(1) as f64;
        if cost > most || cost.is_nan() {
            return Ok(false);
        }
        all_xi.into_iter().zip(moved).for_each(|(xi, (moved, _))| *xi = moved);
        (self.hidden, self.jitter, self.pivots) = (new, jitter, pivots);
        self.list_inducing()?;
        Ok(true)
    }

    // ξ of a particle with other pivots, and what that costs.
    fn moved_to(
        &self,
        (new, jitter): (&HiddenLayers, f64),
        seen: &SomeRows<'_>,
        particle: usize,
        xi: &[Array2<f64>],
    ) -> Result<(Vec<Array2<f64>>, f64), GpError> {
        let (design, old) = (&self.design, &self.hidden);
        let before = self.target_of(particle);
        let inducing_rows = new.list(design, &self.rows, &self.inducing)?;
        let target = Target {
            hidden: new,
            inducing_rows: &inducing_rows,
            level: Level { jitter, ..before.level },
            ..before.clone()
        };
        let prepared = old.prepare(design, xi)?;
        let values = old.values(design, &prepared, seen)?;
        let at_anchors = old.values(design, &prepared, &old.list(design, &self.rows, &new.anchors.rows)?)?;
        let scale = match design.architecture {
            Architecture::Composition => self.hyper.lengths[0],
            Architecture::Convolution => design.start_length,
            Architecture::Injective => 1.0,
        };
        let (density, length) = (before.value(xi)?.sampled, squares(xi));
        let cost = |xi: &[Array2<f64>]| {
            Ok::<f64, GpError>(density - target.value(xi)?.sampled + 0.5 * (squares(xi) - length).max(0.0))
        };
        // The first keeps the values at the new pivots.
        let fits = std::iter::once_with(|| new.whiten(design, &at_anchors));
        let fits = fits.chain(TOLERANCES.iter().map(|share| new.refit(design, seen, &values, (share * scale).powi(2))));
        let mut best: Option<(Vec<Array2<f64>>, f64)> = None;
        let mut failed = None;
        for fit in fits {
            match fit.and_then(|xi| Ok((cost(&xi)?, xi))) {
                Ok((cost, xi)) if best.as_ref().is_none_or(|(_, best)| cost < *best) => best = Some((xi, cost)),
                Ok(_) => {}
                Err(error) if error.is_recoverable() => failed = Some(error),
                Err(error) => return Err(error),
            }
        }
        best.ok_or_else(|| failed.unwrap_or_else(|| GpError::shape("no fit of hidden layers")))
    }
}

fn squares(xi: &[Array2<f64>]) -> f64 {
    xi.iter().flatten().map(|value| value * value).sum()
}
