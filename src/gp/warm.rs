//! What a fit may start from: an earlier model, in the units of the rows that are fitted now.

use ndarray::{Array2, ArrayView2};

use super::deep::DeepStart;
use super::kernel::{Hyper, Hyperparameters, Kernel};

/// What an earlier model knows.
#[derive(Debug, Clone)]
pub struct WarmStart {
    /// Hyper-parameters of its covariance, or of that of its top layer.
    pub hyper: Hyper,
    /// Features of its inducing points, `[m, d]`; empty without them.
    pub inducing: Array2<f64>,
    /// Its local layer, if it has one.
    pub local: Option<LocalStart>,
    /// Its hidden layers, if it has any.
    pub deep: Option<DeepStart>,
}

/// What an earlier local layer knows.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalStart {
    pub kernel: Kernel,
    /// Of every particle.
    pub hyper: Vec<Hyper>,
}

impl WarmStart {
    /// Its hyper-parameters with so many lengths; those that are given win.
    pub(crate) fn hyper(&self, given: &Hyperparameters, lengths: usize) -> Hyper {
        let known = &self.hyper.lengths;
        let lengths = match given.length {
            Some(length) => vec![length; lengths],
            None if known.len() == lengths => known.clone(),
            None => {
                let mean = known.iter().map(|length| length.ln()).sum::<f64>() / known.len().max(1) as f64;
                vec![mean.exp(); lengths]
            }
        };
        Hyper {
            variance: given.variance.unwrap_or(self.hyper.variance),
            lengths,
            noise: given.noise.unwrap_or(self.hyper.noise),
        }
    }

    /// The rows of x: `[n, d]` that are its inducing points, or closest to them; each once.
    pub(crate) fn inducing_rows(&self, x: ArrayView2<'_, f64>) -> Vec<usize> {
        nearest_rows(x, self.inducing.view())
    }
}

/// The row of x: `[n, d]` that is closest to each of some points: `[k, d]`; each once, in the order of the points.
pub(crate) fn nearest_rows(x: ArrayView2<'_, f64>, points: ArrayView2<'_, f64>) -> Vec<usize> {
    let mut taken = vec![false; x.nrows()];
    let mut rows = Vec::with_capacity(points.nrows());
    for point in points.rows() {
        let distance = |row: usize| x.row(row).iter().zip(point).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
        let closest = (0..x.nrows()).map(|row| (distance(row), row)).min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((_, row)) = closest
            && !std::mem::replace(&mut taken[row], true)
        {
            rows.push(row);
        }
    }
    rows
}
