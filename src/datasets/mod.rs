//! Sample data made from formulas: the functions of the paper, one to start with, and orders as company data are.

pub mod hills;
pub mod orders;
mod random;
pub mod steps2d;
pub mod toy1d;

pub use steps2d::Steps2d;
pub use toy1d::Toy1d;
