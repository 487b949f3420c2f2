//! One colour, shape and dash for every method or case, the same on the whole page.

use super::number::pixel;
use maud::{Markup, Render, html};

/// So many colours; then they begin again.
pub const COLOURS: usize = 8;

/// The class that gives a drawing its colour.
pub fn class(series: usize) -> String {
    format!("s{}", series % COLOURS)
}

/// A mark of a series: also told apart without colours.
pub fn marker(series: usize, x: f64, y: f64, size: f64) -> Markup {
    let at = |dx: f64, dy: f64| format!("{} {}", pixel(size.mul_add(dx, x)), pixel(size.mul_add(dy, y)));
    match series % 4 {
        0 => html! { circle cx=(pixel(x)) cy=(pixel(y)) r=(pixel(size)) {} },
        1 => {
            let (half, side) = (0.88 * size, pixel(1.76 * size));
            html! { rect x=(pixel(x - half)) y=(pixel(y - half)) width=(side) height=(side) {} }
        }
        2 => html! { path d={ "M" (at(0.0, -1.15)) "L" (at(1.1, 0.85)) "L" (at(-1.1, 0.85)) "Z" } {} },
        _ => html! { path d={ "M" (at(0.0, -1.0)) "L" (at(1.0, 0.0)) "L" (at(0.0, 1.0)) "L" (at(-1.0, 0.0)) "Z" } {} },
    }
}

/// The names of the series under their marks.
pub fn legend<T: Render>(entries: impl IntoIterator<Item = (usize, T)>) -> Markup {
    html! {
        ul.legend {
            @for (series, name) in entries {
                li class=(class(series)) {
                    svg viewBox="0 0 26 12" width="26" height="12" aria-hidden="true" {
                        path.line d="M1 6H25" {}
                        g.point { (marker(series, 13.0, 6.0, 4.0)) }
                    }
                    (name)
                }
            }
        }
    }
}
