//! The one pass over the training rows that a sparse model needs: W = V Vᵀ and V y with V = L⁻¹ K_mn.
//!
//! Every tile is whitened before it is added. Adding up K_mn K_nm and whitening the sum would save the triangular
//! solves, but lose positive definiteness where K_mm is ill-conditioned, as it is on ordinary data.

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, s};

use crate::gp::GpError;
use crate::gp::kernel::{Covariance, Stationary};
use crate::gp::linalg::{
    Gram, Side, Triangle, add_all, add_gram, for_this_processor, gemm_tn, mirror_lower, multiply_add, over_chunks,
    solve_triangular, tiles,
};

/// Sums over all training rows, at fixed hyper-parameters and inducing points.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sums {
    /// V Vᵀ, `[m, m]`, symmetric to the bit.
    pub w: Array2<f64>,
    /// V y, `[m]`.
    pub vy: Array1<f64>,
}

/// Sums with D = ∂K_mn/∂log λ, for a common length.
#[derive(Debug, Clone)]
pub(crate) struct SlopeSums {
    /// D Vᵀ, `[m, m]`.
    pub dv: Array2<f64>,
    /// D y, `[m]`.
    pub dy: Array1<f64>,
}

/// W and V y for y: `[n]` and lower: `[m, m]`, the factor of K_mm.
pub(crate) fn sums<C: Covariance>(
    covariance: &C,
    inducing: &C,
    lower: ArrayView2<'_, f64>,
    y: ArrayView1<'_, f64>,
) -> Result<Sums, GpError> {
    let (m, lower) = (inducing.len(), Triangle::new(lower)?);
    let parts = over_chunks(covariance.len(), m * m, |rows| {
        let mut gram = Gram::new(m);
        covariance.for_whitened(rows, inducing, &lower, &mut |rows, v| gram.add(v, y.slice(s![rows])))?;
        Ok(Sums::from(gram))
    })?;
    Ok(Sums::total(m, parts))
}

/// The same, with D Vᵀ and D y from the same tiles.
pub(crate) fn sums_with_slope(
    covariance: &Stationary,
    inducing: &Stationary,
    lower: ArrayView2<'_, f64>,
    y: ArrayView1<'_, f64>,
) -> Result<(Sums, SlopeSums), GpError> {
    let m = inducing.len();
    let parts = over_chunks(covariance.len(), 2 * m * m, |rows| {
        let mut part = Sums::zeros(m);
        let mut slopes = SlopeSums { dv: Array2::zeros((m, m)), dy: Array1::zeros(m) };
        let size = (rows.len().min(crate::gp::linalg::TILE), m);
        let (mut tile, mut slope) = (Array2::zeros(size), Array2::zeros(size));
        for rows in tiles(rows) {
            let mut v = tile.slice_mut(s![..rows.len(), ..]);
            let mut d = slope.slice_mut(s![..rows.len(), ..]);
            covariance.tile_with_slope(rows.start, inducing, v.view_mut(), d.view_mut())?;
            solve_triangular(Side::RightTransposed, lower, v.view_mut())?;
            let y = y.slice(s![rows]);
            gemm_tn(1.0, d.view(), v.view(), 1.0, slopes.dv.view_mut())?;
            add_product(&mut slopes.dy, d.view(), y);
            part.add(v.view(), y)?;
        }
        Ok((part, slopes))
    })?;
    let mut slopes = SlopeSums { dv: Array2::zeros((m, m)), dy: Array1::zeros(m) };
    for (_, part) in &parts {
        add_all(&mut slopes.dv, &part.dv);
        add_all(&mut slopes.dy, &part.dy);
    }
    Ok((Sums::total(m, parts.into_iter().map(|(part, _)| part)), slopes))
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

impl From<Gram> for Sums {
    fn from(gram: Gram) -> Self {
        let (w, vy) = gram.finish();
        Self { w, vy }
    }
}

impl Sums {
    /// Sums over no rows, for m inducing points.
    pub fn zeros(m: usize) -> Self {
        Self { w: Array2::zeros((m, m)), vy: Array1::zeros(m) }
    }

    /// Adds one tile, v: `[b, m]`, y: `[b]`; only the lower triangle of W is kept up.
    pub fn add(&mut self, v: ArrayView2<'_, f64>, y: ArrayView1<'_, f64>) -> Result<(), GpError> {
        add_product(&mut self.vy, v, y);
        add_gram(v, self.w.view_mut())
    }

    /// The sum of all parts, in their order.
    pub fn total(m: usize, parts: impl IntoIterator<Item = Self>) -> Self {
        let mut total = Self::zeros(m);
        for part in parts {
            add_all(&mut total.w, &part.w);
            add_all(&mut total.vy, &part.vy);
        }
        mirror_lower(&mut total.w);
        total
    }
}
