//! Training rows as hidden layers see them.

use std::ops::Range;

use ndarray::{Array2, ArrayView2, Axis, CowArray, Ix2, s};

use crate::gp::GpError;
use crate::gp::deep::design::Design;
use crate::gp::deep::knots::{self, Spot};

/// All training rows, with what of them never changes.
#[derive(Debug, Clone)]
pub(in crate::gp::deep) struct TrainingRows {
    /// Features, `[n, d]`.
    pub x: Array2<f64>,
    // Values of hidden layers that make the model stationary, `[n, D]`; `None`: the features.
    start: Option<Array2<f64>>,
    /// Injective: where each row lies between the knots, `[n]`.
    pub spots: Vec<Spot>,
    /// Injective: the rows that are knots, `[T]`.
    pub knots: Vec<usize>,
    /// Injective: the knots themselves, `[T, 1]`.
    pub knot_x: Array2<f64>,
}

impl TrainingRows {
    /// The rows x: `[n, d]`.
    pub fn new(design: &Design, x: ArrayView2<'_, f64>) -> Result<Self, GpError> {
        let x = x.as_standard_layout().into_owned();
        let knots = if design.knots.is_some() { knots::choose(x.column(0)) } else { Vec::new() };
        let start = if design.starts_at_features() { None } else { Some(design.start_values(x.view())?) };
        Ok(Self { start, spots: design.spots(x.view()).unwrap_or_default(), knot_x: design.knot_rows(), knots, x })
    }

    pub fn len(&self) -> usize {
        self.x.nrows()
    }

    /// Values of hidden layers that make the model stationary, `[n, D]`.
    pub fn start(&self) -> ArrayView2<'_, f64> {
        self.start.as_ref().map_or_else(|| self.x.view(), |start| start.view())
    }
}

/// Some rows on their way through the hidden layers.
#[derive(Debug, Clone)]
pub(in crate::gp::deep) struct SomeRows<'a> {
    /// Features, `[b, d]`.
    pub x: CowArray<'a, f64, Ix2>,
    /// Start values, `[b, D]`.
    pub start: CowArray<'a, f64, Ix2>,
    /// Their part of the basis, `[b, r]`; not used by injective layers.
    pub basis: Array2<f64>,
    /// Where they lie between the knots; injective layers only.
    pub spots: Vec<Spot>,
    /// Their numbers among the training rows.
    pub numbers: Vec<usize>,
}

impl<'a> SomeRows<'a> {
    /// Training rows in their order.
    pub fn range(rows: &'a TrainingRows, basis: Array2<f64>, range: Range<usize>) -> Self {
        let part = |a: ArrayView2<'a, f64>| -> CowArray<'a, f64, Ix2> { a.slice_move(s![range.clone(), ..]).into() };
        Self {
            x: part(rows.x.view()),
            start: part(rows.start()),
            basis,
            spots: rows.spots.get(range.clone()).map_or_else(Vec::new, <[Spot]>::to_vec),
            numbers: range.collect(),
        }
    }

    pub fn list(rows: &TrainingRows, basis: Array2<f64>, list: &[usize]) -> Self {
        Self {
            x: rows.x.select(Axis(0), list).into(),
            start: rows.start().select(Axis(0), list).into(),
            basis,
            spots: list.iter().filter_map(|row| rows.spots.get(*row).copied()).collect(),
            numbers: list.to_vec(),
        }
    }
}
