//! Derivatives on their way back from the rows to ξ.

use ndarray::Array2;

use super::Anchors;
use super::map::column;
use crate::gp::GpError;
use crate::gp::deep::design::Design;
use crate::gp::deep::warped::{Slopes, Warped};
use crate::gp::linalg::RowSum;

/// Derivatives on their way back, summed over rows.
#[derive(Debug, Clone)]
pub(in crate::gp::deep) struct Adjoints {
    /// By the weights L⁻ᵀξ of each layer, `[r, D]`; `aca`.
    pub(super) weights: Vec<Array2<f64>>,
    /// By what the layers' covariances know of the anchors, `[r, D]`; `aca`.
    pub(super) sites: Vec<Array2<f64>>,
    /// By the values of the last layer at the anchors, `[r, D]` (`full`, `sparse`), or by g at the knots, `[T, 1]`.
    pub(super) last: Array2<f64>,
}

impl Adjoints {
    /// Of no rows; `by_layer` of every layer where no knots come between.
    pub(super) fn zero(design: &Design, anchors: usize, by_layer: bool) -> Self {
        let width = design.width();
        let (layers, last) = match &design.knots {
            Some(knots) => (0, (knots.at.len(), 1)),
            None if by_layer => (design.layers, (0, 0)),
            None => (0, (anchors, width)),
        };
        let zeros = || (0..layers).map(|_| Array2::zeros((anchors, width))).collect();
        Self { weights: zeros(), sites: zeros(), last: Array2::zeros(last) }
    }

    /// How many numbers it holds.
    pub fn size(&self) -> usize {
        self.weights.iter().chain(&self.sites).map(Array2::len).sum::<usize>() + self.last.len()
    }
}

impl RowSum for Adjoints {
    fn numbers(&mut self) -> Vec<&mut [f64]> {
        self.weights.iter_mut().chain(&mut self.sites).chain([&mut self.last]).flat_map(RowSum::numbers).collect()
    }
}

/// From a symmetric derivative by K_AA to one by what the covariance knows of the anchors.
pub(in crate::gp::deep) fn back_to_sites(sites: &Warped, mut adjoint: Array2<f64>) -> Result<Array2<f64>, GpError> {
    let r = adjoint.nrows();
    let mut slopes = Slopes::new(sites, r, r);
    let mut k = Array2::zeros((r, r));
    sites.tile_with_slopes(0, sites, k.view_mut(), &mut slopes)?;
    let (mut own, mut others) = (Array2::zeros((r, sites.coordinates())), Array2::zeros((r, sites.coordinates())));
    sites.pull_back(0, sites, adjoint.view_mut(), &slopes, own.view_mut(), others.view_mut())?;
    own += &others;
    Ok(own)
}

/// From derivatives by g at the anchors, `[r, 1]`, to those at the knots, `[T, 1]`.
pub(super) fn to_knots(anchors: &Anchors, design: &Design, adjoint: &Array2<f64>) -> Array2<f64> {
    let mut back = vec![0.0; design.knots.as_ref().map_or(0, |knots| knots.at.len())];
    anchors.spots.iter().zip(adjoint).for_each(|(spot, adjoint)| spot.value_back(*adjoint, &mut back));
    column(back)
}
