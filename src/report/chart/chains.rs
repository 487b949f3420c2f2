//! Markov chains over the iterations: log-likelihood, acceptance and hyper-parameters, one thin line per chain.

use crate::report::data::{ChainPoint, ChainTraces};
use crate::report::number::{pixel, significant};
use crate::report::plot::{Axis, Domain, Plot};
use crate::report::scale::range;
use crate::report::series::class;
use maud::{Markup, html};

/// What is read from a point.
type Reading = fn(&ChainPoint) -> Option<f64>;

/// Log-likelihood and acceptance of one fit, then its hyper-parameters, unless they were held fixed.
pub fn chain_charts(chains: &ChainTraces) -> Vec<Markup> {
    let what: [(&str, Reading); 5] = [
        ("Log-likelihood", |point| Some(point.log_likelihood)),
        ("Acceptance", |point| point.acceptance),
        ("Kernel variance σ²", |point| Some(point.variance)),
        ("Correlation length λ", |point| point.length),
        ("Noise variance γ²", |point| Some(point.noise)),
    ];
    let first = chains.particles.iter().flatten().next();
    let same = |point: &ChainPoint| {
        first.is_some_and(|first| {
            (point.variance, point.length, point.noise) == (first.variance, first.length, first.noise)
        })
    };
    let shown = if chains.particles.iter().flatten().all(same) { 2 } else { what.len() };
    what[..shown].iter().filter_map(|(name, value)| chart(chains, name, *value)).collect()
}

fn chart(chains: &ChainTraces, name: &str, value: Reading) -> Option<Markup> {
    let points = || chains.particles.iter().flatten();
    let values = || points().filter_map(value).filter(|value| value.is_finite());
    values().next()?;
    let acceptance = name == "Acceptance";
    let (mut low, mut high) = range(robust(values().collect()), false);
    if acceptance {
        (low, high) = (0.0, 1.0);
    }
    let end = points().map(|point| point.at).fold(1.0, f64::max);
    let x = Axis::new("EM iteration", Domain::Linear(0.0, end));
    let mut plot = Plot::new(x, Axis::new("", Domain::Linear(low, high)));
    let (_, top, right, bottom) = plot.sides();
    let frozen = f64::from(chains.iterations);
    if end > frozen + 1e-9 {
        let left = plot.x(frozen);
        let words = "frozen chains: R̂ and ESS are computed from these";
        let (width, height) = (pixel(right - left), pixel(bottom - top));
        plot.push(&html! {
            rect.frozen x=(pixel(left)) y=(pixel(top)) width=(width) height=(height) data-t=(words) {}
        });
    }
    for (particle, line) in chains.particles.iter().enumerate() {
        let places: Vec<(f64, f64)> = line.iter().map(|point| (point.at, value(point).unwrap_or(f64::NAN))).collect();
        plot.line(&places, &format!("thin {}", class(particle)));
        if let Some((at, last)) = places.iter().rev().find(|(_, value)| value.is_finite()) {
            let words = format!("chain {particle}: {name} {} at the end", significant(*last, 5));
            let (px, py) = (pixel(plot.x(*at) - 3.0), pixel(plot.y(*last)));
            plot.push(&html! {
                circle class={ "dot end mark " (class(particle)) } cx=(px) cy=(py) r="2.5" data-t=(words) {}
            });
        }
    }
    Some(plot.finish("chains", name, &format!("{name} of {} chains over the EM iterations", chains.particles.len())))
}

/// The values without the first few wild ones, which would squeeze all others into a line.
fn robust(mut values: Vec<f64>) -> impl Iterator<Item = f64> {
    values.sort_by(f64::total_cmp);
    let drop = values.len() / 50;
    let last = values.len();
    values.into_iter().skip(drop).take(last - drop)
}
