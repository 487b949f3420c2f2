//! Deep Gaussian processes: hidden layers sampled by Markov chains, the top layer integrated out.

mod checkpoint;
mod diagnostics;
mod model;
mod options;

use ndarray::{ArrayView1, ArrayView2};

use super::GpError;
use super::observer::Observer;
use super::random::StreamKey;

pub use checkpoint::{Checkpoint, ParticleState};
pub use diagnostics::Diagnostics;
pub use model::{DeepGp, DeepParts};
pub use options::{Architecture, DeepOptions, HiddenKind, PriorMean, SamplerKind, Start};

/// Fits to x: `[n, d]`, y: `[n]`; y is expected to have mean 0 and variance 1.
///
/// With `resume`, goes on after the EM iteration at which that checkpoint was given to the observer; the result is
/// the same, to the bit.
pub fn fit(
    _x: ArrayView2<'_, f64>,
    _y: ArrayView1<'_, f64>,
    _options: &DeepOptions,
    _key: &StreamKey,
    _resume: Option<Checkpoint>,
    _observer: &mut dyn Observer,
) -> Result<DeepGp, GpError> {
    Err(GpError::value("deep fits are being built"))
}
