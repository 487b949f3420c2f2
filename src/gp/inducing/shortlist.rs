//! Several points from one pass over all candidates: the most promising ones are kept up to date without further passes.
//!
//! What a candidate would add depends on the points chosen meanwhile only through products of residuals R, and those among
//! a few candidates are found in one short pass. When b has become a point, v = R_b/√s_b and every other residual loses its
//! part along v:
//!
//! ```text
//! τ_j = (k(b, j) − t_b·t_j)/√s_b    t_j ← (t_j, τ_j)    s_j ← s_j − τ_j²    R_j ← R_j − τ_j v
//! ```
//!
//! These are differences: a candidate next to the new point loses digits, and more with every further point. A list serves
//! for a few points.

use ndarray::{Array2, Axis, s};

use super::gains::{COPY, Gains, residual_tiles};
use crate::gp::GpError;
use crate::gp::kernel::{Covariance, square};
use crate::gp::linalg::{add_gram, mirror_lower};
use crate::gp::sparse::State;

/// Some candidates, with the gains that they have now.
#[derive(Debug, Clone)]
pub struct Shortlist {
    gains: Gains,
    // Covariances among them, [P, P].
    k: Array2<f64>,
    // R Rᵀ, [P, P].
    rr: Array2<f64>,
    copies: Vec<bool>,
}

impl Shortlist {
    /// The candidates number `indices` of `all`, which were found for the model `state`. One pass over the rows, O(n m P).
    pub fn new<C: Covariance>(
        covariance: &C,
        state: &State<C>,
        all: &Gains,
        indices: &[usize],
    ) -> Result<Self, GpError> {
        let gains = all.select(indices);
        let tried = covariance.select(gains.candidates())?;
        let count = indices.len();
        let mut rr = residual_tiles(
            covariance,
            state,
            (gains.t.view(), std::slice::from_ref(&tried)),
            count * count,
            || Array2::zeros((count, count)),
            |part, _, _, _, r| add_gram(r.view(), part.view_mut()),
        )?;
        mirror_lower(&mut rr);
        let copies = gains.values().iter().map(|value| *value == f64::NEG_INFINITY).collect();
        Ok(Self { k: square(&tried)?, rr, copies, gains })
    }

    /// ΔF_V of each, `[P]`; −∞ for those that are points by now, and repetitions of them.
    pub fn values(&self) -> &[f64] {
        self.gains.values()
    }

    /// Makes candidate number `b` an inducing point; no pass over the rows.
    pub fn append<C: Covariance>(&mut self, covariance: &C, state: &mut State<C>, b: usize) -> Result<(), GpError> {
        self.gains.append(covariance, state, b)?;
        let Self { gains, k, rr, copies } = self;
        let tau = gains.project_out(b, k.row(b), rr.row(b));
        // R_j ← R_j − τ_j R_b/√s_b, in the products of all pairs.
        let (along, own) = (&rr.row(b) / tau.root, rr[[b, b]] / (tau.root * tau.root));
        for ((i, j), value) in rr.indexed_iter_mut() {
            *value += tau.values[i] * tau.values[j] * own - tau.values[i] * along[j] - tau.values[j] * along[i];
        }
        let variance = covariance.variance();
        copies.iter_mut().zip(k.row(b)).for_each(|(copy, k)| *copy |= *k >= COPY * variance);
        gains.renew(state, variance, copies)
    }
}

/// Numbers of the largest values, at most so many, and the largest that is left out.
pub(super) fn largest(values: &[f64], count: usize) -> (Vec<usize>, f64) {
    let mut order: Vec<usize> = (0..values.len()).filter(|i| values[*i].is_finite()).collect();
    // Stable: of equal values the first comes first.
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
    let left_out = order.get(count).map_or(f64::NEG_INFINITY, |i| values[*i]);
    order.truncate(count);
    order.sort_unstable();
    (order, left_out)
}

/// What a new point takes from the other candidates.
pub(super) struct Projection {
    /// τ, `[P]`.
    pub values: Vec<f64>,
    pub root: f64,
}

impl Gains {
    fn select(&self, indices: &[usize]) -> Self {
        Self {
            candidates: indices.iter().map(|i| self.candidates[*i]).collect(),
            values: indices.iter().map(|i| self.values[*i]).collect(),
            t: self.t.select(Axis(0), indices),
            s: indices.iter().map(|i| self.s[*i]).collect(),
            sums: self.sums.select(indices),
        }
    }

    // k and rr: [P], covariances and products of residuals with the new point b.
    fn project_out(
        &mut self,
        b: usize,
        k: ndarray::ArrayView1<'_, f64>,
        rr: ndarray::ArrayView1<'_, f64>,
    ) -> Projection {
        let (count, m) = self.t.dim();
        let root = self.s[b].sqrt();
        let products = self.t.dot(&self.t.row(b));
        // The point itself: its variance has the jitter, and all of it goes.
        let tau = |j: usize| if j == b { root } else { (k[j] - products[j]) / root };
        let values: Vec<f64> = (0..count).map(tau).collect();
        let (vv, v_v, vy) = (rr[b] / (root * root), &self.sums.rv.row(b) / root, self.sums.ry[b] / root);
        let (mut t, mut rv) = (Array2::zeros((count, m + 1)), Array2::zeros((count, m + 1)));
        for (j, tau) in values.iter().enumerate() {
            t.slice_mut(s![j, ..m]).assign(&self.t.row(j));
            t[[j, m]] = *tau;
            let along = rr[j] / root;
            let mut row = rv.slice_mut(s![j, ..m]);
            row.assign(&self.sums.rv.row(j));
            row.scaled_add(-tau, &v_v);
            rv[[j, m]] = along - tau * vv;
            self.s[j] -= tau * tau;
            self.sums.rr[j] += tau * (tau * vv - 2.0 * along);
            self.sums.ry[j] -= tau * vy;
        }
        (self.t, self.sums.rv) = (t, rv);
        Projection { values, root }
    }
}
