//! What a sparse model pays for the variance that its inducing points leave unexplained: the forms of the bound.
//!
//! With tᵢ = k(xᵢ,xᵢ) − ‖vᵢ‖², the unexplained variance of row i, T = Σ tᵢ and ℓ = log N(y | 0, Q + γ²I):
//!
//! | form | bound | dᵢ |
//! |---|---|---|
//! | `Linear` (Titsias, 2009) | ℓ − T/2γ² | 1/γ² |
//! | `Trace` (Artemev et al., 2021) | ℓ − (n/2) log(1 + T/nγ²) | 1/(γ² + T/n) |
//! | `Tight` (Titsias, 2025) | ℓ − ½ Σ log(1 + tᵢ/γ²) | 1/(γ² + tᵢ) |
//!
//! each of which is at least as large as the one before it. A derivative of any of them by tᵢ is −½dᵢ, so that with
//! D = diag(d)
//!
//! ```text
//! by V: V D    by K_mm: −½ L⁻ᵀ V D Vᵀ L⁻¹    by log σ²: −½ Σ dᵢtᵢ    by log γ²: ½ Σ dᵢtᵢ
//! ```
//!
//! is what they add to the derivatives of ℓ.

use ndarray::{Array2, ArrayView1};

use super::state::State;
use super::sums::Sums;
use crate::gp::kernel::Covariance;
use crate::gp::linalg::panels::{LANES, Lane, squares};
use crate::gp::linalg::{Gram, RowSum, dot};

/// The form of the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Penalty {
    /// F_V.
    #[default]
    Linear,
    /// By the trace alone.
    Trace,
    /// Row by row.
    Tight,
}

impl Penalty {
    /// Whether every row has a weight of its own, and has to be whitened to know it.
    pub fn by_rows(self) -> bool {
        self == Self::Tight
    }
}

impl<C: Covariance> State<C> {
    // T/γ².
    fn unexplained(&self) -> f64 {
        let trace: f64 = self.w().diag().iter().sum();
        (self.weight() * self.inducing().variance() - trace) / self.level().noise
    }

    /// The bound in the form that was asked for. By rows it needs a pass that has seen these inducing points: after points
    /// came or went it is the form by the trace, which is below it.
    pub fn objective(&self) -> f64 {
        let n = self.n() as f64;
        match (self.penalty(), self.row_sums()) {
            (Penalty::Linear, _) => self.bound(),
            (Penalty::Tight, Some(rows)) => self.log_likelihood() - 0.5 * rows.log,
            (Penalty::Trace | Penalty::Tight, _) => self.log_likelihood() - 0.5 * n * (self.unexplained() / n).ln_1p(),
        }
    }

    /// dᵢ, where it is the same for all rows.
    pub(crate) fn common_weight(&self) -> Option<f64> {
        let noise = self.level().noise;
        match self.penalty() {
            Penalty::Linear => Some(1.0 / noise),
            Penalty::Tight if self.row_sums().is_some() => None,
            Penalty::Trace | Penalty::Tight => Some(1.0 / (noise * (1.0 + self.unexplained() / self.n() as f64))),
        }
    }

    /// γ²dᵢ of all rows alike; 0 where each has its own.
    pub(crate) fn common_share(&self) -> f64 {
        match self.penalty() {
            Penalty::Linear => 1.0,
            _ => self.common_weight().map_or(0.0, |weight| weight * self.level().noise),
        }
    }

    /// How rows, with their factors: `[n]`, are weighed, where each has its own weight.
    pub(crate) fn row_weights<'a>(&self, factors: Option<&'a [f64]>) -> Option<RowWeights<'a>> {
        let weights = RowWeights { variance: self.inducing().variance(), noise: self.level().noise, factors };
        self.common_weight().is_none().then_some(weights)
    }

    /// Σ dᵢtᵢ.
    pub(super) fn pull(&self) -> f64 {
        let unexplained = self.unexplained();
        match (self.penalty(), self.row_sums()) {
            (Penalty::Linear, _) => unexplained,
            (Penalty::Tight, Some(rows)) => rows.pull,
            (Penalty::Trace | Penalty::Tight, _) => unexplained / (1.0 + unexplained / self.n() as f64),
        }
    }

    /// V D Vᵀ, `[m, m]`.
    pub(crate) fn weighed(&self) -> Array2<f64> {
        match (self.penalty(), self.row_sums(), self.common_weight()) {
            (Penalty::Tight, Some(rows), _) => rows.vdv.clone(),
            (Penalty::Linear, ..) | (_, _, None) => &self.w() / self.level().noise,
            (_, _, Some(weight)) => &self.w() * weight,
        }
    }

    /// Twice what it is worth that inducing points explain more·γ² of what they do not explain now; where rows have
    /// weights of their own, what it would be worth by the trace alone.
    pub(crate) fn price(&self, more: f64) -> f64 {
        let n = self.n() as f64;
        match self.penalty() {
            Penalty::Linear => more,
            Penalty::Trace | Penalty::Tight => {
                let now = self.unexplained() / n;
                -n * (-(more / n) / (1.0 + now)).ln_1p()
            }
        }
    }
}

/// The level at which rows are weighed: variance σ² and noise γ².
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowWeights<'a> {
    pub variance: f64,
    pub noise: f64,
    /// What rows are multiplied by, `[n]`, where they differ in their noise.
    pub factors: Option<&'a [f64]>,
}

impl RowWeights<'_> {
    /// tᵢ of a row with qᵢ = ‖vᵢ‖², and dᵢ.
    pub fn of(&self, row: usize, q: f64) -> (f64, f64) {
        let variance = self.factors.map_or(self.variance, |factors| self.variance * factors[row] * factors[row]);
        let left = variance - q;
        (left, 1.0 / (self.noise + left))
    }

    /// The same for a whitened row vᵢ.
    pub fn of_row(&self, row: usize, v: ArrayView1<'_, f64>) -> (f64, f64) {
        self.of(row, v.as_slice().map_or(f64::NAN, |v| dot(v, v)))
    }
}

/// Sums over rows that have a weight of their own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RowSums {
    /// Σ log(1 + tᵢ/γ²).
    pub log: f64,
    /// Σ dᵢtᵢ.
    pub pull: f64,
    /// V D Vᵀ, `[m, m]`.
    pub vdv: Array2<f64>,
}

impl RowSums {
    /// Sums over no rows, for m inducing points.
    pub fn zeros(m: usize) -> Self {
        Self { log: 0.0, pull: 0.0, vdv: Array2::zeros((m, m)) }
    }

    /// Adds a row with its qᵢ = ‖vᵢ‖², but for its part of V D Vᵀ; dᵢ.
    pub fn weigh(&mut self, weights: &RowWeights<'_>, row: usize, q: f64) -> f64 {
        let (left, weight) = weights.of(row, q);
        self.log += (left / weights.noise).ln_1p();
        self.pull += weight * left;
        weight
    }
}

impl RowSum for RowSums {
    fn numbers(&mut self) -> Vec<&mut [f64]> {
        let mut all = self.log.numbers();
        all.extend(self.pull.numbers());
        all.extend(self.vdv.numbers());
        all
    }
}

/// The sums of a pass over the rows, from panels of eight as they come.
pub(crate) struct PassSums<'a> {
    gram: Gram,
    // Where rows have weights: those, their sums, V D Vᵀ, and room for a panel.
    weighed: Option<(RowWeights<'a>, RowSums, Gram, Vec<Lane>)>,
}

impl<'a> PassSums<'a> {
    /// No rows yet, for m inducing points.
    pub fn new(m: usize, penalty: Penalty, weights: RowWeights<'a>) -> Self {
        let weighed = penalty.by_rows().then(|| (weights, RowSums::zeros(0), Gram::new(m), vec![[0.0; LANES]; m]));
        Self { gram: Gram::new(m), weighed }
    }

    /// Adds up to eight whitened rows, from `first` on, with their y: `[b]`.
    pub fn add(&mut self, first: usize, v: &mut [Lane], y: ArrayView1<'_, f64>) {
        self.gram.add(v, y);
        let Some((weights, sums, gram, room)) = &mut self.weighed else { return };
        let q = squares(&v[..room.len()]);
        let mut roots = [0.0; LANES];
        for (i, (root, q)) in roots.iter_mut().zip(q).take(y.len()).enumerate() {
            *root = sums.weigh(weights, first + i, q).sqrt();
        }
        for (to, from) in room.iter_mut().zip(v.iter()) {
            *to = std::array::from_fn(|i| from[i] * roots[i]);
        }
        gram.add(room, y);
    }

    pub fn finish(self) -> Sums {
        let rows = self.weighed.map(|(_, sums, gram, _)| RowSums { vdv: gram.finish().0, ..sums });
        let (w, vy) = self.gram.finish();
        Sums { w, vy, rows }
    }
}
