//! Deep Gaussian processes: hidden layers sampled by Markov chains, the top layer integrated out.
//!
//! | file | holds |
//! |---|---|
//! | `options` | what a fit can be asked for |
//! | `design`, `warped`, `knots` | how values of one layer become the covariance of the next |
//! | `hidden` | hidden layers from whitened variables, and derivatives back: full, sparse, cross approximation |
//! | `pivots`, `repivot` | where the cross approximation is anchored, and how that changes |
//! | `target`, `top` | the log-likelihood of hidden variables, with its gradient; kinds of top layers |
//! | `problem` | the same with everything that an EM iteration may change |
//! | `sampler` | the Markov chains |
//! | `warm` | a fit that starts from an earlier model |
//! | `em`, `m_step`, `climb`, `frozen`, `until`, `checkpoint` | the training loop, and how it goes on after an interruption |
//! | `model`, `diagnostics` | the trained mixture, and what its chains said |

mod checkpoint;
mod climb;
mod design;
mod diagnostics;
mod em;
mod frozen;
mod hidden;
mod knots;
mod m_step;
mod memory;
mod model;
mod options;
mod pivots;
mod problem;
mod repivot;
mod sampler;
mod start;
mod target;
mod top;
mod top_rows;
mod until;
mod warm;
mod warped;

use ndarray::{ArrayView1, ArrayView2, Axis};

use super::GpError;
use super::fit_rows::FitRows;
use super::kernel::Kernel;
use super::observer::{Observer, Phase};
use super::random::StreamKey;
use super::row_noise::RowNoise;
use super::warm::WarmStart;
use em::DeepFit;

pub use checkpoint::{Checkpoint, ParticleState};
pub use diagnostics::ChainDiagnostics;
pub use hidden::{CrossOptions, HiddenMethod, HiddenOptions};
pub use memory::{Kept, Repeatable};
pub use model::{DeepGp, DeepParts, HiddenLayer};
pub use options::{Architecture, DeepOptions, EmObjective, EmOptions, LayerOptions, PriorMean};
pub use pivots::choose as choose_pivots;
pub use problem::{DeepProblem, SupportPoints};
pub use sampler::{Advice, Chain, HmcOptions, Moves, PcnOptions, Position, Sampler, SamplerMethod, SamplerOptions};
pub use target::{DensityAt, Known, LogDensity};
pub use top::{NeighbourStart, Start, TopOptions};
pub use until::{TimeBudget, Until};
pub use warm::DeepStart;
pub use warped::{Local, Warped};

/// Fits to x: `[n, d]`, y: `[n]`; y is expected to have mean 0 and variance 1.
///
/// With `resume`, goes on after the EM iteration at which that checkpoint was given to the observer; the result is
/// the same, to the bit.
pub fn fit(
    x: ArrayView2<'_, f64>,
    y: ArrayView1<'_, f64>,
    options: &DeepOptions,
    key: &StreamKey,
    resume: Option<Checkpoint>,
    observer: &mut dyn Observer,
) -> Result<DeepGp, GpError> {
    fit_from((x, y, &RowNoise::default()), options, None, key, resume, observer)
}

/// The same with noise that differs from row to row, and from an earlier model with hidden layers of the same kind: its
/// hyper-parameters, inducing points and hidden layers.
pub fn fit_from<'d>(
    data: impl Into<FitRows<'d>>,
    options: &DeepOptions,
    warm: Option<&WarmStart>,
    key: &StreamKey,
    resume: Option<Checkpoint>,
    observer: &mut dyn Observer,
) -> Result<DeepGp, GpError> {
    let data = data.into();
    let Some(start) = options.start.neighbours() else {
        return Ok(fit_rows(&data, options, warm, key, resume, observer)?.0);
    };
    let FitRows { x, y, noise, .. } = data;
    // Hidden layers that were trained on the likelihood of neighbours make these look too much alike: what a prediction
    // may expect of them is measured on rows that training has not seen.
    let held_out = NeighbourStart::held_out(x.nrows(), key);
    let seen: Vec<usize> = (0..x.nrows()).filter(|row| held_out.binary_search(row).is_err()).collect();
    let (x_seen, y_seen) = (x.select(Axis(0), &seen), y.select(Axis(0), &seen));
    let of_seen = noise.select(&seen);
    let (gp, kernel) =
        fit_rows(&(x_seen.view(), y_seen.view(), &of_seen).into(), options, warm, key, resume, observer)?;
    let earlier = warm.and_then(|warm| warm.local.as_ref());
    gp.with_neighbours((x, y, noise), (kernel, earlier), &held_out, &start.predictions, &key.with("local"), observer)
}

// The model, and the covariance function of its top layer.
fn fit_rows(
    rows: &FitRows<'_>,
    options: &DeepOptions,
    warm: Option<&WarmStart>,
    key: &StreamKey,
    resume: Option<Checkpoint>,
    observer: &mut dyn Observer,
) -> Result<(DeepGp, Kernel), GpError> {
    let warm = warm.and_then(|warm| Some((warm, warm.deep.as_ref()?)));
    let mut fit = DeepFit::new(rows, options, key, resume, warm, observer)?;
    fit.run(observer)?;
    observer.phase(Phase::Condition);
    Ok((DeepGp::new(&fit)?, fit.problem.design.top_kernel))
}
