//! Where the time goes: one bar per stage, cut into its phases.

use crate::report::html::Text;
use crate::report::number::{pixel, seconds};
use crate::report::series::class;
use std::fmt::Write as _;

/// A bar of one stage.
#[derive(Debug, Clone)]
pub struct PhaseBar {
    /// The stage.
    pub name: String,
    /// Its phases: name, colour and seconds.
    pub parts: Vec<(String, usize, f64)>,
}

/// The chart; bars have a common scale.
pub fn phase_chart(bars: &[PhaseBar]) -> Option<String> {
    let total = |bar: &PhaseBar| bar.parts.iter().map(|(_, _, seconds)| seconds).sum::<f64>();
    let longest = bars.iter().map(total).fold(0.0, f64::max);
    if longest <= 0.0 {
        return None;
    }
    let (width, row) = (560.0, 38.0);
    let height = row * bars.len() as f64 + 4.0;
    let mut out = format!(
        "<figure class=\"chart half\" data-chart=phases><figcaption>Wall-clock time of each stage, all cases and folds</figcaption>\
         <svg viewBox=\"0 0 {width} {height}\" role=img aria-label=\"Wall-clock time of each stage by phase\">"
    );
    for (position, bar) in bars.iter().enumerate() {
        let y = row * position as f64;
        let _ = write!(
            out,
            "<text x=2 y={} class=name>{}</text><text x={} y={0} text-anchor=end class=name>{}</text>",
            pixel(y + 13.0),
            Text(&bar.name),
            width - 2.0,
            seconds(total(bar))
        );
        let mut x = 2.0;
        let _ = write!(out, "<rect class=track x=2 y={} width={} height=14 rx=2 />", pixel(y + 18.0), width - 4.0);
        for (phase, series, time) in &bar.parts {
            let length = (width - 4.0) * time / longest;
            let _ = write!(
                out,
                "<rect class=\"bar mark {}\" x={} y={} width={} height=14 data-t=\"{}\"/>",
                class(*series),
                pixel(x),
                pixel(y + 18.0),
                pixel(length.max(0.6)),
                Text(&format!("{}: {phase} {}", bar.name, seconds(*time)))
            );
            x += length;
        }
    }
    out.push_str("</svg></figure>\n");
    Some(out)
}
