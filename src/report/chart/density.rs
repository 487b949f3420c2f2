//! Predicted against true, as hexagons that are darker where more rows lie.

use crate::report::data::PredictionCounts;
use crate::report::number::{count, pixel, significant};
use crate::report::plot::{Axis, Domain, Plot};
use crate::report::series::class;
use maud::{Markup, html};

/// Shades from few to many rows.
const SHADES: f64 = 6.0;

/// The chart of a case; nothing when no true values are known.
pub fn density_chart(predicted: &PredictionCounts, caption: &str, series: usize) -> Option<Markup> {
    let (grid, cells) = predicted.density.as_ref()?;
    let most = cells.values().copied().max().filter(|most| *most > 0)?;
    let (low, high) = grid.ends();
    let room = 0.04 * (high - low);
    let ends = (low - room, high + room);
    let axis = |label: &str| Axis::new(label, Domain::Linear(ends.0, ends.1));
    // As high as wide, so that the diagonal is one.
    let mut plot =
        Plot::sized((320.0, 300.0), axis(&predicted.of_target("predicted")), axis(&predicted.of_target("true")));
    let size = (plot.x(low + grid.width()) - plot.x(low)) / 3.0_f64.sqrt() * 1.04;
    let shapes = html! {
        g class=(class(series)) {
            @for (cell, rows) in cells {
                @let (x, y) = grid.centre(*cell);
                // Proportions, not counts: a few rows in a large table still show.
                @let shade = (SHADES * ((*rows as f64).ln_1p() / (most as f64).ln_1p())).ceil().clamp(1.0, SHADES);
                @let noun = if *rows == 1 { "row" } else { "rows" };
                @let (truth, predicted) = (significant(y, 3), significant(x, 3));
                path class={ "mark h" (shade) } d=(hexagon(plot.x(x), plot.y(y), size))
                    data-t={ (count(*rows)) " " (noun) " near true " (truth) ", predicted " (predicted) } {}
            }
        }
    };
    plot.push(&shapes);
    plot.diagonal((plot.x(ends.0), plot.y(ends.0)), (plot.x(ends.1), plot.y(ends.1)));
    let description = format!("{caption}: predicted against true values of {} rows", count(predicted.compared));
    Some(plot.finish("predicted-true", caption, &description))
}

fn hexagon(x: f64, y: f64, size: f64) -> String {
    let (half, quarter) = (size * 0.866_025_4, size * 0.5);
    format!(
        "M{} {}l{h} {q}v{s}l-{h} {q}l-{h} -{q}v-{s}z",
        pixel(x),
        pixel(y - size),
        h = pixel(half),
        q = pixel(quarter),
        s = pixel(size)
    )
}
