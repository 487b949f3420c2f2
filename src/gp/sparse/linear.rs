//! How much of the target a linear model explains: what a fit must not fall far behind.

use ndarray::{Array1, Array2, ArrayView1, s};

use super::sums::add_product;
use crate::gp::GpError;
use crate::gp::fit_rows::FitRows;
use crate::gp::linalg::{Cholesky, add_gram, means_over, sum_rows, tiles};

/// Ridge, as a share of the largest moment: repeated columns must not matter.
const RIDGE: f64 = 1e-6;

/// The share of the variance of the targets, mean 0, that a linear function of the features explains.
pub(super) fn linear_share(rows: &FitRows<'_>) -> Result<f64, GpError> {
    let FitRows { x, y, span, .. } = rows;
    let d = x.ncols();
    let centre = means_over(span, *x)?;
    let zero = || (Array2::<f64>::zeros((d, d)), Array1::<f64>::zeros(d));
    let (mut xx, xy) = sum_rows(span, d * (d + 1), zero, |rows| {
        let (mut xx, mut xy) = zero();
        for rows in tiles(rows) {
            let centred =
                (&x.slice(s![rows.clone(), ..]) - &ArrayView1::from(&centre)).as_standard_layout().into_owned();
            add_gram(centred.view(), xx.view_mut())?;
            add_product(&mut xy, centred.view(), y.slice(s![rows]));
        }
        Ok((xx, xy))
    })?;
    let largest = xx.diag().iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    xx.diag_mut().iter_mut().for_each(|v| *v += RIDGE * largest);
    let weights = Cholesky::factor(xx, "the moments of the features")?.solve_vector(xy.view())?;
    let yy = span.plain_sums(1, |rows, sum| sum[0] = y.slice(s![rows]).iter().fold(sum[0], |sum, y| sum + y * y))?[0];
    Ok(xy.iter().zip(&weights).map(|(a, b)| a * b).sum::<f64>() / yy.max(f64::MIN_POSITIVE))
}
