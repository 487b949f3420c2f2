//! The folds of one number, each a tick on a line.

use crate::report::html::Text;
use crate::report::number::{pixel, significant};
use crate::report::scale::{Scale, range};
use std::fmt::Write as _;

/// A small drawing of fold values, their mean marked; nothing for a single one.
pub fn strip(values: &[f64], what: &str) -> String {
    if values.len() < 2 {
        return String::new();
    }
    let (width, height) = (180.0, 22.0);
    let scale = Scale::new(range(values.iter().copied(), false), false, (4.0, width - 4.0));
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let mut out = format!(
        "<svg class=strip viewBox=\"0 0 {width} {height}\" role=img aria-label=\"{} of {} folds\"><path class=axis d=\"M4 11H{}\"/>",
        Text(what),
        values.len(),
        width - 4.0
    );
    for (fold, value) in values.iter().enumerate().take(200) {
        let words = format!("fold {fold}: {}", significant(*value, 4));
        let _ = write!(
            out,
            "<circle class=\"dot mark\" cx={} cy=11 r=4 data-t=\"{}\" />",
            pixel(scale.at(*value)),
            Text(&words)
        );
    }
    let _ = write!(out, "<path class=mean d=\"M{} 2V20\"/></svg>", pixel(scale.at(mean)));
    out
}
