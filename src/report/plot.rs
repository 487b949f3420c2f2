//! Axes with something on them, as inline SVG. Ours, because no maintained crate draws charts that answer to the
//! pointer, are described for those who do not see them, and take their colours from the page's style.

use super::number::pixel;
use super::scale::AxisScale;
use super::series::{class, marker};
use maud::{Markup, Render as _, html};

/// What is along an axis.
#[derive(Debug, Clone)]
pub enum Domain {
    Linear(f64, f64),
    /// The same, by powers of ten.
    Log(f64, f64),
    /// Numbers, with a name at these only.
    At((f64, f64), bool, Vec<(f64, String)>),
    Names(Vec<String>),
}

/// An axis.
#[derive(Debug, Clone)]
pub struct Axis {
    /// What is written beside it.
    pub label: String,
    pub domain: Domain,
}

impl Axis {
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
    x: AxisScale,
    y: AxisScale,
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

/// A text that ends: without what it says in brackets, where that is enough.
fn shortened(text: &str, longest: usize) -> String {
    let without = text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")).map(|(text, _)| text);
    if let Some(whole) = [Some(text), without].into_iter().flatten().find(|text| text.chars().count() <= longest) {
        return whole.to_owned();
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
            Domain::Linear(low, high) => AxisScale::new((*low, *high), false, (height - bottom, top)),
            Domain::Log(low, high) => AxisScale::new((*low, *high), true, (height - bottom, top)),
            Domain::At(ends, log, _) => AxisScale::new(*ends, *log, (height - bottom, top)),
            Domain::Names(names) => AxisScale::new((-0.5, names.len() as f64 - 0.5), false, (top, height - bottom)),
        };
        let y_scale = vertical(&y.domain);
        let y_ticks = match &y.domain {
            Domain::At(_, _, ticks) => ticks.clone(),
            Domain::Names(names) => {
                names.iter().enumerate().map(|(at, name)| (at as f64, shortened(name, 25))).collect()
            }
            _ => y_scale.ticks(5),
        };
        let widest = y_ticks.iter().map(|(_, name)| text_width(name)).fold(0.0, f64::max);
        let left = (widest + 12.0).clamp(26.0, 0.5 * width);
        let right = 12.0;
        let ends = (left, width - right);
        let (x_scale, names) = match &x.domain {
            Domain::Linear(low, high) => (AxisScale::new((*low, *high), false, ends), 0),
            Domain::Log(low, high) => (AxisScale::new((*low, *high), true, ends), 0),
            Domain::At(range, log, _) => (AxisScale::new(*range, *log, ends), 0),
            Domain::Names(names) => (AxisScale::new((-0.5, names.len() as f64 - 0.5), false, ends), names.len()),
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

    pub const fn y_ends(&self) -> (f64, f64) {
        self.y.ends()
    }

    pub fn push(&mut self, shape: &Markup) {
        shape.render_to(&mut self.body);
    }

    fn places(&self, points: impl Iterator<Item = (f64, f64)>) -> String {
        let place = |(x, y)| format!("{},{}", pixel(self.x.at(x)), pixel(self.y.at(y)));
        points.map(place).collect::<Vec<_>>().join(" ")
    }

    /// A line through points; it is broken where a number is missing.
    pub fn line(&mut self, points: &[(f64, f64)], classes: &str) {
        let known = |point: &(f64, f64)| point.0.is_finite() && point.1.is_finite();
        for part in points.split(|point| !known(point)).filter(|part| part.len() > 1) {
            let places = self.places(part.iter().copied());
            self.push(&html! { polyline class={ "line mark " (classes) } points=(places) {} });
        }
    }

    /// The area between two lines.
    pub fn band(&mut self, x: &[f64], low: &[f64], high: &[f64], classes: &str) {
        let side = |y: &[f64]| x.iter().copied().zip(y.iter().copied()).collect::<Vec<_>>();
        if x.len() > 1 {
            let places = self.places(side(high).into_iter().chain(side(low).into_iter().rev()));
            self.push(&html! { polygon class={ "band mark " (classes) } points=(places) {} });
        }
    }

    /// A mark of a series, with its values in words.
    pub fn point(&mut self, (x, y): (f64, f64), series: usize, words: &str) {
        if !(x.is_finite() && y.is_finite()) {
            return;
        }
        let (px, py) = (self.x.at(x), self.y.at(y));
        self.push(&html! {
            g class={ "point mark " (class(series)) } data-t=(words) {
                circle.hit cx=(pixel(px)) cy=(pixel(py)) r="9" {}
                (marker(series, px, py, 3.8))
            }
        });
    }

    /// An invisible place that answers to the pointer.
    pub fn hit(&mut self, (x, y): (f64, f64), words: &str) {
        let (px, py) = (pixel(self.x.at(x)), pixel(self.y.at(y)));
        self.push(&html! { circle.hit cx=(px) cy=(py) r="6" data-t=(words) {} });
    }

    /// A bar that says how far a value may be off.
    pub fn error(&mut self, x: f64, (low, high): (f64, f64), series: usize) {
        if !(x.is_finite() && low.is_finite() && high.is_finite()) {
            return;
        }
        let (px, bottom, top) = (self.x.at(x), pixel(self.y.at(low)), pixel(self.y.at(high)));
        let (left, right) = (pixel(px - 3.0), pixel(px + 3.0));
        let path = format!("M{} {bottom}V{top}M{left} {bottom}H{right}M{left} {top}H{right}", pixel(px));
        self.push(&html! { path class={ "error " (class(series)) } d=(path) {} });
    }

    /// A filled rectangle between values, with words.
    pub fn bar(&mut self, (x0, x1): (f64, f64), (y0, y1): (f64, f64), classes: &str, words: &str) {
        let (left, right) = (self.x.at(x0).min(self.x.at(x1)), self.x.at(x0).max(self.x.at(x1)));
        let (top, bottom) = (self.y.at(y0).min(self.y.at(y1)), self.y.at(y0).max(self.y.at(y1)));
        let (width, height) = (pixel((right - left - 0.6).max(0.4)), pixel((bottom - top).max(0.0)));
        self.push(&html! {
            rect class={ "bar mark " (classes) } x=(pixel(left)) y=(pixel(top)) width=(width) height=(height)
                data-t=(words) {}
        });
    }

    /// A straight line between places of the drawing.
    pub fn diagonal(&mut self, from: (f64, f64), to: (f64, f64)) {
        let path = format!("M{} {}L{} {}", pixel(from.0), pixel(from.1), pixel(to.0), pixel(to.1));
        self.push(&html! { path.reference d=(path) {} });
    }

    /// A line across at a value that matters, with its name.
    pub fn reference(&mut self, y: f64, name: &str) {
        if !self.y.holds(y) {
            return;
        }
        let at = self.y.at(y);
        let path = format!("M{} {}H{}", pixel(self.left), pixel(at), pixel(self.width - self.right));
        self.push(&html! { path.reference d=(path) {} });
        if !name.is_empty() {
            let below = at - self.top < 14.0;
            self.note((self.left + 3.0, at + if below { 11.0 } else { -4.0 }), name);
        }
    }

    pub fn note(&mut self, (px, py): (f64, f64), words: &str) {
        self.push(&html! { text.note x=(pixel(px)) y=(pixel(py)) { (words) } });
    }

    /// The four sides of the area, left, top, right and bottom.
    pub fn sides(&self) -> (f64, f64, f64, f64) {
        (self.left, self.top, self.width - self.right, self.height - self.bottom)
    }

    /// The figure: a caption, and the drawing with its description for those who do not see it.
    pub fn finish(self, kind: &str, caption: &str, description: &str) -> Markup {
        let (left, top, right, bottom) = self.sides();
        // Marks on the edge are drawn whole.
        let (l, t) = (pixel(left - EDGE), pixel(top - EDGE));
        let (w, h) = (pixel(right - left + 2.0 * EDGE), pixel(bottom - top + 2.0 * EDGE));
        let (across, down) = (format!("H{}", pixel(right)), format!("V{}", pixel(bottom)));
        let y_ticks: Vec<_> = self.y_ticks.iter().filter(|(value, _)| self.y.holds(*value)).collect();
        let x_ticks: Vec<_> = self.x_ticks.iter().filter(|(value, _)| self.x.holds(*value)).collect();
        html! {
            figure.chart data-chart=(kind) {
                figcaption { (caption) }
                svg viewBox={ "0 0 " (pixel(self.width)) " " (pixel(self.height)) } role="img"
                    aria-label=(if description.is_empty() { caption } else { description }) {
                    g.grid aria-hidden="true" {
                        @for (value, _) in &y_ticks {
                            path d={ "M" (pixel(left)) " " (pixel(self.y.at(*value))) (across) } {}
                        }
                        @for (value, _) in x_ticks.iter().filter(|_| self.names == 0) {
                            path d={ "M" (pixel(self.x.at(*value))) " " (pixel(top)) (down) } {}
                        }
                    }
                    svg.area x=(l) y=(t) width=(w) height=(h) viewBox={ (l) " " (t) " " (w) " " (h) } {
                        (maud::PreEscaped(&self.body))
                    }
                    path.axis d={ "M" (pixel(left)) " " (pixel(bottom)) (across) } {}
                    g.tick aria-hidden="true" {
                        @for (value, name) in &y_ticks {
                            text x=(pixel(left - 6.0)) y=(pixel(self.y.at(*value) + 3.6)) text-anchor="end" { (name) }
                        }
                        (self.x_names(&x_ticks, bottom))
                    }
                    text.label x=(pixel(f64::midpoint(left, right))) y=(pixel(self.height - 5.0)) text-anchor="middle" {
                        (self.labels.0)
                    }
                    text.label x="2" y="12" { (self.labels.1) }
                }
            }
        }
    }

    /// The names along x: slanted, or those that have room.
    fn x_names(&self, ticks: &[&(f64, String)], bottom: f64) -> Markup {
        let mut free = f64::NEG_INFINITY;
        let placed = ticks.iter().map(|(value, name)| (self.x.at(*value), 0.5 * text_width(name), name));
        let shown = placed.filter(|(x, half, _)| {
            let has_room = x - half > free;
            free = if has_room { x + half + 4.0 } else { free };
            has_room || self.slanted
        });
        html! {
            @for (x, half, name) in shown {
                @if self.slanted {
                    @let (x, y) = (pixel(x + 3.0), pixel(bottom + 13.0));
                    text x=(x) y=(y) text-anchor="end" transform={ "rotate(-38 " (x) " " (y) ")" } { (name) }
                } @else {
                    @let x = pixel(x.min(self.width - half - 1.0));
                    text x=(x) y=(pixel(bottom + 14.0)) text-anchor="middle" { (name) }
                }
            }
        }
    }
}
