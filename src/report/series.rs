//! One colour, shape and dash for every method or case, the same on the whole page.

use super::html::Text;
use super::number::pixel;
use std::fmt::Write as _;

/// So many colours; then they begin again.
pub const COLOURS: usize = 8;

/// The class that gives a drawing its colour.
pub fn class(series: usize) -> String {
    format!("s{}", series % COLOURS)
}

/// A mark of a series: also told apart without colours.
pub fn marker(series: usize, x: f64, y: f64, size: f64) -> String {
    let (left, right, top, bottom) = (pixel(x - size), pixel(x + size), pixel(y - size), pixel(y + size));
    let (px, py) = (pixel(x), pixel(y));
    match series % 4 {
        0 => format!("<circle cx={px} cy={py} r={} />", pixel(size)),
        1 => {
            let half = 0.88 * size;
            format!("<rect x={} y={} width={w} height={w} />", pixel(x - half), pixel(y - half), w = pixel(2.0 * half))
        }
        2 => format!(
            "<path d=\"M{px} {}L{} {b}L{} {b}Z\" />",
            pixel(y - 1.15 * size),
            pixel(x + 1.1 * size),
            pixel(x - 1.1 * size),
            b = pixel(y + 0.85 * size)
        ),
        _ => format!("<path d=\"M{px} {top}L{right} {py}L{px} {bottom}L{left} {py}Z\" />"),
    }
}

/// The names of the series under their marks.
pub fn legend(entries: &[(usize, String)]) -> String {
    let mut out = "<ul class=legend>".to_owned();
    for (series, name) in entries {
        let _ = write!(
            out,
            "<li class=\"{}\"><svg viewBox=\"0 0 26 12\" width=26 height=12 aria-hidden=true><path class=line d=\"M1 6H25\"/><g class=point>{}</g></svg>{}</li>",
            class(*series),
            marker(*series, 13.0, 6.0, 4.0),
            Text(name)
        );
    }
    out.push_str("</ul>\n");
    out
}
