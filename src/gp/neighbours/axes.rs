//! The axes in which points are cut into a tree.

use ndarray::{Array2, ArrayView1, ArrayView2};

use crate::gp::GpError;
use crate::gp::linalg::{add_gram, eigenvectors, for_this_processor, gemm_nt, multiply_add};

/// What the coordinates that boxes do not have may hold of the spread.
const BEYOND_BOXES: f64 = 0.05;

/// The principal axes of points: `[n, D]` around their centre, as rows, the one with the largest spread first.
pub(super) fn principal_axes(points: ArrayView2<'_, f64>, centre: &[f64]) -> Result<Array2<f64>, GpError> {
    // Some thousand points tell the axes well enough: any axes will do.
    let step = points.nrows().div_ceil(4096).max(1);
    let some = &points.slice(ndarray::s![..;step, ..]) - &ArrayView1::from(centre);
    let mut moments = Array2::zeros((centre.len(), centre.len()));
    add_gram(some.as_standard_layout().view(), moments.view_mut())?;
    let mut axes = eigenvectors(moments)?;
    axes.invert_axis(ndarray::Axis(0));
    Ok(axes.as_standard_layout().into_owned())
}

/// Points: `[n, D]` in the coordinates of some axes.
pub(super) fn turn(points: ArrayView2<'_, f64>, centre: &[f64], axes: &Array2<f64>) -> Result<Array2<f64>, GpError> {
    let mut turned = Array2::zeros(points.dim());
    let centred = &points - &ArrayView1::from(centre);
    gemm_nt(1.0, centred.view(), axes.view(), 0.0, turned.view_mut())?;
    Ok(turned)
}

/// The variance of every coordinate of some points.
pub(super) fn spreads(points: ArrayView2<'_, f64>, ids: &[u32]) -> Vec<f64> {
    let n = ids.len().max(1) as f64;
    let (mut mean, mut spread) = (vec![0.0; points.ncols()], vec![0.0; points.ncols()]);
    for id in ids {
        mean.iter_mut().zip(points.row(*id as usize)).for_each(|(mean, value)| *mean += value / n);
    }
    for id in ids {
        for ((spread, value), mean) in spread.iter_mut().zip(points.row(*id as usize)).zip(&mean) {
            *spread += (value - mean) * (value - mean) / n;
        }
    }
    spread
}

for_this_processor! {
    /// A query in the coordinates of the axes, which are given as columns, row by row.
    pub(super) fn turn_one(query: &[f64], centre: &[f64], axes: &[f64], turned: &mut [f64]) {
        let d = turned.len();
        for (j, (value, centre)) in query.iter().zip(centre).enumerate() {
            let from_centre = value - centre;
            for (turned, axis) in turned.iter_mut().zip(&axes[j * d..][..d]) {
                *turned = multiply_add::<FUSED>(*axis, from_centre, *turned);
            }
        }
    }
}

/// How many of the first coordinates hold nearly all of the spread, in steps of eight.
pub(super) fn boxed(points: ArrayView2<'_, f64>) -> usize {
    const STEP: usize = 8;
    let spread = spreads(points, &(0..points.nrows() as u32).collect::<Vec<_>>());
    let beyond = |from: usize| spread.iter().skip(from).sum::<f64>();
    let most = spread.len().div_ceil(STEP).max(1);
    let enough = (1..most).find(|steps| beyond(steps * STEP) <= BEYOND_BOXES * beyond(0));
    enough.unwrap_or(most) * STEP
}
