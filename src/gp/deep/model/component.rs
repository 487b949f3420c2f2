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
        /// Variance and length of the bottom covariance.
        bottom: (f64, f64),
        layers: Vec<Link>,
    },
    /// By the map g of the last layer (injective).
    Maps(Vec<Map>),
}

/// The map of one injective layer, from the feature to the inputs of the next.
#[derive(Debug, Clone)]
pub(super) struct Map {
    /// g at the knots.
    pub g: Vec<f64>,
    /// Its slopes at both ends.
    pub ends: (f64, f64),
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
    /// The inputs of the top layer at x: `[b, d]`, whose start values are start: `[b, D]`; `see` gets the values of
    /// every hidden layer on the way, bottom layer first.
    pub fn inputs(
        &self,
        design: &Design,
        (x, start): (ArrayView2<'_, f64>, ArrayView2<'_, f64>),
        mut see: impl FnMut(usize, &Array2<f64>),
    ) -> Result<Array2<f64>, GpError> {
        let mut values = start.to_owned();
        match &self.hidden {
            Hidden::Maps(maps) => {
                let spots = design.spots(x).ok_or_else(|| GpError::shape("a map without knots"))?;
                for (index, map) in maps.iter().enumerate() {
                    values = knots::values(&spots, &map.g, map.ends);
                    see(index, &values);
                }
            }
            Hidden::Chain { bottom, layers } => {
                for (index, link) in layers.iter().enumerate() {
                    let at = if index == 0 {
                        Warped::stationary(design.kernel, *bottom, x, &design.x_centre)?
                    } else {
                        design.hidden(x, values.view())?
                    };
                    let mut k = Array2::zeros((x.nrows(), link.anchors.len()));
                    at.tile(0, &link.anchors, k.view_mut())?;
                    let mut next = design.mean(values.view());
                    gemm_nn(1.0, k.view(), link.weights.view(), 1.0, next.view_mut())?;
                    values = next;
                    // One interpolation may stand for all layers.
                    see(design.layers - layers.len() + index, &values);
                }
            }
        }
        Ok(values)
    }

    // For a prediction only the last map counts: injective maps are from the feature itself.
    fn last_inputs(
        &self,
        design: &Design,
        x: ArrayView2<'_, f64>,
        start: ArrayView2<'_, f64>,
    ) -> Result<Array2<f64>, GpError> {
        if let (Hidden::Maps(maps), Some(spots)) = (&self.hidden, design.spots(x))
            && let Some(map) = maps.last()
        {
            return Ok(knots::values(&spots, &map.g, map.ends));
        }
        self.inputs(design, (x, start), |_, _| {})
    }

    /// Mean and (when asked for) latent variance at x: `[b, d]`, of the first `count` rows.
    pub fn predict(
        &self,
        design: &Design,
        hyper: &Hyper,
        (x, start): (ArrayView2<'_, f64>, ArrayView2<'_, f64>),
        count: usize,
        variance: bool,
    ) -> Result<(Vec<f64>, Vec<f64>), GpError> {
        let inputs = self.last_inputs(design, x, start)?;
        let stars = design.top(x, inputs.view(), hyper)?;
        let mut k = Array2::zeros((x.nrows(), self.top.anchors.len()));
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
