//! Hidden layers at all training rows.

use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis};

use super::{Adjoints, Anchors, BasisAt, HiddenLayers, LayersAtRows, Prepared, Representation, SomeRows, TrainingRows};
use crate::gp::GpError;
use crate::gp::deep::design::Design;
use crate::gp::kernel::Hyper;
use crate::gp::linalg::add_all;

#[derive(Debug)]
pub(super) struct Full;

// Every row is an anchor.
#[derive(Debug)]
struct Itself;

impl BasisAt for Itself {
    fn fill(
        &self,
        _: &Design,
        _: ArrayView2<'_, f64>,
        numbers: &[usize],
        mut out: ArrayViewMut2<'_, f64>,
    ) -> Result<(), GpError> {
        out.outer_iter_mut().zip(numbers).for_each(|(mut row, number)| row[*number] = 1.0);
        Ok(())
    }

    fn by_blocks(&self) -> bool {
        false
    }
}

impl Representation for Full {
    fn anchor_rows(&self, n: usize, _: &[usize], _: &[usize]) -> Vec<usize> {
        (0..n).collect()
    }

    fn anchor_count(&self, rows: u64, _: u64) -> u64 {
        rows
    }

    // Only knots need it: they are rows.
    fn basis(
        &self,
        _: &Design,
        rows: &TrainingRows,
        _: &Anchors,
        _: &Hyper,
    ) -> Result<Option<Box<dyn BasisAt>>, GpError> {
        Ok((!rows.knots.is_empty()).then(|| Box::new(Itself) as Box<dyn BasisAt>))
    }

    fn forward(&self, _: &Design, prepared: &Prepared, rows: &SomeRows<'_>, _: bool) -> Result<LayersAtRows, GpError> {
        let last = prepared.layers.last().map(|last| last.values.select(Axis(0), &rows.numbers));
        Ok(last.unwrap_or_else(|| rows.start.to_owned()).into())
    }

    fn values(
        &self,
        _: &HiddenLayers,
        _: &Design,
        prepared: &Prepared,
        rows: &SomeRows<'_>,
    ) -> Result<Vec<Array2<f64>>, GpError> {
        Ok(prepared.layers.iter().map(|layer| layer.values.select(Axis(0), &rows.numbers)).collect())
    }

    fn backward(
        &self,
        _: &Design,
        _: &Prepared,
        (rows, _): (&SomeRows<'_>, &LayersAtRows),
        adjoint: Array2<f64>,
        adjoints: &mut Adjoints,
    ) -> Result<(), GpError> {
        for (number, adjoint) in rows.numbers.iter().zip(adjoint.outer_iter()) {
            add_all(adjoints.last.row_mut(*number), adjoint);
        }
        Ok(())
    }
}
