//! Sample data made from formulas: the functions of the paper, and one to start with.

pub mod hills;
mod random;
pub mod steps2d;
pub mod toy1d;

pub use steps2d::Steps2d;
pub use toy1d::Toy1d;
