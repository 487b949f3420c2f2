//! What is left over, along the prediction: mean and spread of the residuals.

use crate::report::data::PredictionCounts;
use crate::report::number::{count, significant};
use crate::report::plot::{Axis, Domain, Plot};
use crate::report::scale::range;
use crate::report::series::class;
use maud::Markup;

/// How far residuals reach in all these cases: with common ends they can be compared.
pub fn residual_range<'a>(cases: impl Iterator<Item = &'a PredictionCounts>) -> (f64, f64) {
    let bins = cases.flat_map(|predicted| &predicted.residuals).filter(|bin| bin.rows > 0);
    range(bins.flat_map(|bin| [bin.mean - bin.std, bin.mean + bin.std, 0.0]), false)
}

/// The chart of a case, between these ends.
pub fn residual_chart(
    predicted: &PredictionCounts,
    caption: &str,
    series: usize,
    (low, high): (f64, f64),
) -> Option<Markup> {
    let bins: Vec<_> = predicted.residuals.iter().filter(|bin| bin.rows > 0).collect();
    if bins.is_empty() {
        return None;
    }
    let across = range(bins.iter().map(|bin| bin.centre), false);
    let mut plot = Plot::new(
        Axis::new(&predicted.of_target("predicted"), Domain::Linear(across.0, across.1)),
        Axis::new(&format!("{}, mean ± sd", predicted.of_target("true − predicted")), Domain::Linear(low, high)),
    );
    plot.reference(0.0, "");
    let x: Vec<f64> = bins.iter().map(|bin| bin.centre).collect();
    let below: Vec<f64> = bins.iter().map(|bin| bin.mean - bin.std).collect();
    let above: Vec<f64> = bins.iter().map(|bin| bin.mean + bin.std).collect();
    plot.band(&x, &below, &above, &class(series));
    plot.line(&bins.iter().map(|bin| (bin.centre, bin.mean)).collect::<Vec<_>>(), &class(series));
    for bin in bins {
        let words = format!(
            "predicted near {}: residual {} ± {} ({} rows)",
            significant(bin.centre, 3),
            significant(bin.mean, 3),
            significant(bin.std, 3),
            count(bin.rows)
        );
        plot.point((bin.centre, bin.mean), series, &words);
    }
    Some(plot.finish("residuals", caption, &format!("{caption}: residuals along the prediction")))
}
