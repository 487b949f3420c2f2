//! Covariance matrices in tiles: distances by matrix products, corrected where these cancel.

use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis, s};

use super::{Hyper, Kernel, Shape, for_kernel};
use crate::gp::GpError;
use crate::gp::linalg::{Interrupt, NEVER, Span, for_row_blocks, go_on, mirror_lower};

/// Rows of a tile. A constant, so that results do not depend on the machine; a multiple of 48, which every
/// micro-kernel of BLAS divides, so that all rows of a full tile take the same path through it.
pub(crate) const ROW_TILE: usize = 96;

/// Points divided by their lengths, around a common centre, with their squared norms.
#[derive(Debug, Clone)]
pub struct Points {
    rows: Array2<f64>,
    norms: Vec<f64>,
    // Which of all points these are.
    span: Span,
}

impl Points {
    /// Scales x: `[n, d]` around centre: `[d]`.
    ///
    /// Centring keeps norms, and with them the cancellation in distances, small.
    pub fn new(x: ArrayView2<'_, f64>, centre: &[f64], lengths: &[f64]) -> Result<Self, GpError> {
        let d = x.ncols();
        if centre.len() != d || lengths.len() != 1 && lengths.len() != d {
            return Err(GpError::shape(format!("{d} features, {} means, {} lengths", centre.len(), lengths.len())));
        }
        let rates: Vec<f64> = lengths.iter().map(|length| 1.0 / length).collect();
        let mut rows = x.as_standard_layout().into_owned();
        let all = rows.as_slice_mut().unwrap_or_default();
        for row in all.chunks_exact_mut(d.max(1)) {
            // Two loops without a choice inside: they become vector instructions.
            if let [rate] = rates[..] {
                row.iter_mut().zip(centre).for_each(|(value, centre)| *value = (*value - centre) * rate);
            } else {
                let scales = centre.iter().zip(&rates);
                row.iter_mut().zip(scales).for_each(|(value, (centre, rate))| *value = (*value - centre) * rate);
            }
        }
        let norms = rows.outer_iter().map(|row| row.iter().map(|v| v * v).sum()).collect();
        let span = Span::whole(rows.nrows());
        Ok(Self { rows, norms, span })
    }

    /// The same as the held ones of a span.
    #[must_use]
    pub(crate) fn of(self, span: &Span) -> Self {
        Self { span: span.clone(), ..self }
    }

    /// Which of all points these are.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    pub fn len(&self) -> usize {
        self.norms.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.norms.is_empty()
    }

    /// The scaled points, `[n, d]`.
    pub fn rows(&self) -> ArrayView2<'_, f64> {
        self.rows.view()
    }

    /// One scaled point, `[d]`.
    pub(crate) fn row(&self, i: usize) -> &[f64] {
        let d = self.rows.ncols();
        self.rows.as_slice().map_or(&[], |all| &all[i * d..(i + 1) * d])
    }

    /// The squared norm of one of them.
    pub(crate) fn norm(&self, i: usize) -> f64 {
        self.norms[i]
    }

    /// Squared distances of rows `first..` of `self` to the first columns of `other`, into out: `[b, m]`.
    pub(crate) fn squared_distances(
        &self,
        first: usize,
        other: &Self,
        out: ArrayViewMut2<'_, f64>,
    ) -> Result<(), GpError> {
        self.by_panels(first, other, out, |_| {})
    }

    /// Some of all points, in the given order.
    pub fn select(&self, rows: &[usize]) -> Result<Self, GpError> {
        self.select_with(rows, None).map(|(points, _)| points)
    }

    /// The same with what else is known of each of them: `[b]`.
    pub(crate) fn select_with(&self, rows: &[usize], more: Option<&[f64]>) -> Result<(Self, Vec<f64>), GpError> {
        let of = |all: &[f64], rows: &[usize]| rows.iter().map(|i| all[*i]).collect::<Vec<f64>>();
        if !self.span.is_shared() {
            let span = Span::whole(rows.len());
            let points = Self { rows: self.rows.select(Axis(0), rows), norms: of(&self.norms, rows), span };
            return Ok((points, more.map_or_else(Vec::new, |more| of(more, rows))));
        }
        let d = self.rows.ncols();
        let all = self.span.gather(rows, d + 2, |own| {
            let mut all = Array2::zeros((own.len(), d + 2));
            for (mut row, i) in all.outer_iter_mut().zip(own) {
                row.slice_mut(s![..d]).assign(&self.rows.row(*i));
                row[d] = self.norms[*i];
                row[d + 1] = more.map_or(0.0, |more| more[*i]);
            }
            Ok(all)
        })?;
        let points = all.slice(s![.., ..d]).as_standard_layout().into_owned();
        let (norms, more) = (all.column(d).to_vec(), more.map_or_else(Vec::new, |_| all.column(d + 1).to_vec()));
        Ok((Self { rows: points, norms, span: Span::whole(rows.len()) }, more))
    }

    /// Covariances of rows `first..` of `self` with the first columns of `other`, into out: `[b, m]`.
    pub(crate) fn covariance_tile(
        &self,
        first: usize,
        other: &Self,
        kernel: Kernel,
        variance: f64,
        out: ArrayViewMut2<'_, f64>,
    ) -> Result<(), GpError> {
        self.by_panels(first, other, out, |panel| kernel.covariances(variance, panel.as_flattened_mut()))
    }
}

/// The mean of every column of x: `[n, d]`.
pub(crate) fn column_means(x: ArrayView2<'_, f64>) -> Vec<f64> {
    let n = x.nrows().max(1) as f64;
    x.columns().into_iter().map(|column| column.iter().sum::<f64>() / n).collect()
}

/// The covariance of x: `[n, d]` with itself, `[n, n]`: symmetric to the bit, σ² on the diagonal, no noise.
pub fn covariance(kernel: Kernel, hyper: &Hyper, x: ArrayView2<'_, f64>) -> Result<Array2<f64>, GpError> {
    hyper.check(x.ncols())?;
    let points = Points::new(x, &column_means(x), &hyper.lengths)?;
    let (mut k_nn, _) = covariance_lower(kernel, hyper.variance, &points, false, NEVER)?;
    mirror_lower(&mut k_nn);
    Ok(k_nn)
}

/// The lower triangle of the covariance, `[n, n]`, and that of the squared distances when asked for.
pub(crate) fn covariance_lower(
    kernel: Kernel,
    variance: f64,
    points: &Points,
    keep_distances: bool,
    interrupted: Interrupt<'_>,
) -> Result<(Array2<f64>, Option<Array2<f64>>), GpError> {
    let n = points.len();
    let mut distances = Array2::zeros((n, n));
    for_row_blocks(&mut distances, ROW_TILE, |first, mut rows| {
        go_on(interrupted)?;
        let end = first + rows.nrows();
        points.squared_distances(first, points, rows.slice_mut(s![.., ..end]))
    })?;
    let mut k_nn = if keep_distances { distances.clone() } else { std::mem::take(&mut distances) };
    for_row_blocks(&mut k_nn, ROW_TILE, |first, mut rows| {
        go_on(interrupted)?;
        for (i, mut row) in rows.outer_iter_mut().enumerate() {
            let diagonal = first + i;
            let below = row.iter_mut().take(diagonal);
            for_kernel!(kernel, shape => below.for_each(|v| *v = variance * shape.correlation(*v)));
            row[diagonal] = variance;
        }
        Ok(())
    })?;
    Ok((k_nn, keep_distances.then_some(distances)))
}

/// The covariance of z: `[m, d]` with x: `[n, d]`, `[m, n]`.
pub fn cross_covariance(
    kernel: Kernel,
    hyper: &Hyper,
    z: ArrayView2<'_, f64>,
    x: ArrayView2<'_, f64>,
) -> Result<Array2<f64>, GpError> {
    hyper.check(z.ncols())?;
    let centre = column_means(z);
    let left = Points::new(z, &centre, &hyper.lengths)?;
    let right = Points::new(x, &centre, &hyper.lengths)?;
    let mut k_mn = Array2::zeros((z.nrows(), x.nrows()));
    for_row_blocks(&mut k_mn, ROW_TILE, |first, rows| {
        left.covariance_tile(first, &right, kernel, hyper.variance, rows)
    })?;
    Ok(k_mn)
}
