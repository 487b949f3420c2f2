//! The HTML report: one self-contained file with inline SVG, made from plain numbers.
//!
//! Nothing here reads a file. [`ReportData`] says what is shown; whoever fills it has already counted, binned and
//! averaged, so that the size of the page does not depend on the number of rows. Follow [`render`]: the page calls
//! sections, and sections call charts.

mod chart;
mod data;
mod explained;
mod hexbin;
mod moments;
mod number;
mod page;
mod plot;
mod scale;
mod section;
mod select;
mod series;
mod sureness;
mod table;

pub use data::{
    About, Best, CaseCost, ChainPoint, ChainTraces, DistanceBin, DriftPoint, FitCurve, GraphStage, HiddenFit,
    HiddenValue, Overview, PredictionCounts, ReadFile, Relevance, ReportData, ResidualBin, RunLine, RunReport, Spread,
};
pub use explained::{Explanation, FeatureFigure, ModelColumns, PartialCurve, ShownColumn};
pub use hexbin::HexGrid;
pub use moments::{Moments, RowPair};
pub use page::{doubts, render};
pub use select::{Panel, RunCase, best_of, distinct, panels};
pub use sureness::Tails;
