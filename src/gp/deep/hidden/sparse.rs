//! Hidden layers at the inducing points, interpolated to all other rows by stationary regression.

use std::collections::HashMap;

use ndarray::{Array2, ArrayView2, ArrayViewMut2};

use super::anchors::Layer;
use super::{Adjoints, Anchors, BasisAt, HiddenLayers, LayersAtRows, Prepared, Representation, SomeRows, TrainingRows};
use crate::gp::GpError;
use crate::gp::deep::design::Design;
use crate::gp::deep::knots;
use crate::gp::deep::warped::Warped;
use crate::gp::kernel::{Covariance, Hyper, square};
use crate::gp::linalg::{Cholesky, gemm_nn, gemm_tn};

#[derive(Debug)]
pub(super) struct Sparse;

impl Representation for Sparse {
    fn follows_inducing(&self) -> bool {
        true
    }

    fn anchor_rows(&self, _: usize, inducing: &[usize], _: &[usize]) -> Vec<usize> {
        inducing.to_vec()
    }

    fn anchor_count(&self, _: u64, inducing: u64) -> u64 {
        inducing
    }

    // Weights that carry values at the inducing points to the rows: k(x, X_m)(K_mm + γ²I)⁻¹ with the stationary model.
    // Inducing rows keep their values.
    fn basis(
        &self,
        design: &Design,
        _: &TrainingRows,
        inducing: &Anchors,
        start: &Hyper,
    ) -> Result<Option<Box<dyn BasisAt>>, GpError> {
        let (anchors, factor) = stationary(design, inducing.x.view(), start)?;
        let scale = (start.variance, start.lengths[0]);
        let own = inducing.rows.iter().enumerate().map(|(own, row)| (*row, own)).collect();
        Ok(Some(Box::new(Interpolation { anchors, factor, scale, own })))
    }

    // Means telescope: the last layer is the mean above the start values, and a rise that is interpolated.
    fn linear_weights(&self, hidden: &HiddenLayers, design: &Design, layers: &[Layer]) -> Option<Array2<f64>> {
        layers.last().map(|last| rise(hidden, design, last))
    }

    fn forward(
        &self,
        design: &Design,
        prepared: &Prepared,
        rows: &SomeRows<'_>,
        _: bool,
    ) -> Result<LayersAtRows, GpError> {
        let mut inputs = design.mean(rows.start.view());
        if let Some(weights) = &prepared.linear_weights {
            gemm_nn(1.0, rows.basis.view(), weights.view(), 1.0, inputs.view_mut())?;
        }
        Ok(inputs.into())
    }

    fn values(
        &self,
        hidden: &HiddenLayers,
        design: &Design,
        prepared: &Prepared,
        rows: &SomeRows<'_>,
    ) -> Result<Vec<Array2<f64>>, GpError> {
        let at_rows = |layer: &Layer| {
            let Some(map) = &layer.map else {
                let mut values = design.mean(rows.start.view());
                let rise = rise(hidden, design, layer);
                gemm_nn(1.0, rows.basis.view(), rise.view(), 1.0, values.view_mut())?;
                return Ok(values);
            };
            // u between the knots: as g is linear there, u² is nearly so, and u itself too.
            let mut values = knots::values(&rows.spots, &map.u.to_vec(), (0.0, 0.0));
            for (number, value) in rows.numbers.iter().zip(values.iter_mut()) {
                if let Some(own) = hidden.anchors.rows.iter().position(|anchor| anchor == number) {
                    *value = layer.values[[own, 0]];
                }
            }
            Ok(values)
        };
        prepared.layers.iter().map(at_rows).collect()
    }

    fn backward(
        &self,
        _: &Design,
        _: &Prepared,
        (rows, _): (&SomeRows<'_>, &LayersAtRows),
        adjoint: Array2<f64>,
        adjoints: &mut Adjoints,
    ) -> Result<(), GpError> {
        gemm_tn(1.0, rows.basis.view(), adjoint.view(), 1.0, adjoints.last.view_mut())
    }

    // One interpolation from the inducing points stands for all layers.
    fn for_new_rows(
        &self,
        hidden: &HiddenLayers,
        design: &Design,
        (prepared, _): (&Prepared, &[Array2<f64>]),
        start: &Hyper,
    ) -> Result<Vec<(String, Array2<f64>)>, GpError> {
        let Some(mut weights) = prepared.linear_weights.clone() else { return Ok(Vec::new()) };
        let (_, factor) = stationary(design, hidden.anchors.x.view(), start)?;
        factor.solve_lower(weights.view_mut())?;
        factor.solve_lower_transposed(weights.view_mut())?;
        Ok(vec![("weights.0".to_owned(), weights)])
    }
}

// Weights of the values at the inducing points.
#[derive(Debug)]
struct Interpolation {
    anchors: Warped,
    factor: Cholesky,
    // Variance and length of the stationary model.
    scale: (f64, f64),
    // Which rows are inducing points.
    own: HashMap<usize, usize>,
}

impl BasisAt for Interpolation {
    fn fill(
        &self,
        design: &Design,
        x: ArrayView2<'_, f64>,
        numbers: &[usize],
        mut out: ArrayViewMut2<'_, f64>,
    ) -> Result<(), GpError> {
        let at = Warped::stationary(design.kernel, self.scale, x, &design.x_centre)?;
        at.tile(0, &self.anchors, out.view_mut())?;
        self.factor.solve_rows(out.view_mut())?;
        for (number, mut weights) in numbers.iter().zip(out.outer_iter_mut()) {
            if let Some(own) = self.own.get(number) {
                weights.fill(0.0);
                weights[*own] = 1.0;
            }
        }
        Ok(())
    }

    // BLAS solves them, by blocks of its own.
    fn by_blocks(&self) -> bool {
        true
    }
}

// The values of a layer at the anchors above the mean over the start values, `[r, D]`.
fn rise(hidden: &HiddenLayers, design: &Design, layer: &Layer) -> Array2<f64> {
    &layer.values - &design.mean(hidden.anchors.start.view())
}

// The stationary covariance at x: `[m, d]`, and the factor of K_mm + γ²I.
fn stationary(design: &Design, x: ArrayView2<'_, f64>, start: &Hyper) -> Result<(Warped, Cholesky), GpError> {
    let anchors = Warped::stationary(design.kernel, (start.variance, start.lengths[0]), x, &design.x_centre)?;
    let mut k_mm = square(&anchors)?;
    k_mm.diag_mut().iter_mut().for_each(|v| *v += start.noise);
    let factor = Cholesky::factor(k_mm, "the covariance of the inducing points")?;
    Ok((anchors, factor))
}
