//! The folds of one number, each a tick on a line.

use crate::report::number::{pixel, significant};
use crate::report::scale::{AxisScale, range};
use maud::{Markup, html};

/// A small drawing of fold values, their mean marked; nothing for a single one.
pub fn strip(values: &[f64], what: &str) -> Markup {
    if values.len() < 2 {
        return Markup::default();
    }
    let (width, height) = (180.0, 22.0);
    let scale = AxisScale::new(range(values.iter().copied(), false), false, (4.0, width - 4.0));
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    html! {
        svg.strip viewBox={ "0 0 " (width) " " (height) } role="img"
            aria-label={ (what) " of " (values.len()) " folds" } {
            path.axis d={ "M4 11H" (width - 4.0) } {}
            @for (fold, value) in values.iter().enumerate().take(200) {
                circle class="dot mark" cx=(pixel(scale.at(*value))) cy="11" r="4"
                    data-t={ "fold " (fold) ": " (significant(*value, 4)) } {}
            }
            path.mean d={ "M" (pixel(scale.at(mean))) " 2V20" } {}
        }
    }
}
