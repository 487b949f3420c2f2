//! Rows that remember their neighbours: what inducing points cannot hold.
//!
//! | file | holds |
//! |---|---|
//! | `search`, `axes`, `exact` | the nearest of many points, exactly; the first look, in whole numbers, is in `linalg::looks` |
//! | `lists` | who is whose neighbour: among earlier rows, or among all others |
//! | `conditional`, `lanes` | rows given their neighbours, eight side by side, with derivatives |
//! | `likelihood` | the sum over many rows |
//! | `copies` | the noise of rows that lie where others do |
//! | `options`, `fit`, `layer` | the local layer above a trained model |

mod axes;
mod conditional;
mod copies;
mod exact;
mod fit;
mod lanes;
mod layer;
mod likelihood;
mod lists;
mod options;
mod search;

pub(crate) use conditional::Sites;
pub(crate) use fit::best_kernel;
pub(crate) use layer::{GlobalParticle, LocalLayer, Places, fit_local, kept_rows, noise_rule, rounding_variance};
pub use layer::{LocalFit, LocalParts};
pub(crate) use likelihood::{AdjointRoom, LocalLikelihood};
pub use lists::NeighbourLists;
pub use options::{LocalChoice, LocalKernel, LocalOptions};
pub use search::{Among, Neighbour, NeighbourIndex, QUERIES, SearchRoom};
