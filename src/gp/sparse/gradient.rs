//! F_V with its gradient in the logarithms of the hyper-parameters.
//!
//! With β̃ = B⁻¹Vy/γ², P = I − B⁻¹ − β̃β̃ᵀ and S = B − 2I + B⁻¹ + β̃β̃ᵀ, all `[m, m]`:
//!
//! ```text
//! ∂F/∂V        = (P V + β̃ yᵀ)/γ²        ∂F/∂K_mn = L⁻ᵀ ∂F/∂V        ∂F/∂K_mm = −½ L⁻ᵀ S L⁻¹
//! ∂F/∂log σ²   = ½ [ tr B⁻¹ − m + ‖β̃‖² − (nσ² − tr W)/γ² ]            (the jitter moves with σ²)
//! ∂F/∂log γ²   = ½ [ m − n − tr B⁻¹ + (yᵀy + nσ² − tr W)/γ² − cᵀc − ‖β̃‖² ]
//! ```
//!
//! Other forms of the bound (`penalty.rs`) put V D Vᵀ for W/γ² in S, γ²D for the I of P, and Σ dᵢtᵢ for (nσ² − tr W)/γ².
//!
//! A common length takes one pass: with D = ∂K_mn/∂log λ the sums D Vᵀ and D y are enough. One length per
//! feature takes a second pass, in which ∂F/∂K_mn is formed tile by tile.

use ndarray::{Array2, ArrayView1, ArrayView2, s};

use super::noise_slope::noise_slope;
use super::penalty::{Penalty, RowWeights};
use super::state::{Level, RowTotals, State, factor};
use super::sums::{SlopeSums, sums_with_slope};
use crate::gp::GpError;
use crate::gp::fit_rows::FitRows;
use crate::gp::hyper::Evaluation;
use crate::gp::kernel::{Covariance, Hyper, Kernel, Sloped, Stationary};
use crate::gp::linalg::{Side, TILE, gemm_nt, means_over, solve_triangular, sum_rows, tiles};
use crate::gp::row_noise::RowNoise;

/// F_V and its gradient at one point, and ℓ beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundEvaluation {
    /// Bound, gradient in the order of [`Hyper::to_log`], jitter.
    pub at: Evaluation,
    /// ℓ = log N(y | 0, Q + γ²I).
    pub log_likelihood: f64,
}

/// F_V of x: `[n, d]`, y: `[n]` with the inducing points `rows`, and its gradient.
///
/// `jitter` is relative to σ².
pub fn bound_with_gradient(
    x: ArrayView2<'_, f64>,
    y: ArrayView1<'_, f64>,
    kernel: Kernel,
    hyper: &Hyper,
    rows: &[usize],
    jitter: f64,
) -> Result<BoundEvaluation, GpError> {
    objective_with_gradient((x, y), kernel, hyper, rows, jitter, Penalty::Linear)
}

/// The same for any form of the bound.
pub fn objective_with_gradient(
    (x, y): (ArrayView2<'_, f64>, ArrayView1<'_, f64>),
    kernel: Kernel,
    hyper: &Hyper,
    rows: &[usize],
    jitter: f64,
    penalty: Penalty,
) -> Result<BoundEvaluation, GpError> {
    objective_with_noise((x, y, &RowNoise::default()), kernel, hyper, rows, jitter, penalty)
}

/// The same with noise that differs from row to row.
pub fn objective_with_noise(
    data: (ArrayView2<'_, f64>, ArrayView1<'_, f64>, &RowNoise),
    kernel: Kernel,
    hyper: &Hyper,
    rows: &[usize],
    jitter: f64,
    penalty: Penalty,
) -> Result<BoundEvaluation, GpError> {
    objective_with_rows(&data.into(), kernel, hyper, rows, jitter, penalty)
}

/// The same for the rows that are held of all.
pub(crate) fn objective_with_rows(
    data: &FitRows<'_>,
    kernel: Kernel,
    hyper: &Hyper,
    rows: &[usize],
    jitter: f64,
    penalty: Penalty,
) -> Result<BoundEvaluation, GpError> {
    let FitRows { x, y, noise, span, .. } = data.clone();
    if x.nrows() != y.len() {
        return Err(GpError::shape(format!("{} rows and {} targets", x.nrows(), y.len())));
    }
    let scaled = noise.scaled(y, hyper.noise);
    let y = scaled.as_ref().map_or(y, |scaled| scaled.y.view());
    let factors = scaled.as_ref().map(|scaled| scaled.factors.clone());
    let covariance = Stationary::new(kernel, hyper, x, &means_over(&span, x)?)?.multiplied(factors).of(&span);
    let level = Level { noise: noise.level(hyper.noise), jitter };
    let own = (noise, hyper.noise);
    if hyper.lengths.len() == 1 {
        return objective_of((&covariance, y), rows, (level, penalty), own);
    }
    let state = State::with_penalty(&covariance, y, rows, level, penalty)?;
    let inner = SmallMatrices::new(&state)?;
    let lengths = inner.own_lengths(&state, &covariance, y)?;
    let by_noise = noise_slope(&covariance, y, &state, own)?;
    Ok(LevelGradient::new(&state, &inner, by_noise).with(lengths, jitter * hyper.variance))
}

/// The same for a covariance with one length, and targets y: `[n]`, times its factors; `own` is what is known of the noise
/// of rows, and γ².
pub(crate) fn objective_of<C: Sloped>(
    (covariance, y): (&C, ArrayView1<'_, f64>),
    rows: &[usize],
    (level, penalty): (Level, Penalty),
    own: (&RowNoise, f64),
) -> Result<BoundEvaluation, GpError> {
    let (inducing, lower) = factor(covariance, rows, level)?;
    let (sums, slopes) = sums_with_slope(covariance, &inducing, lower.lower(), y, (level.noise, penalty))?;
    let totals = RowTotals::new(covariance.span(), y, covariance.factors())?;
    let state = State::from_sums(rows, inducing, (lower, sums), totals, level, penalty)?;
    let inner = SmallMatrices::new(&state)?;
    let length = inner.common_length(&state, slopes)?;
    let by_noise = noise_slope(covariance, y, &state, own)?;
    Ok(LevelGradient::new(&state, &inner, by_noise).with(vec![length], level.jitter * covariance.variance()))
}

// What is left of a state once its gradient is known.
struct LevelGradient {
    objective: f64,
    log_likelihood: f64,
    by_variance: f64,
    by_noise: f64,
}

/// ∂F/∂log σ² and ∂F/∂log γ² of the state's objective, for any covariance of rows with targets y: `[n]`, times their factors;
/// what rows have of their noise, and γ².
pub(crate) fn level_gradient<C: Covariance>(
    state: &State<C>,
    (covariance, y): (&C, ArrayView1<'_, f64>),
    noise: (&RowNoise, f64),
) -> Result<(f64, f64), GpError> {
    let by_noise = noise_slope(covariance, y, state, noise)?;
    let finished = LevelGradient::new(state, &SmallMatrices::new(state)?, by_noise);
    Ok((finished.by_variance, finished.by_noise))
}

impl LevelGradient {
    // The derivative by log γ² is not that by the level of all rows where a part of the noise is known.
    fn new<C: Covariance>(state: &State<C>, inner: &SmallMatrices, by_noise: Option<f64>) -> Self {
        let (m, n, noise) = (state.len() as f64, state.n() as f64, state.level().noise);
        let missing = state.pull();
        let trace_inverse: f64 = inner.inverse_b.diag().iter().sum();
        let (beta2, c2) = (state.beta().dot(&state.beta()), state.c().dot(&state.c()));
        Self {
            objective: state.objective(),
            log_likelihood: state.log_likelihood(),
            by_variance: 0.5 * (trace_inverse - m + beta2 - missing),
            by_noise: by_noise.unwrap_or(0.5 * (m - n - trace_inverse + state.yy() / noise + missing - c2 - beta2)),
        }
    }
}

impl LevelGradient {
    // With the derivatives by the lengths.
    fn with(self, lengths: Vec<f64>, jitter: f64) -> BoundEvaluation {
        let mut gradient = vec![self.by_variance];
        gradient.extend(lengths);
        gradient.push(self.by_noise);
        let at = Evaluation { value: self.objective, gradient, jitter };
        BoundEvaluation { at, log_likelihood: self.log_likelihood }
    }
}

// The small matrices of the derivation, [m, m].
struct SmallMatrices {
    inverse_b: Array2<f64>,
    p: Array2<f64>,
    s: Array2<f64>,
}

impl SmallMatrices {
    fn new<C: Covariance>(state: &State<C>) -> Result<Self, GpError> {
        let inverse_b = state.factor_b().inverse()?;
        let beta = state.beta();
        let outer = Array2::from_shape_fn((beta.len(), beta.len()), |(i, j)| beta[i] * beta[j]);
        let eye = Array2::<f64>::eye(state.len());
        // B − I = W/γ², so that nothing is lost where B is large.
        let s = state.weighed() - &eye + &inverse_b + &outer;
        let p = eye * state.common_share() - &inverse_b - outer;
        Ok(Self { inverse_b, p, s })
    }

    // ∂F/∂log λ = [ tr(P L⁻¹ D Vᵀ) + αᵀ D y ]/γ² − ½ tr(S L⁻¹ D_mm L⁻ᵀ)
    fn common_length<C: Sloped>(&self, state: &State<C>, slopes: SlopeSums) -> Result<f64, GpError> {
        let m = state.len();
        let mut dv = slopes.dv;
        solve_triangular(Side::Left, state.lower(), dv.view_mut())?;
        let (mut k, mut d_mm) = (Array2::zeros((m, m)), Array2::zeros((m, m)));
        state.inducing().tile_with_slope(0, state.inducing(), k.view_mut(), d_mm.view_mut())?;
        solve_triangular(Side::Left, state.lower(), d_mm.view_mut())?;
        solve_triangular(Side::RightTransposed, state.lower(), d_mm.view_mut())?;
        // P is symmetric: the trace of the product is the sum of the products.
        let data = inner_product(&self.p, &dv) + state.alpha()?.dot(&slopes.dy);
        let mut by_rows = 0.0;
        if let Some(mut weighed) = slopes.weighed {
            solve_triangular(Side::Left, state.lower(), weighed.view_mut())?;
            by_rows = weighed.diag().sum();
        }
        Ok(data / state.level().noise + by_rows - 0.5 * inner_product(&self.s, &d_mm))
    }

    // ∂F/∂log λⱼ = Σ (∂F/∂K ∘ w) (Δⱼ/λⱼ)², over K_mn and K_mm.
    fn own_lengths(
        &self,
        state: &State<Stationary>,
        covariance: &Stationary,
        y: ArrayView1<'_, f64>,
    ) -> Result<Vec<f64>, GpError> {
        let (m, d) = (state.len(), covariance.points().rows().ncols());
        let gradient = sum_rows(
            covariance.span(),
            d,
            || vec![0.0; d],
            |rows| {
                let size = (rows.len().min(TILE), m);
                let (mut tile, mut weights, mut slopes) =
                    (Array2::zeros(size), Array2::zeros(size), Array2::zeros(size));
                let mut sums = vec![0.0; d];
                for rows in tiles(rows) {
                    let mut v = tile.slice_mut(s![..rows.len(), ..]);
                    let mut weight = weights.slice_mut(s![..rows.len(), ..]);
                    let mut slope = slopes.slice_mut(s![..rows.len(), ..]);
                    let first = rows.start;
                    covariance.tile_with_length_weight(first, state.inducing(), v.view_mut(), weight.view_mut())?;
                    solve_triangular(Side::RightTransposed, state.lower(), v.view_mut())?;
                    let weights = state.row_weights(covariance.factors());
                    self.by_covariance(state, (first, v.view()), (y.slice(s![rows]), weights), &mut slope)?;
                    slope *= &weight;
                    add_squares(&mut sums, covariance, first, state.inducing(), slope.view());
                }
                Ok(sums)
            },
        )?;
        let mut slope = self.s.clone();
        solve_triangular(Side::LeftTransposed, state.lower(), slope.view_mut())?;
        solve_triangular(Side::Right, state.lower(), slope.view_mut())?;
        let (mut k, mut weight) = (Array2::zeros((m, m)), Array2::zeros((m, m)));
        state.inducing().tile_with_length_weight(0, state.inducing(), k.view_mut(), weight.view_mut())?;
        slope *= &weight;
        let mut own = vec![0.0; d];
        add_squares(&mut own, state.inducing(), 0, state.inducing(), slope.view());
        Ok(gradient.iter().zip(&own).map(|(data, own)| data - 0.5 * own).collect())
    }

    // (P V + β̃ yᵀ)ᵀ L⁻¹/γ² for the rows `first..`, v: [b, m], y: [b], into out: [b, m].
    fn by_covariance(
        &self,
        state: &State<Stationary>,
        (first, v): (usize, ArrayView2<'_, f64>),
        (y, weights): (ArrayView1<'_, f64>, Option<RowWeights<'_>>),
        out: &mut ndarray::ArrayViewMut2<'_, f64>,
    ) -> Result<(), GpError> {
        let noise = state.level().noise;
        for (mut row, y) in out.outer_iter_mut().zip(y) {
            row.assign(&(&state.beta() * (y / noise)));
        }
        gemm_nt(1.0 / noise, v, self.p.view(), 1.0, out.view_mut())?;
        if let Some(weights) = weights {
            for (number, (mut row, v)) in out.outer_iter_mut().zip(v.outer_iter()).enumerate() {
                row.scaled_add(weights.of_row(first + number, v).1, &v);
            }
        }
        solve_triangular(Side::Right, state.lower(), out.view_mut())
    }
}

// sums[k] += Σ u_ij (x_ik − z_jk)², for u: [b, m] and the rows first.. of x.
fn add_squares(sums: &mut [f64], x: &Stationary, first: usize, z: &Stationary, u: ArrayView2<'_, f64>) {
    for (i, weights) in u.outer_iter().enumerate() {
        let row = x.points().row(first + i);
        for (j, weight) in weights.iter().enumerate() {
            for (sum, (a, b)) in sums.iter_mut().zip(row.iter().zip(z.points().row(j))) {
                *sum += weight * (a - b) * (a - b);
            }
        }
    }
}

fn inner_product(a: &Array2<f64>, b: &Array2<f64>) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
