//! The one pass over the training rows that a sparse model needs: W = V Vᵀ and V y with V = L⁻¹ K_mn.
//!
//! Where K_mm is ill-conditioned, as it is on ordinary data of few features, every row is whitened before it is added:
//! adding up K_mn K_nm and whitening the sum would lose positive definiteness. Where it is not, that way saves the
//! triangular solves of all rows, nearly half of the work. [`Whitening`] decides.

use std::ops::Range;

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis, s};

use super::penalty::{PassSums, Penalty, RowSums, RowWeights};
use crate::gp::GpError;
use crate::gp::kernel::{Covariance, Sloped};
use crate::gp::linalg::panels::Lane;
use crate::gp::linalg::{
    RowSum, Side, Triangle, add_gram, dot, for_this_processor, gemm_nt, gemm_tn, mirror_lower, multiply_add,
    solve_triangular, sum_rows, tiles,
};

/// Sums over all training rows, at fixed hyper-parameters and inducing points.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sums {
    /// V Vᵀ, `[m, m]`, symmetric to the bit.
    pub w: Array2<f64>,
    /// V y, `[m]`.
    pub vy: Array1<f64>,
    /// Where every row has a weight of its own.
    pub rows: Option<RowSums>,
}

/// Sums with D = ∂K_mn/∂log λ, for a common length.
#[derive(Debug, Clone)]
pub(crate) struct SlopeSums {
    /// D Vᵀ, `[m, m]`.
    pub dv: Array2<f64>,
    /// D y, `[m]`.
    pub dy: Array1<f64>,
    /// Where every row has a weight dᵢ of its own: D diag(d) Vᵀ, `[m, m]`.
    pub weighed: Option<Array2<f64>>,
}

/// When K_mn is multiplied by L⁻¹.
#[derive(Debug, Clone)]
pub(crate) enum Whitening {
    Rows(Triangle),
    /// Once, when the sums are known.
    Sums,
}

/// By how much rounding may change ℓ, per row of the data.
const ROUNDING_PER_ROW: f64 = 1e-10;

impl Whitening {
    /// The cheaper way that is accurate enough, for n rows, the factor L of K_mm and the noise γ².
    ///
    /// Sums of K_mn K_nm are wrong by about ε ‖K_mn K_nm‖, which L⁻¹ on both sides can enlarge by ‖L⁻¹‖², and ℓ feels it
    /// in units of γ². The inducing points are taken for a sample of the rows: ‖K_mn K_nm‖ ≈ (n/m) ‖K_mm‖². The errors of
    /// m directions do not conspire: a further factor 1/m brings the estimate to within a factor of about two of what was
    /// measured for m = 8 … 500.
    pub fn choose(lower: ArrayView2<'_, f64>, n: usize, noise: f64, penalty: Penalty) -> Result<Self, GpError> {
        let m = lower.nrows();
        // Few rows are not worth the trouble, and weights of rows need them whitened.
        if m == 0 || n < 8 * m || penalty.by_rows() {
            return Ok(Self::Rows(Triangle::new(lower)?));
        }
        let least = lower.diag().iter().fold(f64::INFINITY, |least, pivot| least.min(pivot * pivot));
        let change = |k: f64, inverse: f64| f64::EPSILON * k * inverse / ((m * m) as f64 * noise);
        // A small pivot settles it: K_mm is at least its diagonal.
        let variance = lower[[0, 0]] * lower[[0, 0]];
        let hopeless = change(m as f64 * variance * variance, 1.0 / least);
        if hopeless.is_nan() || hopeless >= ROUNDING_PER_ROW {
            return Ok(Self::Rows(Triangle::new(lower)?));
        }
        let mut k_mm = Array2::zeros((m, m));
        gemm_nt(1.0, lower, lower, 0.0, k_mm.view_mut())?;
        let mut inverse = Array2::eye(m);
        solve_triangular(Side::Left, lower, inverse.view_mut())?;
        let squares = |a: &Array2<f64>| a.iter().map(|a| a * a).sum::<f64>();
        if change(squares(&k_mm), squares(&inverse)) < ROUNDING_PER_ROW {
            return Ok(Self::Sums);
        }
        Ok(Self::Rows(Triangle::new(lower)?))
    }

    /// What rows are solved with, if they are.
    pub fn triangle(&self) -> Option<&Triangle> {
        match self {
            Self::Rows(triangle) => Some(triangle),
            Self::Sums => None,
        }
    }

    /// What sums over all rows that were made this way come to, for lower: `[m, m]`.
    pub fn finish(&self, lower: ArrayView2<'_, f64>, sums: Sums) -> Result<Sums, GpError> {
        let mut total = sums.mirrored();
        if matches!(self, Self::Sums) {
            solve_triangular(Side::Left, lower, total.w.view_mut())?;
            solve_triangular(Side::RightTransposed, lower, total.w.view_mut())?;
            mirror_lower(&mut total.w);
            let vy = total.vy.view_mut().insert_axis(Axis(1));
            solve_triangular(Side::Left, lower, vy)?;
        }
        Ok(total)
    }
}

/// W and V y for y: `[n]`, lower: `[m, m]`, the factor of K_mm, and the noise γ²; and what the penalty asks for.
pub(crate) fn sums<C: Covariance>(
    covariance: &C,
    inducing: &C,
    lower: ArrayView2<'_, f64>,
    y: ArrayView1<'_, f64>,
    (noise, penalty): (f64, Penalty),
) -> Result<Sums, GpError> {
    let (m, whitening) = (inducing.len(), Whitening::choose(lower, covariance.span().all(), noise, penalty)?);
    let weights = RowWeights { variance: covariance.variance(), noise, factors: covariance.factors() };
    let sums = sum_rows(
        covariance.span(),
        m * m,
        || Sums::zeros(m, penalty),
        |rows| {
            let mut sums = PassSums::new(m, penalty, weights);
            let mut add = |rows: Range<usize>, v: &mut [Lane]| sums.add(rows.start, v, y.slice(s![rows]));
            covariance.for_panels(rows, inducing, whitening.triangle(), &mut add)?;
            Ok(sums.finish())
        },
    )?;
    whitening.finish(lower, sums)
}

/// The same, with D Vᵀ and D y from the same tiles.
pub(crate) fn sums_with_slope<C: Sloped>(
    covariance: &C,
    inducing: &C,
    lower: ArrayView2<'_, f64>,
    y: ArrayView1<'_, f64>,
    (noise, penalty): (f64, Penalty),
) -> Result<(Sums, SlopeSums), GpError> {
    let m = inducing.len();
    let weights = RowWeights { variance: covariance.variance(), noise, factors: covariance.factors() };
    let zero = || (Sums::zeros(m, penalty), SlopeSums::zeros(m, penalty));
    let (sums, slopes) = sum_rows(covariance.span(), 2 * m * m, zero, |rows| {
        let (mut part, mut slopes) = zero();
        let size = (rows.len().min(crate::gp::linalg::TILE), m);
        let (mut tile, mut slope) = (Array2::zeros(size), Array2::zeros(size));
        for rows in tiles(rows) {
            let mut v = tile.slice_mut(s![..rows.len(), ..]);
            let mut d = slope.slice_mut(s![..rows.len(), ..]);
            covariance.tile_with_slope(rows.start, inducing, v.view_mut(), d.view_mut())?;
            solve_triangular(Side::RightTransposed, lower, v.view_mut())?;
            let y = y.slice(s![rows.clone()]);
            gemm_tn(1.0, d.view(), v.view(), 1.0, slopes.dv.view_mut())?;
            add_product(&mut slopes.dy, d.view(), y);
            part.add(v.view(), y)?;
            if let (Some(sums), Some(weighed)) = (&mut part.rows, &mut slopes.weighed) {
                for (row, (mut v, mut d)) in rows.zip(v.outer_iter_mut().zip(d.outer_iter_mut())) {
                    let q = v.as_slice().map_or(f64::NAN, |v| dot(v, v));
                    let root = sums.weigh(&weights, row, q).sqrt();
                    v *= root;
                    d *= root;
                }
                add_gram(v.view(), sums.vdv.view_mut())?;
                gemm_tn(1.0, d.view(), v.view(), 1.0, weighed.view_mut())?;
            }
        }
        Ok((part, slopes))
    })?;
    Ok((sums.mirrored(), slopes))
}

/// total ← total + aᵀ y, for a: `[b, m]`, y: `[b]`, in the order of the rows.
pub(crate) fn add_product(total: &mut Array1<f64>, a: ArrayView2<'_, f64>, y: ArrayView1<'_, f64>) {
    for (row, y) in a.outer_iter().zip(y) {
        match (total.as_slice_mut(), row.as_slice()) {
            (Some(total), Some(row)) => add_multiple(total, *y, row),
            _ => total.scaled_add(*y, &row),
        }
    }
}

for_this_processor! {
    fn add_multiple(total: &mut [f64], factor: f64, row: &[f64]) {
        for (total, value) in total.iter_mut().zip(row) {
            *total = multiply_add::<FUSED>(factor, *value, *total);
        }
    }
}

impl SlopeSums {
    fn zeros(m: usize, penalty: Penalty) -> Self {
        let weighed = penalty.by_rows().then(|| Array2::zeros((m, m)));
        Self { dv: Array2::zeros((m, m)), dy: Array1::zeros(m), weighed }
    }
}

impl RowSum for SlopeSums {
    fn numbers(&mut self) -> Vec<&mut [f64]> {
        let mut all = self.dv.numbers();
        all.extend(self.dy.numbers());
        all.extend(self.weighed.iter_mut().flat_map(RowSum::numbers));
        all
    }
}

impl RowSum for Sums {
    fn numbers(&mut self) -> Vec<&mut [f64]> {
        let mut all = self.w.numbers();
        all.extend(self.vy.numbers());
        all.extend(self.rows.iter_mut().flat_map(RowSum::numbers));
        all
    }
}

impl Sums {
    /// Sums over no rows, for m inducing points.
    pub fn zeros(m: usize, penalty: Penalty) -> Self {
        let rows = penalty.by_rows().then(|| RowSums::zeros(m));
        Self { w: Array2::zeros((m, m)), vy: Array1::zeros(m), rows }
    }

    /// Adds one tile, v: `[b, m]`, y: `[b]`; only the lower triangle of W is kept up.
    pub fn add(&mut self, v: ArrayView2<'_, f64>, y: ArrayView1<'_, f64>) -> Result<(), GpError> {
        add_product(&mut self.vy, v, y);
        add_gram(v, self.w.view_mut())
    }

    // Symmetric: only lower triangles are kept up while rows are added.
    fn mirrored(mut self) -> Self {
        mirror_lower(&mut self.w);
        self.rows.iter_mut().for_each(|rows| mirror_lower(&mut rows.vdv));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gp::kernel::{Hyper, Kernel, Stationary};
    use crate::gp::linalg::Gram;
    use crate::gp::sparse::factor_at;
    use crate::gp::sparse::{JITTER, Level, RowTotals, State};

    // Points of a spiral in three dimensions; inducing points `step` rows apart.
    fn case(length: f64, step: usize) -> Result<(Stationary, Stationary, Array1<f64>), GpError> {
        let x = Array2::from_shape_fn((900, 3), |(i, j)| {
            let t = i as f64 * 0.05;
            [t.cos() * t, t.sin() * t, 0.3 * t][j]
        });
        let y = x.outer_iter().map(|row| (0.4 * row[0]).sin() + 0.1 * row[1]).collect();
        let all = Stationary::new(Kernel::Rbf, &Hyper::isotropic(1.3, length, 0.1), x.view(), &[0.0; 3])?;
        let inducing = all.select(&(0..40).map(|i| i * step).collect::<Vec<_>>())?;
        Ok((all, inducing, y))
    }

    fn both(length: f64, step: usize) -> Result<(bool, Sums, Sums), GpError> {
        let (all, inducing, y) = case(length, step)?;
        let lower = factor_at(&inducing, Level { noise: 0.1, jitter: JITTER })?;
        let lower = lower.lower();
        let chosen = Whitening::choose(lower, all.len(), 0.1, Penalty::Linear)?;
        let by = |whitening: &Whitening| -> Result<Sums, GpError> {
            let mut gram = Gram::new(inducing.len());
            let mut add = |rows: Range<usize>, v: &mut [Lane]| gram.add(v, y.slice(s![rows]));
            all.for_panels(0..all.len(), &inducing, whitening.triangle(), &mut add)?;
            let (w, vy) = gram.finish();
            whitening.finish(lower, Sums { w, vy, rows: None })
        };
        let rows = Whitening::Rows(Triangle::new(lower)?);
        Ok((chosen.triangle().is_none(), by(&rows)?, by(&Whitening::Sums)?))
    }

    #[test]
    fn sums_are_whitened_afterwards_where_that_is_accurate() -> Result<(), GpError> {
        let (afterwards, rows, sums) = both(1.0, 22)?;
        assert!(afterwards);
        let largest = rows.w.iter().fold(0.0_f64, |a, b| a.max(b.abs()));
        for (a, b) in rows.w.iter().zip(&sums.w).chain(rows.vy.iter().zip(&sums.vy)) {
            assert!((a - b).abs() < 1e-11 * largest, "{a} {b}");
        }
        Ok(())
    }

    #[test]
    fn rows_are_whitened_where_inducing_points_are_much_alike() -> Result<(), GpError> {
        let (afterwards, rows, sums) = both(6.0, 2)?;
        assert!(!afterwards);
        // It matters here: whitening afterwards loses many digits.
        let worst = rows.w.iter().zip(&sums.w).fold(0.0_f64, |worst, (a, b)| worst.max((a - b).abs()));
        assert!(worst > 1e-6, "{worst}");
        Ok(())
    }

    // From well-conditioned to hopeless: where the cheaper way is chosen, ℓ is what it promises.
    #[test]
    fn the_estimate_of_rounding_holds_across_the_border() -> Result<(), GpError> {
        let (mut chosen, mut refused) = (0, 0);
        for length in [0.3, 0.6, 1.0, 1.4, 1.8, 2.2, 2.6, 3.0, 4.0, 6.0] {
            for step in [2, 5, 11, 22] {
                let (all, inducing, y) = case(length, step)?;
                let (afterwards, rows, sums) = both(length, step)?;
                if !afterwards {
                    refused += 1;
                    continue;
                }
                chosen += 1;
                let ell = |sums: Sums| -> Result<f64, GpError> {
                    let level = Level { noise: 0.1, jitter: JITTER };
                    let lower = factor_at(&inducing, level)?;
                    let numbers: Vec<usize> = (0..inducing.len()).collect();
                    let totals = RowTotals::new(all.span(), y.view(), None)?;
                    let state =
                        State::from_sums(&numbers, inducing.clone(), (lower, sums), totals, level, Penalty::Linear)?;
                    Ok(state.log_likelihood())
                };
                let (rows, sums) = (ell(rows)?, ell(sums)?);
                // The estimate is right to within a factor, not a bound.
                let allowed = 10.0 * ROUNDING_PER_ROW * all.len() as f64;
                assert!((rows - sums).abs() < allowed, "length {length}, step {step}: {rows} {sums}");
            }
        }
        assert!(chosen >= 5 && refused >= 5, "{chosen} {refused}");
        Ok(())
    }

    #[test]
    fn no_inducing_points_are_no_trouble() -> Result<(), GpError> {
        assert!(Whitening::choose(Array2::zeros((0, 0)).view(), 10, 0.1, Penalty::Linear)?.triangle().is_some());
        Ok(())
    }
}
