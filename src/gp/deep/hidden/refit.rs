//! Hidden layers that come close to given functions: least squares over rows, held back by the prior.

use ndarray::Array2;

use super::anchors::Layer;
use super::{HiddenLayers, SomeRows};
use crate::gp::GpError;
use crate::gp::deep::design::Design;
use crate::gp::kernel::{Covariance, ROW_TILE};
use crate::gp::linalg::{Cholesky, Side, add_gram, for_row_blocks, gemm_nn, gemm_tn, mirror_lower, solve_triangular};

impl HiddenLayers {
    /// ξ for which Σ ‖f(x) − values‖²/s² + ‖ξ‖² is least, layer by layer from the bottom; values: `[b, D]` each, at some
    /// rows, and `ridge` is s². For cross approximation.
    pub fn refit(
        &self,
        design: &Design,
        rows: &SomeRows<'_>,
        values: &[Array2<f64>],
        ridge: f64,
    ) -> Result<Vec<Array2<f64>>, GpError> {
        let (mut layers, mut all): (Vec<Layer>, Vec<Array2<f64>>) = (Vec::new(), Vec::new());
        let mut below = rows.start.to_owned();
        let r = self.anchors.rows.len();
        for wanted in values {
            let factored = self.anchors.factored(design, layers.last())?;
            let sites = match layers.last() {
                None => design.bottom(rows.x.view())?,
                Some(Layer { map: Some(map), .. }) => design.hidden(rows.x.view(), map.at(&rows.spots).view())?,
                Some(_) => design.hidden(rows.x.view(), below.view())?,
            };
            let mut k = Array2::zeros((wanted.nrows(), r));
            for_row_blocks(&mut k, ROW_TILE, |first, tile| sites.tile(first, &factored.sites, tile))?;
            let mut basis = k.clone();
            let lower = factored.lower.lower();
            for_row_blocks(&mut basis, ROW_TILE, |_, tile| solve_triangular(Side::RightTransposed, lower, tile))?;
            let mut now = design.mean(below.view());
            let mut xi = Array2::zeros((r, wanted.ncols()));
            gemm_tn(1.0, basis.view(), (wanted - &now).view(), 0.0, xi.view_mut())?;
            let mut gram = Array2::zeros((r, r));
            add_gram(basis.view(), gram.view_mut())?;
            mirror_lower(&mut gram);
            gram.diag_mut().iter_mut().for_each(|value| *value += ridge);
            let factor = Cholesky::factor(gram, "the moments of a hidden layer")?;
            factor.solve_lower(xi.view_mut())?;
            factor.solve_lower_transposed(xi.view_mut())?;
            let layer = self.representation.layer(self, design, layers.last(), factored, &xi)?;
            gemm_nn(1.0, k.view(), layer.weights.view(), 1.0, now.view_mut())?;
            below = now;
            layers.push(layer);
            all.push(xi);
        }
        Ok(all)
    }
}
