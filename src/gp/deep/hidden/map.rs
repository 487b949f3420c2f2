//! The monotone map of one injective layer.

use ndarray::{Array1, Array2};

use crate::gp::deep::design::Design;
use crate::gp::deep::knots::{self, Spot};

/// The map g of one layer (injective).
#[derive(Debug, Clone)]
pub(in crate::gp::deep) struct MonotoneMap {
    /// u at the knots, `[T]`.
    pub u: Array1<f64>,
    /// g at the knots, `[T]`.
    pub g: Vec<f64>,
    /// Slopes of g at both ends.
    ends: (f64, f64),
}

impl MonotoneMap {
    /// From u at the knots, `[T, 1]`; `None` where the architecture has no knots.
    pub fn new(design: &Design, u: Array2<f64>) -> Option<Self> {
        let knots = design.knots.as_ref()?;
        let u = u.into_iter().collect::<Array1<f64>>();
        Some(Self { g: knots.integrate(u.view()), ends: knots.ends(u.view()), u })
    }

    /// g at some rows, `[b, 1]`.
    pub fn at(&self, spots: &[Spot]) -> Array2<f64> {
        knots::values(spots, &self.g, self.ends)
    }

    /// The derivative by u at the knots, `[T, 1]`, of something whose derivative by g there is `[T]`.
    pub fn back(&self, design: &Design, adjoint: &[f64]) -> Array2<f64> {
        let back = design.knots.as_ref().map_or_else(Vec::new, |knots| knots.integrate_back(self.u.view(), adjoint));
        column(back)
    }
}

/// One column, `[T, 1]`.
pub(super) fn column(values: Vec<f64>) -> Array2<f64> {
    Array1::from(values).insert_axis(ndarray::Axis(1))
}
