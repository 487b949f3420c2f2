//! By how much each candidate would raise the bound: one pass over the rows for all of them.
//!
//! With t = L⁻¹k_m(z), s = k(z,z) + jitter − ‖t‖² and the residual R = K_Jn − TᵀV, formed tile by tile, v = R_z/√s is
//! the row that z would add to V, and
//!
//! ```text
//! h = L_B⁻¹ V v/γ²    δ = 1 + v·v/γ² − ‖h‖²    e = v·y/γ² − hᵀc
//! ΔF_V = −½ log δ + ½ e²/δ + v·v/2γ²
//! ```
//!
//! Other forms of the bound differ in the last term, see [`State::price`]: the form by the trace is as exact; the one that
//! weighs rows one by one would need a pass for every candidate, and they are compared by the trace instead.
//!
//! R is subtracted entry by entry on purpose: expanding ‖R_z‖² loses six digits on ordinary data.

use std::ops::Range;

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, ArrayViewMut2, Axis, s};

use crate::gp::GpError;
use crate::gp::kernel::Covariance;
use crate::gp::linalg::{
    RowSum, Side, TILE, Triangle, add_all, dot, for_row_blocks, gemm_nt, gemm_tn, solve_triangular, sum_rows, tiles,
};
use crate::gp::sparse::{Addition, State, add_product};

/// Candidates whose residuals are formed together: with [`TILE`] rows, what a second-level cache holds.
const BLOCK: usize = 128;
/// A candidate is explained by the inducing points when they leave less than this share of its variance.
const EXPLAINED: f64 = 1e-10;
/// A candidate is a copy of an inducing point when their correlation is 1 but for rounding. Its variance does not tell:
/// the jitter of the inducing point makes the copy look up to 1e-8 away.
pub(super) const COPY: f64 = 1.0 - 4.0 * f64::EPSILON;

/// What one pass over the rows found about some candidates.
#[derive(Debug, Clone)]
pub struct Gains {
    /// The rows that were tried, `[J]`.
    pub(super) candidates: Vec<usize>,
    /// ΔF_V, `[J]`; −∞ for repetitions.
    pub(super) values: Vec<f64>,
    /// T, `[J, m]`.
    pub(super) t: Array2<f64>,
    /// s, `[J]`.
    pub(super) s: Vec<f64>,
    pub(super) sums: Residuals,
}

// Sums over all rows: R V [J, m], ‖R‖² [J], R y [J].
#[derive(Debug, Clone)]
pub(super) struct Residuals {
    pub rv: Array2<f64>,
    pub rr: Array1<f64>,
    pub ry: Array1<f64>,
}

impl Gains {
    /// Tries the rows `candidates`; y: `[n]`. One pass over the rows, O(n m J).
    pub fn new<C: Covariance>(
        covariance: &C,
        y: ArrayView1<'_, f64>,
        state: &State<C>,
        candidates: &[usize],
    ) -> Result<Self, GpError> {
        let m = state.len();
        let tried = covariance.select(candidates)?;
        let mut t = Array2::zeros((candidates.len(), m));
        for_row_blocks(&mut t, BLOCK, |first, rows| tried.tile(first, state.inducing(), rows))?;
        let (variance, jitter) = (covariance.variance(), state.jitter());
        let copies: Vec<bool> = t.outer_iter().map(|k| k.iter().any(|k| *k >= COPY * variance)).collect();
        for_row_blocks(&mut t, BLOCK, |_, rows| solve_triangular(Side::RightTransposed, state.lower(), rows))?;
        let s: Vec<f64> = t.outer_iter().map(|t| variance + jitter - squared(t)).collect();
        let blocks: Vec<C> = (0..candidates.len())
            .step_by(BLOCK)
            .map(|first| tried.select(&(first..(first + BLOCK).min(candidates.len())).collect::<Vec<_>>()))
            .collect::<Result<_, GpError>>()?;
        let sums = residuals(covariance, y, state, t.view(), &blocks)?;
        let mut gains = Self { candidates: candidates.to_vec(), values: Vec::new(), t, s, sums };
        gains.renew(state, variance, &copies)?;
        Ok(gains)
    }

    /// Finds the values anew, from everything else.
    pub(super) fn renew<C: Covariance>(
        &mut self,
        state: &State<C>,
        variance: f64,
        copies: &[bool],
    ) -> Result<(), GpError> {
        self.values = self.evaluate(state, state.jitter() + EXPLAINED * variance)?;
        self.values.iter_mut().zip(copies).filter(|(_, copy)| **copy).for_each(|(value, _)| *value = f64::NEG_INFINITY);
        Ok(())
    }

    /// The rows that were tried, `[J]`.
    pub fn candidates(&self) -> &[usize] {
        &self.candidates
    }

    /// ΔF_V of each, `[J]`; −∞ for repetitions of inducing points, which are not to be chosen.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Makes candidate number `index` an inducing point; no pass over the rows.
    pub fn append<C: Covariance>(&self, covariance: &C, state: &mut State<C>, index: usize) -> Result<(), GpError> {
        if index >= self.candidates.len() || self.t.ncols() != state.len() {
            return Err(GpError::shape(format!("candidate {index} of {}", self.candidates.len())));
        }
        let (s, root) = (self.s[index], self.s[index].sqrt());
        let addition = Addition {
            t: self.t.row(index),
            s,
            v_v: &self.sums.rv.row(index) / root,
            vv: self.sums.rr[index] / s,
            vy: self.sums.ry[index] / root,
        };
        state.append(covariance, self.candidates[index], &addition)
    }

    fn evaluate<C: Covariance>(&self, state: &State<C>, least: f64) -> Result<Vec<f64>, GpError> {
        let noise = state.level().noise;
        let mut h = self.sums.rv.clone();
        for (mut row, s) in h.outer_iter_mut().zip(&self.s) {
            row /= s.max(f64::MIN_POSITIVE).sqrt() * noise;
        }
        for_row_blocks(&mut h, BLOCK, |_, rows| solve_triangular(Side::RightTransposed, state.lower_b(), rows))?;
        let c = state.c();
        let gain = |j: usize| {
            if self.s[j] <= least || state.rows().contains(&self.candidates[j]) {
                return f64::NEG_INFINITY;
            }
            let h = h.row(j);
            let vv = self.sums.rr[j] / self.s[j] / noise;
            let delta = 1.0 + vv - squared(h);
            let e = self.sums.ry[j] / self.s[j].sqrt() / noise - product(h, c);
            let gain = 0.5 * (e * e / delta - delta.ln() + state.price(vv));
            if gain.is_finite() { gain } else { f64::NEG_INFINITY }
        };
        Ok((0..self.candidates.len()).map(gain).collect())
    }
}

fn residuals<C: Covariance>(
    covariance: &C,
    y: ArrayView1<'_, f64>,
    state: &State<C>,
    t: ArrayView2<'_, f64>,
    blocks: &[C],
) -> Result<Residuals, GpError> {
    let (count, m) = t.dim();
    residual_tiles(
        covariance,
        state,
        (t, blocks),
        count * (m + 2),
        || Residuals::zeros(count, m),
        |part, columns, rows, v, r| {
            if m > 0 {
                gemm_tn(1.0, r.view(), v, 1.0, part.rv.slice_mut(s![columns.clone(), ..]))?;
            }
            add_columns(part, columns.start, r, y.slice(s![rows]));
            Ok(())
        },
    )
}

/// Residuals R of candidates in blocks of at most 128, tile by tile: `work` gets a partial result, the numbers of the block's
/// candidates, the rows, V: `[b, m]` and R: `[b, block]`. A partial result holds `size` numbers; the sum of all is returned.
pub(super) fn residual_tiles<C: Covariance, A: RowSum>(
    covariance: &C,
    state: &State<C>,
    (t, blocks): (ArrayView2<'_, f64>, &[C]),
    size: usize,
    zero: impl Fn() -> A + Sync,
    work: impl Fn(&mut A, Range<usize>, Range<usize>, ArrayView2<'_, f64>, ArrayViewMut2<'_, f64>) -> Result<(), GpError>
    + Sync,
) -> Result<A, GpError> {
    let (m, lower) = (t.ncols(), Triangle::new(state.lower())?);
    let widest = blocks.iter().map(C::len).max().unwrap_or(0);
    sum_rows(covariance.span(), size, &zero, |rows| {
        let mut part = zero();
        let tile = rows.len().min(TILE);
        let (mut whitened, mut residual) = (Array2::zeros((tile, m)), Array2::zeros((tile, widest)));
        for rows in tiles(rows) {
            let mut v = whitened.slice_mut(s![..rows.len(), ..]);
            let at_tile = covariance.at(&rows)?;
            let (here, first) = at_tile.as_ref().map_or((covariance, rows.start), |tile| (tile, 0));
            here.whitened(first, state.inducing(), &lower, v.view_mut())?;
            for (number, block) in blocks.iter().enumerate() {
                let columns = number * BLOCK..number * BLOCK + block.len();
                let mut r = residual.slice_mut(s![..rows.len(), ..block.len()]);
                here.tile(first, block, r.view_mut())?;
                if m > 0 {
                    gemm_nt(-1.0, v.view(), t.slice(s![columns.clone(), ..]), 1.0, r.view_mut())?;
                }
                work(&mut part, columns, rows.clone(), v.view(), r)?;
            }
        }
        Ok(part)
    })
}

// Adds ‖R‖² and R y of a block of candidates, r: [b, block], y: [b].
fn add_columns(part: &mut Residuals, first: usize, mut r: ArrayViewMut2<'_, f64>, y: ArrayView1<'_, f64>) {
    let columns = first..first + r.ncols();
    let mut ry = Array1::zeros(r.ncols());
    add_product(&mut ry, r.view(), y);
    add_all(part.ry.slice_mut(s![columns.clone()]), &ry);
    r.mapv_inplace(|r| r * r);
    let mut rr = part.rr.slice_mut(s![columns]);
    for row in r.axis_iter(Axis(0)) {
        rr += &row;
    }
}

impl RowSum for Residuals {
    fn numbers(&mut self) -> Vec<&mut [f64]> {
        let mut all = self.rv.numbers();
        all.extend(self.rr.numbers());
        all.extend(self.ry.numbers());
        all
    }
}

impl Residuals {
    /// Those of some candidates.
    pub fn select(&self, indices: &[usize]) -> Self {
        let of = |all: &Array1<f64>| all.select(Axis(0), indices);
        Self { rv: self.rv.select(Axis(0), indices), rr: of(&self.rr), ry: of(&self.ry) }
    }

    fn zeros(count: usize, m: usize) -> Self {
        Self { rv: Array2::zeros((count, m)), rr: Array1::zeros(count), ry: Array1::zeros(count) }
    }
}

fn squared(a: ArrayView1<'_, f64>) -> f64 {
    product(a, a)
}

fn product(a: ArrayView1<'_, f64>, b: ArrayView1<'_, f64>) -> f64 {
    dot(a.as_slice().unwrap_or_default(), b.as_slice().unwrap_or_default())
}
