//! A fit over one feature: mean, bands, data and inducing points.

use crate::report::data::FitCurve;
use crate::report::number::{pixel, significant};
use crate::report::plot::{Axis, Domain, Plot};
use crate::report::scale::range;
use crate::report::series::class;
use maud::{Markup, html};

/// The chart of one fit.
pub fn fit_chart(fit: &FitCurve, caption: &str, series: usize) -> Option<Markup> {
    if fit.x.len() < 2 {
        return None;
    }
    let edge = |sign: f64, std: &[f64]| -> Vec<f64> {
        fit.mean.iter().zip(std).map(|(mean, std)| (sign * 1.96).mul_add(*std, *mean)).collect()
    };
    let (below, above) = (edge(-1.0, &fit.y_std), edge(1.0, &fit.y_std));
    let data = fit.training.iter().chain(&fit.test).map(|(_, y)| *y);
    let (low, high) = range(below.iter().chain(&above).copied().chain(data), false);
    let (from, to) = (fit.x.first().copied().unwrap_or(0.0), fit.x.last().copied().unwrap_or(1.0));
    let mut plot = Plot::sized(
        (340.0, 250.0),
        Axis::new(&fit.feature, Domain::Linear(from, to)),
        Axis::new(&fit.target, Domain::Linear(low, high)),
    );
    plot.band(&fit.x, &below, &above, &class(series));
    plot.band(&fit.x, &edge(-1.0, &fit.f_std), &edge(1.0, &fit.f_std), &class(series));
    for (class, rows, size) in [("training", &fit.training, 1.7), ("test", &fit.test, 1.1)] {
        let dots = html! {
            g class=(class) { @for (x, y) in rows { circle cx=(pixel(plot.x(*x))) cy=(pixel(plot.y(*y))) r=(size) {} } }
        };
        plot.push(&dots);
    }
    let curve: Vec<(f64, f64)> = fit.x.iter().copied().zip(fit.mean.iter().copied()).collect();
    plot.line(&curve, &class(series));
    let (_, _, _, bottom) = plot.sides();
    let ticks = html! {
        g class={ "inducing " (class(series)) } {
            @for x in &fit.inducing {
                path.mark d={ "M" (pixel(plot.x(*x))) " " (pixel(bottom)) "v-11" }
                    data-t={ "inducing point at " (significant(*x, 4)) } {}
            }
        }
    };
    plot.push(&ticks);
    // Some places of the curve answer to the pointer.
    let every = (fit.x.len() / 40).max(1);
    for index in (0..fit.x.len()).step_by(every) {
        let (x, mean, std) = (fit.x[index], fit.mean[index], fit.y_std.get(index).copied().unwrap_or(f64::NAN));
        let words =
            format!("{} = {}: {} ± {}", fit.feature, significant(x, 3), significant(mean, 3), significant(std, 2));
        plot.hit((x, mean), &words);
    }
    Some(plot.finish("fit", caption, &format!("{caption}: the fitted function of {} with 95 % bands", fit.feature)))
}
