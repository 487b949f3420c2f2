//! How often true values lie where the model says: nominal against observed coverage.

use crate::report::data::PredictionCounts;
use crate::report::number::percent;
use crate::report::plot::{Axis, Domain, Plot};
use crate::report::series::class;
use crate::report::sureness::sampling_band;
use maud::Markup;

/// Shares at which a mark with words stands.
const MARKED: [f64; 6] = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95];

/// Places at which the band of chance is computed.
const PLACES: u32 = 50;

/// One line per case; above the diagonal the model is too careful, below it too sure. Around it is what chance explains, for the
/// case with the fewest rows.
pub fn calibration_chart(cases: &[(usize, &str, &PredictionCounts)]) -> Option<Markup> {
    if cases.iter().all(|(_, _, predicted)| predicted.coverage.is_empty()) {
        return None;
    }
    let ticks = || {
        Domain::At((0.0, 1.0), false, [0.0, 0.25, 0.5, 0.75, 1.0].map(|at| (at, format!("{}", 100.0 * at))).to_vec())
    };
    let mut plot = Plot::sized(
        (320.0, 300.0),
        Axis::new("nominal share, %", ticks()),
        Axis::new("observed share inside the interval, %", ticks()),
    );
    let (left, top, right, bottom) = plot.sides();
    let judged = cases.iter().filter(|(_, _, predicted)| !predicted.coverage.is_empty());
    if let Some(rows) = judged.map(|(_, _, predicted)| predicted.judged).min().filter(|rows| *rows > 0) {
        let levels: Vec<f64> = (0..=PLACES).map(|place| f64::from(place) / f64::from(PLACES)).collect();
        let (low, high): (Vec<f64>, Vec<f64>) = levels.iter().map(|level| sampling_band(*level, rows)).unzip();
        plot.band(&levels, &low, &high, "chance");
    }
    plot.diagonal((left, bottom), (right, top));
    for (series, name, predicted) in cases {
        plot.line(&predicted.coverage, &class(*series));
        for nominal in MARKED {
            let near = predicted.coverage.iter().find(|(level, _)| (level - nominal).abs() < 1e-6);
            if let Some((level, observed)) = near {
                let words = format!(
                    "{name}: {} of the true values lie inside the {} interval",
                    percent(*observed),
                    percent(*level)
                );
                plot.point((*level, *observed), *series, &words);
            }
        }
    }
    Some(plot.finish("calibration", "Calibration", "Nominal against observed coverage of central predictive intervals"))
}
