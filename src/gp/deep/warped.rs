//! The covariance of a layer at some rows, given the layer below: what that layer has made of the rows.
//!
//! | architecture | rows become |
//! |---|---|
//! | composition, injective | points of a stationary covariance: the values below, or the map g of the feature |
//! | convolution | places x with a local correlation length a |
//!
//! With local lengths (Paciorek and Schervish), h = a²:
//!
//! ```text
//! k = σ² (2√(hh')/(h+h'))^{d/2} ρ(√q),   q = 2‖x−x'‖²/(h+h')
//! ```
//!
//! The paper prints ρ(2‖x−x'‖/(h+h')), which is not positive semi-definite; this is the form its factor belongs to.
//!
//! Derivatives go backwards: from those by the entries of K to those by the (scaled) points u or the lengths a.

use std::ops::Range;

use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis, s};

use crate::gp::GpError;
use crate::gp::kernel::{Covariance, Hyper, Kernel, Points, Stationary, multiply_rows, panels_of_tiles};
use crate::gp::linalg::panels::Lane;
use crate::gp::linalg::{Span, Triangle, for_this_processor, gemm_nn, gemm_tn};

/// A layer's covariance function at some rows.
#[derive(Debug, Clone)]
pub enum Warped {
    /// Stationary in some points.
    Stationary(Stationary),
    /// With a local correlation length.
    Local(Local),
}

/// Places with local correlation lengths.
#[derive(Debug, Clone)]
pub struct Local {
    places: Points,
    lengths: Vec<f64>,
    kernel: Kernel,
    variance: f64,
    // See [`Covariance::factors`].
    factors: Option<Vec<f64>>,
}

/// What the derivatives of a tile of covariances need, `[b, m]` each.
#[derive(Debug, Clone)]
pub(crate) struct Slopes {
    // Stationary: w with ∂k/∂u = −w (u − u'). Local: k itself.
    one: Array2<f64>,
    // Local: (d k − w q)/(h + h').
    two: Array2<f64>,
}

impl Slopes {
    /// Room for tiles of the size b × m.
    pub fn new(like: &Warped, b: usize, m: usize) -> Self {
        let second = if matches!(like, Warped::Local(_)) { (b, m) } else { (0, 0) };
        Self { one: Array2::zeros((b, m)), two: Array2::zeros(second) }
    }
}

impl Warped {
    /// Stationary in values: `[k, D]` around centre: `[D]`.
    pub fn stationary(
        kernel: Kernel,
        (variance, length): (f64, f64),
        values: ArrayView2<'_, f64>,
        centre: &[f64],
    ) -> Result<Self, GpError> {
        let hyper = Hyper::isotropic(variance, length, 0.0);
        Stationary::new(kernel, &hyper, values, centre).map(Self::Stationary)
    }

    /// At x: `[k, d]` around centre: `[d]`, with local lengths: `[k]`.
    pub fn local(
        kernel: Kernel,
        variance: f64,
        x: ArrayView2<'_, f64>,
        centre: &[f64],
        lengths: Vec<f64>,
    ) -> Result<Self, GpError> {
        if lengths.len() != x.nrows() {
            return Err(GpError::shape(format!("{} local lengths of {} rows", lengths.len(), x.nrows())));
        }
        Ok(Self::Local(Local { places: Points::new(x, centre, &[1.0])?, lengths, kernel, variance, factors: None }))
    }

    /// The same with every row's covariances with selected ones multiplied by its factor, `[n]`.
    #[must_use]
    pub(crate) fn multiplied(self, factors: Option<Vec<f64>>) -> Self {
        match self {
            Self::Stationary(stationary) => Self::Stationary(stationary.multiplied(factors)),
            Self::Local(local) => Self::Local(Local { factors, ..local }),
        }
    }

    /// The same as the held rows of a span.
    #[must_use]
    pub(crate) fn of(self, span: &Span) -> Self {
        match self {
            Self::Stationary(stationary) => Self::Stationary(stationary.of(span)),
            Self::Local(local) => Self::Local(Local { places: local.places.of(span), ..local }),
        }
    }

    /// Number of coordinates that derivatives are taken by.
    pub(crate) fn coordinates(&self) -> usize {
        match self {
            Self::Stationary(stationary) => stationary.points().rows().ncols(),
            Self::Local(_) => 1,
        }
    }

    /// Covariances of the rows `first..` with all rows of `other` into k: `[b, m]`, and what their derivatives need.
    pub(crate) fn tile_with_slopes(
        &self,
        first: usize,
        other: &Self,
        k: ArrayViewMut2<'_, f64>,
        slopes: &mut Slopes,
    ) -> Result<(), GpError> {
        let b = k.nrows();
        match (self, other) {
            (Self::Stationary(own), Self::Stationary(other)) => {
                own.tile_with_length_weight(first, other, k, slopes.one.slice_mut(s![..b, ..]))
            }
            (Self::Local(own), Self::Local(other)) => own.tile_with_slopes(first, other, k, b, slopes),
            _ => Err(different()),
        }
    }

    /// Takes adjoint: `[b, m]`, the derivative of something by the covariances of the rows `first..` with `other`, back to
    /// the rows: adds the derivatives by their own coordinates to own: `[b, D]`, by those of the others to others: `[m, D]`.
    pub(crate) fn pull_back(
        &self,
        first: usize,
        other: &Self,
        mut adjoint: ArrayViewMut2<'_, f64>,
        slopes: &Slopes,
        mut own: ArrayViewMut2<'_, f64>,
        mut others: ArrayViewMut2<'_, f64>,
    ) -> Result<(), GpError> {
        let b = adjoint.nrows();
        match (self, other) {
            (Self::Stationary(left), Self::Stationary(right)) => {
                adjoint *= &slopes.one.slice(s![..b, ..]);
                let (u, z) = (left.points().rows().slice_move(s![first..first + b, ..]), right.points().rows());
                gemm_nn(1.0, adjoint.view(), z, 1.0, own.view_mut())?;
                gemm_tn(1.0, adjoint.view(), u, 1.0, others.view_mut())?;
                subtract_scaled(own, &sums_of_rows(adjoint.view()), u);
                subtract_scaled(others, &sums_of_columns(adjoint.view()), z);
                Ok(())
            }
            (Self::Local(left), Self::Local(right)) => {
                let half = 0.5 * left.places.rows().ncols() as f64;
                let by_k = &adjoint * &slopes.one.slice(s![..b, ..]);
                adjoint *= &slopes.two.slice(s![..b, ..]);
                let add = |mut to: ArrayViewMut2<'_, f64>, lengths: &[f64], k: &[f64], c: &[f64]| {
                    for (i, a) in lengths.iter().enumerate() {
                        to[[i, 0]] += half / a * k[i] - a * c[i];
                    }
                };
                let lengths = &left.lengths[first..first + b];
                add(own.view_mut(), lengths, &sums_of_rows(by_k.view()), &sums_of_rows(adjoint.view()));
                add(others.view_mut(), &right.lengths, &sums_of_columns(by_k.view()), &sums_of_columns(adjoint.view()));
                Ok(())
            }
            _ => Err(different()),
        }
    }
}

impl Local {
    fn tile(&self, first: usize, other: &Self, mut out: ArrayViewMut2<'_, f64>) -> Result<(), GpError> {
        self.scaled_distances(first, other, out.view_mut())?;
        for (i, mut row) in out.outer_iter_mut().enumerate() {
            let row = row.as_slice_mut().ok_or_else(|| GpError::shape("a matrix is not stored by rows"))?;
            self.kernel.covariances(self.variance, row);
            self.damp(first + i, other, row);
        }
        multiply_rows(out, self.factors.as_deref(), first);
        Ok(())
    }

    fn tile_with_slopes(
        &self,
        first: usize,
        other: &Self,
        mut k: ArrayViewMut2<'_, f64>,
        b: usize,
        slopes: &mut Slopes,
    ) -> Result<(), GpError> {
        let dimension = self.places.rows().ncols() as f64;
        let mut q = slopes.two.slice_mut(s![..b, ..]);
        self.scaled_distances(first, other, q.view_mut())?;
        for (i, (mut k, mut q)) in k.outer_iter_mut().zip(q.outer_iter_mut()).enumerate() {
            let (Some(k), Some(q)) = (k.as_slice_mut(), q.as_slice_mut()) else {
                return Err(GpError::shape("a matrix is not stored by rows"));
            };
            k.copy_from_slice(q);
            self.kernel.covariances(self.variance, k);
            self.damp(first + i, other, k);
            let a = self.lengths[first + i];
            self.kernel.length_weights(k, q, |w, q| w * q);
            for ((wq, k), length) in q.iter_mut().zip(&*k).zip(&other.lengths) {
                *wq = (dimension * k - *wq) / (a * a + length * length);
            }
        }
        slopes.one.slice_mut(s![..b, ..]).assign(&k);
        Ok(())
    }

    // q = 2‖x−x'‖²/(h+h'), into out: [b, m].
    fn scaled_distances(&self, first: usize, other: &Self, mut out: ArrayViewMut2<'_, f64>) -> Result<(), GpError> {
        self.places.squared_distances(first, &other.places, out.view_mut())?;
        for (mut row, a) in out.outer_iter_mut().zip(&self.lengths[first..]) {
            for (value, length) in row.iter_mut().zip(&other.lengths) {
                *value *= 2.0 / (a * a + length * length);
            }
        }
        Ok(())
    }

    // Multiplies by (2√(hh')/(h+h'))^{d/2}.
    fn damp(&self, i: usize, other: &Self, row: &mut [f64]) {
        damp_row(self.lengths[i], &other.lengths, self.places.rows().ncols(), row);
    }
}

for_this_processor! {
    /// Multiplies row: `[m]` by (2aa'/(a²+a'²))^{power/2} for each a' of lengths: `[m]`.
    fn damp_row(a: f64, lengths: &[f64], power: usize, row: &mut [f64]) {
        // Powers by squaring, many entries side by side: one after the other they would cost more than the exponentials.
        const PIECE: usize = 32;
        for (values, lengths) in row.chunks_mut(PIECE).zip(lengths.chunks(PIECE)) {
            let (mut base, mut product) = ([1.0; PIECE], [1.0; PIECE]);
            for (base, length) in base.iter_mut().zip(lengths) {
                *base = (2.0 * a * length / (a * a + length * length)).sqrt();
            }
            let mut left = power;
            while left > 0 {
                if left % 2 == 1 {
                    product.iter_mut().zip(&base).for_each(|(product, base)| *product *= base);
                }
                left /= 2;
                for base in &mut base {
                    *base *= *base;
                }
            }
            values.iter_mut().zip(&product).for_each(|(value, product)| *value *= product);
        }
    }
}

impl Covariance for Warped {
    fn span(&self) -> &Span {
        match self {
            Self::Stationary(stationary) => stationary.span(),
            Self::Local(local) => local.places.span(),
        }
    }

    fn variance(&self) -> f64 {
        match self {
            Self::Stationary(stationary) => stationary.variance(),
            Self::Local(local) => local.variance,
        }
    }

    fn factors(&self) -> Option<&[f64]> {
        match self {
            Self::Stationary(stationary) => stationary.factors(),
            Self::Local(local) => local.factors.as_deref(),
        }
    }

    fn select(&self, rows: &[usize]) -> Result<Self, GpError> {
        match self {
            Self::Stationary(stationary) => stationary.select(rows).map(Self::Stationary),
            Self::Local(local) => {
                let (places, lengths) = local.places.select_with(rows, Some(&local.lengths))?;
                let Local { kernel, variance, .. } = *local;
                Ok(Self::Local(Local { places, lengths, kernel, variance, factors: None }))
            }
        }
    }

    fn tile(&self, first: usize, other: &Self, out: ArrayViewMut2<'_, f64>) -> Result<(), GpError> {
        match (self, other) {
            (Self::Stationary(own), Self::Stationary(other)) => own.tile(first, other, out),
            (Self::Local(own), Self::Local(other)) => own.tile(first, other, out),
            _ => Err(different()),
        }
    }

    fn for_panels(
        &self,
        rows: Range<usize>,
        other: &Self,
        lower: Option<&Triangle>,
        work: &mut dyn FnMut(Range<usize>, &mut [Lane]),
    ) -> Result<(), GpError> {
        match (self, other) {
            (Self::Stationary(own), Self::Stationary(other)) => own.for_panels(rows, other, lower, work),
            _ => panels_of_tiles(self, rows, other, lower, work),
        }
    }
}

fn different() -> GpError {
    GpError::shape("rows of different architectures")
}

fn sums_of_rows(a: ArrayView2<'_, f64>) -> Vec<f64> {
    a.outer_iter().map(|row| row.iter().sum()).collect()
}

fn sums_of_columns(a: ArrayView2<'_, f64>) -> Vec<f64> {
    a.sum_axis(Axis(0)).to_vec()
}

// to ← to − diag(factors) points
fn subtract_scaled(mut to: ArrayViewMut2<'_, f64>, factors: &[f64], points: ArrayView2<'_, f64>) {
    for ((mut to, factor), point) in to.outer_iter_mut().zip(factors).zip(points.outer_iter()) {
        to.scaled_add(-factor, &point);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A row whose value is computed twice, in two orders of summation, is not the same to the last bit.
    #[test]
    fn points_that_differ_by_rounding_pull_nowhere() -> Result<(), GpError> {
        let (variance, length, u) = (1.3, 0.8, [0.7_f64, 1.9]);
        let nearly = f64::from_bits(u[0].to_bits() + 1);
        for kernel in Kernel::ALL {
            let at = |values: &[f64]| {
                let values =
                    ArrayView2::from_shape((values.len(), 1), values).map_err(|e| GpError::shape(e.to_string()))?;
                Warped::stationary(kernel, (variance, length), values, &[0.0])
            };
            let (rows, inducing) = (at(&u)?, at(&[nearly])?);
            let (mut k, mut slopes) = (Array2::zeros((2, 1)), Slopes::new(&rows, 2, 1));
            rows.tile_with_slopes(0, &inducing, k.view_mut(), &mut slopes)?;
            let (mut own, mut others) = (Array2::zeros((2, 1)), Array2::zeros((1, 1)));
            let mut adjoint = Array2::ones((2, 1));
            rows.pull_back(0, &inducing, adjoint.view_mut(), &slopes, own.view_mut(), others.view_mut())?;
            // Derivatives by u/λ; the first row has none, the second pulls the inducing point as it is pulled.
            let step = 1e-6;
            let shifted = |by: f64| variance * kernel.correlation(((u[1] - u[0]) / length + by).powi(2));
            let slope = (shifted(step) - shifted(-step)) / (2.0 * step);
            assert!(own[[0, 0]].abs() < 1e-7, "{kernel}: {own}");
            assert!((own[[1, 0]] - slope).abs() < 1e-8, "{kernel}: {own} {slope}");
            assert!((others[[0, 0]] + slope).abs() < 1e-7, "{kernel}: {others} {slope}");
        }
        Ok(())
    }
}
