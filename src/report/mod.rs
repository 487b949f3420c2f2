//! The HTML report: one self-contained file with inline SVG, made from plain numbers.
//!
//! Nothing here reads a file. [`Report`] says what is shown; whoever fills it has already counted, binned and averaged,
//! so that the size of the page does not depend on the number of rows. Follow [`render`]: the page calls sections, and
//! sections call charts.

mod chart;
mod data;
mod hexbin;
mod html;
mod number;
mod page;
mod plot;
mod scale;
mod section;
mod select;
mod series;

pub use chart::{HiddenPoints, hidden_charts};
pub use data::{
    About, Best, ChainPoint, Chains, Cost, DriftPoint, Fit, GraphStage, Hidden, HiddenValue, InputFile, Overview,
    Predicted, Report, ResidualBin, RunLine, RunReport, Spread,
};
pub use hexbin::HexGrid;
pub use html::escape;
pub use page::render;
pub use select::{Case, Panel, best_of, panels};
