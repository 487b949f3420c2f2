//! One particle of the mixture, ready to predict.

use ndarray::{Array1, Array2, ArrayView2};

use crate::gp::GpError;
use crate::gp::deep::design::Design;
use crate::gp::deep::knots;
use crate::gp::deep::warped::Warped;
use crate::gp::kernel::{Covariance, Hyper};
use crate::gp::linalg::{Side, dot, gemm_nn, row_slices, solve_triangular};

/// Hidden layers and top layer of one particle.
#[derive(Debug, Clone)]
pub(super) struct Component {
    pub hidden: Hidden,
    pub top: Top,
}

/// How new rows pass through the hidden layers.
#[derive(Debug, Clone)]
pub(super) enum Hidden {
    /// Layer by layer: mean + k(·, anchors) weights.
    Chain {
        /// Weights of the first layer, `[r, D]`; its anchors are those of all particles.
        first: Array2<f64>,
        /// The layers above.
        layers: Vec<Link>,
    },
    /// By the map g of the last layer (injective).
    Map {
        /// g at the knots.
        g: Vec<f64>,
        /// Its slopes at both ends.
        ends: (f64, f64),
    },
}

/// The covariance of the first hidden layer, the same for all particles: it sees the features alone.
#[derive(Debug, Clone)]
pub(super) struct Bottom {
    /// Variance and length.
    pub scale: (f64, f64),
    /// What it knows of the anchors.
    pub anchors: Warped,
}

impl Bottom {
    /// The covariances of x: `[b, d]` with the anchors, `[b, r]`.
    pub fn covariances(&self, design: &Design, x: ArrayView2<'_, f64>) -> Result<Array2<f64>, GpError> {
        let at = Warped::stationary(design.kernel, self.scale, x, &design.x_centre)?;
        let mut k = Array2::zeros((x.nrows(), self.anchors.len()));
        at.tile(0, &self.anchors, k.view_mut())?;
        Ok(k)
    }
}

/// What all particles need of a tile of rows.
pub(super) struct Rows<'a> {
    /// Features, `[b, d]`.
    pub x: ArrayView2<'a, f64>,
    /// Start values of the hidden layers, `[b, D]`.
    pub start: ArrayView2<'a, f64>,
    /// Covariances with the anchors of the first hidden layer, `[b, r]`; empty where there are none.
    pub bottom: ArrayView2<'a, f64>,
}

/// One layer of a chain.
#[derive(Debug, Clone)]
pub(super) struct Link {
    /// What the layer's covariance knows of the anchors.
    pub anchors: Warped,
    /// `[r, D]`.
    pub weights: Array2<f64>,
}

/// The top layer, conditioned on the training targets.
#[derive(Debug, Clone)]
pub(super) struct Top {
    /// What the covariance knows of the inducing points, or of all training rows.
    pub anchors: Warped,
    /// The posterior mean is k(·, anchors) alpha.
    pub alpha: Array1<f64>,
    /// The factor of K_mm, or of K + γ²I.
    pub lower: Array2<f64>,
    /// The factor of B; `None` for an exact top layer.
    pub lower_b: Option<Array2<f64>>,
}

impl Component {
    /// The inputs of the top layer.
    fn inputs(&self, design: &Design, rows: &Rows<'_>) -> Result<Array2<f64>, GpError> {
        let x = rows.x;
        match &self.hidden {
            Hidden::Map { g, ends } => {
                let spots = design.spots(x).ok_or_else(|| GpError::shape("a map without knots"))?;
                Ok(knots::values(&spots, g, *ends))
            }
            Hidden::Chain { first, layers } => {
                let mut values = design.mean(rows.start);
                gemm_nn(1.0, rows.bottom, first.view(), 1.0, values.view_mut())?;
                for link in layers {
                    let at = design.hidden(x, values.view())?;
                    let mut k = Array2::zeros((x.nrows(), link.anchors.len()));
                    at.tile(0, &link.anchors, k.view_mut())?;
                    let mut next = design.mean(values.view());
                    gemm_nn(1.0, k.view(), link.weights.view(), 1.0, next.view_mut())?;
                    values = next;
                }
                Ok(values)
            }
        }
    }

    /// Mean and (when asked for) latent variance of the first `count` rows.
    pub fn predict(
        &self,
        design: &Design,
        hyper: &Hyper,
        rows: &Rows<'_>,
        count: usize,
        variance: bool,
    ) -> Result<(Vec<f64>, Vec<f64>), GpError> {
        let inputs = self.inputs(design, rows)?;
        let stars = design.top(rows.x, inputs.view(), hyper)?;
        let mut k = Array2::zeros((rows.x.nrows(), self.top.anchors.len()));
        stars.tile(0, &self.top.anchors, k.view_mut())?;
        let alpha = self.top.alpha.as_slice().unwrap_or_default();
        let mean = row_slices(&k).take(count).map(|row| dot(row, alpha)).collect();
        if !variance {
            return Ok((mean, Vec::new()));
        }
        solve_triangular(Side::RightTransposed, self.top.lower.view(), k.view_mut())?;
        let mut remaining: Vec<f64> = row_slices(&k).take(count).map(|row| hyper.variance - dot(row, row)).collect();
        if let Some(lower_b) = &self.top.lower_b {
            solve_triangular(Side::RightTransposed, lower_b.view(), k.view_mut())?;
            remaining.iter_mut().zip(row_slices(&k)).for_each(|(value, row)| *value += dot(row, row));
        }
        // max(0) would turn NaN, the answer to an invalid row, into certainty.
        for value in &mut remaining {
            *value = if *value < 0.0 { 0.0 } else { *value };
        }
        Ok((mean, remaining))
    }
}
