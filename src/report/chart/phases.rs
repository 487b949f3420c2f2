//! Where the time goes: one bar per stage, cut into its phases.

use crate::report::number::{pixel, seconds};
use crate::report::series::class;
use maud::{Markup, html};

/// A bar of one stage.
#[derive(Debug, Clone)]
pub struct PhaseBar {
    pub name: String,
    /// Its phases: name, colour and seconds.
    pub parts: Vec<(String, usize, f64)>,
}

/// The chart; bars have a common scale.
pub fn phase_chart(bars: &[PhaseBar]) -> Option<Markup> {
    let total = |bar: &PhaseBar| bar.parts.iter().map(|(_, _, seconds)| seconds).sum::<f64>();
    let longest = bars.iter().map(total).fold(0.0, f64::max);
    if longest <= 0.0 {
        return None;
    }
    let (width, row) = (560.0, 38.0);
    let height = row * bars.len() as f64 + 4.0;
    let inner = width - 4.0;
    Some(html! {
        figure class="chart half" data-chart="phases" {
            figcaption { "Wall-clock time of each stage, all cases and folds" }
            svg viewBox={ "0 0 " (width) " " (height) } role="img" aria-label="Wall-clock time of each stage by phase" {
                @for (position, bar) in bars.iter().enumerate() {
                    @let y = row * position as f64;
                    text.name x="2" y=(pixel(y + 13.0)) { (bar.name) }
                    text.name x=(width - 2.0) y=(pixel(y + 13.0)) text-anchor="end" { (seconds(total(bar))) }
                    rect.track x="2" y=(pixel(y + 18.0)) width=(inner) height="14" rx="2" {}
                    @for (start, length, (phase, series, time)) in placed(bar, inner / longest) {
                        rect class={ "bar mark " (class(*series)) } x=(pixel(start)) y=(pixel(y + 18.0))
                            width=(pixel(length.max(0.6))) height="14"
                            data-t={ (bar.name) ": " (phase) " " (seconds(*time)) } {}
                    }
                }
            }
        }
    })
}

/// Where each part of a bar begins, and how long it is.
fn placed(bar: &PhaseBar, scale: f64) -> impl Iterator<Item = (f64, f64, &(String, usize, f64))> {
    bar.parts.iter().scan(2.0, move |end, part| {
        let (start, length) = (*end, scale * part.2);
        *end += length;
        Some((start, length, part))
    })
}
