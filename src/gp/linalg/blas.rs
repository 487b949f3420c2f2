//! Checked, row-major doors to the few BLAS and LAPACK routines in use.

use std::os::raw::{c_char, c_int};
use std::sync::{Mutex, Once, PoisonError};

use cblas_sys::{
    CBLAS_DIAG, CBLAS_LAYOUT, CBLAS_SIDE, CBLAS_TRANSPOSE, CBLAS_UPLO, cblas_dgemm, cblas_dsyrk, cblas_dtrsm,
};
use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2};
use ndarray_linalg::error::LinalgError;
use ndarray_linalg::{EighInto, UPLO};
// Linked for its symbols only.
use openblas_src as _;

use super::panels::{LANES, Triangle};
use super::rows;
use crate::gp::GpError;

#[expect(unsafe_code, reason = "not in any bindings crate")]
unsafe extern "C" {
    fn openblas_set_num_threads(threads: c_int);
    fn openblas_get_num_threads() -> c_int;
}

// OpenBLAS splits its sums by its own number of threads; with one thread the order is fixed.
fn single_threaded() {
    static ONCE: Once = Once::new();
    ONCE.call_once(keep_single_threaded);
}

/// The same again, where others in the process, such as Python's `threadpoolctl`, may have changed it since.
pub fn keep_single_threaded() {
    // Two threads must not set it together.
    static SETTING: Mutex<()> = Mutex::new(());
    let _alone = SETTING.lock().unwrap_or_else(PoisonError::into_inner);
    #[expect(unsafe_code, reason = "foreign functions")]
    // SAFETY: plain C functions of at most one integer; the lock keeps two threads from calling them together.
    unsafe {
        if openblas_get_num_threads() != 1 {
            openblas_set_num_threads(1);
        }
    }
}

/// On which side of the unknown a triangular matrix stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// L X = B.
    Left,
    /// Lᵀ X = B.
    LeftTransposed,
    /// X L = B.
    Right,
    /// X Lᵀ = B.
    RightTransposed,
}

fn dimension(size: usize) -> Result<c_int, GpError> {
    c_int::try_from(size).map_err(|_| GpError::shape(format!("{size} is more than BLAS can address")))
}

// The leading dimension of a row-major view; refuses views that BLAS cannot read.
fn leading(rows: usize, columns: usize, strides: &[isize]) -> Result<c_int, GpError> {
    let row_stride = usize::try_from(strides[0]).unwrap_or(0);
    if columns > 1 && strides[1] != 1 || rows > 1 && row_stride < columns {
        return Err(GpError::shape("a matrix is not stored by rows"));
    }
    dimension(if rows > 1 { row_stride } else { columns }.max(1))
}

macro_rules! products {
    ($($(#[$doc:meta])* $name:ident: a $a_transposed:literal, b $b_transposed:literal;)*) => { $(
        $(#[$doc])*
        pub fn $name(
            alpha: f64,
            a: ArrayView2<'_, f64>,
            b: ArrayView2<'_, f64>,
            beta: f64,
            c: ArrayViewMut2<'_, f64>,
        ) -> Result<(), GpError> {
            gemm(alpha, (a, $a_transposed), (b, $b_transposed), beta, c)
        }
    )* };
}

products! {
    /// c ← `alpha` a b + `beta` c, with a: `[m, k]`, b: `[k, n]`, c: `[m, n]`.
    gemm_nn: a false, b false;
    /// c ← `alpha` a bᵀ + `beta` c, with a: `[m, k]`, b: `[n, k]`, c: `[m, n]`.
    gemm_nt: a false, b true;
    /// c ← `alpha` aᵀ b + `beta` c, with a: `[k, m]`, b: `[k, n]`, c: `[m, n]`.
    gemm_tn: a true, b false;
}

// The flag says that the matrix is meant transposed.
fn gemm(
    alpha: f64,
    (a, a_transposed): (ArrayView2<'_, f64>, bool),
    (b, b_transposed): (ArrayView2<'_, f64>, bool),
    beta: f64,
    mut c: ArrayViewMut2<'_, f64>,
) -> Result<(), GpError> {
    single_threaded();
    let turned = |(rows, columns): (usize, usize), transposed: bool| {
        if transposed { (columns, rows) } else { (rows, columns) }
    };
    let ((m, k), (k_b, n)) = (turned(a.dim(), a_transposed), turned(b.dim(), b_transposed));
    if k != k_b || c.dim() != (m, n) {
        return Err(GpError::shape(format!("[{m}, {k}] · [{k_b}, {n}] into {:?}", c.shape())));
    }
    if m == 0 || n == 0 {
        return Ok(());
    }
    let lda = leading(a.nrows(), a.ncols(), a.strides())?;
    let ldb = leading(b.nrows(), b.ncols(), b.strides())?;
    let ldc = leading(m, n, c.strides())?;
    if !a_transposed && rows::pays(m, (k, n)) && a.is_standard_layout() && c.is_standard_layout() {
        return rows::multiply(alpha, a, (b, b_transposed), beta, c);
    }
    let word = |transposed| if transposed { CBLAS_TRANSPOSE::CblasTrans } else { CBLAS_TRANSPOSE::CblasNoTrans };
    #[expect(unsafe_code, reason = "foreign function")]
    // SAFETY: the sizes and leading dimensions were checked against the views just above, `c` is borrowed
    // mutably, so that it overlaps neither `a` nor `b`, and all three live through the call.
    unsafe {
        cblas_dgemm(
            CBLAS_LAYOUT::CblasRowMajor,
            word(a_transposed),
            word(b_transposed),
            dimension(m)?,
            dimension(n)?,
            dimension(k)?,
            alpha,
            a.as_ptr(),
            lda,
            b.as_ptr(),
            ldb,
            beta,
            c.as_mut_ptr(),
            ldc,
        );
    }
    Ok(())
}

/// Adds aᵀ a, for a: `[k, m]`, to the lower triangle of c: `[m, m]`; the upper one is not touched.
pub fn add_gram(a: ArrayView2<'_, f64>, mut c: ArrayViewMut2<'_, f64>) -> Result<(), GpError> {
    single_threaded();
    let (k, m) = a.dim();
    if c.dim() != (m, m) {
        return Err(GpError::shape(format!("[{k}, {m}]ᵀ · [{k}, {m}] into {:?}", c.shape())));
    }
    if m == 0 || k == 0 {
        return Ok(());
    }
    let lda = leading(k, m, a.strides())?;
    let ldc = leading(m, m, c.strides())?;
    #[expect(unsafe_code, reason = "foreign function")]
    // SAFETY: sizes and leading dimensions were checked just above; `c` is borrowed mutably and does not overlap `a`.
    unsafe {
        cblas_dsyrk(
            CBLAS_LAYOUT::CblasRowMajor,
            CBLAS_UPLO::CblasLower,
            CBLAS_TRANSPOSE::CblasTrans,
            dimension(m)?,
            dimension(k)?,
            1.0,
            a.as_ptr(),
            lda,
            1.0,
            c.as_mut_ptr(),
            ldc,
        );
    }
    Ok(())
}

/// Solves with a lower triangular matrix, in place of `x`, on one thread.
///
/// lower: `[n, n]`, of which only the lower triangle is read; x: `[n, p]`, or `[p, n]` when the
/// triangle stands on the right.
pub fn solve_triangular(side: Side, lower: ArrayView2<'_, f64>, mut x: ArrayViewMut2<'_, f64>) -> Result<(), GpError> {
    single_threaded();
    let (n, (rows, columns)) = (lower.nrows(), x.dim());
    let needed = if matches!(side, Side::Right | Side::RightTransposed) { columns } else { rows };
    if lower.ncols() != n || needed != n {
        return Err(GpError::shape(format!("triangle {:?} against {:?}", lower.shape(), x.shape())));
    }
    if rows == 0 || columns == 0 {
        return Ok(());
    }
    // Larger triangles do not stay in the cache, and fewer rows do not fill a panel.
    if side == Side::RightTransposed && n <= 1024 && rows >= LANES {
        return Triangle::new(lower)?.solve_rows(x);
    }
    let (cblas_side, transpose) = match side {
        Side::Left => (CBLAS_SIDE::CblasLeft, CBLAS_TRANSPOSE::CblasNoTrans),
        Side::LeftTransposed => (CBLAS_SIDE::CblasLeft, CBLAS_TRANSPOSE::CblasTrans),
        Side::Right => (CBLAS_SIDE::CblasRight, CBLAS_TRANSPOSE::CblasNoTrans),
        Side::RightTransposed => (CBLAS_SIDE::CblasRight, CBLAS_TRANSPOSE::CblasTrans),
    };
    let ld_lower = leading(n, n, lower.strides())?;
    let ld_x = leading(rows, columns, x.strides())?;
    #[expect(unsafe_code, reason = "foreign function")]
    // SAFETY: sizes and leading dimensions were checked against the views just above; `x` is borrowed
    // mutably, so that it does not overlap `lower`; both live through the call.
    unsafe {
        cblas_dtrsm(
            CBLAS_LAYOUT::CblasRowMajor,
            cblas_side,
            CBLAS_UPLO::CblasLower,
            transpose,
            CBLAS_DIAG::CblasNonUnit,
            dimension(rows)?,
            dimension(columns)?,
            1.0,
            lower.as_ptr(),
            ld_lower,
            x.as_mut_ptr(),
            ld_x,
        );
    }
    Ok(())
}

/// Replaces the lower triangle of a: `[n, n]` by its Cholesky factor, on one thread; `false` when `a` is not
/// positive definite. The upper triangle is not touched.
pub(super) fn potrf(mut a: ArrayViewMut2<'_, f64>) -> Result<bool, GpError> {
    single_threaded();
    let n = a.nrows();
    if a.ncols() != n {
        return Err(GpError::shape(format!("factor of a {:?} matrix", a.shape())));
    }
    if n == 0 {
        return Ok(true);
    }
    // LAPACK reads by columns: our lower triangle is its upper one, and A = UᵀU there is A = LLᵀ here.
    let upper = b'U' as c_char;
    let (size, lda) = (dimension(n)?, leading(n, n, a.strides())?);
    let mut info: c_int = 0;
    #[expect(unsafe_code, reason = "foreign function")]
    // SAFETY: `a` is square with the leading dimension computed above and borrowed mutably; every pointer is
    // to a live variable of the type LAPACK expects.
    unsafe {
        lapack_sys::dpotrf_(&raw const upper, &raw const size, a.as_mut_ptr(), &raw const lda, &raw mut info);
    }
    // LAPACK compares pivots with zero, and NaN passes every comparison.
    Ok(info == 0 && a.diag().iter().all(|pivot| pivot.is_finite()))
}

/// The eigenvectors of a: `[n, n]`, of which only the lower triangle is read, one per row, by increasing eigenvalue.
pub(crate) fn eigenvectors(a: Array2<f64>) -> Result<Array2<f64>, GpError> {
    eigen(a).map(|(_, vectors)| vectors)
}

/// The eigenvalues of a: `[n, n]`, of which only the lower triangle is read, in increasing order, and the eigenvectors, one
/// per row.
pub(crate) fn eigen(a: Array2<f64>) -> Result<(Array1<f64>, Array2<f64>), GpError> {
    single_threaded();
    if a.is_empty() {
        return Ok((Array1::default(0), a));
    }
    // A matrix stored by rows is read by columns: our lower triangle is its upper one, and its columns are our rows.
    let found = a.eigh_into(UPLO::Upper).map_err(|error| match error {
        LinalgError::NotSquare { rows, cols } => GpError::shape(format!("eigenvectors of a {:?} matrix", [rows, cols])),
        _ => GpError::NonFinite { what: "the eigenvectors" },
    });
    found.map(|(values, by_columns)| (values, by_columns.reversed_axes()))
}
