//! A covariance function at the rows of a data set: what sparse methods know of kernel and inputs.

use std::ops::Range;

use ndarray::{Array2, ArrayView2, ArrayViewMut2, s};

use super::panels::{Against, PointRows};
use super::{Hyper, Kernel, Points};
use crate::gp::GpError;
use crate::gp::linalg::panels::{LANES, Lane, load, room, store};
use crate::gp::linalg::{Span, TILE, Triangle, mirror_lower, tiles};

/// Covariances between rows of a data set, in tiles.
///
/// Sparse regression and the choice of inducing points see the data through this only, so that a deep model can
/// put its hidden values, or another covariance function, in the place of the inputs.
pub trait Covariance: Send + Sync + Sized {
    /// Which rows these are: numbers of tiles and panels count from the first that is held.
    fn span(&self) -> &Span;
    /// Number of rows that are held.
    fn len(&self) -> usize {
        self.span().held().len()
    }
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// k(x, x), the same for all rows.
    fn variance(&self) -> f64;
    /// What covariances of each row with selected ones are multiplied by, `[n]`, where rows differ in their noise.
    fn factors(&self) -> Option<&[f64]> {
        None
    }
    /// The same at some of all rows, in the given order; those among themselves are not multiplied.
    fn select(&self, rows: &[usize]) -> Result<Self, GpError>;
    /// The same at a tile of rows, for several questions about them, where each would compute them again; `None`: none would.
    fn at(&self, rows: &Range<usize>) -> Result<Option<Self>, GpError> {
        let _ = rows;
        Ok(None)
    }
    /// Covariances of the rows `first..` with all rows of `other`, or with the first m of them, into out: `[b, m]`.
    fn tile(&self, first: usize, other: &Self, out: ArrayViewMut2<'_, f64>) -> Result<(), GpError>;
    /// Covariances of the `rows` with all rows of `other`, and if `lower` is given, L v = k solved for each; handed on eight
    /// rows at a time: entry j of row i is `panel[j][i]`, with room for whole blocks.
    fn for_panels(
        &self,
        rows: Range<usize>,
        other: &Self,
        lower: Option<&Triangle>,
        work: &mut dyn FnMut(Range<usize>, &mut [Lane]),
    ) -> Result<(), GpError> {
        panels_of_tiles(self, rows, other, lower, work)
    }
    /// Covariances of the rows `first..` with all rows of `other`, and L v = k solved for each, into out: `[b, m]`.
    fn whitened(
        &self,
        first: usize,
        other: &Self,
        lower: &Triangle,
        mut out: ArrayViewMut2<'_, f64>,
    ) -> Result<(), GpError> {
        if out.ncols() != other.len() {
            return Err(GpError::shape(format!("covariances with {} rows into {:?}", other.len(), out.shape())));
        }
        let rows = first..first + out.nrows();
        self.for_panels(rows, other, Some(lower), &mut |rows, panel| {
            store(panel, out.slice_mut(s![rows.start - first..rows.end - first, ..]));
        })
    }
}

/// A covariance with one correlation length.
pub(crate) trait Sloped: Covariance {
    /// Covariances of the rows `first..` with all rows of `other` into k: `[b, m]`, and their derivatives by the
    /// logarithm of the common length into slope: `[b, m]`.
    fn tile_with_slope(
        &self,
        first: usize,
        other: &Self,
        k: ArrayViewMut2<'_, f64>,
        slope: ArrayViewMut2<'_, f64>,
    ) -> Result<(), GpError>;
}

/// [`Covariance::for_panels`] for a covariance that is computed in tiles.
pub(crate) fn panels_of_tiles<C: Covariance>(
    covariance: &C,
    rows: Range<usize>,
    other: &C,
    lower: Option<&Triangle>,
    work: &mut dyn FnMut(Range<usize>, &mut [Lane]),
) -> Result<(), GpError> {
    lower.map_or(Ok(()), |lower| lower.check(other.len()))?;
    let mut panel = vec![[0.0; LANES]; room(other.len())];
    let mut room = Array2::zeros((rows.len().min(TILE), other.len()));
    for rows in tiles(rows) {
        let mut tile = room.slice_mut(s![..rows.len(), ..]);
        covariance.tile(rows.start, other, tile.view_mut())?;
        for first in rows.clone().step_by(LANES) {
            let eight = first..(first + LANES).min(rows.end);
            load(tile.slice(s![eight.start - rows.start..eight.end - rows.start, ..]), &mut panel);
            if let Some(lower) = lower {
                lower.solve(&mut panel);
            }
            work(eight, &mut panel);
        }
    }
    Ok(())
}

/// A stationary covariance function at some points.
#[derive(Debug, Clone)]
pub struct Stationary {
    points: Points,
    kernel: Kernel,
    variance: f64,
    // See [`Covariance::factors`].
    factors: Option<Vec<f64>>,
}

impl Stationary {
    /// At the rows of x: `[n, d]`; centre: `[d]` is a point in the middle of them.
    pub fn new(kernel: Kernel, hyper: &Hyper, x: ArrayView2<'_, f64>, centre: &[f64]) -> Result<Self, GpError> {
        hyper.check(x.ncols())?;
        Ok(Self { points: Points::new(x, centre, &hyper.lengths)?, kernel, variance: hyper.variance, factors: None })
    }

    /// The same with every row's covariances multiplied by its factor, `[n]`.
    pub(crate) fn multiplied(self, factors: Option<Vec<f64>>) -> Self {
        Self { factors, ..self }
    }

    /// The same as the held rows of a span.
    #[must_use]
    pub(crate) fn of(self, span: &Span) -> Self {
        Self { points: self.points.of(span), ..self }
    }

    /// Some of all rows, with their factors.
    pub(crate) fn subset(&self, rows: &[usize]) -> Result<Self, GpError> {
        let (points, factors) = self.points.select_with(rows, self.factors())?;
        let factors = self.factors.as_ref().map(|_| factors);
        Ok(Self { points, kernel: self.kernel, variance: self.variance, factors })
    }

    pub(crate) fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// The points divided by their lengths.
    pub(crate) fn points(&self) -> &Points {
        &self.points
    }

    /// Covariances of the rows `first..` with all rows of `other` into k: `[b, m]`, and w such that ∂k/∂log λⱼ = w (Δⱼ/λⱼ)² into
    /// weight: `[b, m]`.
    pub(crate) fn tile_with_length_weight(
        &self,
        first: usize,
        other: &Self,
        k: ArrayViewMut2<'_, f64>,
        weight: ArrayViewMut2<'_, f64>,
    ) -> Result<(), GpError> {
        self.tile_with_weight(first, other, k, weight, |weight, _| weight)
    }

    /// [`Covariance::for_panels`] with `self` as the other side, for points from wherever they come.
    pub(crate) fn for_panels_from(
        &self,
        from: &mut impl PointRows,
        rows: Range<usize>,
        lower: Option<&Triangle>,
        work: &mut dyn FnMut(Range<usize>, &mut [Lane]),
    ) -> Result<(), GpError> {
        lower.map_or(Ok(()), |lower| lower.check(self.len()))?;
        Against::new(&self.points, self.len()).panels(from, rows, |rows, panel| {
            self.kernel.covariances(self.variance, panel[..self.len()].as_flattened_mut());
            if let Some(lower) = lower {
                lower.solve(panel);
            }
            work(rows, panel);
        });
        Ok(())
    }

    fn tile_with_weight(
        &self,
        first: usize,
        other: &Self,
        mut k: ArrayViewMut2<'_, f64>,
        mut weight: ArrayViewMut2<'_, f64>,
        combine: impl Fn(f64, f64) -> f64,
    ) -> Result<(), GpError> {
        self.points.squared_distances(first, &other.points, weight.view_mut())?;
        for (mut k, mut weight) in k.outer_iter_mut().zip(weight.outer_iter_mut()) {
            let (Some(k), Some(weight)) = (k.as_slice_mut(), weight.as_slice_mut()) else {
                return Err(GpError::shape("a matrix is not stored by rows"));
            };
            k.copy_from_slice(weight);
            self.kernel.covariances(self.variance, k);
            self.kernel.length_weights(k, weight, &combine);
        }
        multiply_rows(k, self.factors(), first);
        multiply_rows(weight, self.factors(), first);
        Ok(())
    }
}

impl Sloped for Stationary {
    fn tile_with_slope(
        &self,
        first: usize,
        other: &Self,
        k: ArrayViewMut2<'_, f64>,
        slope: ArrayViewMut2<'_, f64>,
    ) -> Result<(), GpError> {
        self.tile_with_weight(first, other, k, slope, |weight, r2| weight * r2)
    }
}

impl Covariance for Stationary {
    fn span(&self) -> &Span {
        self.points.span()
    }

    fn variance(&self) -> f64 {
        self.variance
    }

    fn factors(&self) -> Option<&[f64]> {
        self.factors.as_deref()
    }

    fn select(&self, rows: &[usize]) -> Result<Self, GpError> {
        let points = self.points.select(rows)?;
        Ok(Self { points, kernel: self.kernel, variance: self.variance, factors: None })
    }

    fn tile(&self, first: usize, other: &Self, mut out: ArrayViewMut2<'_, f64>) -> Result<(), GpError> {
        self.points.covariance_tile(first, &other.points, self.kernel, self.variance, out.view_mut())?;
        multiply_rows(out, self.factors(), first);
        Ok(())
    }

    fn for_panels(
        &self,
        rows: Range<usize>,
        other: &Self,
        lower: Option<&Triangle>,
        work: &mut dyn FnMut(Range<usize>, &mut [Lane]),
    ) -> Result<(), GpError> {
        self.points.check(rows.end, &other.points, other.len())?;
        let Some(factors) = &self.factors else {
            return other.for_panels_from(&mut &self.points, rows, lower, work);
        };
        // Solving is linear: it does not matter that rows are multiplied afterwards.
        other.for_panels_from(&mut &self.points, rows, lower, &mut |rows, panel| {
            multiply_lanes(panel, &factors[rows.clone()]);
            work(rows, panel);
        })
    }
}

/// Multiplies the rows `first..` of a data set, a: `[b, m]`, by their factors, if there are any: `[n]`.
pub(crate) fn multiply_rows(mut a: ArrayViewMut2<'_, f64>, factors: Option<&[f64]>, first: usize) {
    let Some(factors) = factors else { return };
    for (mut row, factor) in a.outer_iter_mut().zip(&factors[first..]) {
        row *= *factor;
    }
}

/// Multiplies up to eight rows of a panel by their factors: `[b]`.
pub(crate) fn multiply_lanes(panel: &mut [Lane], factors: &[f64]) {
    for entry in panel.iter_mut() {
        entry.iter_mut().zip(factors).for_each(|(value, factor)| *value *= factor);
    }
}

/// The covariance of all rows with themselves, `[m, m]`, symmetric to the bit.
pub(crate) fn square<C: Covariance>(covariance: &C) -> Result<Array2<f64>, GpError> {
    let mut k_mm = square_lower(covariance)?;
    mirror_lower(&mut k_mm);
    Ok(k_mm)
}

/// The lower triangle of the same; what stands above it is not meaningful.
pub(crate) fn square_lower<C: Covariance>(covariance: &C) -> Result<Array2<f64>, GpError> {
    let m = covariance.len();
    let mut k_mm = Array2::zeros((m, m));
    for first in (0..m).step_by(super::ROW_TILE) {
        let end = (first + super::ROW_TILE).min(m);
        covariance.tile(first, covariance, k_mm.slice_mut(s![first..end, ..end]))?;
    }
    Ok(k_mm)
}
