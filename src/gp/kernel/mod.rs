//! Stationary covariance functions k(x, x') = σ² ρ(‖x − x'‖/λ).
//!
//! | file | holds |
//! |---|---|
//! | `shape` | the kernels themselves: the only file to touch for a new one |
//! | `text` | kernels in pipelines, cache keys and model files |
//! | `hyper`, `options` | σ², λ and γ², and what can be asked of a fit |
//! | `matrix`, `panels` | covariance matrices, in tiles and eight rows at a time |
//! | `stationary` | a covariance function at the rows of a data set |

mod hyper;
mod matrix;
mod options;
mod panels;
pub(crate) mod shape;
mod stationary;
mod text;

pub use hyper::Hyper;
pub use matrix::{Points, covariance, cross_covariance};
pub(crate) use matrix::{ROW_TILE, column_means, covariance_lower};
pub use options::{Free, Hyperparameters, StationaryOptions};
pub(crate) use panels::{Against, PointRows};
pub use shape::*;
pub(crate) use shape::{Shape, for_kernel};
pub use stationary::{Covariance, Stationary};
pub(crate) use stationary::{Sloped, multiply_lanes, multiply_rows, panels_of_tiles, square, square_lower};
