//! Cholesky factor of a symmetric positive matrix: blocked, parallel, and the same bits for any number of threads.

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, ArrayViewMut2, Axis, s};
use rayon::prelude::*;

use super::blas::{Side, gemm_nt, gemm_tn, potrf, solve_triangular};
use crate::gp::GpError;

/// The first jitter tried after a failure, relative to the kernel variance.
pub const JITTER_FIRST: f64 = 1e-10;
/// The last jitter tried, relative to the kernel variance.
pub const JITTER_LAST: f64 = 1e-4;

/// Ten times as much jitter (as a share of the variance); `None` when it has grown enough.
pub fn raised(jitter: f64) -> Option<f64> {
    // The 5 absorbs the rounding of repeated multiplication by ten.
    (jitter * 5.0 < JITTER_LAST).then_some(jitter * 10.0)
}

/// Asked between tiles of long work whether to give it up.
pub type Interrupt<'a> = &'a (dyn Fn() -> bool + Sync);

/// Nobody asks to stop.
pub const NEVER: Interrupt<'static> = &|| false;

/// Ends the work that this is called in with [`GpError::Interrupted`] when that is asked for.
pub fn go_on(interrupted: Interrupt<'_>) -> Result<(), GpError> {
    if interrupted() { Err(GpError::Interrupted) } else { Ok(()) }
}

/// Columns solved together in a triangular solve with many right-hand sides.
const SOLVE_COLUMNS: usize = 96;

// Small blocks keep two and more cores busy on small matrices, large ones are kinder to memory. The size may
// depend on the matrix only, never on the machine.
fn block_size(n: usize) -> usize {
    match n {
        // Too little to share: many such factors are computed side by side.
        0..=256 => 256,
        257..1024 => 64,
        _ => 160,
    }
}

/// The lower factor L of a symmetric positive definite matrix A = L Lᵀ.
#[derive(Debug, Clone, PartialEq)]
pub struct Cholesky {
    lower: Array2<f64>,
}

impl Cholesky {
    /// Factors a: `[n, n]`, of which only the lower triangle is read.
    ///
    /// `what` names the matrix in errors. Right-looking: factor a diagonal block, solve the panel below it,
    /// subtract the panel's product from what is left; panels and products run in parallel by block rows.
    pub fn factor(a: Array2<f64>, what: &'static str) -> Result<Self, GpError> {
        Self::factor_unless(NEVER, a, what)
    }

    /// The same, given up when that is asked for.
    pub fn factor_unless(interrupted: Interrupt<'_>, mut a: Array2<f64>, what: &'static str) -> Result<Self, GpError> {
        let n = a.nrows();
        if a.ncols() != n {
            return Err(GpError::shape(format!("{what} is {:?}", a.shape())));
        }
        if !lower_is_finite(a.view()) {
            return Err(GpError::NonFinite { what });
        }
        let block = block_size(n);
        for start in (0..n).step_by(block) {
            let end = (start + block).min(n);
            if !potrf(a.slice_mut(s![start..end, start..end]))? {
                return Err(GpError::NotPositiveDefinite { what, jitter: 0.0 });
            }
            if end < n {
                eliminate(&mut a, (start, end), block, interrupted)?;
            }
        }
        clear_upper(&mut a);
        Ok(Self { lower: a })
    }

    /// Factors a: `[n, n]`; when that fails, again with jitter on the diagonal, from 1e-10 to 1e-4 of `scale`
    /// in steps of ten. Returns the jitter used, 0 for none.
    pub fn factor_with_jitter(a: &Array2<f64>, scale: f64, what: &'static str) -> Result<(Self, f64), GpError> {
        Self::factor_with_jitter_unless(NEVER, a, scale, what)
    }

    /// The same, given up when that is asked for.
    pub fn factor_with_jitter_unless(
        interrupted: Interrupt<'_>,
        a: &Array2<f64>,
        scale: f64,
        what: &'static str,
    ) -> Result<(Self, f64), GpError> {
        let mut jitter = 0.0;
        loop {
            let mut trial = a.clone();
            trial.diag_mut().iter_mut().for_each(|v| *v += jitter);
            match Self::factor_unless(interrupted, trial, what) {
                Ok(factor) => return Ok((factor, jitter)),
                Err(GpError::NotPositiveDefinite { .. }) => {}
                Err(other) => return Err(other),
            }
            // The 0.5 absorbs the rounding of repeated multiplication by ten.
            let next = if jitter == 0.0 { JITTER_FIRST * scale } else { jitter * 10.0 };
            if next * 0.5 >= JITTER_LAST * scale || next.is_nan() {
                return Err(GpError::NotPositiveDefinite { what, jitter });
            }
            jitter = next;
        }
    }

    /// Takes over a factor computed before; lower: `[n, n]` with a positive diagonal.
    pub fn from_lower(mut lower: Array2<f64>) -> Result<Self, GpError> {
        if lower.nrows() != lower.ncols() {
            return Err(GpError::shape(format!("factor is {:?}", lower.shape())));
        }
        if !lower_is_finite(lower.view()) {
            return Err(GpError::NonFinite { what: "the factor" });
        }
        if lower.diag().iter().any(|pivot| *pivot <= 0.0) {
            return Err(GpError::value("the diagonal of a factor must be positive"));
        }
        clear_upper(&mut lower);
        Ok(Self { lower })
    }

    /// The factor, `[n, n]`, zero above the diagonal.
    pub fn lower(&self) -> ArrayView2<'_, f64> {
        self.lower.view()
    }

    /// The factor itself, `[n, n]`.
    pub fn into_lower(self) -> Array2<f64> {
        self.lower
    }

    pub fn n(&self) -> usize {
        self.lower.nrows()
    }

    pub fn log_determinant(&self) -> f64 {
        2.0 * self.lower.diag().iter().map(|v| v.ln()).sum::<f64>()
    }

    /// A⁻¹ y for y: `[n]`.
    pub fn solve_vector(&self, y: ArrayView1<'_, f64>) -> Result<Array1<f64>, GpError> {
        let mut x = y.to_owned().insert_axis(Axis(1));
        solve_triangular(Side::Left, self.lower.view(), x.view_mut())?;
        solve_triangular(Side::LeftTransposed, self.lower.view(), x.view_mut())?;
        Ok(x.remove_axis(Axis(1)))
    }

    /// b ← L⁻¹ b for b: `[n, p]`, parallel over blocks of columns.
    pub fn solve_lower(&self, b: ArrayViewMut2<'_, f64>) -> Result<(), GpError> {
        self.solve_columns(Side::Left, b)
    }

    /// b ← L⁻ᵀ b for b: `[n, p]`, parallel over blocks of columns.
    pub fn solve_lower_transposed(&self, b: ArrayViewMut2<'_, f64>) -> Result<(), GpError> {
        self.solve_columns(Side::LeftTransposed, b)
    }

    /// b ← b A⁻¹ for b: `[p, n]`, on one thread.
    pub fn solve_rows(&self, mut b: ArrayViewMut2<'_, f64>) -> Result<(), GpError> {
        solve_triangular(Side::RightTransposed, self.lower.view(), b.view_mut())?;
        solve_triangular(Side::Right, self.lower.view(), b)
    }

    fn solve_columns(&self, side: Side, mut b: ArrayViewMut2<'_, f64>) -> Result<(), GpError> {
        let blocks: Vec<_> = b.axis_chunks_iter_mut(Axis(1), SOLVE_COLUMNS).collect();
        blocks.into_par_iter().try_for_each(|columns| solve_triangular(side, self.lower.view(), columns))
    }

    /// The derivative by A, `[n, n]`, symmetric, of a function whose derivative by L is bar: `[n, n]`, of which only
    /// the lower triangle is read.
    ///
    /// ½ L⁻ᵀ (Φ + Φᵀ) L⁻¹ with Φ = the lower triangle of Lᵀ bar, its diagonal halved (Murray, 2016).
    pub fn pull_back(&self, mut bar: Array2<f64>) -> Result<Array2<f64>, GpError> {
        let n = self.n();
        clear_upper(&mut bar);
        let mut phi = Array2::zeros((n, n));
        let block = block_size(n);
        for_row_blocks(&mut phi, block, |start, rows| {
            // Row i of Lᵀ is zero left of the diagonal.
            let end = start + rows.nrows();
            gemm_tn(1.0, self.lower.slice(s![start.., start..end]), bar.slice(s![start.., ..]), 0.0, rows)
        })?;
        for i in 0..n {
            phi[[i, i]] *= 0.5;
            for j in 0..i {
                let half = 0.5 * phi[[i, j]];
                (phi[[i, j]], phi[[j, i]]) = (half, half);
            }
        }
        self.solve_lower_transposed(phi.view_mut())?;
        for_row_blocks(&mut phi, block, |_, rows| solve_triangular(Side::Right, self.lower.view(), rows))?;
        Ok(phi)
    }

    /// A⁻¹, `[n, n]`, symmetric to the bit. Parallel by block rows: first Z = L⁻ᵀ, then Z Zᵀ.
    pub fn inverse(&self) -> Result<Array2<f64>, GpError> {
        let mut inverse = self.inverse_lower(NEVER)?;
        mirror_lower(&mut inverse);
        Ok(inverse)
    }

    /// The lower triangle of A⁻¹, `[n, n]`; what stands above it is not meaningful.
    pub fn inverse_lower(&self, interrupted: Interrupt<'_>) -> Result<Array2<f64>, GpError> {
        let n = self.n();
        let block = block_size(n);
        let mut z = Array2::<f64>::zeros((n, n));
        for_row_blocks(&mut z, block, |start, mut rows| {
            go_on(interrupted)?;
            // Row i of L⁻ᵀ is zero left of the diagonal, so that only the triangle from `start` on takes part.
            for i in 0..rows.nrows() {
                rows[[i, start + i]] = 1.0;
            }
            let lower = self.lower.slice(s![start.., start..]);
            solve_triangular(Side::RightTransposed, lower, rows.slice_mut(s![.., start..]))
        })?;
        let mut inverse = Array2::<f64>::zeros((n, n));
        for_row_blocks(&mut inverse, block, |start, mut rows| {
            go_on(interrupted)?;
            let end = start + rows.nrows();
            let left = z.slice(s![start..end, start..]);
            let right = z.slice(s![..end, start..]);
            gemm_nt(1.0, left, right, 0.0, rows.slice_mut(s![.., ..end]))
        })?;
        Ok(inverse)
    }
}

// Solves the panel below the diagonal block start..end and subtracts its product from the remaining triangle.
fn eliminate(
    a: &mut Array2<f64>,
    (start, end): (usize, usize),
    block: usize,
    interrupted: Interrupt<'_>,
) -> Result<(), GpError> {
    let (top, mut rest) = a.view_mut().split_at(Axis(0), end);
    let diagonal = top.slice(s![start..end, start..end]);
    let panels: Vec<_> = rest.axis_chunks_iter_mut(Axis(0), block).collect();
    panels.into_par_iter().try_for_each(|mut rows| {
        go_on(interrupted)?;
        solve_triangular(Side::RightTransposed, diagonal, rows.slice_mut(s![.., start..end]))
    })?;
    // A copy, because every block row reads the panel of the rows above it while those are being written.
    let panel = rest.slice(s![.., start..end]).to_owned();
    let rows: Vec<_> = rest.axis_chunks_iter_mut(Axis(0), block).collect();
    rows.into_par_iter().enumerate().try_for_each(|(index, mut rows)| {
        go_on(interrupted)?;
        let (first, last) = (index * block, index * block + rows.nrows());
        gemm_nt(
            -1.0,
            panel.slice(s![first..last, ..]),
            panel.slice(s![..last, ..]),
            1.0,
            rows.slice_mut(s![.., end..end + last]),
        )
    })
}

/// Runs `work(first row, rows)` on blocks of rows of a: `[n, p]`, in parallel.
pub(crate) fn for_row_blocks<F>(a: &mut Array2<f64>, block: usize, work: F) -> Result<(), GpError>
where
    F: Fn(usize, ArrayViewMut2<'_, f64>) -> Result<(), GpError> + Sync,
{
    let blocks: Vec<_> = a.axis_chunks_iter_mut(Axis(0), block).collect();
    blocks.into_par_iter().enumerate().try_for_each(|(index, rows)| work(index * block, rows))
}

fn lower_is_finite(a: ArrayView2<'_, f64>) -> bool {
    a.outer_iter().enumerate().all(|(i, row)| row.iter().take(i + 1).all(|v| v.is_finite()))
}

fn clear_upper(a: &mut Array2<f64>) {
    for (i, mut row) in a.outer_iter_mut().enumerate() {
        row.iter_mut().skip(i + 1).for_each(|v| *v = 0.0);
    }
}

/// Copies the lower triangle of a: `[n, n]` to the upper one.
pub(crate) fn mirror_lower(a: &mut Array2<f64>) {
    for i in 0..a.nrows() {
        for j in 0..i {
            a[[j, i]] = a[[i, j]];
        }
    }
}
