//! Sample data made from formulas: the functions of the paper, and one to start with.

pub mod hills;
mod random;
pub mod toy1d;

pub use toy1d::Toy1d;
