//! The mathematics of Gaussian-process regression, pure: no files, no clock, no logging, no YAML.
//!
//! Reading order:
//!
//! | module | holds |
//! |---|---|
//! | [`kernel`] | stationary covariance functions, their hyper-parameters, covariance matrices in tiles |
//! | [`linalg`] | the only place that knows BLAS: factorisation, triangular solves, inverse |
//! | [`hyper`] | maximises any objective over logarithms of parameters (L-BFGS) |
//! | [`exact`] | the exact Gaussian process: likelihood, fit, prediction |
//! | [`sparse`] | the sparse Gaussian process: bound with gradient, fit, prediction |
//! | [`deep`] | deep Gaussian processes: STRIDE, and standard deep regression |
//! | [`baseline`] | plain methods to compare with: the mean, a line, the nearest neighbours |
//! | [`predict`] | what a prediction is, and the tiles it is made in |
//! | [`inducing`] | chooses inducing points: greedy growth, exchange |
//! | [`scaling`] | features and target in scaled units |
//! | [`row_noise`] | noise that differs from row to row |
//! | [`warm`] | what a fit may start from: an earlier model |
//! | [`random`] | random streams that depend on names, not on the order of use |
//! | [`observer`] | how progress and traces leave this module |
//!
//! Glossary (the symbols are those of the paper):
//!
//! | symbol | name in the code | meaning |
//! |---|---|---|
//! | n, d, p | `n`, `d`, `p` | training rows, features, rows to predict |
//! | σ², λ, γ² | `variance`, `length`, `noise` | kernel variance, correlation length, noise variance |
//! | K | `k_nn` | covariance of the training rows, `[n, n]`, without noise |
//! | L | `lower` | lower Cholesky factor of K + γ²I |
//! | α | `alpha` | (K + γ²I)⁻¹ y |
//! | θ | `theta` | log σ², log λ (one, or one per feature), log γ² |
//! | m | `m` | inducing points, chosen from the training rows |
//! | J | `candidates` | rows tried in one step of the choice |
//! | V, W | `v`, `w` | L⁻¹K_mn and VVᵀ, with L the factor of K_mm |
//! | F_V, ℓ | `bound`, `log_likelihood` | the sparse lower bound, and log N(y \| 0, Q + γ²I) |
//! | – | `jitter` | what was added to the diagonal to make a factorisation succeed |
//!
//! Every result is the same bits for any number of threads: work is cut into pieces of a size that
//! depends on the data only, and the pieces are combined in a fixed order.

#![expect(
    clippy::needless_pass_by_value,
    reason = "views of matrices are as cheap to pass as references, and read better"
)]
#![expect(clippy::doc_markdown, reason = "K_mn and F_V are symbols of the paper here, not names in the code")]

pub mod baseline;
pub mod deep;
pub mod exact;
pub mod fit_rows;
pub mod hyper;
pub mod inducing;
pub mod kernel;
pub mod leave_one_out;
pub mod linalg;
pub mod neighbours;
pub mod observer;
pub mod predict;
pub mod random;
pub(crate) mod relevance;
pub mod row_noise;
pub mod scaling;
pub mod sparse;
pub mod team;
pub mod warm;

use thiserror::Error;

/// What can go wrong in the mathematics.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum GpError {
    /// A covariance could not be factored, even with the largest jitter allowed.
    #[error("{what} is not positive definite, even with {jitter:e} added to its diagonal")]
    NotPositiveDefinite {
        what: &'static str,
        /// The largest jitter tried.
        jitter: f64,
    },
    /// NaN or infinity where a number is needed.
    #[error("{what} holds NaN or an infinite value")]
    NonFinite { what: &'static str },
    /// Matrices whose sizes do not fit together.
    #[error("sizes do not fit: {what}")]
    BadShape {
        /// Which sizes, and what was expected.
        what: String,
    },
    /// A parameter outside its domain, such as a negative length.
    #[error("invalid value: {what}")]
    BadValue {
        /// Which parameter, and what is allowed.
        what: String,
    },
    /// Another process of the same job failed.
    #[error("{what}")]
    Elsewhere {
        /// Which of them.
        what: String,
    },
    /// The observer asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl GpError {
    /// Whether another point of the parameter space may succeed: a search rejects such a point and
    /// goes on, where every other error ends it.
    pub fn is_recoverable(&self) -> bool {
        matches!(self, Self::NotPositiveDefinite { .. } | Self::NonFinite { .. })
    }

    /// A [`GpError::BadShape`] with this text.
    pub(crate) fn shape(what: impl Into<String>) -> Self {
        Self::BadShape { what: what.into() }
    }

    /// A [`GpError::BadValue`] with this text.
    pub(crate) fn value(what: impl Into<String>) -> Self {
        Self::BadValue { what: what.into() }
    }
}
