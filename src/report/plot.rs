//! Axes with something on them, as inline SVG.

use super::html::Text;
use super::number::pixel;
use super::scale::Scale;
use super::series::{class, marker};
use std::fmt::Write as _;

/// What is along an axis.
#[derive(Debug, Clone)]
pub enum Domain {
    /// Numbers between two ends.
    Linear(f64, f64),
    /// The same, by powers of ten.
    Log(f64, f64),
    /// Numbers, with a name at these only.
    At((f64, f64), bool, Vec<(f64, String)>),
    /// Names at equal distances.
    Names(Vec<String>),
}

/// An axis.
#[derive(Debug, Clone)]
pub struct Axis {
    /// What is written beside it.
    pub label: String,
    /// What is along it.
    pub domain: Domain,
}

impl Axis {
    /// An axis.
    pub fn new(label: &str, domain: Domain) -> Self {
        Self { label: label.to_owned(), domain }
    }
}

/// Width of most drawings; their texts are made for it.
pub const WIDTH: f64 = 320.0;
/// How far drawings may reach over their axes.
const EDGE: f64 = 5.0;
/// Height of most drawings.
pub const HEIGHT: f64 = 232.0;

/// A drawing in the making.
pub struct Plot {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: Scale,
    y: Scale,
    x_ticks: Vec<(f64, String)>,
    y_ticks: Vec<(f64, String)>,
    labels: (String, String),
    slanted: bool,
    names: usize,
    body: String,
}

/// About how wide a text is.
fn text_width(text: &str) -> f64 {
    5.9 * text.chars().count() as f64
}

fn shortened(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    let start: String = text.chars().take(longest.saturating_sub(1)).collect();
    format!("{start}…")
}

impl Plot {
    /// Empty axes of the usual size.
    pub fn new(x: Axis, y: Axis) -> Self {
        Self::sized((WIDTH, HEIGHT), x, y)
    }

    /// Empty axes of another size.
    pub fn sized((width, height): (f64, f64), x: Axis, y: Axis) -> Self {
        let top = if y.label.is_empty() { 8.0 } else { 24.0 };
        let (slanted, bottom) = match &x.domain {
            Domain::Names(names) => {
                let longest = names.iter().map(|name| text_width(name)).fold(0.0, f64::max).min(110.0);
                let slanted = longest + 6.0 > (width - 60.0) / names.len().max(1) as f64;
                (slanted, if slanted { 18.0 + 0.62 * longest } else { 20.0 })
            }
            _ => (false, 20.0),
        };
        let bottom = bottom + if x.label.is_empty() { 4.0 } else { 17.0 };
        let vertical = |domain: &Domain| match domain {
            Domain::Linear(low, high) => Scale::new((*low, *high), false, (height - bottom, top)),
            Domain::Log(low, high) => Scale::new((*low, *high), true, (height - bottom, top)),
            Domain::At(ends, log, _) => Scale::new(*ends, *log, (height - bottom, top)),
            Domain::Names(names) => Scale::new((-0.5, names.len() as f64 - 0.5), false, (top, height - bottom)),
        };
        let y_scale = vertical(&y.domain);
        let y_ticks = match &y.domain {
            Domain::At(_, _, ticks) => ticks.clone(),
            Domain::Names(names) => {
                names.iter().enumerate().map(|(at, name)| (at as f64, shortened(name, 24))).collect()
            }
            _ => y_scale.ticks(5),
        };
        let widest = y_ticks.iter().map(|(_, name)| text_width(name)).fold(0.0, f64::max);
        let left = (widest + 12.0).clamp(26.0, 0.5 * width);
        let right = 12.0;
        let ends = (left, width - right);
        let (x_scale, names) = match &x.domain {
            Domain::Linear(low, high) => (Scale::new((*low, *high), false, ends), 0),
            Domain::Log(low, high) => (Scale::new((*low, *high), true, ends), 0),
            Domain::At(range, log, _) => (Scale::new(*range, *log, ends), 0),
            Domain::Names(names) => (Scale::new((-0.5, names.len() as f64 - 0.5), false, ends), names.len()),
        };
        let x_ticks = match &x.domain {
            Domain::At(_, _, ticks) => ticks.clone(),
            Domain::Names(names) => {
                names.iter().enumerate().map(|(at, name)| (at as f64, shortened(name, 18))).collect()
            }
            _ => x_scale.ticks((width / 64.0) as usize),
        };
        Self {
            width,
            height,
            left,
            right,
            top,
            bottom,
            x: x_scale,
            y: y_scale,
            x_ticks,
            y_ticks,
            labels: (x.label, y.label),
            slanted,
            names,
            body: String::new(),
        }
    }

    /// The place of a value along x.
    pub fn x(&self, value: f64) -> f64 {
        self.x.at(value)
    }

    /// The place of a value along y.
    pub fn y(&self, value: f64) -> f64 {
        self.y.at(value)
    }

    /// The ends of y.
    pub const fn y_ends(&self) -> (f64, f64) {
        self.y.ends()
    }

    /// Adds markup of ours.
    pub fn push(&mut self, markup: &str) {
        self.body.push_str(markup);
        self.body.push('\n');
    }

    /// A line through points; it is broken where a number is missing.
    pub fn line(&mut self, points: &[(f64, f64)], classes: &str) {
        let known = |point: &(f64, f64)| point.0.is_finite() && point.1.is_finite();
        for part in points.split(|point| !known(point)).filter(|part| part.len() > 1) {
            let places: Vec<String> =
                part.iter().map(|(x, y)| format!("{},{}", pixel(self.x.at(*x)), pixel(self.y.at(*y)))).collect();
            let _ = writeln!(self.body, "<polyline class=\"line mark {classes}\" points=\"{}\"/>", places.join(" "));
        }
    }

    /// The area between two lines.
    pub fn band(&mut self, x: &[f64], low: &[f64], high: &[f64], classes: &str) {
        let place = |x: &f64, y: &f64| format!("{},{}", pixel(self.x.at(*x)), pixel(self.y.at(*y)));
        let there = x.iter().zip(high).map(|(x, y)| place(x, y));
        let back = x.iter().zip(low).rev().map(|(x, y)| place(x, y));
        let places: Vec<String> = there.chain(back).collect();
        if places.len() > 2 {
            let _ = writeln!(self.body, "<polygon class=\"band mark {classes}\" points=\"{}\"/>", places.join(" "));
        }
    }

    /// A mark of a series, with its values in words.
    pub fn point(&mut self, (x, y): (f64, f64), series: usize, words: &str) {
        if !(x.is_finite() && y.is_finite()) {
            return;
        }
        let (px, py) = (self.x.at(x), self.y.at(y));
        let _ = writeln!(
            self.body,
            "<g class=\"point mark {}\" data-t=\"{}\"><circle class=hit cx={} cy={} r=9 />{}</g>",
            class(series),
            Text(words),
            pixel(px),
            pixel(py),
            marker(series, px, py, 3.8)
        );
    }

    /// A bar that says how far a value may be off.
    pub fn error(&mut self, x: f64, (low, high): (f64, f64), series: usize) {
        if !(x.is_finite() && low.is_finite() && high.is_finite()) {
            return;
        }
        let (px, bottom, top) = (self.x.at(x), pixel(self.y.at(low)), pixel(self.y.at(high)));
        let (left, right) = (pixel(px - 3.0), pixel(px + 3.0));
        let _ = writeln!(
            self.body,
            "<path class=\"error {}\" d=\"M{x} {bottom}V{top}M{left} {bottom}H{right}M{left} {top}H{right}\"/>",
            class(series),
            x = pixel(px)
        );
    }

    /// A filled rectangle between values, with words.
    pub fn bar(&mut self, (x0, x1): (f64, f64), (y0, y1): (f64, f64), classes: &str, words: &str) {
        let (left, right) = (self.x.at(x0).min(self.x.at(x1)), self.x.at(x0).max(self.x.at(x1)));
        let (top, bottom) = (self.y.at(y0).min(self.y.at(y1)), self.y.at(y0).max(self.y.at(y1)));
        let _ = writeln!(
            self.body,
            "<rect class=\"bar mark {classes}\" x={} y={} width={} height={} data-t=\"{}\"/>",
            pixel(left),
            pixel(top),
            pixel((right - left - 0.6).max(0.4)),
            pixel((bottom - top).max(0.0)),
            Text(words)
        );
    }

    /// A line across at a value that matters, with its name.
    pub fn reference(&mut self, y: f64, name: &str) {
        if !self.y.holds(y) {
            return;
        }
        let (at, left, right) = (pixel(self.y.at(y)), pixel(self.left), pixel(self.width - self.right));
        let _ = writeln!(self.body, "<path class=reference d=\"M{left} {at}H{right}\"/>");
        if !name.is_empty() {
            let below = self.y.at(y) - self.top < 14.0;
            let place = pixel(self.y.at(y) + if below { 11.0 } else { -4.0 });
            let _ =
                writeln!(self.body, "<text class=note x={} y={place}>{}</text>", pixel(self.left + 3.0), Text(name));
        }
    }

    /// Words inside the axes.
    pub fn note(&mut self, (px, py): (f64, f64), anchor: &str, words: &str) {
        let _ = writeln!(
            self.body,
            "<text class=note x={} y={} text-anchor={anchor}>{}</text>",
            pixel(px),
            pixel(py),
            Text(words)
        );
    }

    /// The four sides of the area, left, top, right and bottom.
    pub fn sides(&self) -> (f64, f64, f64, f64) {
        (self.left, self.top, self.width - self.right, self.height - self.bottom)
    }

    /// The figure: a caption, and the drawing with its description for those who do not see it.
    pub fn finish(self, kind: &str, caption: &str, description: &str) -> String {
        let (left, top, right, bottom) = self.sides();
        let mut out = format!(
            "<figure class=chart data-chart=\"{kind}\"><figcaption>{}</figcaption><svg viewBox=\"0 0 {w} {h}\" role=img aria-label=\"{}\">\n",
            Text(caption),
            Text(if description.is_empty() { caption } else { description }),
            w = pixel(self.width),
            h = pixel(self.height)
        );
        out.push_str("<g class=grid aria-hidden=true>");
        for (value, _) in self.y_ticks.iter().filter(|(value, _)| self.y.holds(*value)) {
            let _ = write!(out, "<path d=\"M{} {y}H{}\"/>", pixel(left), pixel(right), y = pixel(self.y.at(*value)));
        }
        if self.names == 0 {
            for (value, _) in self.x_ticks.iter().filter(|(value, _)| self.x.holds(*value)) {
                let _ =
                    write!(out, "<path d=\"M{x} {}V{}\"/>", pixel(top), pixel(bottom), x = pixel(self.x.at(*value)));
            }
        }
        // Marks on the edge are drawn whole.
        let (l, t) = (pixel(left - EDGE), pixel(top - EDGE));
        let (w, h) = (pixel(right - left + 2.0 * EDGE), pixel(bottom - top + 2.0 * EDGE));
        let _ = writeln!(out, "</g>\n<svg class=area x={l} y={t} width={w} height={h} viewBox=\"{l} {t} {w} {h}\">");
        out.push_str(&self.body);
        let _ = writeln!(
            out,
            "</svg><path class=axis d=\"M{l} {b}H{r}\"/><g class=tick aria-hidden=true>",
            l = pixel(left),
            b = pixel(bottom),
            r = pixel(right)
        );
        for (value, name) in self.y_ticks.iter().filter(|(value, _)| self.y.holds(*value)) {
            let y = pixel(self.y.at(*value) + 3.6);
            let _ = write!(out, "<text x={} y={y} text-anchor=end>{}</text>", pixel(left - 6.0), Text(name));
        }
        let mut free = f64::NEG_INFINITY;
        for (value, name) in self.x_ticks.iter().filter(|(value, _)| self.x.holds(*value)) {
            let (x, half) = (self.x.at(*value), 0.5 * text_width(name));
            if self.slanted {
                let (x, y) = (pixel(x + 3.0), pixel(bottom + 13.0));
                let _ = write!(
                    out,
                    "<text x={x} y={y} text-anchor=end transform=\"rotate(-38 {x} {y})\">{}</text>",
                    Text(name)
                );
            } else if x - half > free {
                free = x + half + 4.0;
                let shown = x.min(self.width - half - 1.0);
                let _ = write!(
                    out,
                    "<text x={} y={} text-anchor=middle>{}</text>",
                    pixel(shown),
                    pixel(bottom + 14.0),
                    Text(name)
                );
            }
        }
        let _ = writeln!(
            out,
            "</g><text class=label x={} y={} text-anchor=middle>{}</text><text class=label x=2 y=12>{}</text></svg></figure>",
            pixel(f64::midpoint(left, right)),
            pixel(self.height - 5.0),
            Text(&self.labels.0),
            Text(&self.labels.1)
        );
        out
    }
}
