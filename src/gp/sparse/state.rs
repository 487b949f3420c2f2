//! A sparse model at fixed hyper-parameters: the bound, the weights, and how an inducing point comes or goes.

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, ArrayViewMut1, Axis, s};

use super::penalty::{Penalty, RowSums};
use super::sums::{Sums, sums};
use crate::gp::GpError;
use crate::gp::kernel::{Covariance, square};
use crate::gp::linalg::{Cholesky, Side, Span, dot, gemm_nt, solve_triangular};

/// How errors name K_mm.
const INDUCING_COVARIANCE: &str = "the covariance of the inducing points";

/// Noise and jitter: what a sparse model has beside its covariance function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// Noise variance γ².
    pub noise: f64,
    /// What is added to the diagonal of K_mm, as a share of the kernel variance.
    pub jitter: f64,
}

/// Everything of a sparse model that does not grow with the number of rows.
///
/// With K_mm + jitter = L Lᵀ, V = L⁻¹ K_mn, B = I + V Vᵀ/γ² = L_B L_Bᵀ and c = L_B⁻¹ V y/γ²:
///
/// ```text
/// ℓ   = −½ [ n log 2πγ² + 2 Σ log diag L_B + yᵀy/γ² − cᵀc ]
/// F_V = ℓ − ( n σ² − ‖V‖² ) / 2γ²
/// ```
///
/// Where rows differ in their noise, K_mn and y are multiplied by factors such that they do not, and n σ² is Σ f² σ².
#[derive(Debug, Clone)]
pub struct State<C> {
    rows: Vec<usize>,
    inducing: C,
    level: Level,
    penalty: Penalty,
    lower: Cholesky,
    sums: Sums,
    totals: RowTotals,
    solved: Solved,
}

/// What is known of all training rows together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowTotals {
    // Their number, and yᵀy.
    n: usize,
    yy: f64,
    // Σ fᵢ² of the factors that they are multiplied by, n without; and Σ log fᵢ, by which log densities of the rows are
    // larger than those of rows times factors.
    weight: f64,
    log_density: f64,
}

impl RowTotals {
    /// Of held targets y: `[b]`, times their factors: `[b]`, if there are any.
    pub fn new(span: &Span, y: ArrayView1<'_, f64>, factors: Option<&[f64]>) -> Result<Self, GpError> {
        let n = span.all();
        let width = if factors.is_some() { 3 } else { 1 };
        let sums = span.plain_sums(width, |rows, sums| {
            for y in y.slice(s![rows.clone()]) {
                sums[0] += y * y;
            }
            for factor in factors.map_or(&[][..], |factors| &factors[rows]) {
                sums[1] += factor * factor;
                sums[2] += factor.ln();
            }
        })?;
        let of_factors = |place: usize, none: f64| sums.get(place).copied().unwrap_or(none);
        Ok(Self { n, yy: sums[0], weight: of_factors(1, n as f64), log_density: of_factors(2, 0.0) })
    }
}

// What follows from W and V y.
#[derive(Debug, Clone)]
struct Solved {
    lower_b: Cholesky,
    c: Array1<f64>,
    beta: Array1<f64>,
    log_likelihood: f64,
    bound: f64,
}

impl<C: Covariance> State<C> {
    /// The model with the inducing points `rows` of the training rows; y: `[n]`, times the factors of the covariance, if it
    /// has any. One pass over the rows.
    pub fn new(covariance: &C, y: ArrayView1<'_, f64>, rows: &[usize], level: Level) -> Result<Self, GpError> {
        Self::with_penalty(covariance, y, rows, level, Penalty::Linear)
    }

    /// The same with another form of the bound as its [`State::objective`].
    pub fn with_penalty(
        covariance: &C,
        y: ArrayView1<'_, f64>,
        rows: &[usize],
        level: Level,
        penalty: Penalty,
    ) -> Result<Self, GpError> {
        let (inducing, lower) = factor(covariance, rows, level)?;
        let sums = sums(covariance, &inducing, lower.lower(), y, (level.noise, penalty))?;
        let totals = RowTotals::new(covariance.span(), y, covariance.factors())?;
        Self::from_sums(rows, inducing, (lower, sums), totals, level, penalty)
    }

    /// The same when the pass was made elsewhere.
    pub(crate) fn from_sums(
        rows: &[usize],
        inducing: C,
        (lower, sums): (Cholesky, Sums),
        totals: RowTotals,
        level: Level,
        penalty: Penalty,
    ) -> Result<Self, GpError> {
        let solved = solve(&sums, totals, inducing.variance(), level.noise)?;
        Ok(Self { rows: rows.to_vec(), inducing, level, penalty, lower, sums, totals, solved })
    }

    /// The training rows that are inducing points, in the order of the factors.
    pub fn rows(&self) -> &[usize] {
        &self.rows
    }

    /// Number of inducing points.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The covariance at the inducing points.
    pub fn inducing(&self) -> &C {
        &self.inducing
    }

    pub fn level(&self) -> Level {
        self.level
    }

    /// The form of the bound that is its [`State::objective`].
    pub fn penalty(&self) -> Penalty {
        self.penalty
    }

    /// What stands on the diagonal of K_mm beside σ².
    pub fn jitter(&self) -> f64 {
        self.level.jitter * self.inducing.variance()
    }

    /// F_V, the lower bound of the log marginal likelihood.
    pub fn bound(&self) -> f64 {
        self.solved.bound
    }

    /// ℓ = log N(y | 0, Q + γ²I).
    pub fn log_likelihood(&self) -> f64 {
        self.solved.log_likelihood
    }

    /// L, `[m, m]`.
    pub fn lower(&self) -> ArrayView2<'_, f64> {
        self.lower.lower()
    }

    /// L_B, `[m, m]`.
    pub fn lower_b(&self) -> ArrayView2<'_, f64> {
        self.solved.lower_b.lower()
    }

    /// c = L_B⁻¹ V y/γ², `[m]`.
    pub fn c(&self) -> ArrayView1<'_, f64> {
        self.solved.c.view()
    }

    /// β̃ = L_B⁻ᵀ c, `[m]`: the weights of the whitened features.
    pub fn beta(&self) -> ArrayView1<'_, f64> {
        self.solved.beta.view()
    }

    /// V Vᵀ, `[m, m]`.
    pub fn w(&self) -> ArrayView2<'_, f64> {
        self.sums.w.view()
    }

    /// The sums over rows that have weights of their own, where they are up to date.
    pub(super) fn row_sums(&self) -> Option<&RowSums> {
        self.sums.rows.as_ref()
    }

    pub(crate) fn factor_b(&self) -> &Cholesky {
        &self.solved.lower_b
    }

    pub(crate) fn yy(&self) -> f64 {
        self.totals.yy
    }

    /// Number of training rows.
    pub(crate) fn n(&self) -> usize {
        self.totals.n
    }

    /// Σ fᵢ² of the factors of the rows, n without.
    pub(super) fn weight(&self) -> f64 {
        self.totals.weight
    }

    /// α = L⁻ᵀ β̃, `[m]`: the posterior mean is `k_m(x)`ᵀ α.
    pub fn alpha(&self) -> Result<Array1<f64>, GpError> {
        let mut alpha = self.solved.beta.clone().insert_axis(Axis(1));
        solve_triangular(Side::LeftTransposed, self.lower(), alpha.view_mut())?;
        Ok(alpha.remove_axis(Axis(1)))
    }

    /// The share of the variance of y that the posterior mean explains, from 1 (all) to 0 (nothing).
    pub fn explained(&self) -> f64 {
        // ‖y − Vᵀβ̃‖² = yᵀy − 2 (Vy)ᵀβ̃ + β̃ᵀWβ̃
        let beta = &self.solved.beta;
        let (vy_beta, beta_w_beta) = (self.sums.vy.dot(beta), beta.dot(&self.sums.w.dot(beta)));
        (2.0 * vy_beta - beta_w_beta) / self.yy().max(f64::MIN_POSITIVE)
    }

    /// Adds the row `row` with what a pass over the data found about it; no further pass.
    ///
    /// `t`: `[m]` is L⁻¹k_m(z), `s` its conditional variance, jitter included, and the rest are sums over
    /// the rows with v = R_z/√s: `vv` = v·v, `v_v`: `[m]` = V v, `vy` = v·y.
    pub(crate) fn append(&mut self, covariance: &C, row: usize, new: &Addition<'_>) -> Result<(), GpError> {
        let m = self.len();
        let mut lower = Array2::zeros((m + 1, m + 1));
        lower.slice_mut(s![..m, ..m]).assign(&self.lower());
        lower.slice_mut(s![m, ..m]).assign(&new.t);
        lower[[m, m]] = new.s.sqrt();
        let mut w = Array2::zeros((m + 1, m + 1));
        w.slice_mut(s![..m, ..m]).assign(&self.sums.w);
        w.slice_mut(s![m, ..m]).assign(&new.v_v);
        w.slice_mut(s![..m, m]).assign(&new.v_v);
        w[[m, m]] = new.vv;
        let mut rows = self.rows.clone();
        rows.push(row);
        let vy = self.sums.vy.iter().copied().chain([new.vy]).collect();
        self.replace(covariance, rows, lower, Sums { w, vy, rows: None })
    }

    /// Takes away inducing point number `j`; no pass over the data.
    ///
    /// Row j of L goes, rotations Q of its columns restore the triangle, and QᵀV is the new V and a row to drop.
    pub fn remove(&mut self, covariance: &C, j: usize) -> Result<(), GpError> {
        let m = self.len();
        if j >= m {
            return Err(GpError::shape(format!("inducing point {j} of {m}")));
        }
        let mut lower = self.lower().to_owned();
        let (mut w, mut vy) = (self.sums.w.clone(), self.sums.vy.clone());
        lower.remove_index(Axis(0), j);
        for k in j..m - 1 {
            let (a, b) = (lower[[k, k]], lower[[k, k + 1]]);
            let r = a.hypot(b);
            let rotation = (a / r, b / r);
            lower.slice_mut(s![k.., ..]).rows_mut().into_iter().for_each(|row| rotate(row, k, rotation));
            w.rows_mut().into_iter().for_each(|row| rotate(row, k, rotation));
            w.columns_mut().into_iter().for_each(|column| rotate(column, k, rotation));
            rotate(vy.view_mut(), k, rotation);
        }
        lower.remove_index(Axis(1), m - 1);
        w.remove_index(Axis(0), m - 1);
        w.remove_index(Axis(1), m - 1);
        vy.remove_index(Axis(0), m - 1);
        let mut rows = self.rows.clone();
        rows.remove(j);
        self.replace(covariance, rows, lower, Sums { w, vy, rows: None })
    }

    fn replace(&mut self, covariance: &C, rows: Vec<usize>, lower: Array2<f64>, sums: Sums) -> Result<(), GpError> {
        let solved = solve(&sums, self.totals, covariance.variance(), self.level.noise)?;
        self.lower = Cholesky::from_lower(lower)?;
        self.inducing = covariance.select(&rows)?;
        (self.rows, self.sums, self.solved) = (rows, sums, solved);
        Ok(())
    }

    /// How F_V, or its form by the trace, changes when each inducing point is removed, `[m]`; no pass over the data.
    ///
    /// With q the normalised column j of L⁻¹: −½ log qᵀB⁻¹q − ½ (qᵀβ̃)²/qᵀB⁻¹q, and qᵀWq more are unexplained: −qᵀWq/2γ²
    /// in F_V.
    pub fn removals(&self) -> Result<Vec<f64>, GpError> {
        let m = self.len();
        // Row j of L⁻ᵀ is column j of L⁻¹.
        let mut q = Array2::eye(m);
        solve_triangular(Side::RightTransposed, self.lower(), q.view_mut())?;
        for mut row in q.outer_iter_mut() {
            let norm = row.dot(&row).sqrt();
            row /= norm;
        }
        let mut whitened = q.clone();
        solve_triangular(Side::RightTransposed, self.lower_b(), whitened.view_mut())?;
        let mut wq = Array2::zeros((m, m));
        gemm_nt(1.0, q.view(), self.w(), 0.0, wq.view_mut())?;
        Ok((0..m)
            .map(|j| {
                let a = whitened.row(j).dot(&whitened.row(j));
                let b = q.row(j).dot(&self.solved.beta);
                let less = q.row(j).dot(&wq.row(j)) / self.level.noise;
                -0.5 * (a.ln() + b * b / a - self.price(-less))
            })
            .collect())
    }
}

/// What a pass over the data found about a row that is to become an inducing point.
pub(crate) struct Addition<'a> {
    pub t: ArrayView1<'a, f64>,
    pub s: f64,
    pub v_v: Array1<f64>,
    pub vv: f64,
    pub vy: f64,
}

/// The covariance at the inducing points, and the factor of K_mm + jitter.
pub(crate) fn factor<C: Covariance>(covariance: &C, rows: &[usize], level: Level) -> Result<(C, Cholesky), GpError> {
    let n = covariance.span().all();
    if let Some(row) = rows.iter().find(|row| **row >= n) {
        return Err(GpError::shape(format!("inducing row {row} of {n} training rows")));
    }
    let inducing = covariance.select(rows)?;
    let lower = factor_at(&inducing, level)?;
    Ok((inducing, lower))
}

/// The factor of K_mm + jitter, for the covariance at the inducing points.
pub(crate) fn factor_at<C: Covariance>(inducing: &C, level: Level) -> Result<Cholesky, GpError> {
    let jitter = level.jitter * inducing.variance();
    let mut k_mm = square(inducing)?;
    k_mm.diag_mut().iter_mut().for_each(|v| *v += jitter);
    Cholesky::factor(k_mm, INDUCING_COVARIANCE).map_err(|error| match error {
        GpError::NotPositiveDefinite { what, .. } => GpError::NotPositiveDefinite { what, jitter },
        other => other,
    })
}

fn solve(sums: &Sums, totals: RowTotals, variance: f64, noise: f64) -> Result<Solved, GpError> {
    // Written so that NaN is refused too.
    if !(noise > 0.0 && noise.is_finite()) {
        return Err(GpError::value("a sparse model needs a positive noise"));
    }
    let mut b = &sums.w / noise;
    b.diag_mut().iter_mut().for_each(|v| *v += 1.0);
    let lower_b = Cholesky::factor(b, "the whitened covariance of the data")?;
    let mut c = (&sums.vy / noise).insert_axis(Axis(1));
    solve_triangular(Side::Left, lower_b.lower(), c.view_mut())?;
    let mut beta = c.clone();
    solve_triangular(Side::LeftTransposed, lower_b.lower(), beta.view_mut())?;
    let (c, beta) = (c.remove_axis(Axis(1)), beta.remove_axis(Axis(1)));
    let RowTotals { n, yy, weight, log_density } = totals;
    let cc = dot(c.as_slice().unwrap_or_default(), c.as_slice().unwrap_or_default());
    let normal = n as f64 * (std::f64::consts::TAU * noise).ln();
    let log_likelihood = -0.5 * (normal + lower_b.log_determinant() + yy / noise - cc) + log_density;
    let trace = weight * variance - sums.w.diag().iter().sum::<f64>();
    let bound = log_likelihood - 0.5 * trace / noise;
    if !bound.is_finite() {
        return Err(GpError::NonFinite { what: "the bound" });
    }
    Ok(Solved { lower_b, c, beta, log_likelihood, bound })
}

// The pair (k, k+1) of a vector in the coordinates in which (cos, sin) is (1, 0).
fn rotate(mut values: ArrayViewMut1<'_, f64>, k: usize, (cos, sin): (f64, f64)) {
    let (a, b) = (values[k], values[k + 1]);
    values[k] = cos * a + sin * b;
    values[k + 1] = cos * b - sin * a;
}
