//! What a sparse fit can be asked for.

use crate::gp::inducing::Candidates;
use crate::gp::kernel::{Free, Kernel};

/// How to fit a sparse Gaussian process.
#[derive(Debug, Clone, PartialEq)]
pub struct SparseOptions {
    /// The covariance function.
    pub kernel: Kernel,
    /// One length per feature instead of a common one.
    pub ard: bool,
    /// Where σ² starts, or stays when it is not free; `None`: from the data.
    pub variance: Option<f64>,
    /// Where every λ starts, or stays; `None`: from the data.
    pub length: Option<f64>,
    /// Where γ² starts, or stays; `None`: from the data.
    pub noise: Option<f64>,
    /// Which of them are optimised.
    pub free: Free,
    /// Number of inducing points; fewer are used when the rows have no more to say.
    pub count: usize,
    /// Which rows are tried in each step of their choice.
    pub candidates: Candidates,
    /// Inducing points that are given and kept: `count` and `candidates` are not used then.
    pub rows: Option<Vec<usize>>,
    /// Number of starts tried by the exact fit on a subset.
    pub starts: usize,
    /// Number of rows of that subset.
    pub subset: usize,
    /// How often points are chosen and hyper-parameters fitted; the best round is kept.
    pub rounds: usize,
}

impl Default for SparseOptions {
    fn default() -> Self {
        Self {
            kernel: Kernel::Rbf,
            ard: false,
            variance: None,
            length: None,
            noise: None,
            free: Free::ALL,
            count: 50,
            candidates: Candidates::Count(1000),
            rows: None,
            starts: 5,
            subset: 500,
            rounds: 2,
        }
    }
}
