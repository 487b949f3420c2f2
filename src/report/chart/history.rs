//! Numbers of several runs over time.

use crate::report::plot::{Axis, Domain, Plot};
use crate::report::scale::range;
use crate::report::series::class;
use crate::tables::Timestamp;
use maud::Markup;

/// One number at one time.
#[derive(Debug, Clone)]
pub struct Moment {
    pub at: Timestamp,
    pub value: f64,
    pub std: Option<f64>,
    pub series: usize,
    pub words: String,
}

/// Marks beyond which only the line is drawn.
const MARKS: usize = 120;

/// The chart: one line per series, in order of time.
pub fn history_chart(kind: &str, caption: &str, moments: &[Moment], reference: Option<(f64, &str)>) -> Option<Markup> {
    let first = moments.iter().map(|moment| moment.at.micros()).min()?;
    let last = moments.iter().map(|moment| moment.at.micros()).max()?;
    let ends = |moment: &Moment| {
        let std = moment.std.unwrap_or(0.0);
        [moment.value - std, moment.value + std]
    };
    let (low, high) = range(moments.iter().flat_map(ends).chain(reference.map(|(value, _)| value)), true);
    // A single run stands in the middle of an hour.
    let room = if last > first { 0.04 * (last - first) as f64 } else { 1.8e9 };
    let across = (first as f64 - room, last as f64 + room);
    let x = Axis::new("start of the run, UTC", Domain::At(across, false, times(first, last)));
    let mut plot = Plot::new(x, Axis::new("", Domain::Linear(low, high)));
    if let Some((value, name)) = reference {
        plot.reference(value, name);
    }
    let mut series: Vec<usize> = moments.iter().map(|moment| moment.series).collect();
    series.sort_unstable();
    series.dedup();
    for one in series {
        let mut own: Vec<&Moment> = moments.iter().filter(|moment| moment.series == one).collect();
        own.sort_by_key(|moment| moment.at);
        let line: Vec<(f64, f64)> = own.iter().map(|moment| (moment.at.micros() as f64, moment.value)).collect();
        plot.line(&line, &class(one));
        let every = own.len().div_ceil(MARKS).max(1);
        // The last run is always marked.
        for moment in own.iter().rev().step_by(every) {
            let (at, std) = (moment.at.micros() as f64, moment.std.unwrap_or(0.0));
            if every == 1 && std > 0.0 {
                plot.error(at, (moment.value - std, moment.value + std), one);
            }
            plot.point((at, moment.value), one, &moment.words);
        }
    }
    Some(plot.finish(kind, caption, &format!("{caption} over {} runs", moments.len())))
}

/// A few times between two, named by day or by minute.
fn times(first: i64, last: i64) -> Vec<(f64, String)> {
    const MINUTE: i64 = 60_000_000;
    let steps = if last > first { 3 } else { 0 };
    let name = |micros: i64| {
        let text = Timestamp::from_micros(micros).to_string();
        match last - first {
            0 => format!("{} {}", &text[5..10], &text[11..16]),
            span if span < 20 * MINUTE => text[11..19].to_owned(),
            span if span < 2 * 24 * 60 * MINUTE => format!("{} {}", &text[5..10], &text[11..16]),
            _ => text[..10].to_owned(),
        }
    };
    (0..=steps).map(|step| first + (last - first) / steps.max(1) * step).map(|at| (at as f64, name(at))).collect()
}
