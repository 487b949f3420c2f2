//! Training rows as hidden layers see them.

use std::ops::Range;

use ndarray::{ArcArray2, Array2, ArrayView2, Axis, CowArray, Ix2, s};

use crate::gp::GpError;
use crate::gp::deep::design::Design;
use crate::gp::deep::knots::{self, Spot};
use crate::gp::linalg::Span;

/// All training rows that are held, with what of them never changes.
#[derive(Debug, Clone)]
pub(in crate::gp::deep) struct TrainingRows {
    /// Features, `[n, d]`.
    pub x: ArcArray2<f64>,
    // Values of hidden layers that make the model stationary, `[n, D]`; `None`: the features.
    start: Option<Array2<f64>>,
    /// Injective: where each row lies between the knots, `[n]`.
    pub spots: Vec<Spot>,
    /// Injective: the rows that are knots, `[T]`.
    pub knots: Vec<usize>,
    /// Injective: the knots themselves, `[T, 1]`.
    pub knot_x: Array2<f64>,
    span: Span,
}

/// Some training rows, without what links them to anchors.
#[derive(Debug)]
pub(in crate::gp::deep) struct ListedRows {
    /// Features, `[b, d]`.
    pub x: Array2<f64>,
    /// Start values, `[b, D]`.
    pub start: Array2<f64>,
    pub spots: Vec<Spot>,
}

impl TrainingRows {
    /// The rows x: `[b, d]`, which are held of all.
    pub fn new(design: &Design, x: ArcArray2<f64>, span: &Span) -> Result<Self, GpError> {
        let knots = if design.knots.is_some() { knots::choose(x.column(0)) } else { Vec::new() };
        let start = if design.starts_at_features() { None } else { Some(design.start_values(x.view())?) };
        let (spots, knot_x) = (design.spots(x.view()).unwrap_or_default(), design.knot_rows());
        Ok(Self { start, spots, knot_x, knots, x, span: span.clone() })
    }

    /// Number of all rows.
    pub fn all(&self) -> usize {
        self.span.all()
    }

    /// Number of rows that are held.
    pub fn len(&self) -> usize {
        self.x.nrows()
    }

    /// Which of all rows are held.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Numbers among all rows of a range of those that are held.
    pub fn numbers(&self, range: Range<usize>) -> Vec<usize> {
        let first = self.span.held().start;
        (first + range.start..first + range.end).collect()
    }

    /// Some of all rows, in the order of the list.
    pub fn pick(&self, list: &[usize]) -> Result<ListedRows, GpError> {
        let spots = list.iter().filter_map(|row| self.spots.get(*row).copied()).collect();
        let of = |all: ArrayView2<'_, f64>| self.span.gather(list, all.ncols(), |own| Ok(all.select(Axis(0), own)));
        let x = of(self.x.view())?;
        let start = self.start.as_ref().map_or_else(|| Ok(x.clone()), |start| of(start.view()))?;
        Ok(ListedRows { x, start, spots })
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
            numbers: rows.numbers(range),
        }
    }

    /// Some of all training rows, in the order of the list.
    pub fn list(rows: &TrainingRows, basis: Array2<f64>, list: &[usize]) -> Result<Self, GpError> {
        let ListedRows { x, start, spots } = rows.pick(list)?;
        Ok(Self { x: x.into(), start: start.into(), basis, spots, numbers: list.to_vec() })
    }
}
