//! Hidden layers at all training rows.

use ndarray::{Array2, Axis};

use super::{Adjoints, Anchors, HiddenLayers, LayersAtRows, Prepared, Representation, SomeRows, TrainingRows};
use crate::gp::GpError;
use crate::gp::deep::design::Design;
use crate::gp::kernel::Hyper;
use crate::gp::linalg::add_all;

#[derive(Debug)]
pub(super) struct Full;

impl Representation for Full {
    fn anchor_rows(&self, n: usize, _: &[usize], _: &[usize]) -> Vec<usize> {
        (0..n).collect()
    }

    fn anchor_count(&self, rows: u64, _: u64) -> u64 {
        rows
    }

    // A few n × n matrices.
    fn shared_bytes(&self, rows: u64, _: u64, _: u64) -> u64 {
        4 * 8 * rows * rows
    }

    // Only knots need it: they are rows.
    fn basis(&self, _: &Design, rows: &TrainingRows, _: &Anchors, _: &Hyper) -> Result<Array2<f64>, GpError> {
        let mut basis = Array2::zeros((rows.knots.len(), if rows.knots.is_empty() { 0 } else { rows.len() }));
        for (k, row) in rows.knots.iter().enumerate() {
            basis[[k, *row]] = 1.0;
        }
        Ok(basis)
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
