//! Hidden layers that start where those of an earlier model are.

use ndarray::{Array2, ArrayView1, ArrayView2, Axis};
use rayon::prelude::*;

use super::em::DeepFit;
use super::model::DeepGp;
use super::options::{Architecture, DeepOptions};
use super::problem::{DeepProblem, SupportPoints};
use super::sampler::Chain;
use super::start::pivot_rows;
use super::target::LogDensity;
use super::top::Start;
use crate::gp::GpError;
use crate::gp::kernel::{Hyper, Hyperparameters};
use crate::gp::observer::{Observer, Phase};
use crate::gp::random::StreamKey;
use crate::gp::row_noise::RowNoise;
use crate::gp::scaling::Rescaling;
use crate::gp::sparse::{self, JITTER, SparseOptions};
use crate::gp::team::for_each_of;
use crate::gp::warm::{WarmStart, nearest_rows};

/// By how much hidden layers may change at an anchor at the price of one unit of ξ, as shares of the correlation length
/// above them. The units have changed a little, and a covariance that is nearly singular makes much of that.
const TOLERANCES: [f64; 6] = [0.0, 1e-4, 1e-3, 3e-3, 1e-2, 1e-1];
/// What a looser fit must gain in log density before it is taken: it would be smoother than the layers were.
const WORTH: f64 = 1.0;
/// The one that neighbours are looked for with before the others are compared.
const USUAL: usize = 2;

/// The hidden layers of an earlier model.
#[derive(Debug, Clone)]
pub struct DeepStart {
    gp: Box<DeepGp>,
    units: Rescaling,
}

impl DeepStart {
    /// Those of this model, for rows in other units.
    pub fn new(gp: DeepGp, units: Rescaling) -> Self {
        Self { gp: Box::new(gp), units }
    }

    /// Hyper-parameters of the top layer, in the units of the new rows.
    pub fn hyper(&self) -> Hyper {
        let hyper = &self.gp.parts().hyper;
        Hyper {
            variance: self.units.variance(hyper.variance),
            lengths: hyper.lengths.iter().map(|length| length * self.length_of_top()).collect(),
            noise: self.units.variance(hyper.noise),
        }
    }

    /// The factor of a length between values of the last hidden layer.
    pub fn length_of_top(&self) -> f64 {
        let design = self.gp.design();
        match design.architecture {
            Architecture::Composition if design.projection.is_none() => self.units.length(),
            Architecture::Injective => self.units.length(),
            // Directions have no unit of one feature, and local lengths are units themselves.
            Architecture::Composition | Architecture::Convolution => 1.0,
        }
    }

    /// Features of the inducing points, `[m, d]`; empty without them.
    pub fn inducing(&self) -> Array2<f64> {
        let parts = self.gp.parts();
        let top = parts.numbers.get("top").filter(|_| !parts.inducing.is_empty());
        top.map_or_else(|| Array2::zeros((0, 0)), |x| self.units.to_new(x.view()))
    }

    // Hyper-parameters of the stationary model that its layers were built around.
    fn start(&self, given: &Hyperparameters) -> Hyper {
        let (hyper, design) = (self.hyper(), self.gp.design());
        let variance = self.gp.interpolated_variance().map_or(hyper.variance, |found| self.units.variance(found));
        let length = given.length.unwrap_or(design.start_length * self.units.length());
        Hyper::isotropic(given.variance.unwrap_or(variance), length, given.noise.unwrap_or(hyper.noise))
    }

    // Rows of x: [n, d] at which cross approximation can be anchored as it was, if there are no more of them than `most`.
    fn pivots(&self, x: ArrayView2<'_, f64>, most: usize) -> Option<Vec<usize>> {
        let anchors = self.gp.parts().numbers.get("anchors").filter(|anchors| anchors.nrows() <= most)?;
        Some(nearest_rows(x, self.units.to_new(anchors.view()).view()))
    }

    // The values of all hidden layers at x: [k, d], `[k, D]` each, as one of so many particles is to see them.
    fn values(&self, x: ArrayView2<'_, f64>, particle: usize, count: usize) -> Result<Vec<Array2<f64>>, GpError> {
        let kept = self.gp.component_count();
        // Of several states of each chain the last; again from the first where there are too few.
        let state = if kept >= count { (particle + 1) * kept / count - 1 } else { particle % kept.max(1) };
        let found = self.gp.layer_values(state, self.units.to_old(x).view())?;
        let design = self.gp.design();
        let in_new_units = |values: Array2<f64>| match design.architecture {
            Architecture::Composition if design.projection.is_none() => self.units.to_new(values.view()),
            Architecture::Convolution => values * self.units.length(),
            Architecture::Composition | Architecture::Injective => values,
        };
        Ok(found.into_iter().map(in_new_units).collect())
    }
}

/// What is sampled, with the hyper-parameters, inducing points and pivots of an earlier model.
pub(super) fn problem(
    (x, y, noise): (ArrayView2<'_, f64>, ArrayView1<'_, f64>, &RowNoise),
    options: &DeepOptions,
    (warm, deep): (&WarmStart, &DeepStart),
    key: &StreamKey,
    observer: &mut dyn Observer,
) -> Result<DeepProblem, GpError> {
    let given = options.start.hyperparameters();
    let start = deep.start(given);
    let (inducing, jitter) = match &options.start {
        Start::Sparse(sparse) => {
            // Where hidden layers change nothing, the stationary model says which points are missing.
            let stationary = WarmStart { hyper: start.clone(), deep: None, ..warm.clone() };
            let sparse = SparseOptions { penalty: options.objective().penalty(), ..sparse.clone() };
            sparse::rows_from((x, y, noise), &sparse, &stationary, key, observer)?
        }
        Start::Exact(_) | Start::Neighbours(_) => (Vec::new(), JITTER),
    };
    let representation = options.layers.hidden.representation();
    let pivots = representation.cross().and_then(|cross| deep.pivots(x, cross.rank as usize));
    let pivots = pivots.ok_or_else(|| pivot_rows(key, x.nrows()));
    let jitter = jitter.max(deep.gp.parts().diagnostics.jitter);
    let points = SupportPoints { inducing, pivots, jitter };
    let mut problem = DeepProblem::within((x, y, noise), options, &start, points, observer.memory())?;
    problem.set_hyper(warm.hyper(given, 1));
    Ok(problem)
}

impl DeepFit<'_> {
    /// Chains that start where those of an earlier model ended.
    pub(super) fn warm_chains(&mut self, deep: &DeepStart, observer: &mut dyn Observer) -> Result<Vec<Chain>, GpError> {
        observer.phase(Phase::Condition);
        let x = self.problem.rows.x.select(Axis(0), self.problem.anchors());
        let count = self.options.em.particles as usize;
        let problem = &self.problem;
        let fits: Vec<Vec<Vec<Array2<f64>>>> = (0..count)
            .into_par_iter()
            .map(|particle| problem.near(&deep.values(x.view(), particle, count)?))
            .collect::<Result<_, GpError>>()?;
        let usual: Vec<&[Array2<f64>]> = fits.iter().map(|fits| fits[USUAL.min(fits.len() - 1)].as_slice()).collect();
        self.problem.refresh_neighbours(self.options, self.key, &usual)?;
        let problem = &self.problem;
        let fits = fits.into_iter().enumerate().collect();
        let best = for_each_of(fits, |(particle, fits)| problem.likeliest(particle, fits))?;
        Ok(best.into_iter().map(|xi| Chain::new(xi.clone(), self.sampler().start(xi.len()))).collect())
    }
}

impl DeepProblem {
    // ξ at which hidden layers have about these values at the anchors; several, and that of the stationary model.
    fn near(&self, values: &[Array2<f64>]) -> Result<Vec<Vec<Array2<f64>>>, GpError> {
        let scale = match self.design.architecture {
            Architecture::Composition => self.hyper.lengths[0],
            Architecture::Convolution => self.design.start_length,
            Architecture::Injective => 1.0,
        };
        let mut fits = Vec::with_capacity(TOLERANCES.len() + 1);
        for share in TOLERANCES {
            match self.hidden.whiten_near(&self.design, values, (share * scale).powi(2)) {
                Ok(xi) => fits.push(xi),
                Err(error) if error.is_recoverable() => {}
                Err(error) => return Err(error),
            }
        }
        fits.push(self.start_xi()?);
        Ok(fits)
    }

    // The closest of them, unless others are clearly better by the density and by the prior: one that is no longer than its
    // draws may be costs nothing.
    fn likeliest(&self, particle: usize, fits: Vec<Vec<Array2<f64>>>) -> Result<Vec<Array2<f64>>, GpError> {
        let target = self.target_of(particle);
        let mut best: Option<(f64, Vec<Array2<f64>>)> = None;
        let mut failed = None;
        for xi in fits {
            let (entries, squares) =
                xi.iter().flatten().fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + value * value));
            match target.value(&xi) {
                Ok(at) => {
                    let usual = 2.0f64.mul_add((2.0_f64 * entries).sqrt(), entries);
                    let height = at.sampled - 0.5 * (squares - usual).max(0.0);
                    if best.as_ref().is_none_or(|(best, _)| height > best + WORTH) {
                        best = Some((height, xi));
                    }
                }
                Err(error) if error.is_recoverable() => failed = Some(error),
                Err(error) => return Err(error),
            }
        }
        best.map(|(_, xi)| xi).ok_or_else(|| failed.unwrap_or_else(|| GpError::shape("no hidden layers to start from")))
    }
}
