//! One file per family of charts; each takes plain numbers and gives a figure.

mod boxes;
mod calibration;
mod chains;
mod density;
mod distance;
mod features;
mod fit;
mod graph;
mod hidden;
mod histogram;
mod history;
mod lines;
mod phases;
mod residuals;
mod strip;

pub(super) use boxes::spread_chart;
pub(super) use calibration::calibration_chart;
pub(super) use chains::chain_charts;
pub(super) use density::density_chart;
pub(super) use distance::{WITHOUT, distance_chart};
pub(super) use features::{feature_bars, partial_chart, partial_range};
pub(super) use fit::fit_chart;
pub(super) use graph::graph_chart;
pub(super) use hidden::{colour_key, hidden_charts};
pub(super) use histogram::{deviation_chart, means_chart};
pub(super) use history::{Moment, history_chart};
pub(super) use lines::{Across, Labels, Line, LinePoint, line_chart};
pub(super) use phases::{PhaseBar, phase_chart};
pub(super) use residuals::{residual_chart, residual_range};
pub(super) use strip::strip;
